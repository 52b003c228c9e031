"""What wharfinger needs of a store: etcd's revisions, watches, transactions and leases.

Keys are text; bytes of a key that are no UTF-8 survive as surrogates (`surrogateescape`), so a
foreign key can be reported and deleted like any other. Values are bytes. Revisions are positive
integers that only grow; a read at revision 0 means "now", linearizably.

Implementations: `wharfinger.etcd.etcd.EtcdStore`, `wharfinger.testing.memory_store.MemoryStore`, and over
either `wharfinger.etcd.rk8s_keys.Rk8sKeys`. One conformance suite holds for all (`tests/etcd/conformance`).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from wharfinger.objects.model.formats import ClusterFormat


class KeyValue(NamedTuple):
    """One key as stored. Like all that the watch makes by the ten thousand, a tuple: half the time and room."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int
    lease: int = 0
    """Id of the lease the key hangs on, 0 for none."""

    @property
    def revisions(self) -> dict[str, Any]:
        """Both revisions by name, as decoders of objects take them."""
        return {"create_revision": self.create_revision, "mod_revision": self.mod_revision}


@dataclass(frozen=True, slots=True)
class Read:
    """Answer of a read of one key: `kv` is None when there is none."""

    kv: KeyValue | None
    revision: int
    """The store's revision when it answered (the header revision)."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some keys of a listing, in key order; all pages of a listing show one revision."""

    items: tuple[KeyValue, ...]
    revision: int


class Event(NamedTuple):
    """One change of one key: a put (`kv` is the new state) or a delete (`deleted`)."""

    kv: KeyValue
    """For a delete only `key` and `mod_revision` mean anything."""
    deleted: bool = False
    previous: KeyValue | None = None
    """The state before, where the watch asked for it and the store still has it."""


class WatchBatch(NamedTuple):
    """All watched events of exactly one revision; without events it is progress up to `revision`."""

    revision: int
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Compare:
    """One condition of a transaction, on one key."""

    key: str
    target: str
    """`mod` or `create`."""
    revision: int
    """What the revision must equal; 0 = the key must not exist."""

    def holds(self, kv: KeyValue | None) -> bool:
        """Whether it holds for what was read of its key; None = nothing was there."""
        actual = 0 if kv is None else kv.mod_revision if self.target == "mod" else kv.create_revision
        return actual == self.revision


@dataclass(frozen=True, slots=True)
class Unmoved:
    """A condition on all keys with a prefix: none was written after that revision. Deletes do not count."""

    prefix: str
    revision: int


Condition = Compare | Unmoved


@dataclass(frozen=True, slots=True)
class Put:
    """Write a key, optionally under a lease."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one key (no error when absent)."""

    key: str


@dataclass(frozen=True, slots=True)
class Get:
    """Read one key inside a transaction; answered in `TxnResult.reads`."""

    key: str


Operation = Put | Delete | Get


@dataclass(frozen=True, slots=True)
class TxnResult:
    """Whether all compares held; `reads` are the answers of the branch's `Get`s in order."""

    succeeded: bool
    revision: int
    """The header revision: of the commit when the transaction wrote."""
    reads: tuple[KeyValue | None, ...] = ()


class Lease(ABC):
    """A lease kept alive by a thread of its own until it is revoked or lost."""

    def __init__(self, lease_id: int, ttl: float) -> None:
        self.id = lease_id
        self.ttl = ttl
        """Seconds without a renewal after which the store ends it, as it was granted: it may be more than was asked."""
        self._reason: str | None = None
        """Why it is lost."""
        self._ended = asyncio.Event()
        """Set with the reason, on the event loop of its owner."""

    @property
    @abstractmethod
    def lost(self) -> bool:
        """Whether it expired, was revoked, or may have expired (declared before `sent + TTL`)."""

    async def wait_lost(self) -> str:
        """Return the reason once the lease is lost."""
        await self._ended.wait()
        assert self._reason is not None
        return self._reason

    @abstractmethod
    async def revoke(self) -> None:
        """Give the lease back; its keys vanish. Idempotent, and quiet when it is lost already."""


class Store(Protocol):
    """A key-value store with etcd's meaning. Every call ends within its deadline.

    Raises, besides what each method says: `Unavailable`, `AccessDenied`.
    """

    format: ClusterFormat = ClusterFormat.KUBERNETES
    """In which format its cluster keeps pods and nodes; keys are always spelt as in `keys`."""

    def as_stored(self, key: str) -> str:
        """A key as etcd has it, for messages."""
        return key

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """Read one key, linearizably at revision 0, else as it was at `revision`.

        Raises `Compacted`, `RevisionFuture`.
        """

    def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """All keys with the prefix, page by page, all of one revision; at least one page.

        Raises `Compacted` (also in the middle), `RevisionFuture`.
        """

    async def each(self, prefix: str, *, revision: int = 0) -> AsyncIterator[KeyValue]:
        """All keys with the prefix, of one revision. Raises as `list` does."""
        async for page in self.list(prefix, revision=revision):
            for kv in page.items:
                yield kv

    async def existing(self, keys: Sequence[str], at_a_time: int) -> AsyncIterator[KeyValue]:
        """Those of the keys that exist, so many read in a transaction. Raises as `txn` does."""
        for begin in range(0, len(keys), at_a_time):
            answer = await self.txn([], [Get(key) for key in keys[begin : begin + at_a_time]])
            for kv in answer.reads:
                if kv is not None:
                    yield kv

    async def whole(self, prefix: str, *, revision: int = 0) -> Page:
        """All keys with the prefix as one page. Raises as `list` does."""
        found: list[KeyValue] = []
        async for page in self.list(prefix, revision=revision):
            found += page.items
            revision = page.revision
        return Page(tuple(found), revision)

    async def first(self, prefix: str) -> Page:
        """The first key with the prefix, if there is one. Raises as `list` does."""
        async for page in self.list(prefix, page_size=1):
            return Page(page.items[:1], page.revision)
        raise AssertionError("a list has at least one page")

    def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """Every change under the prefix from `start_revision` on, a batch a revision, in order.

        Reconnects by itself (resuming behind the last event seen) and reports progress while
        nothing changes. Raises `Compacted` when it cannot resume, `RevisionWentBack` when the store
        is behind what the watch has seen already.
        """

    async def txn(
        self,
        compares: Sequence[Condition],
        success: Sequence[Operation],
        failure: Sequence[Operation] = (),
    ) -> TxnResult:
        """Compare and write in one step.

        Raises `RequestTooLarge`, and `Unavailable(maybe_applied=True)` when only reading can tell.
        """

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        """Write one key unconditionally; answers the revision."""
        return (await self.txn((), (Put(key, value, lease),))).revision

    async def delete(self, key: str) -> bool:
        """Delete one key; whether it existed."""
        return (await self.txn((), (Get(key), Delete(key)))).reads[0] is not None

    async def grant_lease(self, ttl: float, *, alive: Callable[[], bool] | None = None) -> Lease:
        """A new lease of `ttl` seconds, renewed by a thread of its own every third of it.

        `alive` is asked before each renewal, on that thread; while it answers False the lease is
        not renewed (the event loop hangs: others shall take over).
        """

    async def close(self) -> None:
        """Close all connections; open watches end."""
