"""Random clusters and pods, small numbers so that everything collides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from wharfinger.framework.node_info import NodeInfo
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.objects.model.selectors import NodeSelectorTerm, Operator, PreferredTerm, Requirement, Taint, Toleration

MIB = 1 << 20
GPU = "example.com/gpu"

Draw = Callable[[st.SearchStrategy[Any]], Any]
"""Of a strategy; `st.DrawFn`, or that of `st.data()`."""

label_keys = st.sampled_from(["zone", "disk", "gen"])
label_values = st.sampled_from(["a", "b", "1", "2", "10"])
effects = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
taints = st.builds(Taint, st.sampled_from(["k1", "k2"]), st.sampled_from(["", "v"]), effects)
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "k1", "k2", "node.kubernetes.io/unschedulable"]),
    st.sampled_from(["Equal", "Exists", ""]),
    st.sampled_from(["", "v"]),
    st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
)
host_ports = st.builds(
    HostPort, st.sampled_from(["TCP", "UDP"]), st.sampled_from(["0.0.0.0", "10.0.0.1"]), st.integers(80, 82)
)
requirements = st.builds(
    Requirement, label_keys, st.sampled_from(list(Operator)), st.lists(label_values, max_size=2).map(tuple)
)
name_requirements = st.builds(
    Requirement,
    st.just("metadata.name"),
    st.sampled_from([Operator.IN, Operator.NOT_IN]),
    st.lists(st.sampled_from(["n0", "n1", "n2", "elsewhere"]), min_size=1, max_size=2).map(tuple),
)
terms = st.builds(
    NodeSelectorTerm,
    st.lists(requirements, max_size=2).map(tuple),
    st.lists(name_requirements, max_size=1).map(tuple),
)
amounts = st.fixed_dictionaries(
    {},
    optional={
        "cpu": st.integers(0, 5) .map(lambda n: n * 700),
        "memory": st.integers(0, 5).map(lambda n: n * 900 * MIB),
        "ephemeral-storage": st.integers(0, 3),
        GPU: st.integers(0, 2),
    },
)  # fmt: skip


# A strategy that is made anew at each draw is checked anew each time, which costs more than what it draws.
uids = st.uuids()
few_host_ports = st.lists(host_ports, max_size=2).map(tuple)
node_selectors = st.dictionaries(label_keys, label_values, max_size=1)
required_terms = st.none() | st.lists(terms, max_size=2).map(tuple)
preferred_terms = st.lists(st.builds(PreferredTerm, st.integers(0, 50), terms), max_size=2).map(tuple)
few_tolerations = st.lists(tolerations, max_size=2).map(tuple)
node_names = st.sampled_from(["", "", "", "n1"])
node_labels = st.dictionaries(label_keys, label_values, max_size=3)
few_taints = st.lists(taints, max_size=2).map(tuple)
cordoned = st.sampled_from([False, False, False, True])
rooms = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([0, 1500, 4000]),
        "memory": st.sampled_from([0, 2000 * MIB, 7777 * MIB]),
        "pods": st.integers(0, 5),
    },
    optional={"ephemeral-storage": st.integers(0, 5), GPU: st.integers(0, 3)},
)
up_to_three, up_to_five = st.integers(0, 3), st.integers(1, 5)


def a_pod(draw: Draw, name: str = "p") -> Pod:
    requests = draw(amounts)
    return Pod(
        namespace="default",
        name=name,
        uid=draw(uids).hex,
        requests=requests,
        scoring_cpu=requests.get("cpu", 100),
        scoring_memory=requests.get("memory", 200 * MIB),
        host_ports=draw(few_host_ports),
        node_selector=draw(node_selectors),
        required_node_terms=draw(required_terms),
        preferred_node_terms=draw(preferred_terms),
        tolerations=draw(few_tolerations),
        node_name=draw(node_names),
    )


def a_node(draw: Draw, name: str = "n") -> Node:
    return Node(
        name,
        labels=draw(node_labels),
        taints=draw(few_taints),
        unschedulable=draw(cordoned),
        allocatable=draw(rooms),
    )


pods, nodes = st.composite(a_pod), st.composite(a_node)


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeInfo]:
    infos = []
    for row in range(draw(up_to_five)):
        bound = [a_pod(draw, f"b{row}-{number}") for number in range(draw(up_to_three))]
        infos.append(NodeInfo.of(a_node(draw, f"n{row}"), bound))
    return infos
