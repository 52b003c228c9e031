"""The documented import path of `placement.kubefleet.placement_simulator`."""

from wharfinger.placement.kubefleet.placement_simulator import PlacementSimulator, SimulatedPlacement

__all__ = ["PlacementSimulator", "SimulatedPlacement"]
