"""A cluster in memory: objects go in and out, and each change returns what it means to scheduling.

The state itself is a `Cache`, the one that workers keep of a real cluster; here only the caller changes it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from wharfinger.errors import UsageError
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.documents.decode import (
    node_from_mapping,
    pod_from_mapping,
    recurring_pod,
    surrounding_from_mapping,
)
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.kinds import KINDS as STORED_KINDS
from wharfinger.objects.documents.metadata import object_name, object_namespace
from wharfinger.objects.documents.storage import TYPES as STORAGE_TYPES
from wharfinger.objects.documents.surroundings import DEVICE_CLASS, POD_GROUP
from wharfinger.objects.documents.surroundings import KINDS as SURROUNDING_KINDS
from wharfinger.objects.model.events import ClusterEvent, node_event, pod_events, reclassification, storage_event
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.gang import GangKey, PodGroup
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.priority import NO_CLASSES, PRIORITY_CLASS, PriorityClass
from wharfinger.objects.model.storage import StorageObject
from wharfinger.objects.model.storage_index import place_of
from wharfinger.objects.model.surroundings import DeviceClass, DisruptionBudget, Namespace, PodCollection, Surrounding
from wharfinger.objects.model.volume_matching import bound_as_planned
from wharfinger.objects.rk8s import applying
from wharfinger.scheduling.state.cache.cache import Cache

DEFAULT_NAMESPACE = "default"
KINDS = ("Node", "Pod", *SURROUNDING_KINDS)
"""Kinds of objects that decisions read."""
FIRST_START = datetime(2026, 1, 1, tzinfo=UTC)
"""Pods that are bound here start a minute apart from then on, so that it is clear which of two is the younger one."""
_CLUSTER_WIDE = frozenset(kind.name for kind in STORED_KINDS if not kind.namespaced)
_TYPES: Mapping[str, type[Surrounding]] = {
    **STORAGE_TYPES,
    "Namespace": Namespace,
    "PodDisruptionBudget": DisruptionBudget,
    POD_GROUP: PodGroup,
    DEVICE_CLASS: DeviceClass,
    PRIORITY_CLASS: PriorityClass,
}
"""By kind; all other kinds around pods are collections of them."""


class Change(NamedTuple):
    """What a change means to scheduling, and which pods it was about, if it was about any."""

    events: tuple[ClusterEvent, ...] = ()
    pods: tuple[PodKey, ...] = ()


class Cluster:
    """Objects by kind, namespace and name; every change has a revision of its own."""

    def __init__(self, format_: ClusterFormat = ClusterFormat.KUBERNETES, *, recurring: bool = False) -> None:
        """`format_`: of the nodes and pods that are put; `recurring`: these come from JSON or YAML text, so what many
        pods have alike is kept once.
        """
        self._format = format_
        self._recurring = recurring
        self._cache = Cache(clock=lambda: 0.0)
        self._revisions = itertools.count(1)
        self._surroundings: set[tuple[str, str, str]] = set()
        """Kind, namespace and name, also of those that mean nothing to any decision."""
        self._binds = 0

    @property
    def pods(self) -> Mapping[PodKey, Pod]:
        """Every pod, pending ones too (a live view)."""
        return self._cache.pods

    def snapshot(self) -> Snapshot:
        """The state now."""
        return self._cache.snapshot()

    def put(self, obj: Mapping[str, Any] | bytes) -> Change:
        """Add an object, or change the one that is there. Raises InvalidObject, or UsageError for another kind."""
        obj = self.as_kubernetes(obj)
        kind = obj.get("kind") if isinstance(obj, Mapping) else type(obj).__name__
        if not isinstance(kind, str) or kind not in KINDS:
            raise UsageError(f"kind {kind} is not simulated; known are {', '.join(KINDS)}")
        if kind == "Pod":
            return self._put_pod(obj)
        if kind == "Node":
            return self._put_node(obj)
        return self._put_surrounding(kind, obj)

    def as_kubernetes(self, obj: Mapping[str, Any] | bytes) -> Mapping[str, Any]:
        """The object of Kubernetes that a node or pod is, or stands for. Raises `InvalidObject`, `UsageError`."""
        if self._format is ClusterFormat.KUBERNETES:
            return obj  # type: ignore[return-value]  # what is none is refused with its type
        tree = applying.as_tree(obj)
        kind = tree.get("kind") if isinstance(tree, dict) else type(obj).__name__
        if not isinstance(kind, str) or kind not in applying.KINDS:
            raise UsageError(f"kind {kind} is not simulated; known are {', '.join(applying.KINDS)}")
        return applying.kubernetes_object(tree)

    def delete(self, kind: str, namespace: str, name: str) -> Change:
        """Delete an object; UsageError when there is none."""
        if not all(isinstance(part, str) for part in (kind, namespace, name)):
            raise UsageError(f"an object is named by texts, not by {kind!r}, {namespace!r} and {name!r}")
        if kind == "Node" and name in self._cache.nodes:
            old = self._cache.nodes[name]
            self._cache.remove_node(name)
            return _of_node(node_event(old, None, self._passed(), self._cache.surroundings))
        if kind == "Pod" and PodKey(namespace, name) in self.pods:
            return self._remove_pod(PodKey(namespace, name))
        space = "" if kind in _CLUSTER_WIDE else namespace
        if (kind, space, name) in self._surroundings:
            self._surroundings.remove((kind, space, name))
            return self._remove_surrounding(kind, space, name)
        raise UsageError(f"there is no {kind} {space + '/' if space else ''}{name}")

    def pod(self, key: tuple[str, str]) -> Pod:
        """A pod; UsageError when there is none, or it is not named by (namespace, name)."""
        named = isinstance(key, tuple) and len(key) == len(PodKey._fields)
        if not named or not all(isinstance(part, str) for part in key):
            raise UsageError(f"a pod is named by (namespace, name), not by {key!r}")
        pod = self.pods.get(PodKey(*key))
        if pod is None:
            raise UsageError(f"there is no Pod {key[0]}/{key[1]}")
        return pod

    def resolved(self, pod: Pod) -> Pod:
        """The pod with the priority that it has by its class here."""
        return self._cache.resolved(pod)

    def gang(self, key: GangKey) -> list[Pod]:
        """Every pod that names the gang."""
        return list(self._cache.gangs.of(key))

    def pending(self, key: tuple[str, str]) -> Pod:
        """A pod that has no node yet; UsageError when there is none, or it has one."""
        pod = self.pod(key)
        if pod.bound:
            raise UsageError(f"Pod {pod.key} is bound to {pod.node_name}")
        return pod

    def bind(self, pod: Pod, node: str) -> Change:
        """Put a pending pod on a node: it starts there later than all before it. UsageError without such a node."""
        if not isinstance(node, str) or node not in self._cache.nodes:
            raise UsageError(f"there is no Node {node}")
        plan = self._cache.volume_plan(pod, node)
        self._binds += 1
        start = FIRST_START + timedelta(minutes=self._binds)
        started = pod.start_time or start.isoformat().replace("+00:00", "Z")
        of_volumes = [self._set_surrounding(thing) for thing in bound_as_planned(plan)] if plan is not None else []
        change = self._change_pod(replace(pod.on(node), nominated_node_name="", start_time=started))
        return Change((*(event for one in of_volumes for event in one.events), *change.events), change.pods)

    def nominate(self, pod: Pod, node: str) -> Change:
        """Note where preemption makes room for a pending pod; an empty name takes the note away.

        UsageError for what is no name; whether such a node exists does not matter, as in the status of a pod.
        """
        if not isinstance(node, str):
            raise UsageError(f"a node is named by a text, not by {node!r}")
        return self._change_pod(replace(pod, nominated_node_name=node))

    def evict(self, pod: Pod) -> Change:
        """What preemption does to a victim: it is marked, and gone at once."""
        self._change_pod(replace(pod, disruption_target=True))  # as any change of status, no event
        return self._remove_pod(pod.key)

    # --- inside -------------------------------------------------------------------------------

    def _put_node(self, obj: Mapping[str, Any]) -> Change:
        revision = next(self._revisions)
        new = node_from_mapping(obj, create_revision=revision, mod_revision=revision)
        old = self._cache.nodes.get(new.name)
        self._cache.set_node(new)
        self._cache.progress.advance(revision)
        return _of_node(node_event(old, new, revision, self._cache.surroundings))

    def _put_pod(self, obj: Mapping[str, Any]) -> Change:
        pod, lives_on = self._read_pod(obj)
        if lives_on:
            return self._change_pod(pod)
        gone = self._remove_pod(pod.key) if pod.key in self.pods else Change()
        return Change((*gone.events, *self._change_pod(pod).events), (pod.key,))

    def _read_pod(self, obj: Mapping[str, Any]) -> tuple[Pod, bool]:
        """The pod as etcd would hold it, and whether it is one that is there: unless the uid differs, it is."""
        revision = next(self._revisions)
        pod = self._decoded(obj, revision)
        known = self.pods.get(pod.key)
        if known is None or pod.uid not in (known.uid, f"rev-{revision}"):
            return pod, False
        return replace(pod, uid=known.uid, create_revision=known.create_revision), True

    def _decoded(self, obj: Mapping[str, Any], revision: int) -> Pod:
        if not self._recurring:
            return pod_from_mapping(obj, create_revision=revision, mod_revision=revision)
        return recurring_pod(
            obj,
            create_revision=revision,
            mod_revision=revision,
            default_namespace=DEFAULT_NAMESPACE,
            classes=NO_CLASSES,
        )

    def _change_pod(self, new: Pod) -> Change:
        old = self.pods.get(new.key)
        new = self._cache.set_pod(new)
        return Change(pod_events(old, new, self._passed(), self._cache.surroundings), (new.key,))

    def _remove_pod(self, key: PodKey) -> Change:
        old = self.pods[key]
        self._cache.remove_pod(key)
        return Change(pod_events(old, None, self._passed(), self._cache.surroundings), (key,))

    def _put_surrounding(self, kind: str, obj: Mapping[str, Any]) -> Change:
        thing = surrounding_from_mapping(obj, kind, default_namespace=DEFAULT_NAMESPACE)
        metadata = mapping(obj, "metadata")
        space = "" if kind in _CLUSTER_WIDE else object_namespace(metadata, DEFAULT_NAMESPACE)
        name = object_name(metadata)
        self._surroundings.add((kind, space, name))
        return self._remove_surrounding(kind, space, name) if thing is None else self._set_surrounding(thing)

    def _set_surrounding(self, thing: Surrounding) -> Change:
        old = self._known(type(thing), *place_of(thing)) if isinstance(thing, StorageObject) else None
        self._cache.set_surrounding(thing)
        return self._of_storage(old, thing) if isinstance(thing, StorageObject) else self._reclassified()

    def _remove_surrounding(self, kind: str, space: str, name: str) -> Change:
        what = STORAGE_TYPES.get(kind)
        old = self._known(what, space, name) if what is not None else None
        self._cache.remove_surrounding(_TYPES.get(kind, PodCollection), space, name, kind)
        return self._reclassified() if what is None else self._of_storage(old, None)

    def _known(self, what: type[StorageObject], space: str, name: str) -> StorageObject | None:
        return self._cache.surroundings.storage.get(what, space, name)

    def _of_storage(self, old: StorageObject | None, new: StorageObject | None) -> Change:
        event = storage_event(old, new, self._passed(), self._cache.surroundings)
        return Change() if event is None else Change((event,))

    def _reclassified(self) -> Change:
        """What a change beside nodes and pods means: nothing, unless pods have other priorities by it."""
        pods = tuple(new.key for _, new in self._cache.reclassify())
        revision = self._passed()
        return Change((reclassification(revision, self._cache.surroundings),), pods) if pods else Change()

    def _passed(self) -> int:
        """The revision of a change that was just made."""
        revision = next(self._revisions)
        self._cache.progress.advance(revision)
        return revision


def _of_node(event: ClusterEvent | None) -> Change:
    return Change() if event is None else Change((event,))


def lower_nominations(snapshot: Snapshot, pod: Pod, node: str) -> Iterable[Pod]:
    """Pods of lower priority that are nominated to the node too: what was promised to them is given to this pod."""
    return [other for other in snapshot.nominated.get(node, ()) if other.priority < pod.priority]
