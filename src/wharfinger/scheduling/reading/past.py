"""The cluster as etcd held it at one revision: what a decision of then was made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wharfinger.errors import Compacted, InvalidObject, NotFound, RevisionFuture
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents.decode import decode_surrounding
from wharfinger.objects.documents.formats import ObjectFormat, format_of
from wharfinger.objects.documents.kinds import KINDS
from wharfinger.objects.documents.surroundings import KINDS as SURROUNDING_KINDS
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.surroundings import Surrounding

_SURROUNDINGS = {
    kind.name: keys.FOLLOWED[keys.stored_prefix(kind.folder)] for kind in KINDS if kind.name in SURROUNDING_KINDS
}


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
        nodes = [
            node
            async for (name,), kv in keys.node.rows(store, revision=revision)
            if (node := _node(kv, name, format_)) is not None
        ]
        pods = [
            pod
            async for key, kv in keys.pod.rows(store, revision=revision)
            if (pod := _pod(kv, PodKey(*key), format_)) is not None
        ]
        around = [
            thing
            for kind, table in surroundings.items()
            async for names, kv in table.rows(store, revision=revision)
            if (thing := _surrounding(kv, kind, names)) is not None
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


def _node(kv: KeyValue, name: str, format_: ObjectFormat) -> Node | None:
    try:
        return format_.decode_node(kv.value, name=name, **_revisions(kv))
    except InvalidObject:
        return None


def _pod(kv: KeyValue, key: PodKey, format_: ObjectFormat) -> Pod | None:
    """A pod that cannot be read still holds what it holds on its node."""
    try:
        return format_.decode_pod(kv.value, **key._asdict(), **_revisions(kv))
    except InvalidObject:
        return format_.decode_occupant(kv.value, **key._asdict(), **_revisions(kv))


def _surrounding(kv: KeyValue, kind: str, names: tuple[str, ...]) -> Surrounding | None:
    try:
        return decode_surrounding(kv.value, kind, namespace="".join(names[:-1]), name=names[-1])
    except InvalidObject:
        return None


def _revisions(kv: KeyValue) -> dict[str, Any]:
    return {"create_revision": kv.create_revision, "mod_revision": kv.mod_revision}
