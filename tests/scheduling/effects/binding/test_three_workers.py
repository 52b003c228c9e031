"""Rules across nodes hold whichever worker binds: several workers on one store, each with a cache that may be behind.

Each interleaving is played twice: as it is, where the rule holds, and on a store that forgets to compare the keys
of rules across nodes, where it breaks. So every one of these keys is needed.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
import pytest
from temporalio.exceptions import ApplicationError

from tests.patience import patient
from tests.scheduling.effects.placing.test_placing_lone import with_plugin
from tests.scheduling.world import Hand, World, turns
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation, TxnResult, Unmoved
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import unschedulable
from wharfinger.framework.verdicts import Verdicts
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.surroundings import Namespace
from wharfinger.scheduling.contracts.scheduling import Placed
from wharfinger.settings import BindSettings
from wharfinger.testing.memory_store import MemoryStore

CALM = BindSettings(tries=4, catch_up=1.0, behind=1.0)
ZONE = "topology.kubernetes.io/zone"
PAUSE = 8
"""The most turns of the event loop for which a chain or a watch pauses."""


class Forgetful(MemoryStore):
    """A store that is never asked about rules across nodes."""

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        kept = [one for one in compares if not _across_nodes(one)]
        result = await super().txn(kept, success, failure if len(kept) == len(compares) else ())
        if not result.succeeded:
            reads = (await super().txn([], failure)).reads
            return TxnResult(False, result.revision, reads)
        return result


def _across_nodes(condition: Condition) -> bool:
    key = condition.prefix if isinstance(condition, Unmoved) else condition.key
    return key.startswith((keys.BOUND, keys.TERMS))


@pytest.fixture(params=[MemoryStore, Forgetful], ids=["compared", "forgotten"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """The world as it is, and the one where nothing across nodes is compared."""
    world = World(request.param())
    await world.store.put(keys.INSTALLATION, b"{}")
    for zone, names in {"a": "12", "b": "34"}.items():
        for name in names:
            await world.put_node(f"node-{name}", labels={ZONE: zone})
    yield world
    await world.close()


def holds(world: World) -> bool:
    return not isinstance(world.store, Forgetful)


def term(app: str, **more: Any) -> dict[str, Any]:
    return {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}, **more}


def affinity(kind: str, *terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def apart(app: str, **more: Any) -> dict[str, Any]:
    return affinity("podAntiAffinity", term(app, **more))


def together(app: str) -> dict[str, Any]:
    return affinity("podAffinity", term(app))


def spread(app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def moved_to(placed: Placed, node: str) -> Placed:
    """The placement as the worker would have made it on that node; there are no runners-up."""
    return placed.model_copy(update={"node": node, "ranking": ()})


async def bound(world: World) -> dict[str, str]:
    """Pods and the zones they are in."""
    zones: dict[str, str] = {}
    async for page in world.store.list(keys.PODS):
        for kv in page.items:
            pod = json.loads(kv.value)
            node = pod["spec"].get("nodeName", "")
            if node:
                zones[pod["metadata"]["name"]] = "a" if node in {"node-1", "node-2"} else "b"
    return zones


async def race(world: World, first: str, second: str, *nodes: str) -> dict[str, str]:
    """Two workers place a pod each, neither knowing of the other's, and bind at the same time."""
    one, two = await world.hand(settings=CALM), await world.hand(settings=CALM)
    placements = [moved_to(await one.placed(first), nodes[0]), moved_to(await two.placed(second), nodes[1])]
    await asyncio.gather(one.bind(first, placements[0]), two.bind(second, placements[1]))
    return await bound(world)


async def test_two_pods_that_keep_apart_never_share_a_zone(either: World) -> None:
    for name in ("web-1", "web-2"):
        await either.put_pod(name, labels={"app": "web"}, spec=apart("web"))

    zones = await race(either, "web-1", "web-2", "node-1", "node-2")

    assert (len(zones) == 1) == holds(either)


