"""The example's plugin: a pod goes where it makes the least of the free GPU useless."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.scheduling.world import PROFILES, node_object, pod_object
from wharfinger.replay.changes import ProfileChange, plugin_of
from wharfinger.replay.rerun import RerunSimulator

[USUAL] = PROFILES.values()
FOLDER = Path(__file__).parents[2] / "examples" / "replay"
GPU = "example.com/gpu-milli"


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> RerunSimulator:
    monkeypatch.syspath_prepend(str(FOLDER))
    change = ProfileChange(plugins=(plugin_of("less_fragmentation:LessFragmentation"),))
    profile = change.profile(USUAL.configuration, USUAL.name, USUAL.digest)
    return RerunSimulator({USUAL.name: profile})


def node(name: str, gpu: int) -> dict[str, Any]:
    made = node_object(name, cpu="64")
    for part in ("allocatable", "capacity"):
        made["status"][part] |= {GPU: str(gpu), "memory": "256Gi"}
    return {"kind": "Node", **made}


def pod(name: str, gpu: int) -> dict[str, Any]:
    made = pod_object(name, cpu="4")
    if gpu:
        made["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": "4", GPU: str(gpu)},
            "limits": {GPU: str(gpu)},
        }
    return {"kind": "Pod", **made}


def test_a_pod_goes_where_it_fills_a_gap_that_no_other_could(simulator: RerunSimulator) -> None:
    simulator.add(node("whole", 1000))
    simulator.add(node("rest", 300))

    decision = simulator.decide(pod("small", 300))

    assert decision.node == "rest"
    assert decision.scores["rest"]["LessFragmentation"] == 100 * 100
    assert decision.scores["whole"]["LessFragmentation"] == 0


def test_a_pod_without_a_gpu_is_left_to_the_other_plugins(simulator: RerunSimulator) -> None:
    simulator.add(node("whole", 1000))
    simulator.add(node("rest", 300))

    scores = simulator.decide(pod("plain", 0)).scores

    assert {name: each["LessFragmentation"] for name, each in scores.items()} == {"whole": 10_000, "rest": 10_000}


def test_fragmentation_is_what_tasks_cannot_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    fragmentation = importlib.import_module("less_fragmentation").fragmentation

    assert fragmentation(64_000, 2**40, 8000) == 0
    assert fragmentation(0, 2**40, 8000) == 8000
    assert 0 < fragmentation(64_000, 2**40, 500) < 500
    assert "less_fragmentation" in sys.modules


def test_the_picture_has_a_line_for_each_rerun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    files = []
    for number, change in enumerate(([], ["NodeResourcesFit.scoringStrategy.type=MostAllocated"], ["plugin a:<B>"])):
        points = [{"revision": at, "again": {"fragmentation": {GPU: 0.1 * number}}} for at in (5, 9)]
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps({"change": change, "overTime": points}))

    importlib.import_module("plot").main([GPU, *map(str, files)])

    picture = capsys.readouterr().out
    assert picture.count("<polyline") == 3
    for name in ("LeastAllocated (the default)", ">MostAllocated<", "&lt;B&gt;"):
        assert name in picture
