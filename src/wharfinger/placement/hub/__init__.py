"""The loops of a hub: follow members and placements, start attempts where they help, remove leavers."""
