"""Which figures of two commits are the same measurement."""

from __future__ import annotations

from benchmarks.commits import BY, figures_of


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
