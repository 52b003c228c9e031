"""A sample of a real kube-scheduler's decisions, of every file, through a real API server and a real worker.

The whole path: API, importer, copies, attempt, bind or condition, events. One worker has all profiles, and takes the
scenarios in turn. `benchmarks/kubernetes_conformance.py` replays all of them, and kube-scheduler beside.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.scenarios import REQUEUE, families, scenarios
from tests.kubernetes.recorded_answers import Difference, NotReplayed
from tests.kubernetes.recorded_changes import replay_changes
from tests.kubernetes.recorded_objects import one_configuration, scheduler_names
from tests.kubernetes.recorded_replay import replay
from tests.kubernetes.recorded_scene import Scene, clear
from tests.kubernetes.recorded_side import WharfingerScheduler
from tests.kubernetes.recorded_watch import RecordedWatch
from tests.kubernetes.site import Installation, KubernetesSite
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient

SAMPLE = {
    "declared": (5, 12),
    "fit": (6, 12),
    "mixed": (7, 14),
    "nodeaffinity": (5, 10),
    "podaffinity": (6, 14),
    "ports_images": (4, 12),
    "preemption": (7, 18),
    "requeue": (4, 5),
    "resize": (8, 12),
    "sampling": (2, 12),
    "spread": (5, 14),
    "strategy": (7, 14),
    "taints": (3, 14),
}
"""By file: the seed of a scenario, and how many of its pods are decided; of `requeue`, how many changes follow."""
INVALID = {
    "declared-5 p1": "hostUsers",
    "declared-5 p5": "hostUsers",
    "resize-8 p12": "aggregate container requests",
    "spread-5 p5": "matchLabelKeys",
}
"""Recorded pods that an API server does not take, with a word of its reason."""


def sample() -> list[dict[str, Any]]:
    """The scenarios, in the order of the files."""
    found = (one.values[0] for one in scenarios(*families()))
    return [one for one in found if one["seed"] == SAMPLE[one["family"]][0]]


@pytest.mark.servers
@pytest.mark.timeout(240)
async def test_worker_decides_on_an_api_what_was_recorded(
    site: KubernetesSite, installation: Installation, tmp_path: Path
) -> None:
    chosen = sample()
    names = scheduler_names(chosen)
    config = tmp_path / "scheduler.yaml"
    config.write_text(yaml.safe_dump(one_configuration(names)), encoding="utf-8")
    installation.start_worker(f"--config={config}", "--compatible", "--events=all")
    api = HttpApiClient(read_access(site.api.kubeconfig), ApiLimits(qps=-1.0))
    found: list[Difference] = []
    apart: list[NotReplayed] = []
    decisions = dict.fromkeys(SAMPLE, 0)
    try:
        async with RecordedWatch.open(api) as watch, WharfingerScheduler.on(installation.etcd.url, names) as scheduler:
            for scenario in chosen:
                family = scenario["family"]
                run = replay_changes if family == REQUEUE else replay
                done = await run(Scene(api, watch, scenario), scheduler, SAMPLE[family][1])
                apart += done.apart
                decisions[family] = len(done.judged)
                found += [difference for one in done.judged for difference in one]
    finally:
        await clear(api)
        await api.close()

    assert not found, "\n".join(map(str, found))
    assert [one.where for one in apart] == list(INVALID)
    assert all(INVALID[one.where] in one.reason for one in apart)
    waiting = next(one for one in chosen if one["family"] == REQUEUE)
    wanted = {family: count for family, (_, count) in SAMPLE.items()}
    less = Counter(one.partition("-")[0] for one in INVALID)
    wanted = {family: count - less[family] for family, count in wanted.items()}
    assert decisions == wanted | {REQUEUE: len(waiting["pods"]) + wanted[REQUEUE]}


def test_sample_has_every_kind_of_decision_and_of_every_file() -> None:
    decisions = [one for scenario in sample() for one in scenario.get("expect", ())[: SAMPLE[scenario["family"]][1]]]
    changes = [one for scenario in sample() for one in scenario.get("events", ())[: SAMPLE[REQUEUE][1]]]

    assert set(SAMPLE) == set(families())
    assert {kind for one in decisions for kind in one} >= {"scores", "message", "nominated", "victims"}
    assert any("node" in one and "scores" not in one for one in decisions)
    assert sum(bool(one["bound"]) for one in changes) == 3
