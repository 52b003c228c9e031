"""What etcd has of an object of the API: its copy, and for a pod what is promised.

A promise counts only where it is *proven*: the promise and the copy that it binds were written by one transaction, and
say the same. A client that may write one of the two keys, but not both, can make no such pair.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from wharfinger.errors import InvalidObject
from wharfinger.etcd.store import KeyValue
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.copies import state_of
from wharfinger.objects.documents.metadata import attempt_of
from wharfinger.scheduling.contracts.upstream_records import promise_in
from wharfinger.scheduling.model.promises import Promise


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
