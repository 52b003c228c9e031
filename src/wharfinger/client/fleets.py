"""The documented import path of `fleet.reading.fleets`."""

from wharfinger.fleet.reading.fleets import FleetChange, Fleets

__all__ = ["FleetChange", "Fleets"]
