"""Which scheduler names the live instances of a pool serve, by their registrations."""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.contracts.records import InstanceRecord


def served_names(instances: Iterable[InstanceRecord]) -> frozenset[str] | None:
    """The values of `spec.schedulerName` that these instances serve, whatever their state.

    None = unknown, because an earlier release registered one of them.
    """
    names: set[str] = set()
    for record in instances:
        if record.scheduler_names is None:
            return None
        names.update(record.scheduler_names)
    return frozenset(names)
