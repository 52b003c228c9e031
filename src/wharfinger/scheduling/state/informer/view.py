"""The cluster as etcd shows it: the cache, and beside it records, registrations and tenants.

In: observations, decoded by `state.informer.decoding`. Out: `Changes`, what each meant. Everything here is
synchronous, so that a revision is taken in whole.

An object that turns unreadable counts as absent, for no decision can be made with it; except a bound
pod: what it holds on its node is still held, so its last readable state stays until it is deleted. One
that was never readable counts with whatever can be read of what it holds.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event, KeyValue
from wharfinger.objects.documents.formats import KUBERNETES, ObjectFormat
from wharfinger.objects.documents.storage import TYPES as STORAGE_TYPES
from wharfinger.objects.model.gang import PodGroup
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.objects.model.pod_records import HeldPlace, Refusal
from wharfinger.objects.model.priority import PriorityClass
from wharfinger.objects.model.surroundings import DeviceClass, DisruptionBudget, Namespace, PodCollection, Surrounding
from wharfinger.process.records import InstanceRecord, last_node
from wharfinger.scheduling.model.promises import Imported, Promise
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import (
    Changes,
    ConfigChange,
    InstanceChange,
    NodeChange,
    PodChange,
    RecordChange,
    StorageChange,
)
from wharfinger.scheduling.state.informer.decoding import (
    SURROUNDING_KINDS,
    InvalidObjects,
    ObservedKey,
    OwnKey,
    incarnation_number,
    well_formed,
)
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

_SURROUNDINGS: dict[str, type[Surrounding]] = {
    **dict.fromkeys(keys.SURROUNDINGS, PodCollection),
    keys.NAMESPACES: Namespace,
    keys.DISRUPTION_BUDGETS: DisruptionBudget,
    keys.POD_GROUPS: PodGroup,
    keys.DEVICE_CLASSES: DeviceClass,
    keys.PRIORITY_CLASSES: PriorityClass,
    **{prefix: STORAGE_TYPES[SURROUNDING_KINDS[prefix]] for prefix in keys.STORAGE},
}

_VERSION_KINDS = (keys.BINDINGS, keys.BOUND, keys.TERMS, keys.VOLUMES)


class View:
    """etcd's state as known here, and how it changes."""

    def __init__(
        self,
        cache: Cache,
        metrics: Metrics,
        *,
        own: OwnKey | None = None,
        format_: ObjectFormat = KUBERNETES,
        as_stored: Callable[[str], str] = str,
    ) -> None:
        """`own`: the grant under which this worker lives; None = started by hand. `format_`: of the cluster's pods and
        nodes; `as_stored`: a key as etcd has it, for messages.
        """
        self.cache = cache
        self.format = format_
        self.own = own
        self.grant: ObservedKey | None = None
        """That grant as it is; None = there is none."""
        self.records = cache.refusals
        """The attempt records."""
        self.versions: dict[str, dict[str, int]] = {kind: {} for kind in _VERSION_KINDS}
        """Mod revision of each version key by its kind's prefix, also of those whose object is gone."""
        self.bound_by: dict[PodKey, KeyValue] = {}
        """The records of what bound pods, where pods do not carry it."""
        self.requeued: dict[str, set[PodKey]] = {}
        """By lost node, the pods that were deleted and are not made anew yet."""
        self.invalid = InvalidObjects(metrics, as_stored)
        self._known: dict[str, tuple[int, int]] = {}
        self._takers: Mapping[str, Callable[[ObservedKey, Changes], None]] = {
            keys.PODS: self._pod,
            keys.NODES: self._node,
            keys.ATTEMPTS: self._record,
            keys.BOUND_BY: self._bound_by,
            keys.INSTANCES: self._instance,
            keys.TENANTS: self._tenant,
            keys.REQUEUED: self._requeued,
            keys.PROMISES: self._promise,
            keys.HOLDS: self._hold,
            keys.ACTIVE: self._kubernetes,
            keys.IMPORTED: self._kubernetes,
            keys.GRANTS: self._grant,
            keys.CONFIG: self._config,
            **dict.fromkeys(_VERSION_KINDS, self._version),
            **dict.fromkeys(_SURROUNDINGS, self._surrounding),
        }
        self._versions = {
            keys.BINDINGS: cache.bindings,
            keys.BOUND: cache.bound,
            keys.TERMS: cache.terms,
            keys.VOLUMES: cache.volumes,
        }

    def unchanged(self, kv: KeyValue) -> bool:
        """Whether a listed key is what we know already."""
        return self._known.get(kv.key) == (kv.create_revision, kv.mod_revision)

    def exists(self, key: str) -> bool:
        """Whether etcd holds the key, readable or not."""
        return key in self._known

    def went_back(self, kv: KeyValue, revision: int) -> bool:
        """Whether a key listed at `revision` is older than it was: what we know of it, etcd has lost.

        Of a version, we may know from our own transaction what the watch did not tell any more.
        """
        known = self._known.get(kv.key)
        if known is not None and kv.mod_revision < known[1]:
            return True
        parsed = keys.parse(kv.key) if kv.key.startswith(keys.OURS) else None
        versions = self._versions.get(parsed.prefix) if parsed is not None else None
        return (
            versions is not None
            and parsed is not None
            and kv.mod_revision < versions["/".join(parsed.parts)] <= revision
        )

    def vanished(self, seen: set[str], revision: int) -> Iterator[Event]:
        """A delete for each known key that a list did not show any more."""
        for key in [key for key in self._known if key not in seen]:
            yield Event(KeyValue(key, b"", 0, revision), deleted=True)

    def take(self, observed: ObservedKey, changes: Changes) -> None:
        """Take one observation in, and note in `changes` what it means."""
        kv = observed.kv
        if observed.deleted:
            self._known.pop(kv.key, None)
        else:
            self._known[kv.key] = (kv.create_revision, kv.mod_revision)
        if observed.invalid:
            self.invalid.add(kv.key, observed.invalid)
        else:
            self.invalid.clear(kv.key)
        if not well_formed(observed):
            return
        self._takers[observed.prefix](observed, changes)

    def reclassify(self, changes: Changes) -> None:
        """After everything of a revision was taken in: note the pods that have another priority by their class."""
        for old, new in self.cache.reclassify():
            changes.reclassified.append(PodChange(new.key, old, new))

    def _pod(self, observed: ObservedKey, changes: Changes) -> None:
        key = PodKey(*observed.parts)
        self._check_promise(key, changes)
        old = self.cache.pods.get(key)
        if observed.invalid and old and old.bound and old.create_revision == observed.kv.create_revision:
            # It still runs there: counted nowhere, its room would be given to another pod.
            log.warning("bound_pod_unreadable effect=counts_as_last_seen pod=%s node=%s", key, old.node_name)
            return
        new = observed.value
        if isinstance(new, Pod):
            if old is not None and (old.identity != new.identity or not new.pending):
                self._released(old, changes)
            new = self.cache.set_pod(self._nominated(new), observed.kv.value)
            changes.pods.append(PodChange(new.key, old, new))
            return
        if old is None:
            return
        self._released(old, changes)
        self.cache.remove_pod(key)
        changes.pods.append(PodChange(key, old, None))

    def _node(self, observed: ObservedKey, changes: Changes) -> None:
        (name,) = observed.parts
        old = self.cache.nodes.get(name)
        new = observed.value
        if isinstance(new, Node):
            self.cache.set_node(new)
            changes.nodes.append(NodeChange(name, old, new))
        elif old is not None:
            self.cache.remove_node(name)
            changes.nodes.append(NodeChange(name, old, None))

    def _surrounding(self, observed: ObservedKey, changes: Changes) -> None:
        *space, name = observed.parts
        namespace = "".join(space)
        what, kind = _SURROUNDINGS[observed.prefix], SURROUNDING_KINDS[observed.prefix]
        about_storage = STORAGE_TYPES.get(kind)
        if about_storage is not None:
            old = self.cache.surroundings.storage.get(about_storage, namespace, name)
            new = observed.value if isinstance(observed.value, about_storage) else None
            if old is not None or new is not None:
                changes.storage.append(StorageChange(old, new))
        if isinstance(observed.value, Surrounding):
            self.cache.set_surrounding(observed.value)
        else:
            self.cache.remove_surrounding(what, namespace, name, kind)

    def _version(self, observed: ObservedKey, _: Changes) -> None:
        (name,), known = observed.parts, self._versions[observed.prefix]
        if observed.deleted:
            self.versions[observed.prefix].pop(name, None)
            known.remove(name)
        else:
            self.versions[observed.prefix][name] = observed.kv.mod_revision
            known.set(name, observed.kv.mod_revision)

    def _record(self, observed: ObservedKey, changes: Changes) -> None:
        key = PodKey(*observed.parts)
        pod = self.cache.pods.get(key)
        if pod is not None:
            key = pod.key  # equal; one for all dictionaries takes less room
        old = self.records.get(key)
        new = observed.value if isinstance(observed.value, Refusal) else None
        if new is not None and self.cache.kubernetes is not None:
            new = replace(new, with_pod=self._is_proven(key, observed.kv.mod_revision))
        if new is not None:
            self.records[key] = new
            # Placed here, refused by a bind elsewhere: what this worker assumed is not coming.
            self.cache.forget_unsent(PodIdentity(key.namespace, key.name, new.create_revision))
        elif old is not None:
            del self.records[key]
        if new is not None or old is not None:
            changes.records.append(RecordChange(key, old, new))
        if pod is not None and (named := self._nominated(pod)) is not pod:
            changes.pods.append(PodChange(key, pod, self.cache.set_pod(named, self.cache.raw(key) or b"")))

    def _nominated(self, pod: Pod) -> Pod:
        """The pod with the nomination that its record has, where pods do not carry theirs.

        A pod that has lost its node is nominated to it: it may run there already.
        """
        if self.format.marks_pods or pod.bound:
            return pod
        record = self.records.get(pod.key)
        of_it = record is not None and record.create_revision == pod.create_revision
        node = record.nominated_node if of_it and record is not None else ""
        if not node and (bound_by := self.bound_by.get(pod.key)) is not None:
            node = last_node(bound_by.value, pod.create_revision)
        return pod if node == pod.nominated_node_name else replace(pod, nominated_node_name=node)

    def _bound_by(self, observed: ObservedKey, _: Changes) -> None:
        key = PodKey(*observed.parts)
        if observed.deleted:
            self.bound_by.pop(key, None)
        else:
            self.bound_by[key] = observed.kv

    def _instance(self, observed: ObservedKey, changes: Changes) -> None:
        tenant, slot, incarnation = observed.parts
        number = incarnation_number(incarnation)
        if number is None:
            return
        new = observed.value if isinstance(observed.value, InstanceRecord) else None
        changes.instances.append(InstanceChange(tenant, slot, number, new))

    def _requeued(self, observed: ObservedKey, _: Changes) -> None:
        node, *pod = observed.parts
        pods = self.requeued.setdefault(node, set())
        (pods.discard if observed.deleted or observed.invalid else pods.add)(PodKey(*pod))
        if not pods:
            del self.requeued[node]

    def _promise(self, observed: ObservedKey, changes: Changes) -> None:
        side, key = self.cache.kubernetes, PodKey(*observed.parts)
        if side is None:
            return
        promise = observed.value
        side.unproven.pop(key, None)
        if isinstance(promise, Promise) and self._is_proven(key, observed.kv.mod_revision):
            side.promises[key] = promise
            self.cache.promise_volumes(key, promise.node, promise.volumes)
        else:
            if not observed.deleted:
                side.unproven[key] = observed.kv.mod_revision
            side.promises.pop(key, None)
            self.cache.unanswered.shown(key)
            self.cache.promise_volumes(key, "", ())
        changes.promises.append(key)

    def _is_proven(self, key: PodKey, mod_revision: int) -> bool:
        """Whether the pod was written at that revision too: its events precede those of promises and records."""
        return self._known.get(keys.pod(*key), (0, 0))[1] == mod_revision

    def _check_promise(self, key: PodKey, changes: Changes) -> None:
        """Set the promise of a pod apart that was written without it; one of the same transaction follows."""
        side = self.cache.kubernetes
        promise = side.promises.get(key) if side is not None else None
        if side is None or promise is None or self._is_proven(key, promise.mod_revision):
            return
        del side.promises[key]
        self.cache.unanswered.shown(key)
        side.unproven[key] = promise.mod_revision
        self.cache.promise_volumes(key, "", ())
        changes.promises.append(key)

    def _hold(self, observed: ObservedKey, changes: Changes) -> None:
        key = PodKey(*observed.parts)
        if self.cache.kubernetes is not None and self.cache.kubernetes.only_copies:
            if not observed.deleted:  # promises hold rooms where a Kubernetes API is the store
                log.warning("hold_unproven effect=ignored pod=%s revision=%d", key, observed.kv.mod_revision)
            return
        pod = self.cache.pods.get(key)
        place = observed.value if isinstance(observed.value, HeldPlace) else None
        before = self.cache.held_places.get(key)
        if pod is not None and before is not None and (place is None or place.node != before.node):
            self._released(pod, changes)
        self.cache.hold(key, place)
        changes.holds.append(key)

    def _released(self, pod: Pod, changes: Changes) -> None:
        """Note that the room of a pod becomes free, if one is held for it."""
        place = self.cache.held_places.get(pod.key)
        if place is not None and place.is_for(pod):
            changes.released.append(PodChange(pod.key, replace(pod, node_name=place.node), pod))

    def _kubernetes(self, observed: ObservedKey, changes: Changes) -> None:
        side = self.cache.kubernetes
        if side is None:
            return
        changes.kubernetes = True
        if observed.prefix == keys.ACTIVE:
            side.active = 0 if observed.deleted else observed.kv.mod_revision
        elif isinstance(observed.value, Imported):
            side.imported = observed.value
            side.told_at = self.cache.now

    def _config(self, observed: ObservedKey, changes: Changes) -> None:
        kind, *target = observed.parts
        value = None if observed.deleted else observed.kv.value
        changes.config.append(ConfigChange(kind, "/".join(target), value, observed.kv.mod_revision))

    def _grant(self, observed: ObservedKey, changes: Changes) -> None:
        """Our own: `reading` passes no other."""
        self.grant = None if observed.deleted else observed
        changes.grant = True

    def _tenant(self, observed: ObservedKey, changes: Changes) -> None:
        (name,) = observed.parts
        if observed.deleted == (name in self.cache.tenants):
            changes.tenants = True
        if observed.deleted:
            self.cache.tenants.pop(name, None)
        else:
            self.cache.tenants[name] = observed.kv.create_revision
