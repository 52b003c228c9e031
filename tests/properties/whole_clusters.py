"""Random clusters in which everything is at play: terms about pods, spread, priorities, nominations, surroundings.

Made from a seed by plain chance: drawing each field by hypothesis would take longer than deciding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Nominations, Snapshot
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.objects.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    PreferredTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
    WeightedPodAffinityTerm,
)
from wharfinger.objects.model.surroundings import DisruptionBudget, Namespace, PodCollection, Surroundings

HOSTNAME = "kubernetes.io/hostname"
KEYS = ("topology.kubernetes.io/zone", HOSTNAME, "rack")
SPACES = ("a", "b")
GIB = 1 << 30
STARTS = ("", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-02T00:00:00+02:00", "yesterday")


class World:
    """Makes one cluster's things; the same seed makes the same."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self._number = 0

    def often(self, one_in: int) -> bool:
        """Once in so many times."""
        return self.rng.randrange(one_in) == 0

    def selector(self) -> LabelSelector:
        """Over pods' labels; now and then one for everything."""
        if self.often(6):
            return LabelSelector()
        values = (self.rng.choice("xy"),)
        operator = self.rng.choice((Operator.IN, Operator.IN, Operator.NOT_IN, Operator.EXISTS))
        return LabelSelector((Requirement(self.rng.choice(("app", "tier")), operator, values),))

    def term(self) -> PodAffinityTerm:
        """About pods of some namespaces."""
        spaces = None
        if self.often(4):
            env = Requirement("env", Operator.IN, (self.rng.choice("xy"),))
            spaces = LabelSelector(() if self.often(3) else (env,))
        names = frozenset(self.rng.sample(SPACES, self.rng.randrange(1, 3)))
        return PodAffinityTerm(self.rng.choice(KEYS), None if self.often(9) else self.selector(), names, spaces)

    def terms(self, one_in: int) -> tuple[PodAffinityTerm, ...]:
        """One or two, once in so many times."""
        return tuple(self.term() for _ in range(self.rng.randrange(1, 3))) if self.often(one_in) else ()

    def preferences(self) -> tuple[WeightedPodAffinityTerm, ...]:
        """Rarely any."""
        return tuple(WeightedPodAffinityTerm(self.rng.randrange(1, 101), each) for each in self.terms(6))

    def spread(self) -> tuple[SpreadConstraint, ...]:
        """Rarely any."""
        if not self.often(4):
            return ()
        return tuple(
            SpreadConstraint(
                self.rng.randrange(1, 3),
                key,
                hard=self.often(2),
                selector=None if self.often(8) else self.selector(),
                min_domains=self.rng.randrange(1, 4),
                honor_node_affinity=not self.often(3),
                honor_node_taints=self.often(3),
                match_label_keys=("tier",) if self.often(4) else (),
            )
            for key in self.rng.sample(KEYS, self.rng.randrange(1, 3))
        )

    def node_terms(self) -> tuple[NodeSelectorTerm, ...]:
        """On labels, or on names."""
        if self.often(3):
            names = tuple(self.rng.sample(("n0", "n1", "n2", "elsewhere"), 2))
            return (NodeSelectorTerm(fields=(Requirement("metadata.name", Operator.IN, names),)),)
        zones = (self.rng.choice("pq"),)
        return (NodeSelectorTerm((Requirement(KEYS[0], self.rng.choice((Operator.IN, Operator.NOT_IN)), zones),)),)

    def pod(self, on: str = "") -> Pod:
        """Bound to the node, or pending."""
        self._number += 1
        cpu = self.rng.choice((0, 500, 1000, 2000))
        return Pod(
            self.rng.choice(SPACES),
            f"p{self._number}",
            f"uid-{self._number}",
            create_revision=self._number,
            labels={key: self.rng.choice("xy") for key in ("app", "tier") if not self.often(3)},
            priority=self.rng.choice((-5, 0, 0, 5, 10)),
            preemption_policy="Never" if self.often(8) else "PreemptLowerPriority",
            node_name=on,
            deletion_timestamp="2026-01-03T00:00:00Z" if on and self.often(8) else "",
            disruption_target=self.often(8),
            start_time=self.rng.choice(STARTS) if on else "",
            requests={
                name: amount for name, amount in (("cpu", cpu), ("example.com/gpu", int(self.often(6)))) if amount
            },
            scoring_cpu=cpu or 100,
            scoring_memory=200 << 20,
            host_ports=(HostPort("TCP", self.rng.choice(("0.0.0.0", "10.0.0.1")), 80),) if self.often(8) else (),
            node_selector={KEYS[0]: self.rng.choice("pq")} if self.often(8) else {},
            required_node_terms=self.node_terms() if self.often(6) else None,
            preferred_node_terms=tuple(PreferredTerm(7, each) for each in self.node_terms()) if self.often(5) else (),
            tolerations=(Toleration("k", "Exists"),) if self.often(4) else (),
            required_affinity=self.terms(8),
            required_anti_affinity=self.terms(6),
            preferred_affinity=self.preferences(),
            preferred_anti_affinity=self.preferences(),
            spread_constraints=self.spread(),
            images=(self.rng.choice(("app:1", "app")),) if self.often(2) else (),
        )

    def node(self, name: str) -> Node:
        """With room for a few pods."""
        labels = {KEYS[0]: self.rng.choice("pq"), HOSTNAME: name, "rack": self.rng.choice("rs")}
        effect = self.rng.choice(("NoSchedule", "PreferNoSchedule"))
        return Node(
            name,
            create_revision=self.rng.randrange(100),
            labels={key: value for key, value in labels.items() if not self.often(6)},
            taints=(Taint("k", "v", effect),) if self.often(5) else (),
            unschedulable=self.often(9),
            allocatable={
                "cpu": self.rng.choice((2000, 4000)),
                "memory": 8 * GIB,
                "pods": self.rng.randrange(2, 6),
                "example.com/gpu": self.rng.randrange(3),
            },
            images={"app:1": 700 << 20, "app:latest": 300 << 20} if self.often(3) else {},
        )

    def info(self, name: str) -> NodeInfo:
        """A node and the pods on it."""
        return NodeInfo.of(self.node(name), [self.pod(on=name) for _ in range(self.rng.randrange(5))])

    def surroundings(self) -> Surroundings:
        """Namespaces, services and budgets."""
        around = Surroundings()
        for space in SPACES:
            if not self.often(3):
                around = around.with_object(Namespace(space, {"env": self.rng.choice("xy")}))
            if self.often(2):
                around = around.with_object(PodCollection("Service", space, "s", _app(self.rng.choice("xy"))))
            for number in range(self.rng.randrange(3)):
                allowed = self.rng.randrange(2)
                around = around.with_object(DisruptionBudget(space, f"b{number}", self.selector(), allowed))
        return around

    def nominations(self, names: tuple[str, ...]) -> Nominations:
        """Often none."""
        found: Mapping[str, tuple[Pod, ...]] = {
            name: (replace(self.pod(), nominated_node_name=name),) for name in names if self.often(5)
        }
        return found

    def _new_name(self) -> str:
        self._number += 1
        return f"m{self._number}"

    def snapshot(self) -> Snapshot:
        """A cluster of up to five nodes, perhaps none."""
        names = tuple(f"n{row}" for row in range(self.rng.randrange(6)))
        return Snapshot.of(map(self.info, names), surroundings=self.surroundings(), nominated=self.nominations(names))

    def changed(self, snapshot: Snapshot) -> Snapshot:
        """Something happened."""
        if not len(snapshot) or self.often(6):
            return snapshot.resized((), [self.info(self._new_name())])
        row = self.rng.randrange(len(snapshot))
        info = snapshot.rows[row]
        name = info.node.name
        match self.rng.randrange(9):
            case 0 | 1:
                return snapshot.place(self.pod(on=name), name)
            case 2:
                return snapshot.with_pods_changed({row: info.without_pods(list(info.pods)[:1])})
            case 3:
                return snapshot.with_nodes_changed({row: info.with_node(self.node(name))})
            case 4:
                gone = {row} if self.often(2) else {row, 0}
                return snapshot.resized(gone, [self.info(self._new_name())] if self.often(2) else [])
            case 5:
                return snapshot.at(snapshot.revision + 1, surroundings=self.surroundings())
            case 6:
                return snapshot.at(snapshot.revision + 1, nominated=self.nominations(snapshot.names))
            case 7:
                older = [replace(pod, labels={"app": "x"}) for pod in list(info.pods.values())[:1]]
                return snapshot.with_pods_changed({row: info.with_pod(older[0])}) if older else snapshot
            case _:
                return snapshot.only(name)


def _app(value: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (value,)),))
