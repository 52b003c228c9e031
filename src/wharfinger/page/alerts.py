"""What needs attention: the alerts of the operations guide, evaluated on what the page sees and what it scraped.

Each alert has the words of docs/operations.md. One whose metrics are not there is told as unknown, never as quiet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from wharfinger.page.following import Following
from wharfinger.page.pending import PendingPods
from wharfinger.page.reasons import NOT_SERVED
from wharfinger.page.scraping import ScrapedWorker, Scraper

FIRING, QUIET, UNKNOWN = "firing", "quiet", "unknown"
CRITICAL, WARNING = "critical", "warning"
GUIDE = "operations.html#watch"
SLOW_P99 = 5.0
"""Seconds."""
HOLD = 600.0
"""Seconds for which some alerts have to be true."""


class Alert(NamedTuple):
    """How one alert stands."""

    name: str
    state: str
    severity: str
    means: str
    value: str
    """What was found, in a few words."""
    link: str
    """The view that shows it; empty for none."""


@dataclass(frozen=True, slots=True)
class _Rule:
    name: str
    means: str
    value: Callable[[list[ScrapedWorker]], float | None]
    above: float = 0.0
    hold: float = 0.0
    """Seconds for which the value has to be above."""
    severity: str = WARNING
    link: str = ""
    unit: str = ""


def _increase(metric: str, seconds: float, **labels: str) -> Callable[[list[ScrapedWorker]], float | None]:
    return lambda workers: _sum(worker.increase(metric, seconds, **labels) for worker in workers)


def _total(metric: str, **labels: str) -> Callable[[list[ScrapedWorker]], float | None]:
    return lambda workers: _sum(one.last.total(metric, **labels) if one.last is not None else None for one in workers)


def _largest(metric: str) -> Callable[[list[ScrapedWorker]], float | None]:
    def found(workers: list[ScrapedWorker]) -> float | None:
        values = (worker.last.largest(metric) for worker in workers if worker.last is not None)
        return max((value for value in values if value is not None), default=None)

    return found


def _contended(workers: list[ScrapedWorker]) -> float | None:
    attempts = _sum(worker.increase("scheduler_schedule_attempts_total", 300) for worker in workers)
    contended = _sum(worker.increase("wharfinger_contended_total", 300) for worker in workers)
    return contended / attempts if attempts and contended is not None else (0.0 if attempts == 0 else None)


RULES = (
    _Rule("StartFailures", "Temporal refuses starts, or is away; pods wait in the queue, none is lost",
          _increase("wharfinger_start_failures_total", 300), severity=CRITICAL),
    _Rule("Backlog", "more comes in than is placed: another worker, or a larger Temporal",
          _total("scheduler_pending_pods", queue="active"), above=1000, hold=300, link="/pending", unit=" pods"),
    _Rule("Contention", "workers take the same nodes: foreign binds, or nearly full", _contended, above=0.1),
    _Rule("ForeignOvercommit", "another program binds pods to nodes that are full",
          _increase("wharfinger_foreign_overcommit_total", 300), link="/map"),
    _Rule("EvictionsOverdue", "victims of a preemption do not go: the node's agent is down",
          _increase("wharfinger_evictions_overdue_total", 900)),
    _Rule("ConfigurationNotInForce", "a value of the dynamic configuration is not in force",
          _total("wharfinger_config_problems")),
    _Rule("NodeEvictionsHeld", "more than 10 % of the nodes are lost or tainted: look at the network first",
          _increase("wharfinger_node_evictions_held_total", 900), link="/map", severity=CRITICAL),
    _Rule("Relists", "watches are cut off or compacted away: etcd or the network is slow",
          lambda workers: _less(_increase("wharfinger_relists_total", 3600)(workers),
                                _increase("wharfinger_relists_total", 3600, cause="start")(workers)), above=3),
    _Rule("CopiesOld", "the copies are old: nothing is placed",
          _largest("wharfinger_upstream_import_lag_seconds"), above=10, severity=CRITICAL, unit=" s"),
    _Rule("PromisesOld", "a bind is committed, and the API does not show it; its room is held",
          _largest("wharfinger_upstream_oldest_promise_seconds"), above=60, hold=300, unit=" s"),
    _Rule("GangsTorn", "the API bound only some members of a gang",
          _increase("wharfinger_gangs_torn_total", 3600)),
)  # fmt: skip
"""Those that only workers' metrics answer."""


