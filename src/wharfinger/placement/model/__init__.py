"""Facts of members, placements, delivery and update runs, standard library only."""
