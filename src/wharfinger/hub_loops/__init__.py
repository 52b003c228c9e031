"""The loops of a hub: follow what is seen of members and placements, start attempts where they help, remove leavers."""
