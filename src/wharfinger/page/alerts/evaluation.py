"""What needs attention: the alerts of the operations guide, evaluated on what the page sees and what it scraped.

Each alert has the words of docs/operations.md. One whose metrics are not there is told as unknown, never as quiet; one
of what is not used here as unused; and one that nothing here can answer as not evaluated, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from wharfinger.page.alerts.etcd_health import ALARM, EtcdHealth
from wharfinger.page.alerts.hub_presence import HubPresence
from wharfinger.page.alerts.rules import (
    CRITICAL,
    ETCD,
    HUBS,
    INVALID,
    KUBERNETES,
    LOST,
    NOT_EVALUATED,
    READY,
    RULES,
    SLOW,
    UNSERVED,
    WARNING,
    WORKERS,
    AlertRule,
)
from wharfinger.page.follow.following import Following
from wharfinger.page.follow.plain import text
from wharfinger.page.follow.reasons import NOT_SERVED
from wharfinger.page.follow.scraping import ScrapedProcess, Scraper
from wharfinger.page.views.pending import PendingPods
from wharfinger.page.views.upstream import is_copied

FIRING, QUIET, UNKNOWN, UNUSED, SKIPPED = "firing", "quiet", "unknown", "unused", "notEvaluated"
ORDER = {FIRING: 0, UNKNOWN: 1, QUIET: 2, UNUSED: 3, SKIPPED: 4}
GUIDE = "operations.html#watch"
SLOW_P99 = 5.0
"""Seconds."""
HOLD = 600.0
"""Seconds for which some alerts have to be true."""
MEMBERS_AWAY = "MembersAway"
AGENTS = (
    "agents of members and of hosts register no address of their metrics: what is known of them is whether they are "
    "there, by their leases in etcd"
)


class Alert(NamedTuple):
    """How one alert stands."""

    name: str
    state: str
    severity: str
    means: str
    value: str
    """What was found, in a few words; why nothing is known, or why it is not evaluated."""
    link: str
    """The view that shows it; empty for none."""
    expression: str = ""
    """As the guide has it; empty for an alert of the page's own."""


def counted(value: float, unit: str) -> str:
    """A figure with its unit, as people read it: `1 member`, `2 members`, `12,345 pods`, `less than 0.001 s`."""
    figure = f"{value:,.0f}" if value == 0 or value >= 999.5 else "less than 0.001" if value < 0.001 else f"{value:.3g}"
    words = unit.split(" ")
    if value == 1 and len(words) > 1 and len(words[1]) > 2:  # not of ` s` and ` ms`
        words[1] = words[1].removesuffix("s")
    return figure + " ".join(words)


