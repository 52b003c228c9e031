"""A pod that is lived again: what it was in the record, what becomes of it in the rerun, and how the two ends compare.

`rerun` lives the span. `Lives` keeps all pods of it: in memory those that are there, in a file those that ended.
An object is not kept: each change brings it whole, and whether it is another one is told by its digest. Pure.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from wharfinger.etcd import keys
from wharfinger.etcd.store import Event
from wharfinger.objects.documents.pod_requests import resize_of
from wharfinger.objects.model.conditions import DISRUPTION_TARGET, POD_RESIZE_PENDING, PREEMPTION
from wharfinger.objects.model.names import ATTEMPT_ANNOTATION
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import AttemptRecord, binder_of
from wharfinger.replay.ends import verdict_of
from wharfinger.replay.memory_limit import scratch_database, writing

_FLAGS = ("ours", "evicted", "evicted_then", "failed")


@dataclass(slots=True)
class LivedPod:
    """One pod of the span, in the record and in the rerun."""

    key: PodKey
    create_revision: int
    digest: bytes = b""
    """Of the object as it was seen last (`digest_of`)."""
    recorded: str = ""
    """Where it was bound in the record; empty = nowhere."""
    node: str = ""
    """Where it was bound in the rerun."""
    total: int | None = None
    """Score of that node when it was chosen; None where it was the only one, and for members of gangs."""
    message: str = ""
    """Why it was refused last, in the rerun."""
    ours: bool = True
    """Whether it is decided again; False for foreign binds, and for pods that were bound before the span."""
    started: str = ""
    """Since when it runs, RFC 3339: as the record says, or when the rerun bound it. Victims are chosen by it."""
    evicted: bool = False
    """Whether it was a victim in the rerun."""
    evicted_then: bool = False
    """Whether it was a victim in the record."""
    failed: bool = False
    """Whether a plugin failed when it was tried last."""
    scheduler: str = ""
    """Name of the profile that its manifest asks for."""
    owner: str = ""
    """Kind and name of its controller, `ReplicaSet/web`; empty for a pod of its own."""

    @property
    def end(self) -> str:
        """Its node when the rerun ended, or when the pod did; empty for a victim."""
        return "" if self.evicted else self.node

    @property
    def verdict(self) -> str:
        """How its two ends compare. A victim of both is compared by its nodes."""
        if self.failed and not self.node:
            return "unreplayable"
        return verdict_of(self.recorded, self.node, evicted=self.evicted and not self.evicted_then)


def pod_key_of(stored: str) -> PodKey | None:
    """The pod that a key of etcd names; None for any other key, also one below the pods that names none."""
    parsed = keys.parse(stored)
    return (
        PodKey(*parsed.parts) if parsed is not None and parsed.prefix == keys.PODS and len(parsed.parts) == 2 else None
    )


def freed(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The pod without what schedulers and kubelets wrote, but for its end and a resize in place.

    Raises `InvalidObject`.
    """
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if name != "nodeName"}
    metadata = dict(obj.get("metadata") or {})
    annotations = metadata.get("annotations") or {}
    metadata["annotations"] = {name: value for name, value in annotations.items() if name != ATTEMPT_ANNOTATION}
    found = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
    status = obj.get("status") or {}
    resize = resize_of(spec, status)
    if resize:
        pending = [one for one in status.get("conditions") or () if one.get("type") == POD_RESIZE_PENDING]
        found["status"] = {**resize, "conditions": pending}
    return found


def digest_of(free: Mapping[str, Any]) -> bytes:
    """Tells whether two objects that `freed` made are the same."""
    return hashlib.blake2b(json.dumps(free, sort_keys=True).encode(), digest_size=16).digest()


def owner_of(references: Any) -> str:
    """Kind and name of the controller among these; empty for none."""
    found = references if isinstance(references, list) else []
    owner = next((one for one in found if isinstance(one, dict) and one.get("controller") is True), None)
    return f"{owner.get('kind', '')}/{owner.get('name', '')}" if owner is not None else ""


def started_of(obj: Mapping[str, Any]) -> str:
    """Since when the pod runs, RFC 3339; empty = it does not."""
    found = (obj.get("status") or {}).get("startTime")
    return found if isinstance(found, str) else ""


