"""Judges etcd's history: did any bind of ours break what holds at every revision?

The invariants of the design, each under the name it is reported by:

    bound-once      a pod gets one node in its life
    node-there      ... which exists
    node-allows     ... and wants it: labels, taints, not cordoned
    room, ports     what our binds put there is within allocatable, pod count and host ports
    anti-affinity, affinity, spread    rules across nodes (`rules`)
    gang            members of a pod group are bound all or none
    evicted         who leaves does so for a more important pod (`evictions`)
    ours            pods of other schedulers, gated and leaving ones are left alone
    requeued        only pods of absent nodes get another life, and all of those do (`requeues`)

A bind is judged at its own revision. What users do later (a node that shrinks, a label that goes) is not our doing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.faults.evictions import Evictions
from tests.faults.history import Revision
from tests.faults.ledger import Ledger, PodChange
from tests.faults.requeues import Requeues
from tests.faults.rules import breaches, selected, tolerated
from wharfinger.objects.model.node import PODS, Node
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod, PodKey
from wharfinger.objects.model.selectors import Taint, tolerates

GROUP = "pod-group.scheduling.sigs.k8s.io/name"
MIN_AVAILABLE = "pod-group.scheduling.sigs.k8s.io/min-available"
CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
SOON = 500
"""Revisions."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold."""

    invariant: str
    revision: int
    """0: at the end, not at one revision."""
    text: str

    def __str__(self) -> str:
        return f"{self.invariant}{f' at {self.revision}' if self.revision else ''}: {self.text}"


