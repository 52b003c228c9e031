"""benchmarks/throughput.py with steady rates, from its start to its table, on real servers and few pods."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.test_kubernetes_run import processes_that_name, started
from tests.patience import patient

pytestmark = [pytest.mark.servers, pytest.mark.timeout(patient(240))]


def test_rates_print_a_line_each_and_one_table(tmp_path: Path) -> None:
    """Each mode has a tree of its own, so two trees of one process are stopped, too."""
    options = ["--rate", "20", "40", "--seconds=1", "--unfitting=0.1", "--arrivals=poisson", "--mode=both"]
    process = started(tmp_path, "throughput.py", "--nodes=10", "--pods=20", *options)
    out, err = process.communicate(timeout=patient(220))

    assert process.returncode == 0, err
    *printed, head, slower, slower_single, faster, faster_single = out.splitlines()
    lines = [json.loads(line) for line in printed]
    assert [(line["rate"], line["mode"]) for line in lines] == [(r, m) for r in (20, 40) for m in ("auto", "single")]
    for line in lines:
        assert 0 < line["p50_ms"] <= line["p99_ms"] <= line["max_ms"]
        assert line["cpu_ms"] == pytest.approx(sum(line["cpu_ms_per_pod"].values()), abs=0.01)
        fitting = line["rate"] * 0.9
        assert line["groups_per_s"] * line["pods_per_group"] == pytest.approx(fitting, rel=0.05)
    assert head.split()[:4] == ["rate", "side", "p50_ms", "p99_ms"]
    rows = (slower, slower_single, faster, faster_single)
    assert [row.split()[:2] for row in rows] == [["20", "auto"], ["20", "single"], ["40", "auto"], ["40", "single"]]
    assert list(tmp_path.iterdir()) == []
    assert list(processes_that_name(tmp_path)) == []