@pytest.mark.parametrize("loner_first", [True, False])
async def test_a_plain_pod_never_joins_a_pod_that_keeps_away_from_it(either: World, loner_first: bool) -> None:
    """Anti-affinity is symmetric: whichever of the two is bound first, the other's bind must see it."""
    await either.put_pod("loner", labels={"app": "loner"}, spec=apart("web"))
    await either.put_pod("web", labels={"app": "web"})
    names = ("loner", "web") if loner_first else ("web", "loner")

    zones = await race(either, *names, "node-1", "node-2")

    assert (len(zones) == 1) == holds(either)


async def test_untouched_placement_is_verified_again_after_an_anti_affine_pod(
    either: World,
) -> None:
    """Steps: a plain pod is placed; the watch then shows a loner on another node of the zone. The pod, its node and
    its node's pods are still the very same, and the terms' version is known: only looking again tells.
    """
    await either.put_pod("loner", labels={"app": "loner"}, spec=apart("web"))
    await either.put_pod("web", labels={"app": "web"})
    one, two = await either.hand(settings=CALM), await either.hand(settings=CALM)
    placed = moved_to(await two.placed("web"), "node-1")
    two.cache.assume(two.cache.pods["default", "web"], "node-1")  # type: ignore[index]
    assert (await one.bind("loner", moved_to(await one.placed("loner"), "node-2"))).kind == "bound"
    await either.seen()

    outcome = await two.bind("web", placed)

    assert outcome.kind == "contended"


async def test_pods_that_spread_hard_never_pile_up_in_a_zone(either: World) -> None:
    for name in ("web-1", "web-2"):
        await either.put_pod(name, labels={"app": "web"}, spec=spread("web"))

    zones = await race(either, "web-1", "web-2", "node-1", "node-2")

    assert (len(zones) == 1) == holds(either)


async def test_only_one_pod_is_the_first_of_its_kind(either: World) -> None:
    """Required affinity to itself: the first pod may go anywhere, the second must follow it."""
    for name in ("web-1", "web-2"):
        await either.put_pod(name, labels={"app": "web"}, spec=together("web"))

    zones = await race(either, "web-1", "web-2", "node-1", "node-3")

    assert (len(zones) == 1) == holds(either)


@pytest.mark.parametrize("loner_first", [True, False])
async def test_namespace_selector_covers_namespaces_without_bound_pods(either: World, loner_first: bool) -> None:
    await either.put_pod("loner", labels={"app": "loner"}, spec=apart("web", namespaceSelector={}))
    await either.put_pod("web", labels={"app": "web"})
    names = ("loner", "web") if loner_first else ("web", "loner")

    zones = await race(either, *names, "node-1", "node-2")

    assert (len(zones) == 1) == holds(either)


async def test_binds_without_rules_never_wait_for_each_other(either: World) -> None:
    for name in ("web-1", "web-2"):
        await either.put_pod(name)

    zones = await race(either, "web-1", "web-2", "node-1", "node-2")

    assert len(zones) == 2
    assert [hand.conflicts(what) for hand in either.hands for what in ("bound", "terms")] == [0, 0, 0, 0]


async def test_binds_with_rules_of_one_worker_follow_each_other_without_conflict(either: World) -> None:
    for name in ("web-1", "web-2"):
        await either.put_pod(name, labels={"app": "web"}, spec=apart("web"))
    hand = await either.hand(settings=CALM)
    placements = {name: await hand.placed(name) for name in ("web-1", "web-2")}
    hand.store.pause_watches()

    outcomes = await asyncio.gather(*(hand.bind(name, placed) for name, placed in placements.items()))

    assert [outcome.kind for outcome in outcomes] == ["bound", "bound"]
    assert hand.conflicts("bound") == hand.conflicts("terms") == 0


