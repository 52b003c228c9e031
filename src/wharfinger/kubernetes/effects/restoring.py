"""After the API was restored from a backup: everything that was copied is forgotten, and copied anew.

Revisions of the API went back, so no copy can be told to be older or newer than what it has now. Nothing may be bound
meanwhile: the right to bind goes first. Promises name revisions that the API may give out again, so none is kept; the
nodes' pods that are bound in the API come back with the list.

A restore shows in the Lease, whose revision is read every two seconds, when a watch is opened again, and in a list that
is older than the copies. It does not show where the API has written more since than was lost.
"""

from __future__ import annotations

from collections.abc import Iterable

from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Operation, Put, Store
from wharfinger.kubernetes.effects.adopting import NotTheImporter
from wharfinger.scheduling.contracts import upstream_records
from wharfinger.scheduling.model.promises import Imported

TOGETHER = 100
"""Keys that are removed in one transaction."""


class UpstreamWentBack(Exception):
    """The API shows an older state than was seen already: it was restored from a backup."""


async def forget_copies(store: Store, plurals: Iterable[str], *, epoch: int, generation: int) -> tuple[int, int]:
    """Remove the copies of these kinds and all promises; how many there were of each.

    `epoch`: of the importer; `generation`: the new one. Raises `StoreError` and `NotTheImporter`: call again.
    """
    begun = Imported(generation=generation)
    await _write(store, epoch, [Delete(keys.ACTIVE), Put(keys.IMPORTED, upstream_records.stored(begun))])
    promises = await _remove(store, epoch, keys.PROMISES)
    copies = 0
    for plural in plurals:
        copies += await _remove(store, epoch, keys.stored_prefix(plural))
    return copies, promises


async def _remove(store: Store, epoch: int, prefix: str) -> int:
    found = [kv.key async for kv in store.each(prefix)]
    for begin in range(0, len(found), TOGETHER):
        await _write(store, epoch, [Delete(key) for key in found[begin : begin + TOGETHER]])
    return len(found)


async def _write(store: Store, epoch: int, writes: list[Operation]) -> None:
    answer = await store.txn([Compare(keys.IMPORTER, "mod", epoch)], writes)
    if not answer.succeeded:
        raise NotTheImporter
