"""The whole trace of a production cluster as one question; how long it takes is measured by benchmarks/simulate.py."""

from __future__ import annotations

import json
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from wharfinger.cli.main import run
from wharfinger.dev.demo import openb

CREATED = "2026-01-01T00:00:00Z"


@pytest.mark.timeout(120)
@pytest.mark.parametrize("one_in", [10, pytest.param(1, marks=pytest.mark.long)])
def test_every_pod_of_the_trace_is_placed_or_has_a_reason(
    one_in: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of every tenth node and pod, and of all."""
    nodes = list(islice(openb.nodes(created=CREATED), None, None, one_in))
    pods = list(islice(openb.pods(created=CREATED), None, None, one_in))
    path = tmp_path / "openb.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes + pods}))

    code = run(["simulate", "-f", str(path), "-o", "json"])

    told = json.loads(capsys.readouterr().out)
    assert code == 1, "not all of them fit"
    assert told["before"]["nodes"] == len(nodes)
    assert len({one["pod"] for one in told["pods"]}) == len(pods)
    results = Counter(one["result"] for one in told["pods"])
    assert set(results) == {"placed", "refused"}
    assert results["placed"] > 0.85 * len(pods)
    assert results["placed"] == told["after"]["resources"]["pods"]["requested"]
    for one in told["pods"]:
        if one["node"] is None:
            assert one["message"].startswith(f"0/{len(nodes)} nodes are available: ")
            assert one["refusals"]
    assert sum(reason["pods"] for reason in told["reasons"]) == results["refused"]
    assert all(use["requested"] <= use["allocatable"] for use in told["after"]["resources"].values())
