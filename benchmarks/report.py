"""What benchmarks print: percentiles, tables, and the figures of two sides that took turns.

Figures of a turn are a mapping by name. A ratio is the figure of one side divided by that of the other in the same
turn; the median over the turns is judged, because single turns meet what else the machine does.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Figures = Mapping[str, float]
"""Name -> value."""


def say(line: str) -> None:
    """Report progress to a person; only results go to standard output."""
    print(line, file=sys.stderr, flush=True)


def percentile(values: Sequence[float], percent: int) -> float:
    """A percentile of at least one value, interpolated between them."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def latencies(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds: median, 99th percentile and maximum."""
    return {
        "p50_ms": round(statistics.median(seconds) * 1000, 1),
        "p99_ms": round(percentile(seconds, 99) * 1000, 1),
        "max_ms": round(max(seconds) * 1000, 1),
    }


def medians(turns: Sequence[Figures]) -> dict[str, float]:
    """The median of each figure over the turns that have it."""
    names = dict.fromkeys(name for turn in turns for name in turn)
    return {name: statistics.median(turn[name] for turn in turns if name in turn) for name in names}


@dataclass(frozen=True)
class Bar:
    """What a ratio, or an absolute figure of this side, must reach."""

    bound: float
    most: bool
    """Whether it must not be exceeded; else it must be reached."""
    ratio: bool = True
    wanted: float = 0.0
    """What would be better still; 0 = nothing is said."""

    def __str__(self) -> str:
        unit = "x" if self.ratio else ""
        text = f"{'<=' if self.most else '>='} {self.bound:g}{unit}"
        return f"{text} (wanted {self.wanted:g}{unit})" if self.wanted else text

    def verdict(self, value: float) -> str:
        """`ok` or `missed`."""
        reached = value <= self.bound if self.most else value >= self.bound
        return "ok" if reached else "missed"


@dataclass(frozen=True)
class Row:
    """One figure, over all turns."""

    figure: str
    peer: float | None
    """Median of the other side's; None where it has none."""
    ours: float
    """Median of this side's."""
    ratio: float | None
    """Median of the turns' ratios."""
    bar: Bar | None
    verdict: str
    """`ok`, `missed`, or empty without a bar."""


def compared(
    turns: Sequence[Mapping[str, Figures]], peer: str, ours: str, bars: Mapping[str, Bar] | None = None
) -> list[Row]:
    """Judge each figure that `ours` has. `turns`: of each, the figures by side."""
    return [
        _compared(figure, turns, peer, ours, (bars or {}).get(figure)) for figure in (turns[0][ours] if turns else {})
    ]


def _compared(figure: str, turns: Sequence[Mapping[str, Figures]], peer: str, ours: str, bar: Bar | None) -> Row:
    values = [turn[ours][figure] for turn in turns]
    if any(figure not in turn[peer] for turn in turns):
        return Row(figure, None, statistics.median(values), None, None, "")
    peers = [turn[peer][figure] for turn in turns]
    ratio = statistics.median(ratio_of(one, other) for one, other in zip(values, peers, strict=True))
    value = ratio if bar is None or bar.ratio else statistics.median(values)
    verdict = bar.verdict(value) if bar is not None else ""
    return Row(figure, statistics.median(peers), statistics.median(values), ratio, bar, verdict)


def ratio_of(one: float, other: float) -> float:
    """One figure divided by the other; two that are 0 are equal."""
    return one / other if other else float("inf") if one else 1.0


def judged(rows: Sequence[Row], peer: str, ours: str) -> str:
    """The rows as a table."""
    return table(
        [
            {
                "figure": row.figure,
                peer: row.peer,
                ours: row.ours,
                "ratio": None if row.ratio is None else f"{number(row.ratio)}x",
                "bar": str(row.bar) if row.bar is not None else "",
                "": row.verdict,
            }
            for row in rows
        ],
        left=("figure", "bar", ""),
    )


def table(rows: Sequence[Mapping[str, object]], left: Sequence[str] = ()) -> str:
    """Rows by column for people; columns are as wide as their widest cell. `left`: columns that are aligned left."""
    head = list(dict.fromkeys(name for row in rows for name in row))
    cells = [head, *([number(row.get(name)) for name in head] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    lines = []
    for line in cells:
        parts = [
            cell.ljust(width) if name in left else cell.rjust(width)
            for name, cell, width in zip(head, line, widths, strict=True)
        ]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def number(value: object) -> str:
    """A figure with as many digits as a reader compares; text as it is, nothing for None."""
    if not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{2 if abs(value) < 100 else 0}f}"