async def test_pod_relabelled_during_its_bind_is_bound_by_its_new_rules(either: World) -> None:
    """Steps: a pod follows pods of its kind and is none itself; while it is bound it becomes one, and at the same time
    another one. Neither follows the other unless the rule is asked for again.
    """
    await either.put_pod("web-0", labels={"app": "web"}, spec={"nodeName": "node-1"} | together("web"))
    for name in ("web-1", "web-2"):
        await either.put_pod(name, labels={"app": "none" if name == "web-1" else "web"}, spec=together("web"))
    one, two = await either.hand(settings=CALM), await either.hand(settings=CALM)
    placed = moved_to(await one.placed("web-1"), "node-1")
    sent = 0

    async def meanwhile(_: Any, __: Any) -> None:
        nonlocal sent
        sent += 1
        if sent == 1:  # relabelled, and the only pod that it followed is gone
            await either.change_pod("web-1", lambda pod: pod["metadata"].update(labels={"app": "web"}))
            await either.store.delete(keys.pod("default", "web-0"))
            await either.seen()
        elif sent == 2:
            other = moved_to(await two.placed("web-2"), "node-3")
            assert (await two.bind("web-2", other)).kind == "bound"

    one.store.before_txn = meanwhile

    await one.bind("web-1", placed)

    assert (len(set((await bound(either)).values())) == 1) == holds(either)


async def test_untouched_placement_sees_a_namespace_relabelled_into_a_rule(
    world: World,
) -> None:
    """Steps: a plain pod is placed beside a loner that keeps away from pods of red namespaces; then its own becomes
    red, which this worker's watch has shown before the bind.
    """
    for name in ("node-1", "node-2"):
        await world.put_node(name, labels={ZONE: "a"})
    red = {"namespaceSelector": {"matchLabels": {"color": "red"}}}
    await world.put_pod("loner", labels={"app": "loner"}, spec={"nodeName": "node-2"} | apart("web", **red))
    await world.put_pod("web", labels={"app": "web"})
    hand = await world.hand(settings=CALM)
    placed = await hand.placed("web")
    hand.cache.set_surrounding(Namespace("default", {"color": "red"}))

    outcome = await hand.bind("web", placed)

    assert outcome.kind == "contended"


class AtMostTwo:
    """A user's rule across nodes: two pods in the whole cluster."""

    name = "AtMostTwo"

    def filter(self, state: Any, pod: Pod, snapshot: Snapshot) -> Verdicts | None:
        full = sum(len(info.pods) for info in snapshot.rows) >= 2
        return Verdicts.refuse(np.full(len(snapshot), full), unschedulable("two are enough")) if full else None


async def test_user_plugin_gets_all_nodes_when_its_placement_is_verified(world: World) -> None:
    for number in range(3):
        await world.put_node(f"node-{number}")
        await world.put_pod(f"web-{number}")
    one = await world.hand(settings=CALM, profiles=with_plugin(AtMostTwo()))
    two = await world.hand(settings=CALM)
    late = moved_to(await one.placed("web-0"), "node-0")
    for number in (1, 2):
        assert (await two.bind(f"web-{number}", moved_to(await two.placed(f"web-{number}"), f"node-{number}"))).kind
    await world.seen()

    assert (await one.bind("web-0", late)).kind == "contended"


# --- many pods, many turns ------------------------------------------------------------------------


RULES = {
    "apart": lambda: apart("web"),
    "spread": lambda: spread("web"),
    "together": lambda: together("web"),
}


def broken(rule: str, zones: list[str]) -> bool:
    """Whether pods in these zones break the rule."""
    per_zone = Counter(zones)
    counts = [per_zone[zone] for zone in "abc"]
    match rule:
        case "apart":
            return max(counts) > 1
        case "spread":
            return max(counts) - min(counts) > 1
        case _:
            return sum(count > 0 for count in counts) > 1


async def settle(hand: Hand, name: str, rng: random.Random) -> None:
    """What a chain does: place, bind, and again; a worker's watch may stand still for a while."""
    for _ in range(10):
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        try:
            outcome = await hand.place(name)
            if not isinstance(outcome, Placed):
                await turns(rng.randrange(PAUSE))
                continue
            if rng.random() < 0.5:
                hand.stand_still(rng.randrange(PAUSE))
            if (await hand.bind(name, outcome)).kind == "bound":
                return
        except ApplicationError:  # its watch stands still for too long: another try
            await turns(rng.randrange(PAUSE))