def is_victim(obj: Mapping[str, Any]) -> bool:
    """Whether the pod is being evicted for another one, in the record."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    wanted = DISRUPTION_TARGET, "True", PREEMPTION
    return any(wanted == (one.get("type"), one.get("status"), one.get("reason")) for one in conditions)


def placed_object(free: dict[str, Any], pod: LivedPod) -> dict[str, Any]:
    """What `freed` made, where the pod is in the rerun."""
    if not pod.node:
        return free
    status = {**free.get("status", {}), **({"startTime": pod.started} if pod.started else {})}
    return {**free, "spec": {**free["spec"], "nodeName": pod.node}, "status": status}


_FIELDS = tuple(field.name for field in fields(LivedPod) if field.name not in ("key", "digest"))
"""What is told of a pod that ended, beside its name."""
_TABLE = f"CREATE TABLE ended (number INTEGER PRIMARY KEY, namespace, name, {', '.join(_FIELDS)})"
_ADDED = f"INSERT INTO ended VALUES ({', '.join('?' * (3 + len(_FIELDS)))})"  # noqa: S608 - ours


class Lives:
    """Lives of pods, iterated in the order in which they came; its length counts them. Close it.

    A span may have any number of pods, and what became of one that ended is only told at the end.
    """

    def __init__(self) -> None:
        self._there: dict[PodKey, tuple[int, LivedPod]] = {}
        self._ended: sqlite3.Connection | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[LivedPod]:
        """One that ended is another object each time, which nobody keeps."""
        for _, pod in heapq.merge(self._read(), self._there.values(), key=lambda one: one[0]):
            yield pod

    @property
    def there(self) -> Iterator[LivedPod]:
        """Those that are there."""
        return (pod for _, pod in self._there.values())

    def get(self, key: PodKey) -> LivedPod | None:
        """The pod of that name that is there."""
        found = self._there.get(key)
        return found[1] if found is not None else None

    def came(self, pod: LivedPod) -> None:
        """The pod is there; no other of its name is."""
        self._there[pod.key] = self._count, pod
        self._count += 1

    def ended(self, pod: LivedPod) -> None:
        """The pod is there no more: nothing of it changes. Raises `UsageError` where no file can be written."""
        number, _ = self._there.pop(pod.key)
        if self._ended is None:
            self._ended = scratch_database(_TABLE)
        with writing():
            self._ended.execute(_ADDED, (number, *pod.key, *(_kept(getattr(pod, name)) for name in _FIELDS)))

    def close(self) -> None:
        """Give the room of the file back."""
        if self._ended is not None:
            self._ended.close()
            self._ended = None

    def _read(self) -> Iterator[tuple[int, LivedPod]]:
        if self._ended is not None:
            for number, namespace, name, *values in self._ended.execute("SELECT * FROM ended ORDER BY number"):
                written = dict(zip(_FIELDS, values, strict=True))
                written |= {flag: bool(written[flag]) for flag in _FLAGS}
                yield number, LivedPod(PodKey(namespace, name), **written)


def _kept(value: object) -> object:
    """JSON can have halves of characters in a text, and a file cannot."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


class Unmarked:
    """What a record says beside pods that carry no marks, as those of rk8s: who bound a pod, and who was evicted.

    Both are in keys of our own. Who bound a pod stands there while the pod lives; for whom a pod is evicted, in the
    attempt record of that other pod until it is bound.
    """

    def __init__(self) -> None:
        self._bound_by: dict[PodKey, bytes] = {}
        self._victims: dict[PodKey, frozenset[str]] = {}
        """By the pod for which they are evicted."""

    def take(self, events: Iterable[Event]) -> None:
        """Changes of one revision, or a whole state."""
        for event in events:
            parsed = keys.parse(event.kv.key)
            if parsed is None or len(parsed.parts) != len(PodKey._fields):
                continue
            if parsed.prefix == keys.BOUND_BY:
                self._bound_by.pop(PodKey(*parsed.parts), None)
                if not event.deleted:
                    self._bound_by[PodKey(*parsed.parts)] = event.kv.value
            elif parsed.prefix == keys.ATTEMPTS:
                self._victims.pop(PodKey(*parsed.parts), None)
                if not event.deleted and (found := _victims(event.kv.value)):
                    self._victims[PodKey(*parsed.parts)] = found

    def attempt_of(self, key: PodKey, create_revision: int, node: str) -> str:
        """`<workflow id>@<run id>` of what bound this life of the pod to the node; empty when another writer did."""
        return binder_of(self._bound_by.get(key), create_revision, node)

    def is_victim(self, key: PodKey) -> bool:
        """Whether the pod is being evicted for another one."""
        return any(str(key) in names for names in self._victims.values())


def _victims(record: bytes) -> frozenset[str]:
    found = AttemptRecord.from_bytes(record)
    return frozenset(found.victims if found is not None else ())
