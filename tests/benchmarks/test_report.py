"""What benchmarks print: percentiles, medians, tables, which figures of two commits are the same, and bars."""

from __future__ import annotations

import pytest

from benchmarks.commits import BY, figures_of
from benchmarks.kubernetes import BARS, OURS, PEER, Bar, Figures, Row, judged, rows
from benchmarks.report import latencies, medians, table


def test_latencies_are_milliseconds_interpolated_between_values() -> None:
    assert latencies([number / 1000 for number in range(101)]) == {"p50_ms": 50.0, "p99_ms": 99.0, "max_ms": 100.0}
    assert latencies([0.02]) == {"p50_ms": 20.0, "p99_ms": 20.0, "max_ms": 20.0}


def test_median_of_a_figure_counts_the_turns_that_have_it() -> None:
    assert medians([{"a": 1.0}, {"a": 5.0, "b": 2.0}, {"a": 3.0}]) == {"a": 3.0, "b": 2.0}


def test_table_is_as_wide_as_its_widest_cells() -> None:
    rows = [{"rate": 20, "p50_ms": 21.34}, {"rate": 1000, "p50_ms": 1234.5, "groups": None}, {"rate": 5, "side": "x"}]

    assert table(rows, left=("side",)).splitlines() == [
        " rate  p50_ms  groups  side",
        "   20   21.34",
        "1,000   1,234",
        "    5                  x",
    ]


def test_figures_are_named_by_texts_and_what_was_measured() -> None:
    lines = [
        '{"mode": "auto", "rate": 20, "p50_ms": 21.5, "cpu_ms_per_pod": {"worker": 1.5}}',
        '{"mode": "auto", "rate": 50, "p50_ms": 30}',
        '{"workload": "spread", "pods_per_s": 1200.5}',
        '{"turn": 1, "workload": "plain", "contended": 1}',
        '{"turn": 2, "workload": "plain", "contended": 4}',
        "rate  p50_ms",
    ]

    assert figures_of(lines, BY) == {
        "auto rate=20 p50_ms": 21.5,
        "auto rate=20 cpu_ms_per_pod.worker": 1.5,
        "auto rate=50 p50_ms": 30.0,
        "spread pods_per_s": 1200.5,
        "plain contended": 2.5,
    }


def turn(peer: Figures, ours: Figures) -> dict[str, Figures]:
    return {PEER: peer, OURS: ours}


def row_of(found: list[Row], figure: str) -> Row:
    return next(row for row in found if row.figure == figure)


def test_ratio_is_the_median_of_the_turns_ratios() -> None:
    """The ratio of the medians would be 1.0."""
    figure = "backlog.pods_per_s"
    turns = [turn({figure: peer}, {figure: ours}) for peer, ours in ((100, 200), (200, 100), (150, 150), (50, 150))]

    row = row_of(rows(turns, {}), figure)

    assert row.ratio == pytest.approx(1.5)
    assert (row.peer, row.ours) == (125, 150)
    assert row.verdict == "missed"


@pytest.mark.parametrize(
    ("figure", "ratio", "verdict"),
    [
        ("backlog.pods_per_s", 2.0, "ok"),
        ("backlog.pods_per_s", 1.99, "missed"),
        ("backlog.cpu_ms_per_pod", 0.85, "ok"),
        ("backlog.cpu_ms_per_pod", 0.86, "missed"),
        ("arrivals.cpu_ms_per_pod", 1.46, "missed"),
        ("lone.p50_ms", 3.2, "ok"),
        ("lone.p50_ms", 3.4, "missed"),
    ],
)
def test_ratios_are_compared_with_their_bars(figure: str, ratio: float, verdict: str) -> None:
    assert row_of(rows([turn({figure: 1.0}, {figure: ratio})], {}), figure).verdict == verdict


def test_figure_with_a_bar_of_its_own_unit_is_compared_as_it_is() -> None:
    found = rows([turn({"arrivals.p50_ms": 8.0}, {"arrivals.p50_ms": ours}) for ours in (109.0, 111.0, 112.0)], {})

    assert (row_of(found, "arrivals.p50_ms").ratio, row_of(found, "arrivals.p50_ms").verdict) == (111 / 8, "missed")


@pytest.mark.parametrize(
    ("figure", "value", "verdict"),
    [
        ("binds.per_s", 999.0, "missed"),
        ("binds.per_s", 1000.0, "ok"),
        ("import.fresh_s", 15.1, "missed"),
        ("import.restart_s", 7.9, "ok"),
        ("import.lag_p99_ms", 100.1, "missed"),
    ],
)
def test_figures_of_wharfinger_alone_are_compared_as_they_are(figure: str, value: float, verdict: str) -> None:
    row = row_of(rows([], {figure: value}), figure)

    assert (row.peer, row.ratio, row.verdict) == (None, None, verdict)


def test_figures_without_a_bar_or_a_peer_are_shown_without_verdict() -> None:
    ours = {"lone.p99_ms": 3.0, "backlog.cpu_ms.wharfinger-etcd": 0.5}

    found = rows([turn({"lone.p99_ms": 2.0}, ours)], {"binds.cpu_ms": 0.3})

    assert [(row.figure, row.ratio, row.verdict) for row in found] == [
        ("lone.p99_ms", 1.5, ""),
        ("backlog.cpu_ms.wharfinger-etcd", None, ""),
        ("binds.cpu_ms", None, ""),
    ]


def test_table_aligns_its_columns_and_ends_with_the_verdict() -> None:
    found = rows([turn({"backlog.pods_per_s": 1234.0}, {"backlog.pods_per_s": 2468.0})], {"import.fresh_s": 20.0})

    head, first, second = judged(found, PEER, OURS).splitlines()

    assert first.split() == ["backlog.pods_per_s", "1,234", "2,468", "2.00x", ">=", "2x", "ok"]
    assert second.split() == ["import.fresh_s", "20.00", "<=", "15", "missed"]
    assert head.index(OURS) + len(OURS) == first.index("2,468") + len("2,468")


def test_bars_print_what_is_wanted_beyond_them() -> None:
    assert str(BARS["lone.p50_ms"]) == "<= 3.3x (wanted 2.8x)"
    assert str(BARS["arrivals.p50_ms"]) == "<= 110 (wanted 80)"
    assert str(Bar(1000.0, most=False, ratio=False)) == ">= 1000"
