"""A host's agent: registration, grants, instance processes, probes, exits, and signals to the fleets."""
