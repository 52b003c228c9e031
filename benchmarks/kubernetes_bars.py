"""What the figures of wharfinger on a Kubernetes API are compared with: kube-scheduler's in the same run, and bars.

Figures of a turn are a mapping by workload and name. A ratio is wharfinger's figure divided by kube-scheduler's in the
same turn; the median over the turns is judged, because single turns meet what else the machine does.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Figures = Mapping[str, float]
"""`<workload>.<figure>` -> value."""
PEER = "kube-scheduler"
OURS = "wharfinger"


@dataclass(frozen=True)
class Bar:
    """What a ratio, or an absolute figure of wharfinger, must reach."""

    bound: float
    most: bool
    """Whether it must not be exceeded; else it must be reached."""
    ratio: bool = True
    wanted: float = 0.0
    """What would be better still; 0 = nothing is said."""

    def __str__(self) -> str:
        text = f"{'<=' if self.most else '>='} {self.bound:g}{'x' if self.ratio else ''}"
        return f"{text} (wanted {self.wanted:g}x)" if self.wanted else text

    def verdict(self, value: float) -> str:
        """`ok` or `missed`."""
        reached = value <= self.bound if self.most else value >= self.bound
        return "ok" if reached else "missed"


BARS: Mapping[str, Bar] = {
    "backlog.pods_per_s": Bar(1.4, most=False),
    "backlog.cpu_ms_per_pod": Bar(0.85, most=True),
    "backlog.whole_cpu_ms_per_pod": Bar(0.85, most=True),
    "arrivals.cpu_ms_per_pod": Bar(1.5, most=True),
    "lone.p50_ms": Bar(4.5, most=True, wanted=3.0),
    "binds.per_s": Bar(1000.0, most=False, ratio=False),
    "import.fresh_s": Bar(15.0, most=True, ratio=False),
    "import.restart_s": Bar(8.0, most=True, ratio=False),
    "import.lag_p99_ms": Bar(100.0, most=True, ratio=False),
}
"""For the sizes that are the benchmark's defaults; figures without a bar are printed only."""


@dataclass(frozen=True)
class Row:
    """One figure, over all turns."""

    figure: str
    peer: float | None
    """Median of kube-scheduler's; None where it has none."""
    ours: float
    """Median of wharfinger's."""
    ratio: float | None
    """Median of the turns' ratios."""
    bar: Bar | None
    verdict: str
    """`ok`, `missed`, or empty without a bar."""


def rows(turns: Sequence[Mapping[str, Figures]], ours_alone: Figures) -> list[Row]:
    """Judge all figures. `turns`: of each, the figures by side; `ours_alone`: what kube-scheduler has no equal of."""
    found = [_compared(figure, turns) for figure in (turns[0][OURS] if turns else {})]
    return [*found, *(_alone(figure, value) for figure, value in ours_alone.items())]


def _compared(figure: str, turns: Sequence[Mapping[str, Figures]]) -> Row:
    ours = [turn[OURS][figure] for turn in turns]
    bar = BARS.get(figure)
    if any(figure not in turn[PEER] for turn in turns):
        return Row(figure, None, statistics.median(ours), None, None, "")
    peers = [turn[PEER][figure] for turn in turns]
    ratio = statistics.median(one / peer if peer else float("inf") for one, peer in zip(ours, peers, strict=True))
    verdict = bar.verdict(ratio) if bar is not None else ""
    return Row(figure, statistics.median(peers), statistics.median(ours), ratio, bar, verdict)


def _alone(figure: str, value: float) -> Row:
    bar = BARS.get(figure)
    return Row(figure, None, value, None, bar, bar.verdict(value) if bar is not None else "")


def table(judged: Sequence[Row]) -> str:
    """The rows for people; columns are as wide as their widest cell."""
    head = ("figure", PEER, OURS, "ratio", "bar", "")
    cells = [head]
    for row in judged:
        bar = str(row.bar) if row.bar is not None else ""
        cells.append((row.figure, _number(row.peer), _number(row.ours), _number(row.ratio, "x"), bar, row.verdict))
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    right = {1, 2, 3}
    lines = []
    for line in cells:
        parts = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    digits = 2 if abs(value) < 100 else 0
    return f"{value:,.{digits}f}{unit}"
