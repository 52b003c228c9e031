"""Whether the copies in etcd are what the Kubernetes API has: every kind, every object.

::

    look: list the API, list etcd, compare ─► nothing differs: done
                     └─► wait a moment ─► look again: what differs at both looks, of the same states, is a difference

A copy is milliseconds behind, so one look alone proves nothing. Bound pods are compared by their node; the copy of a
promised pod is ahead of the API, and is compared by what its placement rests on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from wharfinger.apiserver.client import ApiClient, ApiResource, Object, revision_of
from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.kubernetes.effects.adopting import present
from wharfinger.kubernetes.effects.following import UNFINISHED, KindProgress
from wharfinger.kubernetes.effects.states import PODS, counts_before
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.copies import (
    copy_of,
    group_of,
    is_finished,
    means_the_same,
    same_but_revision,
    state_of,
)
from wharfinger.objects.documents.times import seconds_since
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.model.promises import Promise
from wharfinger.scheduling.reading.promised_pods import promises_of

OLD_PROMISE = 60.0
"""Seconds after which a promise is reported: it is sent again after 15."""


@dataclass(frozen=True, slots=True)
class CopyDifference:
    """One object that the copies have otherwise than the API."""

    plural: str
    namespace: str
    name: str
    problem: str
    revision: int
    """Of the API's object; 0 = there is none."""
    copied: int
    """Mod revision of the copy; 0 = there is none."""

    @property
    def object(self) -> str:
        """`pods/default/web`."""
        return "/".join(part for part in (self.plural, self.namespace, self.name) if part)


@dataclass(frozen=True, slots=True)
class AuditedKind:
    """One kind at one look."""

    plural: str
    objects: int
    copies: int
    bound: int = 0
    """Pods that the API has bound."""
    differences: tuple[CopyDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class CopiesAudit:
    """What an audit found."""

    kinds: tuple[AuditedKind, ...]
    """Of the last look; only what differed at both looks is in `differences`."""
    old: Mapping[PodKey, Promise] = field(default_factory=dict)
    """Promises that are older than `OLD_PROMISE`."""
    looks: int = 1

    @property
    def differences(self) -> list[CopyDifference]:
        """Of all kinds."""
        return [one for kind in self.kinds for one in kind.differences]

    @property
    def clean(self) -> bool:
        """Whether nothing is to be reported."""
        return not self.differences and not self.old


async def audit(
    store: Store,
    api: ApiClient,
    kinds: Sequence[ApiResource],
    *,
    pause: Callable[[], Awaitable[None]],
    now: Callable[[], datetime],
) -> CopiesAudit:
    """Look, and where something differs, look again after a pause. Raises `UpstreamError` and `StoreError`."""
    first = [await _look(store, api, kind) for kind in kinds]
    looks = 1
    if any(kind.differences for kind in first):
        await pause()
        looks = 2
        earlier = {one for kind in first for one in kind.differences}
        first = [
            _lasting(await _look(store, api, resource), earlier) if kind.differences else kind
            for resource, kind in zip(kinds, first, strict=True)
        ]
    promises = await promises_of(store)
    old = {key: one for key, one in sorted(promises.items()) if (seconds_since(one.since, now()) or 0.0) > OLD_PROMISE}
    return CopiesAudit(tuple(first), old, looks)


def to_plain(found: CopiesAudit) -> dict[str, Any]:
    """As plain values."""
    return {
        "clean": found.clean,
        "looks": found.looks,
        "kinds": {
            kind.plural: {"objects": kind.objects, "copies": kind.copies, "differences": len(kind.differences)}
            for kind in found.kinds
        },
        "boundPods": sum(kind.bound for kind in found.kinds),
        "differences": [
            {"object": one.object, "problem": one.problem, "resourceVersion": one.revision} for one in found.differences
        ],
        "oldPromises": [
            {"pod": str(key), "node": one.node, "since": one.since, "ready": one.ready, "withdrawn": one.withdrawn}
            for key, one in found.old.items()
        ],
    }


def _lasting(kind: AuditedKind, earlier: set[CopyDifference]) -> AuditedKind:
    return replace(kind, differences=tuple(one for one in kind.differences if one in earlier))


async def _look(store: Store, api: ApiClient, resource: ApiResource) -> AuditedKind:
    """One kind now."""
    plural, group = resource.plural, KindProgress(resource).group
    copies: dict[str, KeyValue] = {}
    others: dict[str, str] = {}
    """Copies of other API groups, where several lie together: their groups, by key."""
    async for copy in store.each(keys.stored_prefix(plural)):
        copies[copy.key] = copy
        if group and (of := group_of(copy.value)) != group:
            others[copy.key] = of
    promises = await promises_of(store) if plural == PODS else {}
    number, objects, bound, found = len(copies) - len(others), 0, 0, []
    selector = UNFINISHED if plural == PODS else ""
    async for listed, _ in api.list(resource, field_selector=selector):
        for obj in listed:
            objects += 1
            state = present(plural, obj)
            bound += bool(plural == PODS and state.node)
            kv = copies.pop(state.key, None)
            if state.key in others and counts_before(others[state.key], group):
                continue
            promise = promises.get(PodKey(state.namespace, state.name))
            if problem := compared(resource, obj, kv, promise):
                copied = kv.mod_revision if kv is not None else 0
                found.append(CopyDifference(plural, state.namespace, state.name, problem, revision_of(obj), copied))
    for key, kv in copies.items():
        if key in others:
            continue
        if plural == PODS and is_finished(kv.value):
            continue  # it ended between the two lists
        namespace, _, name = key.removeprefix(keys.stored_prefix(plural)).rpartition("/")
        found.append(CopyDifference(plural, namespace, name, "is copied, but the API has none", 0, kv.mod_revision))
    return AuditedKind(KindProgress(resource).name, objects, number, bound, tuple(found))


def compared(resource: ApiResource, obj: Object, kv: KeyValue | None, promise: Promise | None = None) -> str:
    """What is wrong with the copy of an object; empty where nothing is. `promise`: of the pod."""
    if kv is None:
        return "is not copied"
    try:
        had = state_of(kv.value)
    except InvalidObject as error:
        return f"its copy cannot be read: {error}"
    metadata = obj["metadata"]
    if had.uid != metadata.get("uid"):
        return f"its copy is of another object (uid {had.uid})"
    if had.revision > revision_of(obj):
        return ""  # the copy is of a later state than the list
    if resource.group and "apiVersion" not in obj:  # items of lists are printed without it
        obj = {"apiVersion": resource.api_version, **obj}
    if resource.plural == PODS:
        here, there = _node(documents.parse(kv.value)), _node(obj)
        if promise is None and here != there:
            return f"is bound to {there or 'no node'} in the API, to {here or 'no node'} in etcd"
        if promise is not None and not there:
            same = any(means_the_same(copy_of(obj, PODS, whole=whole), kv.value) for whole in (False, True))
            return "" if same else "its copy, which is promised, differs in what its placement rests on"
    kept = (copy_of(obj, resource.plural, whole=whole) for whole in (False, True))
    return "" if any(same_but_revision(one, kv.value) for one in kept) else "its copy has other contents"


def _node(pod: Mapping[str, Any]) -> str:
    return str((pod.get("spec") or {}).get("nodeName") or "")
