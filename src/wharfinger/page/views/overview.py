"""The overview: pods by state, what happens a second, what waits and why, who works, and how full the nodes are."""

from __future__ import annotations

from typing import Any

from wharfinger.contracts.names import COMMON
from wharfinger.page.follow.following import Following
from wharfinger.page.follow.plain import moment, text
from wharfinger.page.follow.read_model import STATES, ClusterModel
from wharfinger.page.follow.rings import SLOT_SECONDS
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.views.pending import PendingPods
from wharfinger.page.views.room import RoomSums

NOW_OVER = 2
"""Slots over which the present rates are taken."""
LATENCY_OVER = 60
"""Slots over which the present latency is taken: five minutes."""
TOP_REASONS = 6
TOP_PREEMPTIONS = 8


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
