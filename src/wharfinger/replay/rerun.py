"""Rerun: the recorded span is lived again, and consequences accumulate.

Pods come and end when they did, nodes and other objects change as they did, and foreign binds are facts. Whose decision
is recorded is decided again, in the order of the queue, as soon as it is there. A refused pod is tried again when the
hints say so of what happens in the rerun. A pod that finds no place stays until it is deleted, or until the span ends.
Victims of the rerun end at once. Times are those of etcd's revisions, so nothing waits for back-off. Pure.

Who bound a pod in the record is told by the attempt that the pod names, not by which runs were read: a span has only
some of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any

from wharfinger.errors import InvalidObject, PluginError, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Event
from wharfinger.framework.profile import Profile
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.formats import KUBERNETES, ObjectFormat
from wharfinger.objects.documents.metadata import attempt_of, checked_object
from wharfinger.objects.model.pod import PodKey
from wharfinger.replay.lived_pods import (
    LivedPod,
    Lives,
    Unmarked,
    digest_of,
    freed,
    is_victim,
    owner_of,
    placed_object,
    pod_key_of,
    started_of,
)
from wharfinger.replay.report.report import written
from wharfinger.scheduling.state.informer.decoding import SURROUNDING_KINDS
from wharfinger.whatif.simulator.cluster import Cluster
from wharfinger.whatif.simulator.simulator import SimulatedDecision, SimulatedGang, Simulator, WaitingPods

TRIES = 50
"""Decisions a pod, on average, after which pods are taken to wake each other without end."""
MOST_EVICTIONS = 100
"""Victims that are named."""
_FINISHED = ("Succeeded", "Failed")


class RerunSimulator(Simulator):
    """A simulator that decides by profiles that were made already."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        super().__init__()
        self._profiles.clear()
        self._profiles.update(profiles)
        self._cluster = Cluster(recurring=True)  # as workers read pods: what many have alike is there once
        self._waiting = WaitingPods(self._profiles, self._cluster.pods)

    def start(self, pod: PodKey, node: str, started: str) -> list[PodKey]:
        """Bind the pod, which starts then. `started`: RFC 3339; empty = later than all before it."""
        subject = self._cluster.pending(pod)
        return self._after(self._cluster.bind(replace(subject, start_time=started) if started else subject, node))


