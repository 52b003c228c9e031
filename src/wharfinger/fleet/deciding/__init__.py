"""The pure planner of fleets: desired x observed -> plan. Neither clocks nor stores; facts are `model`."""
