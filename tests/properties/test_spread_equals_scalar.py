"""PodTopologySpread says what a plain reading says, whatever it was asked before, and in whatever order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.properties import spread_scalar
from tests.properties.clusters import Draw, taints, terms, tolerations
from tests.properties.shares import in_quarters
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.arguments import PodTopologySpreadArgs
from wharfinger.framework.plugins.pod_topology_spread import PodTopologySpread
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, SpreadConstraint
from wharfinger.objects.model.surroundings import NOTHING_AROUND, PodCollection, Surroundings

LISTED = [
    {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "minDomains": 2},
    {"maxSkew": 2, "topologyKey": spread_scalar.HOSTNAME, "whenUnsatisfiable": "ScheduleAnyway"},
]
SYSTEM = PodTopologySpreadArgs()
LIST = PodTopologySpreadArgs.model_validate({"defaultingType": "List", "defaultConstraints": LISTED})
DEFAULTS = {
    SYSTEM: spread_scalar.SYSTEM,
    LIST: (
        SpreadConstraint(1, "zone", True, min_domains=2),
        SpreadConstraint(2, spread_scalar.HOSTNAME, False),
    ),
}
APPS = st.sampled_from(["web", "db", ""])
labels = st.dictionaries(st.sampled_from(["app", "tier"]), APPS, max_size=2)
requirements = st.builds(
    Requirement,
    st.sampled_from(["app", "tier"]),
    st.sampled_from([Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST, Operator.GT]),
    st.lists(APPS, min_size=1, max_size=2).map(tuple),
)
selectors = st.builds(LabelSelector, st.lists(requirements, max_size=2).map(tuple))
namespaces = st.sampled_from(["default", "default", "other"])
keys = st.sampled_from(["zone", "disk", spread_scalar.HOSTNAME])
own_constraints = st.lists(
    st.builds(
        SpreadConstraint,
        st.integers(1, 3),
        keys,
        st.booleans(),
        st.none() | selectors,
        min_domains=st.integers(1, 3),
        honor_node_affinity=st.booleans(),
        honor_node_taints=st.booleans(),
        match_label_keys=st.lists(st.sampled_from(["app", "rev"]), max_size=2, unique=True).map(tuple),
    ),
    max_size=3,
    unique_by=lambda each: (each.topology_key, each.hard),
).map(tuple)


# A strategy that is made anew at each draw is checked anew each time, which costs more than what it draws.
few, one_to_six = st.integers(0, 3), st.integers(1, 6)
ends = st.sampled_from(["", "", "", "2026-01-01T00:00:00Z"])
node_selectors = st.dictionaries(st.just("disk"), st.sampled_from(["a", "b"]), max_size=1)
required = st.none() | st.lists(terms, max_size=2).map(tuple)
tolerated = st.lists(tolerations, max_size=2).map(tuple)
node_taints = st.lists(taints, max_size=1).map(tuple)
kinds = st.sampled_from(["Service", "ReplicaSet"])
selecting = st.builds(LabelSelector, st.lists(requirements, min_size=1, max_size=2).map(tuple))
ITS_OWN = "the node's own name"
node_labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from(["a", "b", "c", ""]),
        spread_scalar.ZONE: st.sampled_from(["a", "b", ""]),
        "disk": st.sampled_from(["a", "b"]),
        spread_scalar.HOSTNAME: st.sampled_from([ITS_OWN, ITS_OWN, ITS_OWN, "shared"]),
    },
)


def a_pod(draw: Draw, name: str) -> Pod:
    return Pod(draw(namespaces), name, f"uid-{name}", 1, labels=draw(labels), deletion_timestamp=draw(ends))


@st.composite
def subjects(draw: st.DrawFn) -> Pod:
    return Pod(
        draw(namespaces),
        "subject",
        "uid-subject",
        labels=draw(labels),
        node_selector=draw(node_selectors),
        required_node_terms=draw(required),
        tolerations=draw(tolerated),
        spread_constraints=draw(own_constraints),
    )


def a_node(draw: Draw, name: str) -> Node:
    found = {key: name if value == ITS_OWN else value for key, value in draw(node_labels).items()}
    return Node(name, labels=found, taints=draw(node_taints))


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeInfo]:
    infos = []
    for row in range(draw(one_to_six)):
        pods = [a_pod(draw, f"b{row}-{number}") for number in range(draw(few))]
        infos.append(NodeInfo.of(a_node(draw, f"n{row}"), pods))
    return infos


@st.composite
def surroundings(draw: st.DrawFn) -> Surroundings:
    around = NOTHING_AROUND
    for name in range(draw(few)):
        around = around.with_object(PodCollection(draw(kinds), draw(namespaces), f"o{name}", draw(selecting)))
    return around


def check(plugin: PodTopologySpread, args: PodTopologySpreadArgs, snapshot: Snapshot, pod: Pod) -> None:
    """The plugin's answers on this snapshot are those of the plain reading."""
    infos = list(snapshot.rows)
    collections = snapshot.surroundings.collections.get(pod.namespace, ())
    hard = spread_scalar.constraints(pod, collections, DEFAULTS[args], hard=True)
    soft = spread_scalar.constraints(pod, collections, DEFAULTS[args], hard=False)
    state = CycleState()
    assert plugin.pre_filter(state, pod, snapshot).status.ok is bool(hard)
    verdicts = plugin.filter(state, pod, snapshot)
    reasons = [spread_scalar.refusal(hard, info, infos) for info in infos]
    found = ["" if verdicts is None else verdicts.at(row).message for row in range(len(infos))]
    assert found == reasons
    for chosen in ([row for row, reason in enumerate(reasons) if not reason], list(range(len(infos)))):
        rows = slice(None) if len(chosen) == len(infos) else np.array(chosen, dtype=np.intp)
        state = CycleState()
        assert plugin.pre_score(state, pod, snapshot, rows).ok is bool(soft)
        if soft:
            every_key = bool(pod.spread_constraints) or args is LIST
            expected = spread_scalar.scores(soft, [infos[row] for row in chosen], infos, every_key=every_key)
            column = plugin.score(state, pod, snapshot, rows)
            assert column.dtype == np.int64
            assert column.tolist() == expected