class Alerts:
    """Evaluates the alerts; remembers since when each one holds."""

    def __init__(self, following: Following, pending: PendingPods, scraper: Scraper) -> None:
        self._following = following
        self._pending = pending
        self._scraper = scraper
        self._since: dict[str, float] = {}
        """Since when the value of an alert is above its bound, monotonic seconds."""

    def all(self) -> list[Alert]:
        """Every alert; those that fire come first."""
        found = [*self._seen(), *(self._judged(rule) for rule in RULES)]
        order = {FIRING: 0, UNKNOWN: 1, QUIET: 2}
        return sorted(found, key=lambda one: (order[one.state], one.severity != CRITICAL, one.name))

    def told(self) -> dict[str, Any]:
        """For the overview: what fires, and what is not known."""
        found = self.all()
        return {
            "firing": [one._asdict() for one in found if one.state == FIRING],
            "unknown": [one.name for one in found if one.state == UNKNOWN],
            "quiet": sum(one.state == QUIET for one in found),
            "guide": GUIDE,
        }

    def _judged(self, rule: _Rule) -> Alert:
        value = rule.value(list(self._scraper.workers.values()))
        if value is None:
            self._since.pop(rule.name, None)
            return Alert(rule.name, UNKNOWN, rule.severity, rule.means, "no worker's metrics say it", rule.link)
        fires = self._holds(rule.name, value > rule.above, rule.hold)
        return Alert(
            rule.name, FIRING if fires else QUIET, rule.severity, rule.means, f"{value:.3g}{rule.unit}", rule.link
        )

    def _holds(self, name: str, above: bool, hold: float) -> bool:
        if not above:
            self._since.pop(name, None)
            return False
        since = self._since.setdefault(name, self._following.clock())
        return self._following.clock() - since >= hold

    def _seen(self) -> Iterable[Alert]:
        """Those that etcd itself answers."""
        model, cache = self._following.model, self._following.cache
        instances = model.instances
        waiting = [f"{tenant}/{slot}" for (tenant, slot, _), one in instances.items() if one.state != "ready"]
        ready = sum(one.state == "ready" for one in instances.values())
        yield self._plain(
            "NoWorkers",
            ready == 0,
            "no worker is ready: nothing is placed",
            f"{ready} ready",
            severity=CRITICAL,
            link="/fleets",
        )
        yield self._plain(
            "WorkersNotReady", bool(waiting), "fewer workers serve than are there; the list of workers says why",
            ", ".join(waiting[:3]) + (" ..." if len(waiting) > 3 else ""), link="/fleets", hold=15,
        )  # fmt: skip
        p99 = model.rates.latency.quantiles(self._following.clock(), (0.99,))[0]
        yield self._plain(
            "SlowPlacement", p99 is not None and p99 > SLOW_P99, "pods wait for long that do fit",
            f"p99 {p99:.1f} s" if p99 is not None else "", link="/pending",
        )  # fmt: skip
        lost = sum(len(info.pods) for info in cache.absent_nodes.values())
        yield self._plain(
            "LostPods", lost > 0, "pods are bound to nodes that do not exist", f"{lost} pods", link="/map", hold=HOLD
        )
        unserved = sum(len(pods) for key, pods in self._pending.groups() if key.reason == NOT_SERVED)
        yield self._plain(
            "UnservedPods", unserved > 0, "pods name a scheduler that no live worker of their pool serves",
            f"{unserved} pods", link="/pending", hold=HOLD,
        )  # fmt: skip
        invalid = len(self._following.view.invalid.reasons)
        yield self._plain(
            "InvalidObjects", invalid > 0, "stored objects cannot be read: `wharfinger get pods --invalid` names them",
            f"{invalid} objects",
        )  # fmt: skip
        silent = self._following.silent_seconds
        yield self._plain(
            "EtcdSilent",
            silent > 0,
            "etcd does not answer: what is shown is as it was",
            f"{silent:.0f} s",
            severity=CRITICAL,
        )

    def _plain(
        self,
        name: str,
        fires: bool,
        means: str,
        value: str,
        *,
        severity: str = WARNING,
        link: str = "",
        hold: float = 0.0,
    ) -> Alert:
        firing = self._holds(name, fires, hold)
        return Alert(name, FIRING if firing else QUIET, severity, means, value, link)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _less(whole: float | None, part: float | None) -> float | None:
    return None if whole is None else whole - (part or 0.0)
