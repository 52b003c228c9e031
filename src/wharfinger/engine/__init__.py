"""What the activities do: the engine behind their doors, in one folder for pods, one for fleets and one for nodes."""
