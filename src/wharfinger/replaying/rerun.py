"""Rerun: the recorded span is lived again, and consequences accumulate.

Pods come and end when they did, nodes and other objects change as they did, and foreign binds are facts. Whose decision
is recorded is decided again, in the order of the queue, as soon as it is there. A refused pod is tried again when the
hints say so of what happens in the rerun. A pod that finds no place stays until it is deleted, or until the span ends.
Victims of the rerun end at once. Times are those of etcd's revisions, so nothing waits for back-off. Pure.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from wharfinger.errors import InvalidObject, PluginError, UsageError
from wharfinger.framework.profile import Profile
from wharfinger.informer.decoding import SURROUNDING_KINDS
from wharfinger.manifests import documents
from wharfinger.model.names import ATTEMPT_ANNOTATION
from wharfinger.model.pod import PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Event
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


@dataclass(slots=True)
class LivedPod:
    """One pod of the span, in the record and in the rerun."""

    key: PodKey
    create_revision: int
    obj: dict[str, Any]
    """As it was seen last, without a node."""
    recorded: str = ""
    """Where it was bound in the record; empty = nowhere."""
    node: str = ""
    """Where it was bound in the rerun."""
    message: str = ""
    """Why it was refused last, in the rerun."""
    ours: bool = True
    """Whether it is decided again; False for foreign binds, and for pods that were bound before the span."""
    evicted: bool = False
    """Whether it was a victim in the rerun."""


@dataclass(slots=True)
class Rerun:
    """One rerun; give it the first state, then each revision's events."""

    simulator: Simulator
    decided: Collection[tuple[PodKey, int]]
    """Pods, with their create revisions, that were placed by recorded decisions."""
    names: Collection[str]
    """Of the schedulers whose pods are decided."""
    lived: list[LivedPod] = field(default_factory=list)
    """All pods, in the order in which they came."""
    evictions: list[tuple[PodKey, PodKey]] = field(default_factory=list)
    """Victim and preemptor."""
    tries: int = 0
    stopped: bool = False
    """Whether pods went on waking each other, and were left."""
    _pods: dict[PodKey, LivedPod] = field(default_factory=dict)
    """Those that are there."""
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

    # --- facts --------------------------------------------------------------------------------

    def _apply(self, event: Event) -> None:
        parsed = keys.parse(event.kv.key)
        if parsed is None:
            return
        if parsed.prefix == keys.PODS:
            self._pod(event, PodKey(*parsed.parts))
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
            finished = (obj.get("status") or {}).get("phase") in _FINISHED
            node = str((obj.get("spec") or {}).get("nodeName") or "")
            if known is not None:
                self._changed(known, obj, node, finished=finished)
            elif not finished:
                self._came(LivedPod(key, event.kv.create_revision, _free(obj), node), node)
        except (InvalidObject, UsageError, AttributeError):
            return

    def _came(self, pod: LivedPod, node: str) -> None:
        scheduler = str(pod.obj["spec"].get("schedulerName") or "default-scheduler")
        pod.ours = not node and scheduler in self.names
        pod.node = node
        self._wake(self.simulator.add(_on(pod.obj, node)))
        self._pods[pod.key] = pod
        self.lived.append(pod)
        if pod.ours:
            self._enqueue([pod.key])

    def _changed(self, pod: LivedPod, obj: dict[str, Any], node: str, *, finished: bool) -> None:
        if node:
            pod.recorded = node
        if finished:
            self._end(pod)
            return
        foreign = bool(node) and pod.node != node and (pod.key, pod.create_revision) not in self.decided
        if foreign and not pod.evicted:
            pod.ours, pod.node = False, node
        free = _free(obj)
        if foreign or free != pod.obj:
            pod.obj = free
            if not pod.evicted:
                self._wake(self.simulator.update(_on(free, pod.node)))

    def _end(self, pod: LivedPod) -> None:
        del self._pods[pod.key]
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
                pod.message = str(error)

    def _try(self, pod: LivedPod) -> None:
        gang = self.simulator.decide_gang(pod.key) if self.simulator.gang_of(pod.key) is not None else None
        if gang is not None:
            self._try_gang(pod, gang)
            return
        decision = self.simulator.decide(pod.key)
        if decision.node is not None:
            self._bind(pod, decision.node)
        elif decision.nominated_node is not None:
            self._wake(self.simulator.park(pod.key, decision))
            for victim in decision.victims:
                self._evict(victim, pod.key)
            again = self.simulator.decide(pod.key)
            if again.node is not None:
                self._bind(pod, again.node)
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

    def _bind(self, pod: LivedPod, node: str) -> None:
        pod.node, pod.message = node, ""
        self._wake(self.simulator.bind(pod.key, node))

    def _park(self, pod: LivedPod, decision: SimulatedDecision | SimulatedGang) -> None:
        pod.message = decision.message
        self._wake(self.simulator.park(pod.key, decision))

    def _evict(self, victim: PodKey, preemptor: PodKey) -> None:
        lived = self._pods.get(victim)
        if lived is not None:
            lived.evicted = True
        self.evictions.append((victim, preemptor))
        self._wake(self.simulator.evict(victim))


def _free(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The pod without what schedulers and kubelets wrote, but for its end."""
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if name != "nodeName"}
    metadata = dict(obj.get("metadata") or {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {name: value for name, value in annotations.items() if name != ATTEMPT_ANNOTATION}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}


def _on(obj: Mapping[str, Any], node: str) -> dict[str, Any]:
    made = deepcopy(dict(obj))
    if node:
        made["spec"]["nodeName"] = node
    return made
