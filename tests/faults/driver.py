"""What users do all the while: put, delete, re-create and relabel pods and nodes, at random, in etcd.

It knows the cluster as any client does, by a watch (the recorder's), so it is often late; compare-and-set sees to it
that it never takes back what a bind wrote.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tests.faults.history import Change
from tests.faults.judge import GROUP
from tests.faults.population import TAINT, ZONE, ZONES, Object, Population
from tests.faults.recorder import Recorder
from tests.faults.writer import Away, Background, Writer
from tests.integration.gateway import NODES, PODS

FEWEST_NODES, MOST_NODES = 10, 22
MOST_PODS = 450
BULK, GANGS = "/bulk/", "/gangs/"
CALM = frozenset({"apart", "spread", "together", "hosts", "far"})
"""Where a user's change may excuse a broken rule: it comes seldom there, or the judge would see little."""


class Driver(Background):
    """A thread that acts some times a second."""

    def __init__(
        self, url: str, recorder: Recorder, seed: int, *, per_second: float = 15.0, losing: bool = False
    ) -> None:
        """`losing`: many nodes are deleted, and as many come."""
        self._rng = Random(f"driver {seed}")
        self._population = Population(self._rng)
        self._recorder = recorder
        self._writer = Writer(url)
        self._pause = 1 / per_second
        super().__init__("driver")
        self._actions: dict[Callable[[], object], float] = {
            self._one_pod: 10,
            self._burst: 0.35,
            self._rule_burst: 0.8,
            self._gang: 1.2,
            self._gangs: 0.15,
            self._delete_pod: 5,
            self._again: 2,
            self._touch: 1.5,
            self._relabel: 0.5,
            self._open_gate: 0.7,
            self._tolerate: 0.5,
            self._new_node: 0.25,
            self._delete_node: 0.15,
            self._node_again: 0.4,
            self._grow: 0.4,
            self._shrink: 0.15,
            self._cordon: 0.4,
            self._taint: 0.2,
            self._move: 0.08,
        }
        if losing:
            self._actions |= {self._delete_node: 0.6, self._new_node: 0.6}
        self.acted = 0

    def begin(self, nodes: int = 14) -> None:
        """The cluster that a round begins with, and the first burst."""
        self._writer.create(*(self._population.node() for _ in range(nodes)))
        self._burst()

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            action = self._rng.choices(list(self._actions), list(self._actions.values()))[0]
            try:
                action()
                self.acted += 1
            except Away:
                self._stop.wait(0.2)

    # --- pods ---------------------------------------------------------------------------------

    def _one_pod(self) -> None:
        self._writer.create(self._population.pod())

    def _burst(self) -> None:
        self._writer.create(*self._population.burst())

    def _rule_burst(self) -> None:
        self._writer.create(*self._population.rule_burst())

    def _gang(self) -> None:
        self._writer.create(*self._population.gang())

    def _gangs(self) -> None:
        """Several at once that compete for room."""
        for _ in range(self._rng.randint(3, 8)):
            self._writer.create(*self._population.gang())

    def _delete_pod(self) -> None:
        """One of any kind; when there are many, a gang and many of the plain ones."""
        there = self._recorder.latest(PODS)
        if self._rng.random() < 0.03:
            self._clear(there)
        if len(there) > MOST_PODS:
            for change in self._some([change for change in there if BULK in change.key], len(there) - MOST_PODS + 20):
                self._writer.delete(change)
            for change in self._some([change for change in there if GANGS in change.key], 1):
                self._delete_gang(change, there)
        self._delete_one(there)

    def _clear(self, there: list[Change]) -> None:
        """Room for new ones where a rule is scarce: all of a namespace leave at once, as when it is torn down."""
        namespace = self._rng.choice(("apart", "spread", "together", "hosts", "guests", "far", "ports"))
        for change in there:
            if change.key.startswith(f"{PODS}{namespace}/"):
                self._writer.delete(change)

    def _delete_one(self, there: list[Change]) -> None:
        for change in self._some(there, 1):
            namespace = change.key.split("/")[3]
            if namespace == "gangs":
                self._delete_gang(change, there)
            elif namespace not in CALM or self._rng.random() < 0.15:
                self._writer.delete(change)

    def _delete_gang(self, member: Change, there: list[Change]) -> None:
        """As a job ends: all of it."""
        group = _object(member)["metadata"]["labels"][GROUP]
        for change in there:
            if GANGS in change.key and _object(change)["metadata"]["labels"][GROUP] == group:
                self._writer.delete(change)

    def _again(self) -> None:
        """The same name in a new life, at once."""
        for change in self._some(self._recorder.latest(PODS), 1):
            if self._writer.delete(change):
                self._writer.create(self._population.again(_object(change)))

    def _touch(self) -> None:
        """A label that no rule reads."""
        for change in self._some(self._recorder.latest(PODS), 1):
            pod = _object(change)
            pod["metadata"].setdefault("labels", {})["touched"] = str(self._rng.randrange(1000))
            self._writer.replace(change, pod)

    def _relabel(self) -> None:
        """A label that rules read."""
        there = [change for change in self._recorder.latest(PODS) if "/guests/" in change.key]
        for change in self._some(there, 1):
            pod = _object(change)
            pod["metadata"]["labels"]["noisy"] = self._rng.choice(("yes", "no"))
            self._writer.replace(change, pod)

    def _open_gate(self) -> None:
        for change in self._recorder.latest(PODS):
            pod = _object(change)
            if pod["spec"].pop("schedulingGates", None):
                self._writer.replace(change, pod)
                return

    def _tolerate(self) -> None:
        """What Kubernetes lets users change of a pending pod."""
        for change in self._some(self._recorder.latest(PODS), 1):
            pod = _object(change)
            if not pod["spec"].get("nodeName"):
                pod["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
                self._writer.replace(change, pod)

    # --- nodes --------------------------------------------------------------------------------

    def _new_node(self) -> None:
        if len(self._recorder.latest(NODES)) < MOST_NODES:
            self._writer.create(self._population.node())

    def _delete_node(self) -> None:
        there = self._recorder.latest(NODES)
        if len(there) > FEWEST_NODES:
            self._writer.delete(self._rng.choice(there))

    def _node_again(self) -> None:
        """The same name, another machine."""
        for change in self._some(self._recorder.latest(NODES), 1):
            if self._writer.delete(change):
                self._writer.create(self._population.node(_object(change)["metadata"]["name"]))

    def _grow(self) -> None:
        self._resize((1, 2, 4))

    def _shrink(self) -> None:
        """Also below what is there: no pod may be added then."""
        self._resize((-1, -2, -4))

    def _resize(self, by: tuple[int, ...]) -> None:
        def change(node: Object) -> None:
            allocatable = node["status"]["allocatable"]
            allocatable["cpu"] = str(min(24, max(1, int(allocatable["cpu"]) + self._rng.choice(by))))

        self._change_node(change)

    def _cordon(self) -> None:
        def change(node: Object) -> None:
            if not node["spec"].pop("unschedulable", False) and self._rng.random() < 0.5:
                node["spec"]["unschedulable"] = True

        self._change_node(change)

    def _taint(self) -> None:
        def change(node: Object) -> None:
            if not node["spec"].pop("taints", None):
                node["spec"]["taints"] = [TAINT]

        self._change_node(change)

    def _move(self) -> None:
        """To another zone, with all that is on it."""

        def change(node: Object) -> None:
            node["metadata"]["labels"][ZONE] = self._rng.choice(ZONES)

        self._change_node(change)

    def _change_node(self, edit: Callable[[Object], None]) -> None:
        for change in self._some(self._recorder.latest(NODES), 1):
            node = _object(change)
            edit(node)
            self._writer.replace(change, node)

    def _some(self, changes: list[Change], count: int) -> list[Change]:
        return self._rng.sample(changes, min(count, len(changes)))


def _object(change: Change) -> Any:
    assert change.value is not None
    return json.loads(change.value)
