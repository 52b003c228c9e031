"""What the expressions of alerts compute, on what was read of several processes: as Prometheus computes them.

Each function answers None where no process says it: that is unknown, and not nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from wharfinger.page.follow.exposition import Wanted
from wharfinger.page.follow.scraping import ScrapedProcess

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
