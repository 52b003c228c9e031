"""What the activities of attempts do: place, bind, refuse, and clear nodes."""