class Alerts:
    """Evaluates the alerts; remembers since when each one holds."""

    def __init__(
        self, following: Following, pending: PendingPods, scraper: Scraper, hubs: HubPresence, etcd: EtcdHealth,
        *, hub_scraper: Scraper,
    ) -> None:  # fmt: skip
        self._following = following
        self._pending = pending
        self._hubs = hubs
        self._etcd = etcd
        self._scrapers = {WORKERS: scraper, KUBERNETES: scraper, HUBS: hub_scraper, ETCD: etcd.scraper}
        self._since: dict[str, float] = {}
        """Since when the value of an alert is above its bound, monotonic seconds."""
        self._values: dict[str, float | None] = {}
        """What the rules found in the newest scrapes."""
        self._rounds: tuple[int, ...] = ()

    def all(self) -> list[Alert]:
        """Every alert; those that fire come first."""
        self._compute()
        found = [*self._seen(), *self._of_hubs(), *self._of_etcd(), *(self._judged(rule) for rule in RULES)]
        for expression, (name, means, why) in NOT_EVALUATED.items():
            found.append(Alert(name, SKIPPED, WARNING, means, f"not evaluated, because {why}", "", expression))
        return sorted(found, key=lambda one: (ORDER[one.state], one.severity != CRITICAL, one.name))

    def told(self) -> dict[str, Any]:
        """For the overview: what fires, and what is not known."""
        found = self.all()
        return {
            "firing": [one._asdict() for one in found if one.state == FIRING],
            "unknown": [one.name for one in found if one.state == UNKNOWN],
            "quiet": sum(one.state == QUIET for one in found),
            "notEvaluated": [one.name for one in found if one.state == SKIPPED],
            "guide": GUIDE,
        }

    def sources(self) -> dict[str, Any]:
        """What the alerts are evaluated on: how many processes of each kind are known, and how many are read."""
        return {
            WORKERS: self._scrapers[WORKERS].told(),
            HUBS: self._scrapers[HUBS].told(),
            ETCD: self._etcd.told(),
            "agents": AGENTS,
        }

    # --- by metrics -------------------------------------------------------------------------------

    def _compute(self) -> None:
        """Ask the scrapes, once for each time that they were read."""
        rounds = tuple(scraper.rounds for scraper in self._scrapers.values())
        if rounds == self._rounds:
            return
        self._rounds = rounds
        processes = {source: list(scraper.workers.values()) for source, scraper in self._scrapers.items()}
        self._values = {rule.name: rule.value(processes[rule.source]) for rule in RULES}

    def _judged(self, rule: AlertRule) -> Alert:
        value, unused = self._values.get(rule.name), self._unused(rule.source)
        if unused:
            self._since.pop(rule.name, None)
            return self._alert(rule, UNUSED, unused)
        if value is None and rule.name == MEMBERS_AWAY and self._hubs.now is not None:
            away = self._hubs.now.away
            fires = self._holds(rule.name, bool(away), rule.hold)
            return self._alert(
                rule, FIRING if fires else QUIET, f"{counted(len(away), ' members')}, by their leases in etcd"
            )
        if value is None:
            self._since.pop(rule.name, None)
            return self._alert(rule, UNKNOWN, self._why_unknown(rule.source))
        fires = self._holds(rule.name, value > rule.above, rule.hold)
        scraper = self._scrapers[rule.source]
        missing = [one for one in scraper.workers.values() if one.problem]
        part = f" (of {len(scraper.workers) - len(missing)} of {len(scraper.workers)} processes)" if missing else ""
        return self._alert(rule, FIRING if fires else QUIET, f"{counted(value, rule.unit)}{part}")

    def _alert(self, rule: AlertRule, state: str, value: str) -> Alert:
        return Alert(rule.name, state, rule.severity, rule.means, value, rule.link, rule.expression)

    def _unused(self, source: str) -> str:
        """Why alerts of this kind mean nothing here; empty when they do."""
        if source == KUBERNETES and not is_copied(self._following):
            return "no Kubernetes API is the store here"
        if source == HUBS and self._hubs.now is not None and not self._hubs.now.used:
            return "there are no placements here, and no hub"
        return ""

    def _why_unknown(self, source: str) -> str:
        scraper = self._scrapers[source]
        if source == HUBS and self._hubs.now is None:
            return "etcd has not said which hubs there are"
        if not scraper.workers:
            return {
                HUBS: "no hub is registered with an address of its metrics",
                ETCD: "no address of etcd's metrics is known: give --etcd-metrics-url",
            }.get(source, "no worker is registered with an address of its metrics")
        said: Sequence[ScrapedProcess] = list(scraper.workers.values())
        first = next((f"{url} {one.problem}" for url, one in scraper.workers.items() if one.problem), "")
        if first and all(one.problem for one in said):
            return text(first)
        return text(f"what was read does not say it{f'; {first}' if first else ', or not for long enough'}")

    def _holds(self, name: str, above: bool, hold: float) -> bool:
        if not above:
            self._since.pop(name, None)
            return False
        since = self._since.setdefault(name, self._following.clock())
        return self._following.clock() - since >= hold

    # --- by what etcd itself says -----------------------------------------------------------------

    def _of_hubs(self) -> Iterable[Alert]:
        now = self._hubs.now
        if now is None or not now.used:
            return
        yield self._plain(
            "NoHub", now.placements and not now.hubs, "no hub is registered: no placement is decided or delivered",
            counted(len(now.hubs), " hubs"), severity=CRITICAL, link="/placements", hold=15,
        )  # fmt: skip

    def _of_etcd(self) -> Iterable[Alert]:
        """Alarms, and what else makes a member call itself unhealthy."""
        said = {address: why for address, why in self._etcd.alarms.items() if why is not None}
        means = "a member of etcd says that it is not healthy"
        if not said:
            why = self._why_unknown(ETCD)
            yield Alert("EtcdUnhealthy", UNKNOWN, CRITICAL, means, why, "")
            return
        wrong = {address: why for address, why in said.items() if why}
        if any(ALARM in why for why in wrong.values()):
            means = "etcd has raised an alarm: at its quota it refuses every write but deletes"
        shown = "; ".join(f"{address}: {why}" for address, why in wrong.items())
        yield self._plain(
            "EtcdUnhealthy",
            bool(wrong),
            means,
            shown or f"{counted(len(said), ' members')} asked, none says so",
            severity=CRITICAL,
        )

    def _seen(self) -> Iterable[Alert]:
        """Those that the page sees by itself."""
        model, cache = self._following.model, self._following.cache
        instances = model.instances
        waiting = [f"{tenant}/{slot}" for (tenant, slot, _), one in instances.items() if one.state != "ready"]
        ready = sum(one.state == "ready" for one in instances.values())
        yield self._plain(
            "NoWorkers", ready == 0, "no worker is ready: nothing is placed", f"{ready} ready",
            severity=CRITICAL, link="/fleets", expression=READY,
        )  # fmt: skip
        yield self._plain(
            "WorkersNotReady", bool(waiting), "fewer workers serve than are there; the list of workers says why",
            ", ".join(waiting[:3]) + (" ..." if len(waiting) > 3 else ""), link="/fleets", hold=15, expression=READY,
        )  # fmt: skip
        p99 = model.latency_of_fitting.quantiles(self._following.clock(), (0.99,))[0]
        yield self._plain(
            "SlowPlacement", p99 is not None and p99 > SLOW_P99,
            "pods are bound late though no attempt refused them: workers do not keep up, or plugins take long",
            f"p99 {p99:.1f} s" if p99 is not None else "no such pod was bound lately", link="/pending",
            expression=SLOW,
        )  # fmt: skip
        lost = sum(len(info.pods) for info in cache.absent_nodes.values())
        yield self._plain(
            "LostPods", lost > 0, "pods are bound to nodes that do not exist", f"{lost} pod{'s' * (lost != 1)}",
            link="/map", hold=HOLD,
            expression=LOST,
        )  # fmt: skip
        unserved = sum(len(pods) for key, pods in self._pending.groups() if key.reason == NOT_SERVED)
        yield self._plain(
            "UnservedPods", unserved > 0, "pods name a scheduler that no live worker of their pool serves",
            f"{unserved} pod{'s' * (unserved != 1)}", link="/pending", hold=HOLD, expression=UNSERVED,
        )  # fmt: skip
        invalid = len(self._following.view.invalid.reasons)
        yield self._plain(
            "InvalidObjects", invalid > 0, "stored objects cannot be read: `wharfinger get KIND --invalid` names them",
            f"{invalid} object{'s' * (invalid != 1)}", expression=INVALID,
        )  # fmt: skip
        silent = self._following.silent_seconds
        yield self._plain(
            "EtcdSilent", silent > 0, "etcd does not answer: what is shown is as it was", f"{silent:.0f} s",
            severity=CRITICAL,
        )  # fmt: skip

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
        expression: str = "",
    ) -> Alert:
        firing = self._holds(name, fires, hold)
        return Alert(name, FIRING if firing else QUIET, severity, means, text(value), link, expression)
