"""Writing one manifest by compare-and-set, whoever else writes the object meanwhile.

What is written is `manifests.merge`'s affair, where it lies `registry.keys`'.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from wharfinger.cli.files import Manifest
from wharfinger.errors import InvalidObject, RequestTooLarge, Unavailable, WharfingerError
from wharfinger.manifests import decode, documents, merge
from wharfinger.manifests.kinds import NODE, POD, Reference
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Get, KeyValue, Put, Store

TRIES = 10
"""Compare-and-sets of one object; each fails only because somebody else wrote it in between."""

REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one manifest."""

    object: str
    """`pod/default/web`, or the file when no object could be read from it."""
    result: str
    """`created`, `configured`, `unchanged` or `refused`."""
    reason: str = ""

    def mapping(self) -> dict[str, str]:
        """As printed for programs; the reason only where there is one."""
        shown = {"object": self.object, "result": self.result}
        return {**shown, "reason": self.reason} if self.reason else shown


async def write(store: Store, manifest: Manifest, *, uid: str, now: str) -> Applied:
    """Write one object; what is wrong with it is a result, not an error.

    `uid` and `now` (RFC 3339, UTC) are given to a new object that has none. Raises `Unavailable`.
    """
    if manifest.about is None or manifest.obj is None:
        return Applied(manifest.source, REFUSED, manifest.problem)
    draft = _Draft(manifest.about, dict(manifest.obj), uid, now)
    try:
        return Applied(str(manifest.about), await _commit(store, draft))
    except (InvalidObject, RequestTooLarge) as error:
        return Applied(str(manifest.about), REFUSED, str(error))


async def _commit(store: Store, draft: _Draft) -> str:
    key = keys.stored(draft.about.kind.plural, draft.about.namespace, draft.about.name)
    stored = (await store.get(key)).kv
    for _ in range(TRIES):
        value = draft.over(stored)
        if value is None:
            return draft.result
        compare = Compare(key, "mod", stored.mod_revision if stored is not None else 0)
        try:
            answer = await store.txn([compare], [Put(key, value)], [Get(key)])
        except Unavailable as error:
            if not error.maybe_applied:
                raise
            stored = (await store.get(key)).kv  # only reading tells; what is there already is not written again
            continue
        if answer.succeeded:
            return draft.result
        stored = answer.reads[0]
    raise WharfingerError(f"{draft.about} is changed by others all the time; gave up after {TRIES} tries")


@dataclass(slots=True)
class _Draft:
    """A manifest to be laid over whatever is stored; remembers what that made of the object."""

    about: Reference
    manifest: dict[str, Any]
    uid: str
    now: str
    result: str = "unchanged"

    def over(self, stored: KeyValue | None) -> bytes | None:
        """The value to store, or None when what is stored says it already. Raises `InvalidObject`."""
        before = _readable(stored.value) if stored is not None else None
        if before is None:  # nothing there, or bytes that are no object: nothing to keep
            obj = merge.created(self.manifest, self.about, uid=self.uid, now=self.now)
        else:
            obj = merge.updated(before, self.manifest, self.about)
            if _same(obj, before):
                return None
        _check(obj, self.about)
        self.result = "created" if stored is None else "configured"
        return documents.to_json(obj)


def _readable(value: bytes) -> dict[str, Any] | None:
    try:
        obj = documents.parse(value)
    except InvalidObject:
        return None
    parts = ("metadata", "spec", "status")
    readable = isinstance(obj, dict) and all(isinstance(obj.get(part), dict | None) for part in parts)
    return obj if readable else None


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Equal as JSON: the order of keys means nothing, but `1` is not `true`."""
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _check(obj: dict[str, Any], about: Reference) -> None:
    """Refuse a pod or node that the scheduler could not read. Raises `InvalidObject`."""
    if about.kind is POD:
        decode.pod_from_mapping(obj)
    elif about.kind is NODE:
        decode.node_from_mapping(obj)
