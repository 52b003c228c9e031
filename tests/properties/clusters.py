"""Random clusters and pods, small numbers so that everything collides."""

from __future__ import annotations

from hypothesis import strategies as st

from wharfinger.framework.node_info import NodeInfo
from wharfinger.model.node import Node
from wharfinger.model.pod import HostPort, Pod
from wharfinger.model.selectors import NodeSelectorTerm, Operator, PreferredTerm, Requirement, Taint, Toleration

MIB = 1 << 20
GPU = "example.com/gpu"

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


@st.composite
def pods(draw: st.DrawFn, name: str = "p") -> Pod:
    requests = draw(amounts)
    return Pod(
        namespace="default",
        name=name,
        uid=draw(st.uuids()).hex,
        requests=requests,
        scoring_cpu=requests.get("cpu", 100),
        scoring_memory=requests.get("memory", 200 * MIB),
        host_ports=draw(st.lists(host_ports, max_size=2).map(tuple)),
        node_selector=draw(st.dictionaries(label_keys, label_values, max_size=1)),
        required_node_terms=draw(st.none() | st.lists(terms, max_size=2).map(tuple)),
        preferred_node_terms=draw(st.lists(st.builds(PreferredTerm, st.integers(0, 50), terms), max_size=2).map(tuple)),
        tolerations=draw(st.lists(tolerations, max_size=2).map(tuple)),
        node_name=draw(st.sampled_from(["", "", "", "n1"])),
    )


@st.composite
def nodes(draw: st.DrawFn, name: str = "n") -> Node:
    room = {"cpu": st.sampled_from([0, 1500, 4000]), "memory": st.sampled_from([0, 2000 * MIB, 7777 * MIB])}
    extra = {"ephemeral-storage": st.integers(0, 5), GPU: st.integers(0, 3)}
    return Node(
        name,
        labels=draw(st.dictionaries(label_keys, label_values, max_size=3)),
        taints=draw(st.lists(taints, max_size=2).map(tuple)),
        unschedulable=draw(st.sampled_from([False, False, False, True])),
        allocatable=draw(st.fixed_dictionaries({**room, "pods": st.integers(0, 5)}, optional=extra)),
    )


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeInfo]:
    infos = []
    for row in range(draw(st.integers(1, 5))):
        bound = [draw(pods(f"b{row}-{number}")) for number in range(draw(st.integers(0, 3)))]
        infos.append(NodeInfo.of(draw(nodes(f"n{row}")), bound))
    return infos
