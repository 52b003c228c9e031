"""What a user asks of a fleet that runs: more, fewer, none; a canary, a part of it, and to leave it at that.

One tree for all; each test begins and ends with a fleet that is complete.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
from temporalio.client import Client

from tests.integration.dev_tree import USUAL_TTL, DevTree, instances_of, running_tree, wait_until
from tests.integration.fleet_handle import FleetHandle
from tests.integration.gateway import NODES, PODS, bound_pods, node, pod
from wharfinger.process.names import DEFAULT_CLUSTER

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

SECONDS = 120.0
"""For whatever a few instances may take, on a busy machine too."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    with running_tree(tmp_path_factory.mktemp("changes"), workers=2, lease_ttl=USUAL_TTL) as tree:
        yield tree


@pytest.fixture
def fleet(tree: DevTree) -> Iterator[FleetHandle]:
    """Two instances, complete, whatever the test before left."""
    fleet = FleetHandle(tree)
    fleet.apply(replicas=2)
    fleet.complete(SECONDS)
    yield fleet
    tree.clear()
    assert fleet.verdict().wrong == []


def restarted(moment: int) -> dict[str, str]:
    """A template that differs from others of another moment in nothing else."""
    return {"restartedAt": f"2026-01-01T00:00:{moment:02}Z"}


def revisions(fleet: FleetHandle) -> dict[int, int]:
    """Slot -> revision of its ready instance."""
    return {slot: int(record["revision"]) for (slot, _), record in sorted(fleet.ready.items())}


def strike(fleet: FleetHandle, slot: int) -> None:
    """SIGKILL a slot's instance, and wait until another one is ready there."""
    life, pid = max(one for one in fleet.serving(len(fleet.grants), SECONDS).items() if one[0][0] == slot)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: any(s == slot and n > life[1] for s, n in fleet.ready), SECONDS, f"slot {slot} is back")


def terminate(fleet: FleetHandle, *ids: str) -> None:
    """Terminate workflows of the fleet as one: between them no agent acts, or pokes; ids go on behind the cluster's."""

    async def terminated() -> None:
        client = await Client.connect(fleet.tree.ready["temporal"])
        for one in ids:
            await client.get_workflow_handle(f"{DEFAULT_CLUSTER}/{one}").terminate("a test")

    agent = fleet.tree.ready["pids"]["agent"]
    os.kill(agent, signal.SIGSTOP)
    try:
        asyncio.run(terminated())
    finally:
        os.kill(agent, signal.SIGCONT)


def test_a_fleet_is_scaled_to_nothing_and_back_and_pods_wait_meanwhile(fleet: FleetHandle) -> None:
    etcd, before = fleet.tree.etcd, fleet.revisions

    fleet.cli("scale", "common", "0")
    wait_until(lambda: not fleet.grants and not fleet.instances, SECONDS, "no instance is left")
    etcd.put(f"{NODES}n0", node("n0"))
    for number in range(5):
        etcd.put(f"{PODS}default/p{number}", pod(f"p{number}"))
    assert instances_of(fleet.tree.folder) == {}
    assert bound_pods(etcd) == {}
    fleet.cli("scale", "common", "2")
    fleet.complete(SECONDS)

    wait_until(lambda: len(bound_pods(etcd)) == 5, 60, "the pods that waited are bound")
    assert fleet.revisions == before
    assert {how for _, how in fleet.verdict().ended} == {"drained"}


def test_a_fleet_is_scaled_in_the_middle_of_a_rollout(fleet: FleetHandle) -> None:
    first = fleet.tree.etcd.revision()
    number = fleet.revisions + 1

    fleet.restart()
    wait_until(lambda: any(record["revision"] == number for record in fleet.grants.values()), SECONDS, "it began")
    fleet.cli("scale", "common", "3")
    fleet.complete(SECONDS)
    assert revisions(fleet) == dict.fromkeys(range(3), number)
    fleet.restart()
    wait_until(lambda: any(record["revision"] == number + 1 for record in fleet.grants.values()), SECONDS, "it began")
    fleet.cli("scale", "common", "1")
    fleet.complete(SECONDS)

    assert revisions(fleet) == {0: number + 1}
    verdict = fleet.verdict()
    assert verdict.least_ready(first) >= 1
    assert verdict.made(first)[0] == [number, number + 1]
    assert max(map(len, verdict.made(first).values())) == 2
    assert {how for _, how in verdict.ended} <= {"drained", "signal"}
    assert fleet.outcomes[number] == fleet.outcomes[number + 1] == "completed"