@dataclass(slots=True)
class Judge:
    """Takes the revisions in order."""

    known_since: Callable[[float], float] = lambda moment: moment - 2.0
    """Of what happened before, every worker that binds at that moment is sure to know."""
    ledger: Ledger = field(default_factory=Ledger)
    violations: list[Violation] = field(default_factory=list)
    binds: int = 0
    evictions: int = 0
    excused: int = 0
    """Rules that users broke while a bind was on its way."""
    on_new_nodes: list[tuple[Pod, Node]] = field(default_factory=list)
    """Pods bound to a node soon after it was made again: was it decided for this life of the node (`decisions`)?"""
    _known: set[str] = field(default_factory=set)
    """Nodes that had a life before the present one."""
    requeues: Requeues = field(default_factory=Requeues)
    _evictions: Evictions = field(default_factory=Evictions)
    _ours: dict[PodKey, int] = field(default_factory=dict)
    """Pods that were bound in front of us, with the life they had."""

    def take_all(self, revisions: Iterable[Revision]) -> Judge:
        for revision in revisions:
            self.take(revision)
        return self

    def take(self, revision: Revision) -> None:
        """Judge one revision."""
        bound: list[Pod] = []
        before = set(self.ledger.nodes)
        pods = self.ledger.apply(revision)
        self._known |= before - set(self.ledger.nodes)
        for text in self.requeues.take(revision, pods, before, self.ledger.pods):
            self._say("requeued", text)
        for change in pods:
            self._moved(change)
            self._evictions.take(change, self.ledger.time)
            if change.is_bind and change.after is not None and change.before is not None:
                self._ours[change.after.key] = change.after.create_revision
                bound.append(change.after)
                self._may_be_bound(change.before)
        self.binds += len(bound)
        since = self.known_since(self.ledger.time)
        for change in pods:
            self.evictions += change.is_eviction
            victim = self._evictions.unfounded(change, since)
            if victim is not None:
                self._say("evicted", f"{victim.key} of priority {victim.priority} has to leave {victim.node_name}")
        for pod in bound:
            self._on_node(pod)
        for name in {pod.node_name for pod in bound}:
            self._room(name, [pod for pod in bound if pod.node_name == name])
        self._rules(bound, since)
        self._gangs(bound)

    def _say(self, invariant: str, text: str) -> None:
        self.violations.append(Violation(invariant, self.ledger.revision, text))

    def _moved(self, change: PodChange) -> None:
        before, after = change.before, change.after
        if before is None or after is None or before.identity != after.identity:
            return
        if before.node_name and before.node_name != after.node_name:
            self._say("bound-once", f"{after.key} had {before.node_name} and gets {after.node_name or 'no node'!r}")

    def _may_be_bound(self, pod: Pod) -> None:
        if pod.scheduler_name != DEFAULT_SCHEDULER:
            self._say("ours", f"{pod.key} is {pod.scheduler_name}'s")
        if pod.scheduling_gates or pod.deletion_timestamp or pod.finished:
            self._say("ours", f"{pod.key} is gated, leaving or finished")

    def _on_node(self, pod: Pod) -> None:
        node = self.ledger.nodes.get(pod.node_name)
        if node is None:
            self._say("node-there", f"{pod.key} on {pod.node_name}")
            return
        if node.name in self._known and self.ledger.revision - node.create_revision < SOON:
            self.on_new_nodes.append((pod, node))
        cordoned = node.unschedulable and not tolerates(pod.tolerations, CORDONED)
        if cordoned or not selected(pod, node) or not tolerated(pod, node):
            why = "cordoned" if cordoned else "tainted" if not tolerated(pod, node) else "not selected"
            self._say("node-allows", f"{pod.key} on {node.name}, which is {why}")

    def _room(self, name: str, new: list[Pod]) -> None:
        node = self.ledger.nodes.get(name)
        if node is None:
            return
        there = [
            pod
            for key in self.ledger.on[name]
            if not (pod := self.ledger.pods[key]).finished and self._ours.get(key) == pod.create_revision
        ]
        used = Counter({PODS: len(there)})
        for pod in there:
            used.update(pod.requests)
        asked = {PODS, *(resource for pod in new for resource, amount in pod.requests.items() if amount)}
        for resource in sorted(asked):
            if used[resource] > node.allocatable.get(resource, 0):
                self._too_much(node, resource, used[resource], new)
        ports = [(pod.key, port) for pod in there for port in pod.host_ports]
        for index, (key, port) in enumerate(ports):
            for other, its in ports[:index]:
                if other != key and port.conflicts(its):
                    self._say("ports", f"{key} and {other} both have {port.protocol} {port.port} of {name}")

    def _too_much(self, node: Node, resource: str, used: int, new: list[Pod]) -> None:
        names = ", ".join(str(pod.key) for pod in new)
        self._say("room", f"{names}: {node.name} holds {used} of {node.allocatable.get(resource, 0)} {resource}")

    def _rules(self, bound: list[Pod], since: float) -> None:
        """Pods of one transaction were placed one after the other: some order must do."""
        left = {pod.key: pod for pod in bound}
        while left:
            fine = None
            for key, pod in left.items():
                found = breaches(self.ledger, pod, since, without=left.keys() - {key})
                if all(breach.excused for breach in found):
                    fine = key
                    self.excused += len(found)
                    break
            if fine is None:
                break
            del left[fine]
        for key, pod in left.items():
            for breach in breaches(self.ledger, pod, since, without=left.keys() - {key}):
                if not breach.excused:
                    self._say(breach.invariant, breach.text)

    def _gangs(self, bound: list[Pod]) -> None:
        touched = {(pod.namespace, name) for pod in bound if (name := pod.labels.get(GROUP))}
        for namespace, name in sorted(touched - self.requeues.gangs):
            members = [
                pod
                for pod in self.ledger.pods.values()
                if pod.namespace == namespace and pod.labels.get(GROUP) == name and pod.bound
            ]
            wanted = max((int(pod.labels.get(MIN_AVAILABLE, "1")) for pod in members), default=1)
            if len(members) < wanted:
                self._say("gang", f"{len(members)} members of {namespace}/{name} are bound, {wanted} or none would be")
