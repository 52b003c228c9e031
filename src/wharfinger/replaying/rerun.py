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
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.errors import InvalidObject, PluginError, UsageError
from wharfinger.framework.profile import Profile
from wharfinger.informer.decoding import SURROUNDING_KINDS
from wharfinger.manifests import documents
from wharfinger.manifests.metadata import attempt_of
from wharfinger.model.pod import PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Event
from wharfinger.replaying.lived_pods import (
    LivedPod,
    freed,
    is_of,
    is_victim,
    owner_of,
    placed_object,
    pod_key_of,
    started_of,
)
from wharfinger.replaying.report import written
from wharfinger.simulator import SimulatedDecision, SimulatedGang, Simulator

TRIES = 50
"""Decisions a pod, on average, after which pods are taken to wake each other without end."""
_FINISHED = ("Succeeded", "Failed")


class RerunSimulator(Simulator):
    """A simulator that decides by profiles that were made already."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        super().__init__()
        self._profiles.clear()
        self._profiles.update(profiles)

    def start(self, pod: PodKey, node: str, started: str) -> list[PodKey]:
        """Bind the pod, which starts then. `started`: RFC 3339; empty = later than all before it."""
        subject = self._cluster.pending(pod)
        return self._after(self._cluster.bind(replace(subject, start_time=started) if started else subject, node))


@dataclass(slots=True)
class Rerun:
    """One rerun; give it the first state, then each revision's events."""

    simulator: RerunSimulator
    decided: Container[tuple[PodKey, int]]
    """Pods, with their create revisions, that were placed by recorded decisions."""
    names: Collection[str]
    """Of the schedulers whose pods are decided."""
    cluster: str = ""
    """Whose attempts decided; empty = any that a pod names."""
    time: float | None = None
    """About when the events happen that are taken next, seconds since 1970; None = not known."""
    lived: list[LivedPod] = field(default_factory=list)
    """All pods, in the order in which they came."""
    evictions: list[tuple[PodKey, PodKey]] = field(default_factory=list)
    """Victim and preemptor."""
    tries: int = 0
    stopped: bool = False
    """Whether pods went on waking each other, and were left."""
    _pods: dict[PodKey, LivedPod] = field(default_factory=dict)
    """Those that are there."""
    _unbound: set[PodKey] = field(default_factory=set)
    _queue: list[tuple[Any, int, PodKey]] = field(default_factory=list)
    _arrivals: int = 0

    def begin(self, events: Iterable[Event]) -> None:
        """The first state: classes first, because pods are resolved by them; then the nodes, in order; then pods."""
        ranked: list[tuple[int, int, Event]] = []
        for event in events:
            parsed = keys.parse(event.kv.key)
            rank = {keys.PRIORITY_CLASSES: 0, keys.NODES: 2, keys.PODS: 3}.get(parsed.prefix, 1) if parsed else 1
            ranked.append((rank, event.kv.create_revision, event))
        for _, _, event in sorted(ranked, key=lambda one: one[:2]):
            self._apply(event)
        self._settle()

    def take(self, events: Iterable[Event]) -> None:
        """All changes of one revision, and what follows from them."""
        for event in events:
            self._apply(event)
        self._settle()

    def note(self, events: Iterable[Event]) -> None:
        """Changes behind the span's end: they only tell where what was decided in it was bound."""
        for event in events:
            key = pod_key_of(event.kv.key)
            pod = self._pods.get(key) if key is not None else None
            if pod is None or pod.key not in self._unbound:
                continue
            if event.deleted or pod.create_revision != event.kv.create_revision:
                self._unbound.discard(pod.key)
                continue
            try:
                spec = documents.parse(event.kv.value).get("spec") or {}
                node = str(spec.get("nodeName") or "")
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
            for pod in self._pods.values()
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
        if kind is None:
            return
        *space, name = parsed.parts
        try:
            if event.deleted:
                self._wake(self.simulator.delete(kind, name, "".join(space)))
            else:
                self._wake(self.simulator.add({"kind": kind, **documents.parse(event.kv.value)}))
        except (InvalidObject, UsageError):
            return  # workers could not read it either, or it was not there

    def _pod(self, event: Event, key: PodKey) -> None:
        known = self._pods.get(key)
        if known is not None and (event.deleted or known.create_revision != event.kv.create_revision):
            self._end(known)
            known = None
        if event.deleted:
            return
        try:
            obj = dict(documents.parse(event.kv.value))
            if not is_of(obj, key):
                return
            finished = (obj.get("status") or {}).get("phase") in _FINISHED
            node = str((obj.get("spec") or {}).get("nodeName") or "")
            if known is not None:
                self._changed(known, obj, node, finished=finished)
            elif not finished:
                started = started_of(obj) if node else ""
                self._came(LivedPod(key, event.kv.create_revision, freed(obj), node, started=started), node)
        except (InvalidObject, UsageError, AttributeError, TypeError):
            return

    def _came(self, pod: LivedPod, node: str) -> None:
        scheduler = str(pod.obj["spec"].get("schedulerName") or "default-scheduler")
        pod.scheduler, pod.owner = scheduler, owner_of(pod.obj["metadata"].get("ownerReferences"))
        pod.ours = not node and scheduler in self.names
        pod.node = node
        self._wake(self.simulator.add(placed_object(pod)))
        self._pods[pod.key] = pod
        self.lived.append(pod)
        if pod.ours:
            self._enqueue([pod.key])

    def _changed(self, pod: LivedPod, obj: dict[str, Any], node: str, *, finished: bool) -> None:
        if node:
            pod.recorded = node
        pod.evicted_then = pod.evicted_then or is_victim(obj)
        if finished:
            self._end(pod)
            return
        foreign = bool(node) and pod.node != node and not (pod.ours and self._by_us(pod, obj))
        if foreign and not pod.evicted:
            pod.ours, pod.node, pod.started = False, node, self._now()
        started = pod.started if pod.ours else started_of(obj) or pod.started
        free = freed(obj)
        if foreign or free != pod.obj or started != pod.started:
            pod.obj, pod.started = free, started
            if not pod.evicted:
                self._wake(self.simulator.update(placed_object(pod)))

    def _by_us(self, pod: LivedPod, obj: Mapping[str, Any]) -> bool:
        """Whether a decision of this cluster bound the pod in the record, whenever it was made."""
        attempt = attempt_of(obj)
        named = attempt.startswith(f"{self.cluster}/") if self.cluster else bool(attempt)
        return named or (pod.key, pod.create_revision) in self.decided

    def _now(self) -> str:
        return written(self.time) if self.time is not None else ""

    def _end(self, pod: LivedPod) -> None:
        del self._pods[pod.key]
        pod.obj = {}  # is not read any more, and there may be many
        if not pod.evicted:
            self._wake(self.simulator.delete("Pod", pod.key.name, pod.key.namespace))

    # --- consequences -------------------------------------------------------------------------

    def _wake(self, woken: Iterable[PodKey]) -> None:
        self._enqueue(key for key in woken if (pod := self._pods.get(key)) is not None and pod.ours and not pod.node)

    def _enqueue(self, found: Iterable[PodKey]) -> None:
        for key in found:
            self._arrivals += 1
            heapq.heappush(self._queue, (self.simulator.queue_key(key, float(self._arrivals)), self._arrivals, key))

    def _settle(self) -> None:
        """Decide until nothing is to be tried."""
        while self._queue:
            _, _, key = heapq.heappop(self._queue)
            pod = self._pods.get(key)
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
            lived = self._pods.get(member)
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
        lived = self._pods.get(victim)
        if lived is not None:
            lived.evicted = True
        self.evictions.append((victim, preemptor))
        self._wake(self.simulator.evict(victim))