async def history(world: World) -> AsyncIterator[list[str]]:
    """The zones of the bound pods, at every revision that bound one."""
    zones: dict[str, str] = {}
    async with world.store.watch(keys.PODS, 1) as batches:
        async for batch in batches:
            for event in batch.events:
                node = json.loads(event.kv.value)["spec"].get("nodeName", "")
                if node:
                    zones[event.kv.key] = node.rpartition("-")[0][-1]
                    yield list(zones.values())
            if batch.revision >= world.store.revision:
                return


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rule", RULES)
async def test_three_workers_that_bind_at_once_break_no_rule_at_any_revision(rule: str, seed: int) -> None:
    rng = random.Random(seed)
    world = World()
    for zone in "abc":
        for number in range(3):
            await world.put_node(f"zone-{zone}-{number}", cpu="20", labels={ZONE: zone})
    names = [f"web-{number}" for number in range(9)]
    for name in names:
        await world.put_pod(name, labels={"app": "web"}, spec=RULES[rule]())
    hands = [await world.hand(settings=BindSettings(catch_up=patient(20), behind=patient(20))) for _ in range(3)]

    await asyncio.gather(*(settle(rng.choice(hands), name, rng) for name in names))

    states = [state async for state in history(world)]
    assert not [state for state in states if broken(rule, state)]
    assert len(states) >= (3 if rule == "apart" else 6), "so few were bound that nothing was tried"
    await world.close()


async def settle_cohort(hand: Hand, names: Sequence[str], rng: random.Random) -> None:
    """What a cohort does, again and again for the pods that are left; a worker's watch may stand still for a while."""
    left = list(names)
    for _ in range(10):
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(0)
        try:
            placed = await hand.place_many(*left)
            if rng.random() < 0.5:
                hand.stand_still(rng.randrange(PAUSE))
            done = {one.name for one in (await hand.bind_many(placed)).bound}
        except ApplicationError:
            await turns(rng.randrange(PAUSE))
            continue
        left = [name for name in left if name not in done]
        if not left:
            return
        await turns(rng.randrange(PAUSE))


async def cohorts_and_lone_pods(world: World, rule: str, seed: int) -> list[list[str]]:
    """The zones of the bound pods at every revision: two workers bind cohorts, plain pods among them, one lone pods."""
    rng = random.Random(seed)
    for zone in "abc":
        for number in range(3):
            await world.put_node(f"zone-{zone}-{number}", cpu="20", labels={ZONE: zone})
    names = [f"web-{number}" for number in range(15)]
    for name in names:
        await world.put_pod(name, labels={"app": "web"}, spec=RULES[rule]())
    plain = [f"plain-{number}" for number in range(6)]
    for name in plain:
        await world.put_pod(name)
    hands = [await world.hand(settings=BindSettings(catch_up=patient(20), behind=patient(20))) for _ in range(3)]
    await asyncio.gather(
        settle_cohort(hands[0], [*names[:4], *plain[:3], *names[4:6]], rng),
        settle_cohort(hands[1], [*plain[3:], *names[6:12]], rng),
        *(settle(hands[2], name, rng) for name in names[12:]),
    )
    zones: dict[str, str] = {}
    states: list[list[str]] = []
    async with world.store.watch(keys.pod("default", "web-"), 1) as batches:
        async for batch in batches:
            for event in batch.events:
                node = json.loads(event.kv.value)["spec"].get("nodeName", "")
                if node:
                    zones[event.kv.key] = node.rpartition("-")[0][-1]
            states.append(list(zones.values()))
            if batch.revision >= world.store.revision:
                return states
    raise AssertionError("the watch ended")


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rule", RULES)
async def test_cohorts_and_lone_pods_of_three_workers_break_no_rule(rule: str, seed: int) -> None:
    world = World()

    states = await cohorts_and_lone_pods(world, rule, seed)

    assert not [state for state in states if broken(rule, state)]
    assert len(states[-1]) >= (3 if rule == "apart" else 12), "so few were bound that nothing was tried"
    await world.close()


async def test_cohorts_break_a_rule_where_its_versions_are_not_compared() -> None:
    """The control: the same lives on a store that forgets the compares, so the test above can fail."""
    worlds = [World(Forgetful()) for _ in range(6)]

    found = [await cohorts_and_lone_pods(world, "apart", seed) for seed, world in enumerate(worlds)]

    assert any(broken("apart", state) for states in found for state in states)
    for world in worlds:
        await world.close()
