"""The whole trace of a production cluster as one question; how long it takes is measured by benchmarks/simulate.py."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from wharfinger.cli.main import run
from wharfinger.demo import manifests, openb

NODES = 1523


@pytest.mark.timeout(120)
def test_every_pod_of_the_trace_is_placed_or_has_a_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "openb.json"
    manifests.write(path, openb.TOTAL)

    code = run(["simulate", "-f", str(path), "-o", "json"])

    told = json.loads(capsys.readouterr().out)
    assert code == 1, "not all of them fit"
    assert told["before"]["nodes"] == NODES
    assert len({one["pod"] for one in told["pods"]}) == openb.TOTAL
    results = Counter(one["result"] for one in told["pods"])
    assert set(results) == {"placed", "refused"}
    assert results["placed"] > 7000
    assert results["placed"] == told["after"]["resources"]["pods"]["requested"]
    for one in told["pods"]:
        if one["node"] is None:
            assert one["message"].startswith(f"0/{NODES} nodes are available: ")
            assert one["refusals"]
    assert sum(reason["pods"] for reason in told["reasons"]) == results["refused"]
    assert all(use["requested"] <= use["allocatable"] for use in told["after"]["resources"].values())
