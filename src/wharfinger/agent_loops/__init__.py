"""The loops of a host's agent: registration, grants, probes, exits, and signals to the fleets."""
