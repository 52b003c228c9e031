"""What lies in etcd where a Kubernetes API is the store, as JSON, and which promises are proven. Keys: `etcd.keys`.

::

    promises/<namespace>/<name>  model Promise    `bind`, in its transaction; the importer, and who gives it up
    importer                     model Importer   the importer, under its lease, create-only
    imported                     model Imported   the importer, each second
    active                       model MayBind    the importer, under a short lease, while it holds the Lease of the API

Each write of the importer compares the mod revision of `importer`; each bind compares that of `active`.

A promise counts only where it is *proven*: the promise and the copy that it binds were written by one transaction, and
say the same. A client that may write one of the two keys, but not both, can make no such pair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple, TypeVar

from pydantic import TypeAdapter

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.copies import state_of
from wharfinger.objects.documents.metadata import attempt_of
from wharfinger.scheduling.model.promises import Imported, Importer, MayBind, Promise

UNREADABLE = "the promise cannot be read"
Fact = Promise | Imported | MayBind | Importer
F = TypeVar("F", Promise, Imported, MayBind, Importer)

_ADAPTERS: Mapping[type, TypeAdapter[Any]] = {
    kind: TypeAdapter(kind) for kind in (Promise, Imported, MayBind, Importer)
}


def stored(record: Fact) -> bytes:
    """As stored in etcd: compact JSON, without fields that have their usual values."""
    return _ADAPTERS[type(record)].dump_json(record, exclude={"mod_revision"}, exclude_defaults=True)


def read_value(kind: type[F], value: bytes) -> F:
    """The record in a value. Raises `ValueError`."""
    found: F = _ADAPTERS[kind].validate_json(value)
    return found


def at(promise: Promise, mod_revision: int) -> Promise:
    """The promise with what its key says."""
    return replace(promise, mod_revision=mod_revision)


def promise_in(value: bytes, mod_revision: int) -> Promise:
    """A stored promise. One that cannot be read counts as given up: it is never sent."""
    try:
        found = read_value(Promise, value)
    except ValueError:
        found = Promise(uid="", revision=0, node="", attempt="", since="", withdrawn=UNREADABLE)
    return at(found, mod_revision)


class StateEffect(StrEnum):
    """What a state did."""

    NOTHING = "nothing"
    COPIED = "copied"
    REMOVED = "removed"
    ENDED = "ended"
    """Copied, and the promise is no more, because it is kept, or because it cannot be."""
    PROMISED_AGAIN = "promised again"


class KnownObject(NamedTuple):
    """What etcd has of it."""

    copy: KeyValue | None
    promise: Promise | None = None
    effect: StateEffect = StateEffect.NOTHING
    """What the last transaction did that made it so, where one did."""
    unproven: int = 0
    """Mod revision of a promise that no transaction of ours has put with this copy, so that it counts for nothing and
    is never sent; 0 = there is none."""

    @property
    def promise_revision(self) -> int:
        """Mod revision of the promise's key; 0 = there is none."""
        return self.promise.mod_revision if self.promise is not None else self.unproven


def known_object(copy: KeyValue | None, promise: KeyValue | None) -> KnownObject:
    """A copy and what is promised for it, as read at one revision; a promise that is not proven is set apart."""
    if promise is None:
        return KnownObject(copy)
    found = promise_in(promise.value, promise.mod_revision)
    if _is_proven(copy, promise, found):
        return KnownObject(copy, found)
    return KnownObject(copy, unproven=promise.mod_revision)


def _is_proven(copy: KeyValue | None, kv: KeyValue, promise: Promise) -> bool:
    """Whether one transaction wrote both, and the copy is the pod that is promised, on that node, by that attempt."""
    if copy is None or copy.mod_revision != kv.mod_revision:
        return False
    try:
        bound = documents.parse(copy.value)
        node = bound["spec"].get("nodeName") or ""
        state = state_of(copy.value)
        said = (state.uid, state.revision, node, attempt_of(bound))
    except (InvalidObject, KeyError, AttributeError, TypeError):
        return False
    return said == (promise.uid, promise.revision, promise.node, promise.attempt)