@in_quarters(300)
@given(clusters(), surroundings(), subjects(), st.sampled_from([SYSTEM, LIST]))
def test_refusals_and_scores_are_those_of_the_plain_reading(
    quarter: int, infos: list[NodeInfo], around: Surroundings, pod: Pod, args: PodTopologySpreadArgs
) -> None:
    check(PodTopologySpread(args), args, Snapshot.of(infos, surroundings=around), pod)


steps = st.sampled_from(["place", "evict", "change", "resize", "only", "around", "again"])


@in_quarters(150)
@given(clusters(), clusters(), surroundings(), st.lists(subjects(), min_size=1, max_size=3), st.data())
def test_snapshots_may_be_asked_for_in_any_order(
    quarter: int,
    infos: list[NodeInfo],
    others: list[NodeInfo],
    around: Surroundings,
    pods: list[Pod],
    data: st.DataObject,
) -> None:
    """Branches with other pods, with other states of the nodes, with other nodes, and one node alone."""
    args = data.draw(st.sampled_from([SYSTEM, LIST]))
    plugin = PodTopologySpread(args)
    snapshots = [Snapshot.of(infos, surroundings=around), Snapshot.of(others)]
    for step in range(8):
        base = data.draw(st.sampled_from(snapshots))
        what = data.draw(steps)
        row = data.draw(st.integers(0, len(base) - 1))
        info = base.rows[row]
        if what == "place":
            base = base.place(a_pod(data.draw, f"s{step}"), info.node.name)
        elif what == "evict":
            base = base.with_pods_changed({row: info.without_pods(list(info.pods)[:1])})
        elif what == "change":
            base = base.with_nodes_changed({row: info.with_node(a_node(data.draw, info.node.name))})
        elif what == "resize" and len(base) > 1:
            added = NodeInfo.of(a_node(data.draw, f"x{step}"), [a_pod(data.draw, f"x{step}")])
            base = base.resized([row], [added])
        elif what == "only":
            base = base.only(info.node.name)
        elif what == "around":
            base = base.at(step, surroundings=data.draw(surroundings()))
        snapshots.append(base)
        pod = data.draw(st.sampled_from(pods))
        check(plugin, args, base, data.draw(st.sampled_from([pod, replace(pod, labels=data.draw(labels))])))
