"""Rewriting a promise together with the copy of its pod, so that the two stay of one revision.

A promise is sent only while both were written by one transaction (`known_objects`). So a mark on a promise puts
the copy anew, too, with the value that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Get, Put, Store
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts import upstream_records
from wharfinger.scheduling.effects.binding.known_objects import known_object
from wharfinger.scheduling.model.promises import Promise

TRIES = 10
"""Transactions before the caller has to come again: an edit of the pod may have it promised again at that moment."""


class RewrittenPromise(NamedTuple):
    """A promise after a change of it."""

    promise: Promise | None
    """As it is now; None when there is none, or none that is proven."""
    written: bool = False


async def rewrite(store: Store, pod: PodKey, change: Callable[[Promise], Promise | None]) -> RewrittenPromise:
    """Change the promise of a pod; `change` answers None where it is to stay as it is. Raises `StoreError`."""
    copy_key, key = keys.pod(*pod), keys.promise(*pod)
    reads = [Get(copy_key), Get(key)]
    copy, kv = (await store.txn([], reads)).reads
    for _ in range(TRIES):
        promise = known_object(copy, kv).promise
        changed = change(promise) if promise is not None else None
        if copy is None or kv is None or changed is None:
            return RewrittenPromise(promise)
        answer = await store.txn(
            [Compare(copy_key, "mod", copy.mod_revision), Compare(key, "mod", kv.mod_revision)],
            [Put(copy_key, copy.value), Put(key, upstream_records.stored(changed))],
            reads,
        )
        if answer.succeeded:
            return RewrittenPromise(upstream_records.at(changed, answer.revision), written=True)
        copy, kv = answer.reads
    raise Unavailable(f"{key} changed during {TRIES} transactions")