def test_a_crash_during_a_canary_does_not_spread_it_and_promote_goes_on(fleet: FleetHandle) -> None:
    old, new = revisions(fleet), fleet.revisions + 1

    fleet.apply(template=restarted(1), strategy={"rollingUpdate": {"maxSurge": 1, "canary": 1}})
    fleet.until_state("CanaryWaiting", SECONDS)
    assert revisions(fleet) == {0: old[0], 1: new}
    strike(fleet, 1)
    strike(fleet, 0)

    fleet.until_state("CanaryWaiting", SECONDS)
    assert revisions(fleet) == {0: old[0], 1: new}
    assert new not in fleet.outcomes
    fleet.cli("promote", "common")
    fleet.complete(SECONDS)
    assert revisions(fleet) == {0: new, 1: new}
    assert fleet.outcomes[new] == "completed"


def test_a_canary_whose_workflows_are_terminated_neither_spreads_nor_moves(fleet: FleetHandle) -> None:
    old, new = revisions(fleet), fleet.revisions + 1
    fleet.apply(template=restarted(4), strategy={"rollingUpdate": {"maxSurge": 1, "canary": 1}})
    fleet.until_state("CanaryWaiting", SECONDS)
    fleet.cli("scale", "common", "3")  # slot 2 is the highest now, and no canary
    wait_until(lambda: revisions(fleet) == {0: old[0], 1: new, 2: old[0]}, SECONDS, "slot 2 is there")
    fleet.until_state("CanaryWaiting", SECONDS)
    rollout = fleet.status["generation"]

    terminate(fleet, f"fleet/{fleet.tenant}", f"rollout/{fleet.tenant}/{rollout}")
    strike(fleet, 0)

    fleet.until_state("CanaryWaiting", SECONDS)
    assert fleet.status["generation"] != rollout
    assert revisions(fleet) == {0: old[0], 1: new, 2: old[0]}
    assert new not in fleet.outcomes
    fleet.cli("promote", "common")
    fleet.complete(SECONDS)
    assert revisions(fleet) == dict.fromkeys(range(3), new)
    fleet.cli("scale", "common", "2")


def test_a_canary_that_is_given_up_stays_where_it_is_until_it_is_undone(fleet: FleetHandle) -> None:
    before, new = revisions(fleet), fleet.revisions + 1
    pids = {slot: record["pid"] for (slot, _), record in fleet.ready.items()}
    fleet.apply(template=restarted(2), strategy={"rollingUpdate": {"maxSurge": 1, "canary": 1}})
    fleet.until_state("CanaryWaiting", SECONDS)

    fleet.cli("abort", "common")
    wait_until(lambda: fleet.outcomes.get(new) == "aborted", SECONDS, "it is over")
    assert revisions(fleet) == {0: before[0], 1: new}
    first = fleet.tree.etcd.revision()
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)  # nothing is left that the canary would have to wait for

    assert revisions(fleet) == before
    assert {slot: record["pid"] for (slot, _), record in fleet.ready.items()}[0] == pids[0]
    assert fleet.verdict().made(first) == {1: [before[1]]}


def test_partition_completes_at_its_bound_and_continues_when_lowered(fleet: FleetHandle) -> None:
    before, new = revisions(fleet), fleet.revisions + 1

    fleet.apply(template=restarted(3), strategy={"rollingUpdate": {"maxSurge": 1, "partition": 1}})
    fleet.until_state("PartitionComplete", SECONDS)
    assert revisions(fleet) == {0: before[0], 1: new}
    assert fleet.wait(30) == 0  # as far as the partition allows
    fleet.apply(template=restarted(3))
    wait_until(lambda: revisions(fleet) == {0: new, 1: new}, SECONDS, "the rest follows")
    fleet.complete(SECONDS)

    assert fleet.revisions == new
    assert fleet.outcomes[new] == "completed"
