"""`simulate --live` and a worker decide the same on the same objects, whatever classes say of priorities.

Random nodes, pods and PriorityClasses lie in one store: valid and invalid classes, several global defaults, policies,
pods with fields of their own and pods whose class does not exist. A worker follows the store, the simulation reads it;
then classes change, and both decide again. No worker shares the nodes, so no node is preferred (margin 0). Among
equal nodes the pod's uid decides on both sides.
"""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from tests.properties.shares import shared_out
from tests.scheduling.world import PROFILES, Hand, World
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.loops.queueing import gate_by, order_by
from wharfinger.scheduling.state.queue.parts import QueueRules
from wharfinger.scheduling.state.queue.scheduling_queue import SchedulingQueue
from wharfinger.whatif.changes import NodeChanges
from wharfinger.whatif.cli.live_state import read_live
from wharfinger.whatif.cli.supposed import Supposed
from wharfinger.whatif.inventory import Inventory
from wharfinger.whatif.outcome import Result
from wharfinger.whatif.play import simulate
from wharfinger.whatif.scene import Scene

SEEDS = 120
CLASSES = ("a", "b", "c", "d")
POLICIES = ("Never", "PreemptLowerPriority")
GROUP = "pod-group.scheduling.sigs.k8s.io/name"
LEAST = "pod-group.scheduling.sigs.k8s.io/min-available"

Decided = tuple[str, str, tuple[str, ...], tuple[str, ...], str]
"""Node, nominated node, victims, rejectors, message."""


class Cluster:
    """What one seed makes."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.world = World()
        self.pending: list[str] = []

    async def fill(self) -> None:
        """Nodes, bound pods that leave little room, pods that wait, and classes."""
        rng = self.rng
        nodes = [f"n{number}" for number in range(rng.randrange(1, 5))]
        for name in nodes:
            await self.world.put_node(name, cpu=str(rng.randrange(1, 5)), pods="6")
        for number in range(rng.randrange(9)):
            started = {"startTime": f"2026-01-01T00:0{rng.randrange(10)}:00Z"}
            spec = {"nodeName": rng.choice(nodes), **self._priority()}
            await self.world.put_pod(f"bound-{number}", cpu=rng.choice("12"), spec=spec, status=started)
        for number in range(rng.randrange(1, 6)):
            self.pending.append(f"pod-{number}")
            await self.world.put_pod(f"pod-{number}", cpu=rng.choice("1234"), spec=self._priority())
        if rng.random() < 0.3:
            labels = {GROUP: "team", LEAST: "2"}
            for name in ("team-0", "team-1"):
                await self.world.put_pod(name, cpu=rng.choice("12"), spec=self._priority(), labels=labels)
        for name in CLASSES:
            await self.change(name)

    def _priority(self) -> dict[str, Any]:
        """What a pod says of its priority: nothing, a class, its own fields, or any of them."""
        rng = self.rng
        spec: dict[str, Any] = {}
        if rng.random() < 0.6:
            spec["priorityClassName"] = rng.choice((*CLASSES, "system-node-critical", "nobody"))
        if rng.random() < 0.3:
            spec["priority"] = rng.randrange(-2, 8)
        if rng.random() < 0.2:
            spec["preemptionPolicy"] = rng.choice(POLICIES)
        return spec

    async def change(self, name: str) -> None:
        """The class comes, changes, or goes."""
        rng, key = self.rng, keys.stored("priorityclasses", "", name)
        if rng.random() < 0.2:
            await self.world.store.delete(key)
            return
        value = rng.choice((*range(-2, 8), *range(-2, 8), 10**10, "7"))
        obj: dict[str, Any] = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        if rng.random() < 0.4:
            obj["globalDefault"] = rng.random() < 0.8
        if rng.random() < 0.4:
            obj["preemptionPolicy"] = rng.choice((*POLICIES, *POLICIES, "Sometimes"))
        await self.world.store.put(key, json.dumps(obj).encode())

    async def scene(self) -> Scene:
        """As `simulate --live` has it."""
        found = Supposed(Inventory("default"))
        await read_live(self.world.store, found)
        scene = Scene(found.inventory, found.given)
        scene.load()
        return scene


async def live(hand: Hand, name: str) -> Decided:
    """What the worker decides for a pod, which it then forgets."""
    outcome = await hand.place(name)
    assert isinstance(outcome, Placed | Refused), outcome
    if isinstance(outcome, Placed):
        hand.cache.forget(hand.cache.pods[PodKey("default", name)].identity)
        return outcome.node, "", (), (), ""
    victims = tuple(sorted(victim.pod for victim in outcome.victims))
    return "", outcome.nominated_node, victims, outcome.rejectors, outcome.message


def simulated(scene: Scene, name: str) -> Decided:
    decision = scene.simulator.decide(("default", name))
    victims = tuple(str(victim) for victim in decision.victims)
    rejectors = () if decision.node else tuple(decision.rejectors)
    message = decision.message.removeprefix("SchedulingGated: ")
    return decision.node or "", decision.nominated_node or "", victims, rejectors, message


@pytest.mark.parametrize("seed", shared_out(SEEDS, quick=15))
async def test_simulated_and_live_decisions_agree(seed: int) -> None:
    cluster = Cluster(seed)
    hand = await cluster.world.hand()
    await cluster.fill()
    try:
        for _ in range(3):
            await hand.seen()
            scene = await cluster.scene()
            for name in cluster.pending:
                assert simulated(scene, name) == await live(hand, name), name
            await gangs_agree(scene, hand)
            await orders_agree(cluster, hand)
            for name in cluster.rng.sample(CLASSES, 2):
                await cluster.change(name)
    finally:
        await cluster.world.close()


async def gangs_agree(scene: Scene, hand: Hand) -> None:
    member = PodKey("default", "team-0")
    if member not in hand.cache.pods:
        return
    placed = await hand.place_gang("team")
    gang = scene.simulator.decide_gang(member)
    assert gang is not None
    assert {PodKey(seat.namespace, seat.name): seat.node for seat in placed.seats} == dict(gang.nodes)
    for seat in placed.seats:
        hand.cache.forget(hand.cache.pods[PodKey(seat.namespace, seat.name)].identity)


async def orders_agree(cluster: Cluster, hand: Hand) -> None:
    """In the queue's order, each decision sees those before it: alike until a pod has to make room."""
    queue = SchedulingQueue(QueueRules(gate_by(PROFILES), order_by(PROFILES)), clock=lambda: 0.0)
    keys_of_pending = [PodKey("default", name) for name in cluster.pending]
    for key in keys_of_pending:
        queue.put(hand.cache.pods[key], None)
    scene = await cluster.scene()
    for name in ("team-0", "team-1"):
        scene.withdraw(PodKey("default", name))
    answer = {
        one.pod: one for one in simulate(scene, NodeChanges(), waiting=True).pods if not one.pod.name.startswith("t")
    }
    assert {key for key in keys_of_pending if answer[key].result is Result.GATED} == {
        entry.key for entry in queue.gated.values()
    }
    taken = []
    while (entry := queue.pop()) is not None:
        outcome = await hand.place(entry.pod.name)
        if isinstance(outcome, Refused) and outcome.nominated_node:
            assert answer[entry.key].result is Result.PREEMPTING, entry.key
        if answer[entry.key].result is Result.PREEMPTING:
            break
        if not isinstance(outcome, Placed):  # in later rounds of the simulation, there may be room for it
            continue
        taken.append(entry.pod.identity)
        assert (answer[entry.key].node, answer[entry.key].result) == (outcome.node, Result.PLACED), entry.key
    for identity in taken:
        hand.cache.forget(identity)
