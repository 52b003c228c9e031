"""The overview: pods by state, what happens a second, what waits and why, who works, and how full the nodes are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from wharfinger.framework.columns import Rows
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import CPU, MEMORY, PODS
from wharfinger.page.follow.plain import moment, text
from wharfinger.page.follow.rings import SLOT_SECONDS
from wharfinger.page.follow.scraping import Scraper
from wharfinger.process.names import COMMON
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.pending import PendingPods
from wharfinger.scheduling.page.read_model import STATES, ClusterModel

NOW_OVER = 2
"""Slots over which the present rates are taken."""
LATENCY_OVER = 60
"""Slots over which the present latency is taken: five minutes."""
TOP_REASONS = 6
TOP_PREEMPTIONS = 8
MOST_RESOURCES = 8
_AT_LEAST = (CPU, MEMORY, PODS)


class Overview:
    """Makes the payloads."""

    def __init__(self, following: Following, pending: PendingPods, scraper: Scraper) -> None:
        self._following = following
        self._pending = pending
        self._scraper = scraper
        self._room = RoomSums()

    def now(self, namespace: str = "", everywhere: dict[str, Any] | None = None) -> dict[str, Any]:
        """Everything but the trends. `everywhere`: the answer of that method, where it was asked for already."""
        model = self._following.model
        counts = model.counts(namespace)
        reasons = self._pending.reasons(namespace)
        return {
            "namespace": namespace or None,
            "pods": {state: counts.get(state, 0) for state in STATES},
            "rates": self._rates(model, namespace),
            "ratesNote": model.rates.note(namespace),
            "latency": self._latency(model, namespace),
            "pending": self._pending.number(namespace),
            "reasons": reasons[:TOP_REASONS],
            "moreReasons": max(0, len(reasons) - TOP_REASONS),
            "preemptions": [
                {"time": moment(one.time), "pod": text(str(one.pod)), "node": text(one.node)}
                for one in [
                    one for one in reversed(model.nominations) if not namespace or one.pod.namespace == namespace
                ][:TOP_PREEMPTIONS]
            ],
            **(self.everywhere() if everywhere is None else everywhere),
        }

    def everywhere(self) -> dict[str, Any]:
        """What is the same whatever the namespace."""
        return {"nodes": self._nodes(), "workers": self._workers(self._following.model)}

    def trends(self, namespace: str = "") -> dict[str, Any]:
        """The last quarter of an hour, by slots of `slotSeconds`; null where nothing is known."""
        model, clock = self._following.model, self._following.clock()
        rates = model.rates.of(namespace)
        if rates is None:
            return {"namespace": namespace or None, "slotSeconds": SLOT_SECONDS, "series": None}
        p50, p99 = rates.latency.series(clock, (0.5, 0.99))
        return {
            "namespace": namespace or None,
            "slotSeconds": SLOT_SECONDS,
            "series": {
                "created": rates.created.series(clock)[:-1],
                "bound": rates.bound.series(clock)[:-1],
                "refused": rates.refused.series(clock)[:-1],
                "p50": p50[:-1],
                "p99": p99[:-1],
                "waiting": self._pending.trend(namespace),
            },
        }

    def _rates(self, model: ClusterModel, namespace: str) -> dict[str, float | None]:
        rates, clock = model.rates.of(namespace), self._following.clock()
        if rates is None:
            return {"created": None, "bound": None, "refused": None}
        rings = {"created": rates.created, "bound": rates.bound, "refused": rates.refused}
        rates_now = {name: ring.rate(clock, NOW_OVER) for name, ring in rings.items()}
        return {name: None if rate is None else round(rate, 2) for name, rate in rates_now.items()}

    def _latency(self, model: ClusterModel, namespace: str) -> dict[str, float | None]:
        rates = model.rates.of(namespace)
        if rates is None:
            return {"p50": None, "p99": None}
        p50, p99 = rates.latency.quantiles(self._following.clock(), (0.5, 0.99), LATENCY_OVER)
        return {"p50": p50, "p99": p99}

    def _nodes(self) -> dict[str, Any]:
        snapshot = self._following.cache.snapshot()
        return {
            "count": len(snapshot),
            "notReady": len(self._following.model.not_ready),
            "unschedulable": int(snapshot.unschedulable.sum()) if len(snapshot) else 0,
            "lost": len(self._following.cache.absent_nodes),
            "resources": self._room.of(snapshot),
        }

    def _workers(self, model: ClusterModel) -> list[dict[str, Any]]:
        found = []
        for (tenant, slot, incarnation), record in sorted(model.instances.items()):
            found.append(
                {
                    "tenant": text(tenant),
                    "slot": text(slot),
                    "incarnation": incarnation,
                    "common": tenant == COMMON,
                    "state": record.state,
                    "host": text(record.host),
                    "pid": record.pid,
                    "revision": text(record.revision) or None,
                    "waitingFor": text(record.waiting_for) or None,
                    "schedulers": [text(name) for name in record.scheduler_names or ()],
                    "metrics": self._scraper.figures(record.health),
                }
            )
        return found


class RoomSums:
    """How much room all nodes together have, by resource, and how much of it pods request.

    Remembers the sums of the last snapshot that it was asked about, and patches them by the rows that changed since:
    adding up 5,000 nodes twice a second is a tenth of what the page costs.
    """

    def __init__(self) -> None:
        self._snapshot = Snapshot.of(())
        self._rows: Rows[NodeInfo] = self._snapshot.rows
        self._offered: dict[str, int] = {}
        self._used: Counter[str] = Counter()

    def of(self, snapshot: Snapshot) -> list[dict[str, Any]]:
        """`resource`, `allocatable` and `requested` of the first resources, in the units of `Node.allocatable`."""
        before, self._snapshot = self._snapshot, snapshot
        if snapshot.node_columns is not before.node_columns:
            self._count(snapshot)
        elif snapshot.stamps is not before.stamps:
            self._patch(snapshot, np.flatnonzero(snapshot.stamps != before.stamps).tolist())
        told = []
        for resource in dict.fromkeys((*_AT_LEAST, *sorted(self._offered))):
            offered = self._offered.get(resource, 0)
            if offered or resource in _AT_LEAST:
                told.append({"resource": resource, "allocatable": offered, "requested": self._used[resource]})
        return told[:MOST_RESOURCES]

    def _count(self, snapshot: Snapshot) -> None:
        self._rows = snapshot.rows
        columns = snapshot.node_columns.allocatable
        self._offered = {resource: int(column.sum()) for resource, column in columns.items()}
        self._used = Counter()
        for info in snapshot.rows:
            self._used.update(info.requested)

    def _patch(self, snapshot: Snapshot, changed: list[int]) -> None:
        used, rows, before = self._used, snapshot.rows, self._rows
        for row in changed:
            new, old = rows[row].requested, before[row].requested
            if new is old:
                continue
            for resource, amount in new.items():
                used[resource] += amount
            for resource, amount in old.items():
                used[resource] -= amount
        self._rows = rows
