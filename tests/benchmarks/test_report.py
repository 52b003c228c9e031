"""Percentiles, medians and tables that benchmarks print."""

from __future__ import annotations

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
