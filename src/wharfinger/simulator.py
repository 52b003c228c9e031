"""The documented import path of `whatif.simulator.simulator`."""

from wharfinger.whatif.simulator.simulator import SimulatedDecision, SimulatedGang, Simulator

__all__ = ["SimulatedDecision", "SimulatedGang", "Simulator"]
