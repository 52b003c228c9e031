"""Judges a scheduler by etcd's revision history: was a pod lost, bound twice, or a node overcommitted?

Replays every revision in order. Nothing of it comes from the memory of a process that took part, so it holds
whatever was killed in between. The history must still be there: etcd compacts what is older than it is told
to keep.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue, Store, WatchBatch
from wharfinger.objects.documents.formats import KUBERNETES, ObjectFormat, format_of
from wharfinger.objects.model.conditions import UNSCHEDULABLE
from wharfinger.objects.model.node import PODS, Node
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.records import AttemptRecord


@dataclass(frozen=True, slots=True)
class Audit:
    """The judgement, as of one revision."""

    revision: int
    pods: int
    """Pods there are."""
    bound: int
    waiting: Mapping[PodKey, AttemptRecord]
    """Pods that were refused and wait, with the record of the last attempt."""
    attempts: int
    """Attempts of single pods that left their mark in etcd: by a bind, or by a record."""
    lost: tuple[PodKey, ...]
    """Neither bound, nor gated, nor waiting with a record of this life."""
    doubled: tuple[PodKey, ...]
    """Got a second node in one life."""
    overcommitted: tuple[str, ...]
    """Nodes that a bind put beyond allocatable, pod count or host ports, at any revision; or that were not there."""

    @property
    def sound(self) -> bool:
        """Nothing lost, doubled or overcommitted."""
        return not (self.lost or self.doubled or self.overcommitted)

    def reasons(self) -> dict[str, int]:
        """Waiting pods by why they wait, most frequent first."""
        return dict(Counter(reason_of(record) for record in self.waiting.values()).most_common())


def reason_of(record: AttemptRecord) -> str:
    """The refusal without its numbers, so that equal pods on a changing cluster have equal reasons."""
    if record.reason != UNSCHEDULABLE:
        return record.reason
    _, _, details = record.message.partition(" nodes are available: ")
    reasons = re.findall(r"\d+ ([^,]+)", details.split(". ")[0].rstrip("."))
    return ", ".join(sorted(reasons)) or record.message or record.reason


async def audit(store: Store, first_revision: int) -> Audit:
    """Replay everything from `first_revision` up to now.

    What was there before is not seen: begin before the first object was put. Raises `Compacted` when the
    history does not reach back that far.
    """
    return (await replayed(store, first_revision)).judge()


async def replayed(store: Store, first_revision: int) -> Ledger:
    """The ledger after everything from `first_revision` up to now; as `audit`."""
    last = (await store.get(keys.INSTALLATION)).revision
    ledger = Ledger(format=format_of(store.format))
    if last >= first_revision:
        async with store.watch(keys.ROOT, first_revision) as batches:
            async for batch in batches:
                ledger.apply(batch)
                if batch.revision >= last:
                    break
    return ledger


@dataclass(slots=True)
class Ledger:
    """The state of the cluster at one revision, and what went wrong on the way there.

    Also followed live, to know how far a cluster is: `bound`, `waiting`.
    """

    revision: int = 0
    format: ObjectFormat = KUBERNETES
    """Of the cluster's objects."""
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[PodKey, Pod] = field(default_factory=dict)
    records: dict[PodKey, AttemptRecord] = field(default_factory=dict)
    on: dict[str, set[PodKey]] = field(default_factory=dict)
    """Pods that use a node."""
    bound: int = 0
    attempts: int = 0
    """As in `Audit`: it grows with every answer."""
    _recorded: set[tuple[PodKey, str]] = field(default_factory=set)
    """Pods with the runs that wrote a record of them; a cohort's run writes one for each of its pods."""
    _doubled: dict[PodKey, None] = field(default_factory=dict)
    _overcommitted: dict[str, None] = field(default_factory=dict)

    def apply(self, batch: WatchBatch) -> None:
        """Take in one revision; its events happened at once, so nodes are looked at after all of them."""
        self.revision = max(self.revision, batch.revision)
        bound_now = [node for event in batch.events if (node := self._apply(event))]
        for name in bound_now:
            if not self._fits(name):
                self._overcommitted[name] = None

    def waiting(self) -> dict[PodKey, AttemptRecord]:
        """Pending pods with a record of this life."""
        return {
            key: record
            for key, record in self.records.items()
            if (pod := self.pods.get(key)) and pod.pending and record.create_revision in (0, pod.create_revision)
        }

    def refused(self) -> int:
        """Those of them that have their answer: a condition with why nothing fits.

        An urgent record is none: an attempt of the pod's own follows, once a dead worker's pods have a new owner.
        """
        return sum(record.reason == UNSCHEDULABLE and not record.urgent for record in self.waiting().values())

    def judge(self) -> Audit:
        """The judgement as of now."""
        waiting = self.waiting()
        pending = (pod for pod in self.pods.values() if pod.pending and not pod.scheduling_gates)
        return Audit(
            revision=self.revision,
            pods=len(self.pods),
            bound=self.bound,
            waiting=waiting,
            attempts=self.attempts,
            lost=tuple(sorted(pod.key for pod in pending if pod.key not in waiting)),
            doubled=tuple(sorted(self._doubled)),
            overcommitted=tuple(sorted(self._overcommitted)),
        )

    def _apply(self, event: Event) -> str | None:
        """Take in one event; answers the node when it is a bind."""
        parsed = keys.parse(event.kv.key)
        match (parsed.prefix, parsed.parts) if parsed is not None else (None, ()):
            case keys.PODS, (namespace, name):
                return self._pod(PodKey(namespace, name), None if event.deleted else event.kv)
            case keys.NODES, (name,):
                self._node(name, None if event.deleted else event.kv)
            case keys.ATTEMPTS, (namespace, name):
                self._record(PodKey(namespace, name), None if event.deleted else event.kv)
        return None

    def _pod(self, key: PodKey, kv: KeyValue | None) -> str | None:
        before = self.pods.pop(key, None)
        if before is not None and before.bound:
            self.bound -= 1
            self.on.get(before.node_name, set()).discard(key)
        try:
            pod = self._decoded(key, kv)
        except InvalidObject:
            return None
        if pod is None:
            return None
        self.pods[key] = pod
        if (
            before is not None
            and before.bound
            and before.identity == pod.identity
            and before.node_name != pod.node_name
        ):
            self._doubled[key] = None
        if not pod.bound:
            return None
        self.bound += 1
        if not pod.finished:
            self.on.setdefault(pod.node_name, set()).add(key)
        if before is not None and before.node_name == pod.node_name:
            return None
        self.attempts += 1
        return pod.node_name

    def _decoded(self, key: PodKey, kv: KeyValue | None) -> Pod | None:
        if kv is None:
            return None
        return self.format.decode_pod(kv.value, **key._asdict(), **kv.revisions)

    def _node(self, name: str, kv: KeyValue | None) -> None:
        self.nodes.pop(name, None)
        try:
            if kv is not None:
                self.nodes[name] = self.format.decode_node(kv.value, name=name, create_revision=kv.create_revision)
        except InvalidObject:
            return

    def _record(self, key: PodKey, kv: KeyValue | None) -> None:
        self.records.pop(key, None)
        if kv is None:
            return
        record = AttemptRecord.from_bytes(kv.value)
        if record is None:
            return
        self.records[key] = record
        if (key, record.run_id) not in self._recorded:
            self._recorded.add((key, record.run_id))
            self.attempts += 1

    def _fits(self, name: str) -> bool:
        node = self.nodes.get(name)
        if node is None:
            return False
        pods = [self.pods[key] for key in self.on.get(name, ())]
        used = Counter({PODS: len(pods)})
        for pod in pods:
            used.update(pod.requests)
        ports = [port for pod in pods for port in pod.host_ports]
        clash = any(port.conflicts(other) for index, port in enumerate(ports) for other in ports[:index])
        return not clash and all(amount <= node.allocatable.get(resource, 0) for resource, amount in used.items())
