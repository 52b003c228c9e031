"""Six instances are replaced while hundreds of pods come, and no pod waits for that; every night, twelve.

Judged from etcd's own revision history, through a client that is none of ours.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.dev_tree import instances_of, running_tree, wait_until
from tests.integration.fleet_handle import FleetHandle
from tests.integration.gateway import NODES, audit, node
from tests.integration.steady_pods import SteadyPods

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]

REPLICAS = int(os.environ.get("WHARFINGER_TEST_REPLICAS", "6"))
SURGE, PODS = REPLICAS // 3, 40 * REPLICAS
RATE = 10.0
LONGEST_DELAY = 5.0
"""Seconds that a rollout may add to what a pod waits on this machine anyway; on a slow one a part of what the
replacement of as many as may be replaced together takes, for who waited for one of them would wait as long as that."""


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetHandle]:
    with running_tree(tmp_path, workers=REPLICAS, cohorts="auto") as tree:
        yield FleetHandle(tree)


def test_rollout_delays_none_of_hundreds_of_pods(fleet: FleetHandle, tmp_path: Path) -> None:
    etcd, url = fleet.tree.etcd, fleet.tree.ready["etcd"]
    fleet.apply(strategy={"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": 0}})
    fleet.complete(120)
    assert fleet.revisions == 1
    first = etcd.revision() + 1
    for number in range(30):
        etcd.put(f"{NODES}n{number:02}", node(f"n{number:02}", cpu="32", pods=320))  # more than can come
    pods = SteadyPods(url, "steady", RATE)

    with pods.coming():
        wait_until(lambda: len(pods.bound) > 3 * RATE, 60, "pods come")
        usual = pods.slowest[1]
        began = time.monotonic()
        fleet.restart()
        fleet.complete(400)
        together = (time.monotonic() - began) * SURGE / REPLICAS
        wait_until(lambda: pods.count >= PODS, 300, f"{PODS} pods came")

    bound, verdict = audit(etcd, first), fleet.verdict()
    assert len(bound.bound) == pods.count
    assert (bound.pending, bound.doubled, bound.overcommitted) == (set(), [], [])
    allowed = max(LONGEST_DELAY, together / 4)
    pods.had_nodes_within(usual + allowed)
    assert verdict.wrong == []
    assert verdict.least_ready(first) == REPLICAS
    assert verdict.taken(first) == []
    assert verdict.most_living(first) == REPLICAS + SURGE
    assert verdict.made(first) == {slot: [2] for slot in range(REPLICAS)}
    assert {how for _, how in verdict.ended} == {"drained"}
    assert verdict.dropped == []
    assert sorted(instances_of(tmp_path).values()) == sorted(f"common/{slot}/2" for slot in range(REPLICAS))
