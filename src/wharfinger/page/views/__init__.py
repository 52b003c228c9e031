"""What each view shows, as plain values: pods, nodes, what waits, attempts, fleets, placements, replay's results."""
