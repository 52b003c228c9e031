"""What an alert of the page is: a state that metrics show, or that is seen otherwise, of one source of alerts.

Alerts are those of Prometheus' rules, `deploy/monitoring/rules.yaml`, which has their words. The page evaluates those
that are states, by the newest scrape of each process: None where no process reports it, which is unknown, and not
nothing. Those of rates are left to Prometheus. Wings have the rules of their processes; `page.alerts.evaluation`
evaluates them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import yaml

from wharfinger.page.follow.exposition import Wanted
from wharfinger.page.follow.scraping import ScrapedProcess, Scraper
from wharfinger.process.build import shipped

Processes = Sequence[ScrapedProcess]
Value = Callable[[Processes], float | None]

CRITICAL, WARNING = "critical", "warning"
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class PrometheusRule(NamedTuple):
    """A rule of the file."""

    name: str
    expression: str
    """With how long it has to hold, as in `up == 0 for 5m`."""
    hold: float
    """Seconds."""
    severity: str
    means: str


@cache
def prometheus_rules() -> Mapping[str, PrometheusRule]:
    """Every rule of the file, by its name."""
    loaded = yaml.safe_load(shipped("deploy/monitoring/rules.yaml").read_text(encoding="utf-8"))
    return {rule["alert"]: _read(rule) for group in loaded["groups"] for rule in group["rules"]}


def _read(rule: Mapping[str, Any]) -> PrometheusRule:
    hold = rule.get("for", "0s")
    expression = rule["expr"] + (f" for {hold}" if "for" in rule else "")
    seconds = float(hold[:-1]) * _SECONDS[hold[-1]]
    return PrometheusRule(
        rule["alert"], expression, seconds, rule["labels"]["severity"], rule["annotations"]["summary"]
    )


def total(metric: str, **labels: Wanted) -> Value:
    """`sum(metric)`."""
    return lambda them: summed(one.last.total(metric, **labels) if one.last is not None else None for one in them)


def largest(metric: str, **labels: Wanted) -> Value:
    """`max(metric)`."""

    def found(them: Processes) -> float | None:
        values = [one.last.largest(metric, **labels) if one.last is not None else None for one in them]
        return max((value for value in values if value is not None), default=None)

    return found


def how_many_not(metric: str) -> Value:
    """`count(metric == 0)`."""

    def found(them: Processes) -> float | None:
        values = [one.last.total(metric) if one.last is not None else None for one in them]
        return summed(None if value is None else float(value == 0) for value in values)

    return found


def summed(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


class AlertRule(NamedTuple):
    """A rule of the file that metrics answer."""

    name: str
    value: Value
    above: float = 0.0
    unit: str = ""
    link: str = ""


class SeenAlert(NamedTuple):
    """One alert that is answered without metrics."""

    name: str
    fires: bool | None
    """None = unknown."""
    value: str
    link: str = ""
    hold: float | None = None
    """Seconds for which it has to be true; None = as the rule has it, and none without a rule."""
    means: str = ""
    """Of an alert of the page's own: no rule of the file has it."""
    severity: str = WARNING
    """Likewise."""


class AlertSource:
    """What some alerts are evaluated on: metrics of processes, and what else is seen of them."""

    name = ""
    """What its processes are called; empty where another source tells of them."""
    rules: Sequence[AlertRule] = ()
    seen_rules: Sequence[str] = ()
    """Rules of the file that `seen` answers."""
    nobody = "no worker is registered with an address of its metrics"
    """Why nothing is known while no process is."""

    def __init__(self, scraper: Scraper) -> None:
        self.scraper = scraper

    @classmethod
    def evaluated(cls) -> frozenset[str]:
        """Rules of the file that it evaluates."""
        return frozenset({*cls.seen_rules, *(rule.name for rule in cls.rules)})

    @property
    def processes(self) -> Processes:
        """What was read."""
        return list(self.scraper.workers.values())

    def unused(self) -> str:
        """Why its rules mean nothing here; empty when they do."""
        return ""

    def unread(self) -> str:
        """Why nothing can be known, whatever processes say; empty for no such reason."""
        return ""

    def instead(self, rule: AlertRule) -> tuple[float, str] | None:  # noqa: ARG002 - of some sources
        """The value of a rule that no process answers, where it is seen otherwise, and the words for it."""
        return None

    def seen(self) -> Iterable[SeenAlert]:
        """The alerts that need no metrics."""
        return ()

    def told(self) -> dict[str, Any]:
        """How many processes are known and read."""
        return self.scraper.told()


def counted(value: float, unit: str) -> str:
    """A figure with its unit, as people read it: `1 member`, `2 members`, `12,345 pods`, `less than 0.001 s`."""
    figure = f"{value:,.0f}" if value == 0 or value >= 999.5 else "less than 0.001" if value < 0.001 else f"{value:.3g}"
    words = unit.split(" ")
    if value == 1 and len(words) > 1 and len(words[1]) > 2:  # not of ` s` and ` ms`
        words[1] = words[1].removesuffix("s")
    return figure + " ".join(words)
