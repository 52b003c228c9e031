"""The Python client, and what the CLI is written on: `from wharfinger.client import Wharfinger`.

The names below are the public surface. They are loaded when they are first used, because the commands that need etcd
alone import single modules of this package and must not pay for Temporal's client.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wharfinger.client.assignments import Assignment
    from wharfinger.client.fleet_goals import Goal, Verdict
    from wharfinger.client.fleet_plans import FleetPlan
    from wharfinger.client.fleet_status import FleetStatus
    from wharfinger.client.fleets import FleetChange, Fleets
    from wharfinger.client.placements import PlacementExplanation, Placements
    from wharfinger.client.signals import Signalled
    from wharfinger.client.starts import outcome_of, start_attempt
    from wharfinger.client.wharfinger import Wharfinger
    from wharfinger.contracts.attempts import AttemptResult, GoneReason

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
    "Assignment": "wharfinger.client.assignments",
    "AttemptResult": "wharfinger.contracts.attempts",
    "FleetChange": "wharfinger.client.fleets",
    "FleetPlan": "wharfinger.client.fleet_plans",
    "FleetStatus": "wharfinger.client.fleet_status",
    "Fleets": "wharfinger.client.fleets",
    "Goal": "wharfinger.client.fleet_goals",
    "GoneReason": "wharfinger.contracts.attempts",
    "PlacementExplanation": "wharfinger.client.placements",
    "Placements": "wharfinger.client.placements",
    "Signalled": "wharfinger.client.signals",
    "Verdict": "wharfinger.client.fleet_goals",
    "Wharfinger": "wharfinger.client.wharfinger",
    "outcome_of": "wharfinger.client.starts",
    "start_attempt": "wharfinger.client.starts",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
