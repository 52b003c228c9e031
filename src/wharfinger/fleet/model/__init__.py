"""Facts of fleets and rollouts, standard library only."""
