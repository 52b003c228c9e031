"""What an alert is: a rule that metrics answer, or what is seen otherwise, of one source of alerts.

Each row of the tables of the operations guide is evaluated, or is named with why it is not. `expression` is the first
cell of the row in docs/operations.md, without what only makes it code; a test compares them. What expressions compute,
they compute as Prometheus does, on what was read of several processes: None where no process says it, which is unknown,
and not nothing. Wings have the rules of their processes; `page.alerts.evaluation` evaluates them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from wharfinger.page.follow.exposition import Wanted
from wharfinger.page.follow.scraping import ScrapedProcess, Scraper

Processes = Sequence[ScrapedProcess]
Value = Callable[[Processes], float | None]


def total(metric: str, **labels: Wanted) -> Value:
    """`sum(metric)`."""
    return lambda them: summed(one.last.total(metric, **labels) if one.last is not None else None for one in them)


def largest(metric: str, **labels: Wanted) -> Value:
    """`max(metric)`."""
    return lambda them: _most(one.last.largest(metric, **labels) if one.last is not None else None for one in them)


def increase(metric: str, seconds: float, **labels: Wanted) -> Value:
    """`sum(increase(metric[seconds]))`."""
    return lambda them: summed(one.increase(metric, seconds, **labels) for one in them)


def rate(metric: str, seconds: float, **labels: Wanted) -> Value:
    """`sum(rate(metric[seconds]))`, of what was read of the window."""
    return lambda them: summed(one.rate(metric, seconds, **labels) for one in them)


def largest_rate(metric: str, label: str, seconds: float) -> Value:
    """`max(sum by (label) (rate(metric[seconds])))`."""

    def found(them: Processes) -> float | None:
        values = {value for one in them if one.last is not None for value in one.last.values(metric, label)}
        if not values:
            return rate(metric, seconds)(them)
        return _most(rate(metric, seconds, **{label: value})(them) for value in values)

    return found


def share(part: Value, whole: Value) -> Value:
    """One divided by the other; 0 where there is nothing of the whole."""

    def found(them: Processes) -> float | None:
        of, out_of = part(them), whole(them)
        if of is None or out_of is None:
            return None
        return of / out_of if out_of else 0.0

    return found


def less(whole: Value, part: Value) -> Value:
    """The first without the second, which may not be there."""

    def found(them: Processes) -> float | None:
        value = whole(them)
        return None if value is None else value - (part(them) or 0.0)

    return found


def quantile(wanted: float, metric: str, seconds: float) -> Value:
    """`histogram_quantile(wanted, sum by (le) (rate(metric_bucket[seconds])))`; 0 where nothing was observed."""
    buckets = f"{metric}_bucket"

    def found(them: Processes) -> float | None:
        bounds = {text for one in them if one.last is not None for text in one.last.values(buckets, "le")}
        if not bounds:
            return summed(one.last.total(buckets) if one.last is not None else None for one in them)
        grown = [(float(text), increase(buckets, seconds, le=text)(them)) for text in bounds]
        if any(count is None for _, count in grown):
            return None
        return _quantile(wanted, sorted((bound, count or 0.0) for bound, count in grown))

    return found


def how_many(holds: Callable[[ScrapedProcess], bool | None]) -> Value:
    """For how many processes something holds."""
    return lambda them: summed(None if (said := holds(one)) is None else float(said) for one in them)


def summed(values: Iterable[float | None]) -> float | None:
    """The sum of what is known; None when nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _quantile(wanted: float, buckets: Sequence[tuple[float, float]]) -> float:
    """By linear interpolation within the bucket; beyond the last bound, that bound. `buckets`: cumulative."""
    count = buckets[-1][1]
    if count <= 0:
        return 0.0
    rank, below, start = wanted * count, 0.0, 0.0
    for bound, up_to in buckets:
        if up_to >= rank:
            if math.isinf(bound):
                return start
            return start + (bound - start) * ((rank - below) / (up_to - below) if up_to > below else 1.0)
        below, start = up_to, bound
    return start


CRITICAL, WARNING = "critical", "warning"
MINUTE, HOUR = 60.0, 3600.0


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One alert that metrics answer."""

    name: str
    expression: str
    """As the guide has it."""
    means: str
    value: Value
    above: float = 0.0
    hold: float = 0.0
    """Seconds for which the value has to be above."""
    severity: str = WARNING
    link: str = ""
    unit: str = ""


class SeenAlert(NamedTuple):
    """One alert that is answered without metrics."""

    name: str
    fires: bool | None
    """None = unknown."""
    means: str
    value: str
    severity: str = WARNING
    link: str = ""
    hold: float = 0.0
    """Seconds for which it has to be true."""
    expression: str = ""
    """As the guide has it; empty for an alert of the page's own."""


class UnevaluatedAlert(NamedTuple):
    """An alert of the guide that nothing on the page can answer."""

    expression: str
    """As the guide has it."""
    name: str
    means: str
    why: str
    """Why it is not evaluated."""


class AlertSource:
    """What some alerts are evaluated on: metrics of processes, and what else is seen of them."""

    name = ""
    """What its processes are called; empty where another source tells of them."""
    rules: Sequence[AlertRule] = ()
    nobody = "no worker is registered with an address of its metrics"
    """Why nothing is known while no process is."""

    def __init__(self, scraper: Scraper) -> None:
        self.scraper = scraper

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


def says_no(metric: str) -> Callable[[ScrapedProcess], bool | None]:
    """Whether a process says 0 of a metric; None = it does not say."""

    def found(one: ScrapedProcess) -> bool | None:
        value = one.last.total(metric) if one.last is not None else None
        return None if value is None else value == 0

    return found
