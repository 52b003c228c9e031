"""The cluster as etcd held it at one revision: what a decision of then was made on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import Compacted, InvalidObject, NotFound, RevisionFuture
from wharfinger.manifests.decode import decode_surrounding
from wharfinger.manifests.formats import ObjectFormat, format_of
from wharfinger.manifests.kinds import KINDS
from wharfinger.manifests.surroundings import KINDS as SURROUNDING_KINDS
from wharfinger.model.formats import ClusterFormat
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod
from wharfinger.model.surroundings import Surrounding
from wharfinger.registry import keys
from wharfinger.registry.store import KeyValue, Store

_SURROUNDINGS = {kind.name: keys.stored_prefix(kind.folder) for kind in KINDS if kind.name in SURROUNDING_KINDS}


@dataclass(frozen=True, slots=True)
class PastState:
    """Everything that decisions read, at one revision; what workers could not read is read here as they do."""

    revision: int
    nodes: tuple[Node, ...]
    """In the order in which they appeared."""
    pods: tuple[Pod, ...]
    surroundings: tuple[Surrounding, ...]
    format: ClusterFormat = ClusterFormat.KUBERNETES


async def read_past(store: Store, revision: int) -> PastState:
    """Read the state of a revision. Raises `NotFound`, saying why, when etcd has it no more, and `StoreError`."""
    format_ = format_of(store.format)
    surroundings = _SURROUNDINGS if format_.has_surroundings else {}
    try:
        nodes = [node async for kv in _all(store, keys.NODES, revision) if (node := _node(kv, format_)) is not None]
        pods = [pod async for kv in _all(store, keys.PODS, revision) if (pod := _pod(kv, format_)) is not None]
        around = [
            thing
            for kind, prefix in surroundings.items()
            async for kv in _all(store, prefix, revision)
            if (thing := _surrounding(kv, kind, prefix)) is not None
        ]
    except Compacted as error:
        raise NotFound(
            f"the state of revision {revision}, on which was decided, is compacted in etcd: "
            "the verdicts on nodes are lost; without --nodes the summary is shown"
        ) from error
    except RevisionFuture as error:
        raise NotFound(
            f"etcd has no revision {revision} yet, on which was decided: it was restored from a backup since"
        ) from error
    ordered = tuple(sorted(nodes, key=lambda node: node.create_revision))
    return PastState(revision, ordered, tuple(pods), tuple(around), store.format)


async def _all(store: Store, prefix: str, revision: int) -> AsyncIterator[KeyValue]:
    async for page in store.list(prefix, revision=revision):
        for kv in page.items:
            yield kv


def _node(kv: KeyValue, format_: ObjectFormat) -> Node | None:
    names = _names(kv, keys.NODES, 1)
    try:
        return format_.decode_node(kv.value, name=names[0], **_revisions(kv)) if names else None
    except InvalidObject:
        return None


def _pod(kv: KeyValue, format_: ObjectFormat) -> Pod | None:
    """A pod that cannot be read still holds what it holds on its node."""
    names = _names(kv, keys.PODS, 2)
    if not names:
        return None
    try:
        return format_.decode_pod(kv.value, namespace=names[0], name=names[1], **_revisions(kv))
    except InvalidObject:
        return format_.decode_occupant(kv.value, namespace=names[0], name=names[1], **_revisions(kv))


def _surrounding(kv: KeyValue, kind: str, prefix: str) -> Surrounding | None:
    names = _names(kv, prefix, 1 if prefix in keys.CLUSTER_WIDE else 2)
    try:
        return decode_surrounding(kv.value, kind, namespace="".join(names[:-1]), name=names[-1]) if names else None
    except InvalidObject:
        return None


def _names(kv: KeyValue, prefix: str, parts: int) -> list[str]:
    """Namespace and name out of a key; empty for a key that is none of this kind."""
    names = kv.key.removeprefix(prefix).split("/")
    return names if len(names) == parts and all(names) else []


def _revisions(kv: KeyValue) -> dict[str, Any]:
    return {"create_revision": kv.create_revision, "mod_revision": kv.mod_revision}
