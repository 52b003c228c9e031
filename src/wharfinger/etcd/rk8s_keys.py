"""A store whose cluster keeps its pods as rk8s does: without a namespace in their keys.

::

    in etcd   /registry/pods/<name>
    here      /registry/pods/default/<name>

So the rest of wharfinger spells every key alike. No other key differs. Other namespaces have no pods, so their keys
become keys that no pod of rk8s has: with an empty segment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from wharfinger.errors import UsageError
from wharfinger.etcd.keys import PODS
from wharfinger.etcd.store import (
    Compare,
    Condition,
    Delete,
    Event,
    Get,
    KeyValue,
    Lease,
    Operation,
    Page,
    Put,
    Read,
    Store,
    TxnResult,
    Unmoved,
    WatchBatch,
)
from wharfinger.objects.model.formats import ClusterFormat

NAMESPACE = "default"
"""In which all pods of rk8s are."""
_OURS = f"{PODS}{NAMESPACE}/"
_KIND = len(PODS)


def store_of(store: Store, format_: ClusterFormat) -> Store:
    """A store that spells keys as everything else expects them, over one that has them as this format does."""
    return Rk8sKeys(store) if format_ is ClusterFormat.RK8S and store.format is not format_ else store


class Rk8sKeys(Store):
    """See the module."""

    format = ClusterFormat.RK8S

    def __init__(self, store: Store) -> None:
        """The caller's store; `close` closes it."""
        self._store = store

    def as_stored(self, key: str) -> str:
        """A pod's key without its namespace."""
        return _outward(key)

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """See `Store`."""
        read = await self._store.get(_outward(key), revision=revision)
        return Read(_inward_kv(read.kv), read.revision)

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """See `Store`."""
        async for page in self._store.list(_prefix(prefix), revision=revision, page_size=page_size):
            yield Page(tuple(_inward(kv) for kv in page.items), page.revision)

    @asynccontextmanager
    async def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AsyncIterator[AsyncIterator[WatchBatch]]:
        """See `Store`."""
        async with self._store.watch(_prefix(prefix), start_revision, previous=previous) as batches:
            yield _batches(batches)

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        """See `Store`. Raises `UsageError` for a put of a pod in another namespace than `default`."""
        done = await self._store.txn(
            [_condition(one) for one in compares],
            [_operation(one) for one in success],
            [_operation(one) for one in failure],
        )
        return TxnResult(done.succeeded, done.revision, tuple(_inward_kv(kv) for kv in done.reads))

    async def grant_lease(self, ttl: float, *, alive: Callable[[], bool] | None = None) -> Lease:
        """See `Store`."""
        return await self._store.grant_lease(ttl, alive=alive)

    async def close(self) -> None:
        """See `Store`."""
        await self._store.close()


async def _batches(batches: AsyncIterator[WatchBatch]) -> AsyncIterator[WatchBatch]:
    async for batch in batches:
        yield WatchBatch(batch.revision, tuple(_event(event) for event in batch.events))


def _event(event: Event) -> Event:
    if not event.kv.key.startswith(PODS):
        return event
    return Event(_inward(event.kv), event.deleted, _inward_kv(event.previous))


def _inward(kv: KeyValue) -> KeyValue:
    key = kv.key
    return kv._replace(key=f"{_OURS}{key[_KIND:]}") if key.startswith(PODS) else kv


def _inward_kv(kv: KeyValue | None) -> KeyValue | None:
    return None if kv is None else _inward(kv)


def _prefix(prefix: str) -> str:
    """A prefix of keys as etcd has it: of a part of the namespace's name, all pods."""
    return PODS if _OURS.startswith(prefix) and len(prefix) > _KIND else _outward(prefix)


def _outward(key: str) -> str:
    """A key as etcd has it."""
    if key.startswith(_OURS):
        return f"{PODS}{key[len(_OURS) :]}"
    return f"{PODS}/{key[_KIND:]}" if len(key) > _KIND and key.startswith(PODS) else key


def _written(key: str) -> str:
    if len(key) > _KIND and key.startswith(PODS) and not key.startswith(_OURS):
        raise UsageError(f"pods of rk8s have no namespace but {NAMESPACE}: {key[_KIND:][:200]} cannot be written")
    return _outward(key)


def _condition(one: Condition) -> Condition:
    if isinstance(one, Unmoved):
        return Unmoved(_prefix(one.prefix), one.revision)
    if not one.key.startswith(PODS):
        return one
    return Compare(_outward(one.key), one.target, one.revision)


def _operation(one: Operation) -> Operation:
    if not one.key.startswith(PODS):
        return one
    match one:
        case Put():
            return Put(_written(one.key), one.value, one.lease)
        case Delete():
            return Delete(_outward(one.key))
        case Get():
            return Get(_outward(one.key))
