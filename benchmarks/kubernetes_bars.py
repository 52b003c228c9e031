"""What the figures of wharfinger on a Kubernetes API are compared with: kube-scheduler's in the same run, and bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from report import Bar, Figures, Row, compared, judged

PEER = "kube-scheduler"
OURS = "wharfinger"

BARS: Mapping[str, Bar] = {
    "backlog.pods_per_s": Bar(2.0, most=False),
    "backlog.cpu_ms_per_pod": Bar(0.85, most=True),
    "backlog.whole_cpu_ms_per_pod": Bar(0.85, most=True),
    "backlog.first_bind_s": Bar(5.0, most=True, wanted=2.5),
    "arrivals.cpu_ms_per_pod": Bar(1.45, most=True, wanted=1.2),
    "arrivals.p50_ms": Bar(110.0, most=True, ratio=False, wanted=80.0),
    "arrivals.p99_ms": Bar(250.0, most=True, ratio=False),
    "lone.p50_ms": Bar(3.3, most=True, wanted=2.8),
    "binds.per_s": Bar(1000.0, most=False, ratio=False),
    "import.fresh_s": Bar(15.0, most=True, ratio=False),
    "import.restart_s": Bar(8.0, most=True, ratio=False),
    "import.lag_p99_ms": Bar(100.0, most=True, ratio=False),
}
"""For the sizes that are the benchmark's defaults; figures without a bar are printed only."""


def rows(turns: Sequence[Mapping[str, Figures]], ours_alone: Figures) -> list[Row]:
    """Judge all figures, `<workload>.<figure>`. `ours_alone`: those that kube-scheduler has no equal of."""
    return [*compared(turns, PEER, OURS, BARS), *(_alone(figure, value) for figure, value in ours_alone.items())]


def _alone(figure: str, value: float) -> Row:
    bar = BARS.get(figure)
    return Row(figure, None, value, None, bar, bar.verdict(value) if bar is not None else "")


def table(found: Sequence[Row]) -> str:
    """The rows for people."""
    return judged(found, PEER, OURS)
