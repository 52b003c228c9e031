"""The cluster as etcd has it, revision by revision, and the rules that hold at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany
from wharfinger.scheduling.contracts.scheduling import Bound
from wharfinger.testing import MemoryStore

GROUP = "pod-group.scheduling.sigs.k8s.io/name"
LEAST = "pod-group.scheduling.sigs.k8s.io/min-available"
CHANGES = "changes"


@dataclass(frozen=True)
class TruePod:
    """What counts of a pod."""

    name: str
    create_revision: int
    cpu: int
    priority: int
    node: str
    leaving: bool
    """Whether it has a deletion timestamp."""
    finished: bool
    apart: bool
    """Whether it shares no node with others of the kind."""
    gang: str
    least: int
    changes: int
    """How often its user has changed it."""


@dataclass
class TrueNode:
    """What counts of a node."""

    cpu: int
    pods: int
    open: bool
    """Whether pods may be placed there."""
    on: dict[str, TruePod] = field(default_factory=dict)

    def fits(self, pod: TruePod, *, evicting: bool = False) -> bool:
        """Whether it has room for the pod; `evicting`: once all pods of less priority are gone."""
        stay = [one for one in self.on.values() if not (evicting and one.priority < pod.priority)]
        return (
            self.open
            and len(stay) < self.pods
            and sum(one.cpu for one in stay) + pod.cpu <= self.cpu
            and not (pod.apart and any(one.apart for one in stay))
        )


class Truth:
    """Follows the store without delay; `violated` is called with each rule that is broken."""

    def __init__(self, store: MemoryStore, violated: Callable[..., None], left: Callable[[TruePod], None]) -> None:
        """`left`: a bound pod was marked as leaving; its kubelet deletes it in a while."""
        self._store = store
        self._violated = violated
        self._left = left
        self.revision = store.revision
        self.pods: dict[str, TruePod] = {}
        self.nodes: dict[str, TrueNode] = {}
        self.made: dict[int, str] = {}
        """Names of pods by the revisions at which users made them."""
        self._remade: set[str] = set()
        """Names that were those of more than one pod."""

    def follow(self) -> None:
        """Take in what was written since."""
        if self._store.revision == self.revision:
            return
        for revision, events in self._store._shared.history.events_from(self.revision + 1, keys.ROOT):
            bound = [name for event in events if (name := self._take(event)) is not None]
            for name in bound:
                self._judge(name, revision)
        self.revision = self._store.revision

    def user_made(self, revision: int, name: str) -> None:
        """A user made a pod of that name."""
        if name in self.made.values():
            self._remade.add(name)
        self.made[revision] = name

    def _take(self, event: Event) -> str | None:
        """Take in one event; the name of the pod that is bound by it."""
        key = event.kv.key
        if key.startswith(keys.NODES):
            self._take_node(key.removeprefix(keys.NODES), None if event.deleted else orjson.loads(event.kv.value))
        elif key.startswith(keys.PODS):
            name = key.rpartition("/")[2]
            before = self.pods.get(name)
            after = None if event.deleted else true_pod(name, event.kv.create_revision, orjson.loads(event.kv.value))
            self._place(name, before, after)
            if after is not None and after.leaving and (before is None or not before.leaving):
                self._left(after)
            return self._moved(before, after)
        return None

    def _take_node(self, name: str, manifest: Any) -> None:
        if manifest is None:
            self.nodes.pop(name, None)
            return
        room = manifest["status"]["allocatable"]
        is_open = not manifest["spec"].get("unschedulable", False)
        node = self.nodes.get(name)
        if node is None:
            on = {pod.name: pod for pod in self.pods.values() if pod.node == name and not pod.finished}
            node = self.nodes[name] = TrueNode(0, 0, is_open, on)
        node.cpu, node.pods, node.open = int(room["cpu"]), int(room["pods"]), is_open

    def _place(self, name: str, before: TruePod | None, after: TruePod | None) -> None:
        if before is not None and before.node in self.nodes:
            self.nodes[before.node].on.pop(name, None)
        if after is None:
            self.pods.pop(name, None)
            return
        self.pods[name] = after
        if after.node in self.nodes and not after.finished:
            self.nodes[after.node].on[name] = after

    def _moved(self, before: TruePod | None, after: TruePod | None) -> str | None:
        if after is not None and after.create_revision not in self.made:
            self._violated("risen:", after.name, "was made by none of its users")
        if after is None:
            return None
        if before is None or before.create_revision != after.create_revision:
            return after.name if after.node else None
        if after.changes < before.changes:
            self._violated("update lost:", after.name, "is as before its user changed it")
        if not after.node:
            return None
        if before.node:
            if before.node != after.node:
                self._violated("bound twice:", after.name, "to", before.node, "and", after.node)
            return None
        return after.name

    def _judge(self, name: str, revision: int) -> None:
        """A pod is bound as of this revision: is there room, and is its gang whole?"""
        pod = self.pods[name]
        node = self.nodes.get(pod.node)
        if node is None:
            self._violated("bound nowhere:", name, "to", pod.node, "which is not there")
            return
        used, number = sum(one.cpu for one in node.on.values()), len(node.on)
        if used > node.cpu or number > node.pods:
            self._violated("overcommitted:", pod.node, "has", f"{used}/{node.cpu} cpu, {number}/{node.pods} pods")
        if pod.apart and sum(one.apart for one in node.on.values()) > 1:
            self._violated("not apart:", name, "on", pod.node)
        if pod.gang:
            members = [one for one in self.pods.values() if one.gang == pod.gang and one.node]
            if len(members) < pod.least:
                self._violated("gang torn:", pod.gang, "has", len(members), "of", pod.least)

    def answered(self, activity: str, request: Any, outcome: Any) -> None:
        """An activity has this outcome: what it says of pods that are bound must be true."""
        self.follow()
        if isinstance(outcome, Bound):
            self._said(request.name, outcome.node)
        elif isinstance(outcome, BoundMany):
            seats = sorted((one.namespace, one.name) for one in request.seats)
            if sorted((one.namespace, one.name) for one in (*outcome.bound, *outcome.unbound)) != seats:
                self._violated(activity, "does not answer once for each of its seats")
            for one in outcome.bound:
                self._said(one.name, one.node)

    def _said(self, name: str, node: str) -> None:
        pod = self.pods.get(name)
        if pod is not None and pod.node != node and name not in self._remade:
            self._violated("untrue:", name, "is said to be on", node, "and is on", pod.node or "none")

    # --- what is left to do -----------------------------------------------------------------------

    def pending(self) -> list[TruePod]:
        """Pods that are to be bound."""
        return [one for one in self.pods.values() if not (one.node or one.leaving or one.finished)]

    def left_out(self) -> list[str]:
        """Pods that could be bound now, alone or as a gang, also by evicting others; and those that are leaving."""
        gangs: dict[str, list[TruePod]] = {}
        out = [one.name for one in self.pods.values() if one.leaving]
        for pod in self.pending():
            if pod.gang:
                gangs.setdefault(pod.gang, []).append(pod)
            elif any(node.fits(pod, evicting=True) for node in self.nodes.values()):
                out.append(pod.name)
        return out + [name for name, members in gangs.items() if self._fits_whole(members)]

    def _fits_whole(self, members: list[TruePod]) -> bool:
        bound = sum(one.gang == members[0].gang and bool(one.node) for one in self.pods.values())
        if bound + len(members) < members[0].least:
            return False
        room = {
            name: replace(node, on={key: one for key, one in node.on.items() if one.priority >= members[0].priority})
            for name, node in self.nodes.items()
        }
        return placed(members, room.values()) >= max(1, members[0].least - bound)


def placed(members: Iterable[TruePod], nodes: Iterable[TrueNode]) -> int:
    """How many of a gang's equal members fit together."""
    number, nodes = 0, list(nodes)
    for pod in members:
        node = next((one for one in nodes if one.fits(pod)), None)
        if node is not None:
            node.on[pod.name] = pod
            number += 1
    return number


def true_pod(name: str, create_revision: int, manifest: Any) -> TruePod:
    """What counts of a pod as it is stored."""
    metadata, spec = manifest["metadata"], manifest["spec"]
    labels = metadata.get("labels") or {}
    return TruePod(
        name,
        create_revision,
        int(spec["containers"][0]["resources"]["requests"]["cpu"]),
        spec.get("priority", 0),
        spec.get("nodeName", ""),
        bool(metadata.get("deletionTimestamp")),
        (manifest.get("status") or {}).get("phase") in ("Succeeded", "Failed"),
        labels.get("app") == "apart",
        labels.get(GROUP, ""),
        int(labels.get(LEAST, 0)),
        int(labels.get(CHANGES, 0)),
    )
