"""A decision computed again from its record is the same decision, whatever happened to the cluster since."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.shares import in_quarters
from tests.scheduling.world import Hand, World, node_object
from wharfinger.etcd import keys
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_configuration, load_profiles
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.reading.deciding_again import decide_again
from wharfinger.scheduling.reading.recomputation import Recomputation, RecordedDecision
from wharfinger.testing import pod_manifest

ZONE = "topology.kubernetes.io/zone"
CONFIG = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
SAMPLING = {**CONFIG, "percentageOfNodesToScore": 50}


def selecting(app: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE}


apart = st.sampled_from(["a", "b"]).map(
    lambda app: {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selecting(app)]}}}
)
spread = st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]).map(
    lambda when: {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": when, **selecting("a")}]}
)
specs = st.one_of(st.just({}), st.just({}), apart, spread, st.just({"nodeSelector": {ZONE: "z1"}}))


cpus, rooms = st.sampled_from(["500m", "1", "3"]), st.sampled_from(["1", "2", "4"])
apps, zones = st.sampled_from(["a", "b"]), st.sampled_from(["z1", "z2"])
priorities = st.sampled_from([0, 0, 10])
states = st.sampled_from(["pending", "pending", "bound", "nominated"])


def a_pod(draw: st.DrawFn, name: str) -> dict[str, Any]:
    labels, priority = {"app": draw(apps)}, draw(priorities)
    return pod_manifest(name, draw(cpus), labels=labels, status={}, priority=priority, **draw(specs))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Nodes; and pods, some of them bound, some nominated."""
    nodes = [
        node_object(
            f"n{number}",
            cpu=draw(rooms),
            labels={ZONE: draw(zones), "kubernetes.io/hostname": f"n{number}"},
            spec={"unschedulable": True} if draw(st.integers(0, 9)) == 0 else {},
        )
        for number in draw(st.permutations(range(draw(st.integers(1, 5)))))
    ]
    names = [obj["metadata"]["name"] for obj in nodes]
    found = [a_pod(draw, f"p{number}") for number in range(draw(st.integers(1, 7)))]
    for pod in found[:-1]:
        where = draw(states)
        if where == "bound":
            pod["spec"]["nodeName"] = draw(st.sampled_from(names))
        elif where == "nominated":
            pod["status"]["nominatedNodeName"] = draw(st.sampled_from(names))
    return nodes, found


async def put(world: World, obj: dict[str, Any]) -> None:
    metadata = obj["metadata"]
    key = keys.node(metadata["name"]) if obj["kind"] == "Node" else keys.pod(metadata["namespace"], metadata["name"])
    await world.store.put(key, json.dumps(obj).encode())


async def decided(hand: Hand, names: list[str]) -> dict[str, Placed | Refused]:
    """Place them one after the other; each sees the ones before it assumed, and none is bound."""
    outcomes = {name: await hand.place(name) for name in names}
    return {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Placed | Refused)}


@cache
def profiles_of(written: str) -> Mapping[str, Profile]:
    """To make profiles takes as long as to decide for a few pods, and all records here are of two configurations."""
    return load_profiles(json.loads(written))


def loaded(written: Mapping[str, Any]) -> Mapping[str, Profile]:
    return profiles_of(json.dumps(written, sort_keys=True))


async def replayed(
    cluster: tuple[list[dict[str, Any]], list[dict[str, Any]]],
    config: dict[str, Any],
    preferred_nodes: PreferredNodes | None = None,
) -> list[tuple[Placed | Refused, Recomputation]]:
    """Decide for every pending pod, turn the cluster upside down, and decide again from the records alone."""
    nodes, found = cluster
    configured = load_configuration(config)
    world = World()
    try:
        for profile in configured.profiles.values():
            await world.store.put(keys.profile(profile.digest), profile.configuration)
        for obj in (*nodes, *found):
            await put(world, obj)
        hand = await world.hand(profiles=configured.profiles, preferred_nodes=preferred_nodes)
        records = await decided(hand, [pod["metadata"]["name"] for pod in found if "nodeName" not in pod["spec"]])
        for obj in nodes:
            await put(world, node_object(obj["metadata"]["name"], cpu="64"))
        for pod in found:
            await world.store.delete(keys.pod("default", pod["metadata"]["name"]))
        return [
            (record, await decide_again(world.store, RecordedDecision(PodKey("default", name), record), loaded))
            for name, record in records.items()
        ]
    finally:
        await world.close()


def assert_same(record: Placed | Refused, again: Recomputation) -> None:
    assert again.same, (record, again)
    assert again.notes == ()
    if isinstance(record, Refused):
        assert again.recomputed.message == record.message
        return
    told = {one.node: one for one in again.nodes}
    for ranked in record.ranking:
        assert (told[ranked.node].total, dict(told[ranked.node].scores)) == (ranked.total, ranked.plugins)
    assert told[record.node].feasible
    assert sum(one.feasible for one in again.nodes) == record.computation.feasible


@in_quarters(60)
@given(clusters())
def test_a_decision_computed_again_from_its_record_is_the_same_decision(
    quarter: int,
    cluster: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    for record, again in asyncio.run(replayed(cluster, CONFIG)):
        assert_same(record, again)


@in_quarters(60)
@given(clusters(), st.integers(1, 5), st.sampled_from([1, 30, 1000]))
def test_so_is_the_decision_of_one_of_several_workers(
    quarter: int, cluster: tuple[list[dict[str, Any]], list[dict[str, Any]]], members: int, margin: int
) -> None:
    """Each prefers nodes of its own; which ones follows from the record."""
    preferred_nodes = PreferredNodes(margin)
    preferred_nodes.share([f"common/{number}" for number in range(members)], "common/0")
    for record, again in asyncio.run(replayed(cluster, CONFIG, preferred_nodes)):
        assert_same(record, again)
        if isinstance(record, Placed):
            assert (record.computation.own_nodes is not None) == (members > 1 and record.computation.feasible > 1)


def many_nodes() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """So many that a sampling profile looks at some only; put in another order than that of their names."""
    nodes = [
        node_object(f"n{(number * 37) % 240:03d}", labels={ZONE: f"z{number % 3}"}, cpu="4" if number % 7 else "100m")
        for number in range(240)
    ]
    return nodes, [pod_manifest(f"p{number}", status={}) for number in range(5)]


def test_a_sampled_decision_looks_at_the_same_nodes_again() -> None:
    results = asyncio.run(replayed(many_nodes(), SAMPLING))

    starts = [record.computation.start for record, _ in results]
    assert len(set(starts)) == len(starts), "the search went on from where the one before it had ended"
    for record, again in results:
        assert_same(record, again)
        assert 0 < sum(one.examined for one in again.nodes) < 240
