"""The page's views of pods, nodes, gangs and attempts, and decisions tried on the present state."""
