r"""A pod whose room is held while plugins are called for it: as etcd has it, whatever the store of the cluster is.

===================  ==================================================  ==========================================
\                    the room is held by                                  until the pod is bound, the copy is
===================  ==================================================  ==========================================
etcd itself          the record `holds/<namespace>/<name>`               pending
a Kubernetes API     a promise that is not ready                         on its node already
===================  ==================================================  ==========================================
"""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.contracts.records import HoldRecord
from wharfinger.contracts.scheduling import Placed
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import PodReference
from wharfinger.engine.upstream.adopting import known_object
from wharfinger.errors import InvalidObject
from wharfinger.manifests.formats import format_of
from wharfinger.model.pod import Pod, PodKey
from wharfinger.model.promises import Promise
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Delete, Get, KeyValue

NOT_HELD_ANY_MORE = "its room on node {node} is not held any more"


@dataclass(frozen=True, slots=True)
class HeldPod:
    """What etcd says of one."""

    pod: Pod | None = None
    """As plugins get it: not bound yet. None = there is no such pod any more."""
    bound_to: str = ""
    """The node that it is bound to; empty while it is not."""
    lost: str = ""
    """Why the room is not held any more for this attempt; empty while it is."""
    promise: Promise | None = None
    """What holds the room, where a Kubernetes API is the store."""
    record: int = 0
    """Mod revision of the record that holds it, where etcd itself is; 0 = it is not held."""


class HeldPods:
    """Reads such pods, and gives up rooms, for one worker."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._format = format_of(core.process.store.format)
        self._cache = core.pool.cache
        self._eligibility = core.eligibility
        self._upstream = core.upstream is not None

    async def read(self, reference: PodReference, attempt: str, node: str) -> HeldPod:
        """The pod by a linearizable read. `attempt`: `<workflow id>@<run id>` of the one that asks.

        Raises `StoreError`.
        """
        key = reference.key
        record = keys.promise(*key) if self._upstream else keys.hold(*key)
        kv, held = (await self._store.txn([], [Get(keys.pod(*key)), Get(record)])).reads
        if kv is None:
            return HeldPod(lost="the pod does not exist any more")
        try:
            pod = self._decoded(kv, key)
        except InvalidObject as error:
            return HeldPod(lost=f"the pod cannot be read: {error}")
        unbound = pod.unbound()
        promise = known_object(kv, held).promise if self._upstream else None
        if pod.bound and promise is None:
            return HeldPod(unbound, pod.node_name, f"the pod is bound to {pod.node_name}")
        gone = self._eligibility.verdict(reference, unbound)
        if gone is not None:
            return HeldPod(unbound, lost=gone.line)
        if promise is not None:
            if promise.withdrawn or (promise.attempt, promise.node) != (attempt, node):
                return HeldPod(unbound, lost=promise.withdrawn or NOT_HELD_ANY_MORE.format(node=node))
            return HeldPod(unbound, promise=promise)
        found = _record(held)
        if found is None or (found.attempt, found.node, found.create_revision) != (attempt, node, pod.create_revision):
            return HeldPod(unbound, lost=NOT_HELD_ANY_MORE.format(node=node))
        return HeldPod(unbound, record=held.mod_revision if held is not None else 0)

    def may_be_held(self, placed: Placed, key: PodKey, attempt: str, node: str) -> bool:
        """Whether the room may be held still, as far as the watch has shown; cheap."""
        pod = self._cache.pods.get(key)
        if pod is None or pod.create_revision != placed.create_revision or pod.deletion_timestamp:
            return False
        side = self._cache.upstream
        if side is None:
            place = self._cache.held_places.get(key)
            return place is not None and place.is_for(pod) and (place.attempt, place.node) == (attempt, node)
        promise = side.promises.get(key)
        return promise is not None and not promise.withdrawn and (promise.attempt, promise.node) == (attempt, node)

    async def release(self, key: PodKey, attempt: str) -> None:
        """End the record by which this attempt holds a room in etcd. Safe to run again. Raises `StoreError`."""
        kv = (await self._store.get(keys.hold(*key))).kv
        found = _record(kv)
        if kv is not None and (found is None or found.attempt == attempt):
            await self._store.txn([Compare(kv.key, "mod", kv.mod_revision)], [Delete(kv.key)])

    def _decoded(self, kv: KeyValue, key: PodKey) -> Pod:
        pod = self._format.decode_pod(
            kv.value,
            namespace=key.namespace,
            name=key.name,
            create_revision=kv.create_revision,
            mod_revision=kv.mod_revision,
        )
        return self._cache.resolved(pod)


def _record(kv: KeyValue | None) -> HoldRecord | None:
    """A stored record; None when there is none, or nobody can read it."""
    return HoldRecord.from_bytes(kv.value) if kv is not None else None
