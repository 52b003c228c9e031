"""Fleets as metrics: what the last plan of each said."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Set

from wharfinger.model.rollout import Status
from wharfinger.telemetry import Metrics

ROLLOUT_STATES = ("running", "paused", "failed")


class FleetGauges:
    """Of the fleets that this agent plans."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float]) -> None:
        """`clock`: seconds, monotonic."""
        self._metrics = metrics
        self._clock = clock
        self._planned: dict[str, float] = {}
        self._known: set[str] = set()

    def read(self, tenant: str, unreadable: int) -> None:
        """A fleet was read, and so many records of it could not be."""
        self._known.add(tenant)
        self._metrics.fleet_unreadable.labels(tenant).set(unreadable)

    def planned(self, tenant: str, status: Status | None) -> None:
        """A fleet was planned; `status`: what it is now, None = not told."""
        self._known.add(tenant)
        self._planned[tenant] = self._clock()
        metrics = self._metrics
        metrics.fleet_reconcile_age.labels(tenant).set_function(lambda: self._clock() - self._planned.get(tenant, 0.0))
        if status is None:
            return
        metrics.fleet_ready.labels(tenant).set(status.ready)
        metrics.fleet_wanted.labels(tenant).set(status.replicas)
        metrics.fleet_outdated.labels(tenant).set(max(0, status.ready - status.updated))
        for state in ROLLOUT_STATES:
            metrics.fleet_rollout.labels(tenant, state).set(status.rollout == state)

    def ended(self, tenant: str) -> None:
        """There is no such fleet any more."""
        self._known.discard(tenant)
        self._planned.pop(tenant, None)
        metrics = self._metrics
        gauges = (metrics.fleet_ready, metrics.fleet_wanted, metrics.fleet_outdated, metrics.fleet_unreadable)
        own = [(gauge, (tenant,)) for gauge in (*gauges, metrics.fleet_reconcile_age)]
        for gauge, labels in (*own, *((metrics.fleet_rollout, (tenant, state)) for state in ROLLOUT_STATES)):
            with contextlib.suppress(KeyError):  # it was never set
                gauge.remove(*labels)

    def only(self, tenants: Set[str]) -> None:
        """There are no other fleets: one that another agent saw ending is forgotten here, too."""
        for tenant in self._known - tenants:
            self.ended(tenant)
