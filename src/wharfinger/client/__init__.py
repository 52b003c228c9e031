"""The Python client: `from wharfinger.client import Wharfinger`.

The names below are the public surface. They are loaded when they are first used, because the commands that need etcd
alone import single modules of this package and must not pay for Temporal's client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wharfinger.client.wharfinger import Wharfinger
    from wharfinger.fleet.reading.fleet_goals import Goal
    from wharfinger.fleet.reading.fleet_plans import FleetPlan
    from wharfinger.fleet.reading.fleet_status import FleetStatus
    from wharfinger.fleet.reading.fleets import FleetChange, Fleets
    from wharfinger.placement.reading.placements import PlacementExplanation, Placements
    from wharfinger.scheduling.contracts.attempts import AttemptResult, GoneReason
    from wharfinger.scheduling.effects.open_runs import outcome_of, start_attempt
    from wharfinger.scheduling.reading.assignments import Assignment
    from wharfinger.scheduling.reading.signals import Signalled

__all__ = [
    "Assignment",
    "AttemptResult",
    "FleetChange",
    "FleetPlan",
    "FleetStatus",
    "Fleets",
    "Goal",
    "GoneReason",
    "PlacementExplanation",
    "Placements",
    "Signalled",
    "Verdict",
    "Wharfinger",
    "outcome_of",
    "start_attempt",
]

_MODULES = {
    "Assignment": "wharfinger.scheduling.reading.assignments",
    "AttemptResult": "wharfinger.scheduling.contracts.attempts",
    "FleetChange": "wharfinger.fleet.reading.fleets",
    "FleetPlan": "wharfinger.fleet.reading.fleet_plans",
    "FleetStatus": "wharfinger.fleet.reading.fleet_status",
    "Fleets": "wharfinger.fleet.reading.fleets",
    "Goal": "wharfinger.fleet.reading.fleet_goals",
    "GoneReason": "wharfinger.scheduling.contracts.attempts",
    "PlacementExplanation": "wharfinger.placement.reading.placements",
    "Placements": "wharfinger.placement.reading.placements",
    "Signalled": "wharfinger.scheduling.reading.signals",
    "Verdict": "wharfinger.process.waiting",
    "Wharfinger": "wharfinger.client.wharfinger",
    "outcome_of": "wharfinger.scheduling.effects.open_runs",
    "start_attempt": "wharfinger.scheduling.effects.open_runs",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
