"""InterPodAffinity counts over many decisions; what it says is what a plain reading says, whatever it saw before."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import neighbours
from tests.properties.neighbours import Reading
from tests.properties.shares import in_quarters
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.arguments import InterPodAffinityArgs
from wharfinger.framework.plugins.inter_pod_affinity import InterPodAffinity
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import (
    LabelSelector,
    Operator,
    PodAffinityTerm,
    Requirement,
    WeightedPodAffinityTerm,
)
from wharfinger.objects.model.surroundings import Surroundings

ARGS = st.builds(
    InterPodAffinityArgs,
    hard_pod_affinity_weight=st.sampled_from([0, 1, 100]),
    ignore_preferred_terms_of_existing_pods=st.booleans(),
)


def reasons(plugin: InterPodAffinity, pod: Pod, snapshot: Snapshot) -> list[str | None]:
    """By row: why it is refused."""
    state = CycleState()
    verdicts = None
    if plugin.pre_filter(state, pod, snapshot).status.code is not Code.SKIP:
        verdicts = plugin.filter(state, pod, snapshot)
    if verdicts is None:
        return [None] * len(snapshot)
    verdicts.check(len(snapshot))
    return [verdicts.at(row).message or None for row in range(len(snapshot))]


def scores(plugin: InterPodAffinity, pod: Pod, snapshot: Snapshot, rows: Any) -> list[int]:
    state = CycleState()
    if plugin.pre_score(state, pod, snapshot, rows).code is Code.SKIP:
        return [0] * (len(snapshot) if isinstance(rows, slice) else len(rows))
    raw = plugin.score(state, pod, snapshot, rows)
    return plugin.normalize(state, pod, raw, snapshot, rows).tolist()


@in_quarters(250)
@given(neighbours.clusters(), neighbours.pods(), neighbours.surroundings, ARGS, st.data())
def test_refusals_and_scores_are_those_of_a_plain_reading(
    quarter: int, infos: list[NodeInfo], pod: Pod, around: Surroundings, args: InterPodAffinityArgs, data: st.DataObject
) -> None:
    plugin, snapshot = InterPodAffinity(args), Snapshot.of(infos, surroundings=around)
    reading = Reading(pod, infos, around)
    assert reasons(plugin, pod, snapshot) == [reading.refusal(info) for info in infos]
    chosen = data.draw(st.sets(st.integers(0, len(infos) - 1), min_size=1).map(sorted))
    weights = args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods
    assert scores(plugin, pod, snapshot, np.array(chosen)) == reading.scores([infos[row] for row in chosen], *weights)
    assert scores(plugin, pod, snapshot, slice(None)) == reading.scores(infos, *weights)


changes = st.sampled_from(["place", "remove", "relabel", "node", "resize", "only", "namespaces"])


@st.composite
def histories(draw: st.DrawFn) -> list[Snapshot]:
    """Snapshots that came one from another, each of them perhaps from an older one."""
    known = [Snapshot.of(draw(neighbours.clusters()), surroundings=draw(neighbours.surroundings))]
    for number in range(draw(st.integers(1, 6))):
        last = draw(st.sampled_from(known))
        row = draw(st.integers(0, len(last) - 1))
        info = last.rows[row]
        match draw(changes):
            case "place":
                known.append(last.place(neighbours.a_pod(draw, f"placed-{number}"), info.node.name))
            case "remove":
                known.append(last.with_pods_changed({row: info.without_pods(list(info.pods)[:1])}))
            case "relabel":
                other = [neighbours.a_pod(draw, pod.name) for pod in info.pods.values()]
                changed = NodeInfo.of(info.node, info.pods.values())
                for pod in other:
                    changed = changed.with_pod(pod)
                known.append(last.with_pods_changed({row: changed}))
            case "node":
                known.append(last.with_nodes_changed({row: info.with_node(neighbours.a_node(draw, info.node.name))}))
            case "resize":
                added = NodeInfo.of(neighbours.a_node(draw, f"new-{number}"), [neighbours.a_pod(draw, f"new-{number}")])
                known.append(last.resized({row}, [added]))
            case "only":
                known.append(last.only(info.node.name))
            case "namespaces":
                known.append(last.at(last.revision, surroundings=draw(neighbours.surroundings)))
    return known


@in_quarters(150)
@given(histories(), st.lists(neighbours.pods(), min_size=1, max_size=3), st.data())
def test_what_was_counted_before_changes_nothing(
    quarter: int, history: list[Snapshot], subjects: list[Pod], data: st.DataObject
) -> None:
    kept = InterPodAffinity(InterPodAffinityArgs())
    steps = st.tuples(st.sampled_from(history), st.sampled_from(subjects))
    for snapshot, pod in data.draw(st.lists(steps, min_size=2, max_size=10)):
        reading = Reading(pod, list(snapshot.rows), snapshot.surroundings)
        assert reasons(kept, pod, snapshot) == [reading.refusal(info) for info in snapshot.rows]
        assert scores(kept, pod, snapshot, slice(None)) == reading.scores(list(snapshot.rows), 1, ignore=False)


ZONES, HOSTS = 3, 90
"""Enough hosts that sums are kept between decisions, and moved by the difference."""
NEAR, FAR = (
    PodAffinityTerm(key, LabelSelector((Requirement("app", Operator.IN, ("x",)),)), frozenset("a"))
    for key in ("zone", "host")
)
SUBJECTS = (
    Pod("a", "near", "u1", labels={"app": "x"}, required_affinity=(NEAR,)),
    Pod("a", "far", "u2", labels={"app": "x"}, required_anti_affinity=(FAR,)),
    Pod("a", "likes", "u3", labels={"app": "x"}, preferred_affinity=(WeightedPodAffinityTerm(7, NEAR),)),
    Pod("a", "shuns", "u4", labels={"app": "x"}, preferred_anti_affinity=(WeightedPodAffinityTerm(3, FAR),)),
)


def big_cluster() -> Snapshot:
    def info(number: int) -> NodeInfo:
        node = Node(f"n{number}", labels={"host": f"h{number % HOSTS}", "zone": f"z{number % ZONES}"})
        return NodeInfo.of(node, [replace(SUBJECTS[number % 4], name=f"b{number}", node_name=node.name)])

    return Snapshot.of(info(number) for number in range(2 * HOSTS))


@in_quarters(15)
@given(st.randoms(use_true_random=False))
def test_sums_moved_by_the_difference_equal_those_made_anew(quarter: int, random: Random) -> None:
    kept = InterPodAffinity(InterPodAffinityArgs())
    known = [big_cluster()]
    for number in range(12):
        last = random.choice(known)
        row = random.randrange(len(last))
        info = last.rows[row]
        labels = {"host": f"h{random.randrange(HOSTS)}", "zone": f"z{random.randrange(ZONES + 1)}"}
        placed = replace(random.choice(SUBJECTS), name=f"p{number}")
        known += [
            last.place(placed, info.node.name),
            last.with_pods_changed({row: info.without_pods(list(info.pods)[:1])}),
            last.with_nodes_changed({row: info.with_node(Node(info.node.name, labels=labels))}),
            last.resized({row}, [NodeInfo.of(Node(f"new-{number}", labels=labels), [placed])]),
        ]
        for _ in range(4):
            snapshot, pod = random.choice(known[-6:]), random.choice(SUBJECTS)
            fresh = InterPodAffinity(InterPodAffinityArgs())
            assert reasons(kept, pod, snapshot) == reasons(fresh, pod, snapshot)
            assert scores(kept, pod, snapshot, slice(None)) == scores(fresh, pod, snapshot, slice(None))
