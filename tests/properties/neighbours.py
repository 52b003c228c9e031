"""Random clusters whose pods have terms about each other, and a plain reading of what these terms mean.

The reading asks every pod anew for every node, and shares nothing with the plugin but the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st

from tests.properties.clusters import Draw, uids, up_to_five, up_to_three
from wharfinger.framework.node_info import NodeInfo
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import (
    LabelSelector,
    Operator,
    PodAffinityTerm,
    Requirement,
    WeightedPodAffinityTerm,
)
from wharfinger.objects.model.surroundings import Namespace, Surroundings

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"

spaces = st.sampled_from(["a", "b", "c"])
pod_labels = st.dictionaries(st.sampled_from(["app", "tier"]), st.sampled_from(["x", "y"]), max_size=2)
node_labels = st.fixed_dictionaries(
    {}, optional={"zone": st.sampled_from(["z0", "z1"]), "host": st.sampled_from(["h0", "h1", "h2", "h3"])}
)


def requirements(keys: st.SearchStrategy[str]) -> st.SearchStrategy[Requirement]:
    values = st.lists(st.sampled_from(["x", "y"]), min_size=1, max_size=2).map(tuple)
    lists = st.builds(Requirement, keys, st.sampled_from([Operator.IN, Operator.NOT_IN]), values)
    return lists | st.builds(Requirement, keys, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST]))


def selectors(keys: st.SearchStrategy[str]) -> st.SearchStrategy[LabelSelector]:
    return st.builds(LabelSelector, st.lists(requirements(keys), max_size=2).map(tuple))


terms = st.builds(
    PodAffinityTerm,
    st.sampled_from(["zone", "host", "rack"]),
    st.none() | selectors(st.sampled_from(["app", "tier"])),
    st.frozensets(spaces, max_size=2),
    st.none() | selectors(st.just("env")),
)
simple_terms = st.builds(
    PodAffinityTerm,
    st.sampled_from(["zone", "host"]),
    st.sampled_from(["x", "y"]).map(lambda value: LabelSelector((Requirement("app", Operator.IN, (value,)),))),
    st.just(frozenset("abc")),
)
some_terms = st.lists(simple_terms | terms, max_size=2).map(tuple)
few_terms = st.just(()) | some_terms
weighted = st.lists(st.builds(WeightedPodAffinityTerm, st.integers(1, 100), simple_terms | terms), max_size=2).map(
    tuple
)
surroundings = st.dictionaries(
    spaces, st.dictionaries(st.just("env"), st.sampled_from(["x", "y"]), max_size=1), max_size=3
).map(lambda known: Surroundings({name: Namespace(name, labels) for name, labels in known.items()}))


def a_pod(draw: Draw, name: str = "p") -> Pod:
    return Pod(
        draw(spaces),
        name,
        draw(uids).hex,
        labels=draw(pod_labels),
        required_affinity=draw(few_terms),
        required_anti_affinity=draw(few_terms),
        preferred_affinity=draw(weighted),
        preferred_anti_affinity=draw(weighted),
    )


def a_node(draw: Draw, name: str) -> Node:
    return Node(name, labels=draw(node_labels), allocatable={"pods": 100})


pods = st.composite(a_pod)


@st.composite
def clusters(draw: st.DrawFn) -> list[NodeInfo]:
    return [
        NodeInfo.of(
            a_node(draw, f"n{row}"),
            [a_pod(draw, f"b{row}-{number}").on(f"n{row}") for number in range(draw(up_to_three))],
        )
        for row in range(draw(up_to_five))
    ]


class Reading:
    """What the terms mean for one pod in one cluster."""

    def __init__(self, pod: Pod, infos: Sequence[NodeInfo], around: Surroundings) -> None:
        self.pod = pod
        self.infos = infos
        self.around = around

    def means(self, term: PodAffinityTerm, other: Pod) -> bool:
        """Whether a term of the pod means another pod; only namespaces that there are can be selected."""
        space = self.around.namespaces.get(other.namespace)
        selected = term.namespace_selector is not None and (
            not term.namespace_selector.requirements
            or (space is not None and term.namespace_selector.matches(space.labels))
        )
        meant = other.namespace in term.namespaces or selected
        return meant and term.selector is not None and term.selector.matches(other.labels)

    def meant_by(self, term: PodAffinityTerm) -> bool:
        """Whether a term of a placed pod means the pod."""
        labels = self.around.namespace_labels(self.pod.namespace)
        return term.selects(self.pod.namespace, labels, self.pod.labels)

    def near(self, info: NodeInfo, key: str) -> list[Pod]:
        """Pods in the node's domain; none when it lies in none."""
        value = info.node.labels.get(key)
        if value is None:
            return []
        return [pod for each in self.infos if each.node.labels.get(key) == value for pod in each.pods.values()]

    def refusal(self, info: NodeInfo) -> str | None:
        """The reason, in the order in which kube-scheduler looks for one."""
        if not self._affinity_holds(info):
            return AFFINITY
        for term in self.pod.required_anti_affinity:
            if any(self.means(term, other) for other in self.near(info, term.topology_key)):
                return ANTI_AFFINITY
        for other in (pod for each in self.infos for pod in each.pods.values()):
            for term in other.required_anti_affinity:
                if self.meant_by(term) and any(other is each for each in self.near(info, term.topology_key)):
                    return EXISTING
        return None

    def _affinity_holds(self, info: NodeInfo) -> bool:
        wanted = self.pod.required_affinity
        if any(term.topology_key not in info.node.labels for term in wanted):
            return False

        def satisfies(other: Pod) -> bool:
            return all(self.means(term, other) for term in wanted)

        if all(any(satisfies(other) for other in self.near(info, term.topology_key)) for term in wanted):
            return True
        elsewhere = any(
            satisfies(other) for each in self.infos for term in wanted for other in self.near(each, term.topology_key)
        )
        return not elsewhere and satisfies(self.pod)

    def weight(self, info: NodeInfo, hard_weight: int, ignore: bool) -> int:
        """What the preferences sum up to on one node."""
        pod = self.pod
        if ignore and not pod.preferred_affinity and not pod.preferred_anti_affinity:
            return 0
        total = self._own(info, pod.preferred_affinity) - self._own(info, pod.preferred_anti_affinity)
        for key in ("zone", "host", "rack"):
            for other in self.near(info, key):
                for term in other.required_affinity:
                    total += hard_weight if term.topology_key == key and self.meant_by(term) else 0
                total += self._theirs(key, other.preferred_affinity) - self._theirs(key, other.preferred_anti_affinity)
        return total

    def _own(self, info: NodeInfo, preferences: Iterable[WeightedPodAffinityTerm]) -> int:
        return sum(
            each.weight
            for each in preferences
            for other in self.near(info, each.term.topology_key)
            if self.means(each.term, other)
        )

    def _theirs(self, key: str, preferences: Iterable[WeightedPodAffinityTerm]) -> int:
        return sum(each.weight for each in preferences if each.term.topology_key == key and self.meant_by(each.term))

    def scores(self, among: Sequence[NodeInfo], hard_weight: int, ignore: bool) -> list[int]:
        """Normalised over these nodes."""
        raw = [self.weight(info, hard_weight, ignore) for info in among]
        lowest, highest = min(raw), max(raw)
        if lowest == highest:
            return [0] * len(raw)
        return [int(100.0 * (float(each - lowest) / float(highest - lowest))) for each in raw]
