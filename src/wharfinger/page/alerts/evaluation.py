"""What needs attention: Prometheus' rules that are states, evaluated on what the page sees and what it scraped.

One whose metrics are not there is unknown, never quiet; one of what is not used here is unused. Rules that the page
does not evaluate are named as Prometheus'.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wharfinger.page.alerts.rules import (
    CRITICAL,
    AlertRule,
    AlertSource,
    PrometheusRule,
    SeenAlert,
    counted,
    prometheus_rules,
)
from wharfinger.page.follow.plain import text

FIRING, QUIET, UNKNOWN, UNUSED, LEFT = "firing", "quiet", "unknown", "unused", "notEvaluated"
ORDER = {FIRING: 0, UNKNOWN: 1, QUIET: 2, UNUSED: 3, LEFT: 4}
GUIDE = "reference/alerts.html"
OF_PROMETHEUS = "evaluated by Prometheus, with deploy/monitoring/rules.yaml"
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
    """What was found, in a few words; why nothing is known, or what evaluates it."""
    link: str
    """The view that shows it; empty for none."""
    expression: str = ""
    """As the rules have it; empty for an alert of the page's own."""


class Alerts:
    """Evaluates the alerts; remembers since when each one holds."""

    def __init__(self, clock: Callable[[], float], sources: Sequence[AlertSource]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._sources = sources
        evaluated = frozenset[str]().union(*(source.evaluated() for source in sources))
        self._left = [rule for name, rule in prometheus_rules().items() if name not in evaluated]
        self._since: dict[str, float] = {}
        """Since when the value of an alert is above its bound, monotonic seconds."""
        self._values: dict[str, float | None] = {}
        """What the rules found in the newest scrapes."""
        self._rounds: tuple[int, ...] = ()

    def all(self) -> list[Alert]:
        """Every alert; those that fire come first."""
        self._compute()
        found = [self._seen(source, one) for source in self._sources for one in source.seen()]
        found += [self._judged(source, rule) for source in self._sources for rule in source.rules]
        found += [_alert(rule, LEFT, OF_PROMETHEUS) for rule in self._left]
        return sorted(found, key=lambda one: (ORDER[one.state], one.severity != CRITICAL, one.name))

    def told(self) -> dict[str, Any]:
        """For the overview: what fires, and what is not known."""
        found = self.all()
        return {
            "firing": [one._asdict() for one in found if one.state == FIRING],
            "unknown": [one.name for one in found if one.state == UNKNOWN],
            "quiet": sum(one.state == QUIET for one in found),
            "notEvaluated": [one.name for one in found if one.state == LEFT],
            "guide": GUIDE,
        }

    def sources(self) -> dict[str, Any]:
        """What the alerts are evaluated on: how many processes of each kind are known, and how many are read."""
        return {source.name: source.told() for source in self._sources if source.name} | {"agents": AGENTS}

    def _compute(self) -> None:
        """Ask the scrapes, once for each time that they were read."""
        rounds = tuple(source.scraper.rounds for source in self._sources)
        if rounds != self._rounds:
            self._rounds = rounds
            self._values = {
                rule.name: rule.value(processes)
                for source in self._sources
                for processes in [source.processes]
                for rule in source.rules
            }

    def _judged(self, source: AlertSource, rule: AlertRule) -> Alert:
        value, unused, found = self._values.get(rule.name), source.unused(), prometheus_rules()[rule.name]
        if unused:
            self._since.pop(rule.name, None)
            return _alert(found, UNUSED, unused, rule.link)
        instead = source.instead(rule) if value is None else None
        if instead is not None:
            value, said = instead
        elif value is None:
            self._since.pop(rule.name, None)
            return _alert(found, UNKNOWN, _why_unknown(source), rule.link)
        else:
            known = len(source.scraper.workers)
            missing = sum(bool(one.problem) for one in source.scraper.workers.values())
            part = f" (of {known - missing} of {known} processes)" if missing else ""
            said = counted(value, rule.unit) + part
        fires = self._holds(rule.name, value > rule.above, found.hold)
        return _alert(found, FIRING if fires else QUIET, said, rule.link)

    def _seen(self, source: AlertSource, one: SeenAlert) -> Alert:
        rule = prometheus_rules().get(one.name, PrometheusRule(one.name, "", 0.0, one.severity, one.means))
        if one.fires is None:
            return _alert(rule, UNKNOWN, _why_unknown(source))
        fires = self._holds(one.name, one.fires, rule.hold if one.hold is None else one.hold)
        return _alert(rule, FIRING if fires else QUIET, text(one.value), one.link)

    def _holds(self, name: str, above: bool, hold: float) -> bool:
        if not above:
            self._since.pop(name, None)
            return False
        since = self._since.setdefault(name, self._clock())
        return self._clock() - since >= hold


def _alert(rule: PrometheusRule, state: str, value: str, link: str = "") -> Alert:
    return Alert(rule.name, state, rule.severity, rule.means, value, link, rule.expression)


def _why_unknown(source: AlertSource) -> str:
    if why := source.unread():
        return why
    processes = source.scraper.workers
    if not processes:
        return source.nobody
    first = next((f"{url} {one.problem}" for url, one in processes.items() if one.problem), "")
    if first and all(one.problem for one in processes.values()):
        return text(first)
    return text(f"what was read does not say it{f'; {first}' if first else ''}")