@dataclass(slots=True)
class Rerun:
    """One rerun; give it the first state, then each revision's events. Close `lived`."""

    simulator: RerunSimulator
    decided: Container[tuple[PodKey, int]]
    """Pods, with their create revisions, that were placed by recorded decisions."""
    names: Collection[str]
    """Of the schedulers whose pods are decided."""
    cluster: str = ""
    """Whose attempts decided; empty = any that a pod names."""
    format: ObjectFormat = KUBERNETES
    """Of the pods and nodes."""
    time: float | None = None
    """About when the events happen that are taken next, seconds since 1970; None = not known."""
    lived: Lives = field(default_factory=Lives)
    """All pods, in the order in which they came."""
    evictions: list[tuple[PodKey, PodKey]] = field(default_factory=list)
    """Victim and preemptor, of the first ones."""
    eviction_count: int = 0
    """How many there were."""
    tries: int = 0
    stopped: bool = False
    """Whether pods went on waking each other, and were left."""
    _unmarked: Unmarked = field(default_factory=Unmarked)
    _unbound: set[PodKey] = field(default_factory=set)
    _queue: list[tuple[Any, int, PodKey]] = field(default_factory=list)
    _arrivals: int = 0

    def begin(self, events: Iterable[Event]) -> None:
        """The first state, in the order of `FirstState`."""
        for event in events:
            if not self.format.marks_pods:
                self._unmarked.take((event,))
            self._apply(event)
        self._settle()

    def take(self, events: Sequence[Event]) -> None:
        """All changes of one revision, and what follows from them."""
        if not self.format.marks_pods:
            self._unmarked.take(events)
        for event in events:
            self._apply(event)
        self._settle()

    def note(self, events: Iterable[Event]) -> None:
        """Changes behind the span's end: they only tell where what was decided in it was bound."""
        for event in events:
            key = pod_key_of(event.kv.key)
            pod = self.lived.get(key) if key is not None else None
            if key is None or pod is None or pod.key not in self._unbound:
                continue
            if event.deleted or pod.create_revision != event.kv.create_revision:
                self._unbound.discard(pod.key)
                continue
            try:
                node = _node_of(self.format.pod_mapping(event.kv.value, namespace=key.namespace, name=key.name))
            except (InvalidObject, AttributeError):
                continue
            if node:
                pod.recorded = node
                self._unbound.discard(pod.key)

    def unbound(self) -> int:
        """How many pods there are that were placed in the span, and whose bind was not seen yet."""
        return len(self._unbound)

    def close(self) -> None:
        """The span has ended: what follows is only noted."""
        self._unbound = {
            pod.key
            for pod in self.lived.there
            if pod.ours and not pod.recorded and (pod.key, pod.create_revision) in self.decided
        }

    # --- facts --------------------------------------------------------------------------------

    def _apply(self, event: Event) -> None:
        key = pod_key_of(event.kv.key)
        if key is not None:
            self._pod(event, key)
            return
        parsed = keys.parse(event.kv.key)
        if parsed is None:
            return
        kind = "Node" if parsed.prefix == keys.NODES else SURROUNDING_KINDS.get(parsed.prefix)
        if kind is None or (kind != "Node" and not self.format.has_surroundings):
            return
        *space, name = parsed.parts
        try:
            if event.deleted:
                self._wake(self.simulator.delete(kind, name, "".join(space)))
                return
            value = event.kv.value
            read = self.format.node_mapping(value, name=name) if kind == "Node" else documents.parse(value)
            self._wake(self.simulator.add({"kind": kind, **checked_object(read)}))
        except (InvalidObject, UsageError):
            return  # workers could not read it either, or it was not there

    def _pod(self, event: Event, key: PodKey) -> None:
        known = self.lived.get(key)
        if known is not None and (event.deleted or known.create_revision != event.kv.create_revision):
            known.evicted_then = known.evicted_then or self._unmarked.is_victim(key)
            self._end(known)
            known = None
        if event.deleted:
            return
        try:
            obj = self.format.pod_mapping(event.kv.value, namespace=key.namespace, name=key.name)
            finished = (obj.get("status") or {}).get("phase") in _FINISHED
            if known is not None:
                self._changed(known, obj, finished=finished)
            elif not finished:
                self._came(LivedPod(key, event.kv.create_revision), obj)
        except (InvalidObject, UsageError, AttributeError, TypeError, RecursionError):
            return
        if known is not None and finished:
            self._end(known)

    def _came(self, pod: LivedPod, obj: Mapping[str, Any]) -> None:
        free, node = self._freed(pod, obj), _node_of(obj)
        pod.digest, pod.recorded, pod.node = digest_of(free), node, node
        pod.started = started_of(obj) if node else ""
        pod.scheduler = intern(str(free["spec"].get("schedulerName") or "default-scheduler"))
        pod.owner = intern(owner_of(free["metadata"].get("ownerReferences")))
        pod.ours = not node and pod.scheduler in self.names
        self._wake(self.simulator.add(placed_object(free, pod)))
        self.lived.came(pod)
        if pod.ours:
            self._enqueue([pod.key])

    def _changed(self, pod: LivedPod, obj: Mapping[str, Any], *, finished: bool) -> None:
        node = _node_of(obj)
        if node:
            pod.recorded = node
        pod.evicted_then = pod.evicted_then or is_victim(obj)
        if finished:
            return
        foreign = bool(node) and pod.node != node and not (pod.ours and self._by_us(pod, obj, node))
        if foreign and not pod.evicted:
            pod.ours, pod.node, pod.started = False, node, self._now()
        started = pod.started if pod.ours else started_of(obj) or pod.started
        free = self._freed(pod, obj)
        digest = digest_of(free)
        if foreign or digest != pod.digest or started != pod.started:
            pod.digest, pod.started = digest, started
            if not pod.evicted:
                self._wake(self.simulator.update(placed_object(free, pod)))

    def _freed(self, pod: LivedPod, obj: Mapping[str, Any]) -> dict[str, Any]:
        """With the uid that workers know it by, where its own one counts for nothing: among equal nodes it decides."""
        free = freed(obj)
        if not self.format.marks_pods:
            free["metadata"]["uid"] = f"rev-{pod.create_revision}"
        return free

    def _by_us(self, pod: LivedPod, obj: Mapping[str, Any], node: str) -> bool:
        """Whether a decision of this cluster bound the pod there in the record, whenever it was made."""
        marked = self.format.marks_pods
        attempt = attempt_of(obj) if marked else self._unmarked.attempt_of(pod.key, pod.create_revision, node)
        named = attempt.startswith(f"{self.cluster}/") if self.cluster else bool(attempt)
        return named or (pod.key, pod.create_revision) in self.decided

    def _now(self) -> str:
        return intern(written(self.time)) if self.time is not None else ""

    def _end(self, pod: LivedPod) -> None:
        self.lived.ended(pod)
        if not pod.evicted:
            self._wake(self.simulator.delete("Pod", pod.key.name, pod.key.namespace))

    # --- consequences -------------------------------------------------------------------------

    def _wake(self, woken: Iterable[PodKey]) -> None:
        self._enqueue(key for key in woken if (pod := self.lived.get(key)) is not None and pod.ours and not pod.node)

    def _enqueue(self, found: Iterable[PodKey]) -> None:
        for key in found:
            self._arrivals += 1
            heapq.heappush(self._queue, (self.simulator.queue_key(key, float(self._arrivals)), self._arrivals, key))

    def _settle(self) -> None:
        """Decide until nothing is to be tried."""
        while self._queue:
            _, _, key = heapq.heappop(self._queue)
            pod = self.lived.get(key)
            if pod is None or pod.node or pod.evicted or not pod.ours:
                continue
            self.tries += 1
            if self.tries > TRIES * (len(self.lived) + 10):
                self.stopped = True
                self._queue.clear()
                return
            try:
                self._try(pod)
            except (UsageError, PluginError) as error:
                pod.message, pod.failed = str(error), isinstance(error, PluginError)

    def _try(self, pod: LivedPod) -> None:
        gang = self.simulator.decide_gang(pod.key) if self.simulator.gang_of(pod.key) is not None else None
        if gang is not None:
            self._try_gang(pod, gang)
            return
        decision = self.simulator.decide(pod.key)
        if decision.node is not None:
            self._bind(pod, decision.node, decision.score_of(decision.node))
        elif decision.nominated_node is not None:
            self._wake(self.simulator.park(pod.key, decision))
            for victim in decision.victims:
                self._evict(victim, pod.key)
            again = self.simulator.decide(pod.key)
            if again.node is not None:
                self._bind(pod, again.node, again.score_of(again.node))
            else:
                self._park(pod, again)
        else:
            self._park(pod, decision)

    def _try_gang(self, pod: LivedPod, gang: SimulatedGang) -> None:
        if gang.nominations:
            for member, leaving in gang.victims.items():
                for victim in leaving:
                    self._evict(victim, member)
            gang = self.simulator.decide_gang(pod.key) or gang
        if not gang.nodes:
            self._park(pod, gang)
            return
        for member, node in gang.nodes.items():
            lived = self.lived.get(member)
            if lived is not None:
                self._bind(lived, node)

    def _bind(self, pod: LivedPod, node: str, total: int | None = None) -> None:
        pod.node, pod.total, pod.message, pod.failed = node, total, "", False
        pod.started = self._now()
        self._wake(self.simulator.start(pod.key, node, pod.started))

    def _park(self, pod: LivedPod, decision: SimulatedDecision | SimulatedGang) -> None:
        pod.message, pod.failed = decision.message, False
        self._wake(self.simulator.park(pod.key, decision))

    def _evict(self, victim: PodKey, preemptor: PodKey) -> None:
        lived = self.lived.get(victim)
        if lived is not None:
            lived.evicted = True
        self.eviction_count += 1
        if len(self.evictions) < MOST_EVICTIONS:
            self.evictions.append((victim, preemptor))
        self._wake(self.simulator.evict(victim))


def _node_of(obj: Mapping[str, Any]) -> str:
    return intern(str((obj.get("spec") or {}).get("nodeName") or ""))
