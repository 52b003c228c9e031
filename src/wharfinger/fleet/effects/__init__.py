"""Plans fleets, grants, drains and fences instances, and writes down what was decided."""
