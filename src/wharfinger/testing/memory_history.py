"""Keys through time, in memory: what etcd's multi-version store does, without etcd.

One revision a writing transaction, every state of a key kept until compaction, events in order.
`memory_store` makes a `Store` of it; nothing here waits or does I/O.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence

from wharfinger.errors import Compacted, LeaseLost, RequestTooLarge, RevisionFuture, UsageError
from wharfinger.etcd.store import Condition, Delete, Event, Get, KeyValue, Operation, Put, TxnResult, Unmoved

MAX_REQUEST_BYTES = 1_572_864
"""What etcd accepts in one request, 1.5 MiB."""

_OVERHEAD = 64
"""Bytes of a request that are neither key nor value, for each operation, about."""


def order(key: str) -> bytes:
    """Keys are ordered, and prefixes are prefixes, by their bytes."""
    return key.encode("utf-8", "surrogateescape")


class History:
    """All states of all keys between the last compaction and now."""

    def __init__(self, max_txn_ops: int) -> None:
        self.max_txn_ops = max_txn_ops
        self.revision = 1
        """An empty etcd is at revision 1."""
        self.compacted = 0
        self.restores = 0
        """How often the store was restored to an older state."""
        self.restored_to = 0
        """The revision the last restore went back to."""
        self.leases: set[int] = set()
        """Leases that keys may hang on."""
        self._log: list[tuple[int, tuple[Event, ...]]] = []
        self._states: dict[str, list[KeyValue | None]] = {}
        """States of a key, oldest first; None = absent."""
        self._since: dict[str, list[int]] = {}
        """The revisions at which `_states` began, in step with it."""
        self._order: list[tuple[bytes, str]] = []

    def _check(self, revision: int) -> int:
        if revision > self.revision:
            raise RevisionFuture(f"revision {revision} does not exist yet, the store is at {self.revision}")
        if 0 < revision < self.compacted:
            text = f"revision {revision} was compacted, {self.compacted} is the oldest"
            raise Compacted(text, compact_revision=self.compacted)
        return revision or self.revision

    def read(self, key: str, revision: int = 0) -> KeyValue | None:
        """A key, now (0) or as it was. Raises `Compacted`, `RevisionFuture`."""
        _check_key(key)
        return self._at(key, self._check(revision))

    def _at(self, key: str, revision: int) -> KeyValue | None:
        states = self._states.get(key)
        if not states:
            return None
        index = bisect_right(self._since[key], revision) - 1
        return states[index] if index >= 0 else None

    def page(self, prefix: str, after: str | None, revision: int, limit: int) -> tuple[tuple[KeyValue, ...], bool]:
        """At most `limit` keys with the prefix behind `after`, and whether there are more."""
        revision = self._check(revision)
        found: list[KeyValue] = []
        for key in self._keys(prefix, after):
            kv = self._at(key, revision)
            if kv is None:
                continue
            if len(found) == limit:
                return tuple(found), True
            found.append(kv)
        return tuple(found), False

    def _keys(self, prefix: str, after: str | None) -> Iterator[str]:
        start = order(prefix)
        first = (
            bisect_left(self._order, (start, "")) if after is None else bisect_right(self._order, (order(after), after))
        )
        for index in range(first, len(self._order)):
            raw, key = self._order[index]
            if not raw.startswith(start):
                return
            yield key

    def under_lease(self, lease: int) -> list[str]:
        """The keys that hang on a lease now."""
        keys = (key for _, key in self._order)
        return [key for key in keys if (kv := self._at(key, self.revision)) is not None and kv.lease == lease]

    def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation]
    ) -> TxnResult:
        """Compare, then run one branch as one revision. Raises what etcd would refuse with, changing nothing."""
        for operations in (compares, success, failure):
            if len(operations) > self.max_txn_ops:
                raise RequestTooLarge(f"{len(operations)} operations in a list, {self.max_txn_ops} are allowed")
        _check_size(compares, success, failure)
        for branch in (success, failure):
            _check_distinct(branch)
        succeeded = all(self._holds(compare) for compare in compares)
        return self._run(succeeded, success if succeeded else failure)

    def _holds(self, compare: Condition) -> bool:
        if isinstance(compare, Unmoved):
            states = (self._at(key, self.revision) for key in self._keys(compare.prefix, None))
            return all(kv is None or kv.mod_revision <= compare.revision for kv in states)
        _check_key(compare.key)
        if compare.target not in {"mod", "create"}:
            raise UsageError(f"a transaction compares mod or create, not {compare.target!r}")
        return compare.holds(self._at(compare.key, self.revision))

    def _run(self, succeeded: bool, operations: Iterable[Operation]) -> TxnResult:
        operations = tuple(operations)
        for operation in operations:
            if isinstance(operation, Put) and operation.lease and operation.lease not in self.leases:
                raise LeaseLost(f"there is no lease {operation.lease}")
        revision = self.revision + 1
        events: list[Event] = []
        reads: list[KeyValue | None] = []
        for operation in operations:
            before = self._at(operation.key, revision)
            if isinstance(operation, Get):
                reads.append(before)
            elif isinstance(operation, Put):
                created = before.create_revision if before is not None else revision
                state = KeyValue(operation.key, operation.value, created, revision, operation.lease)
                self._set(operation.key, state, revision)
                events.append(Event(state, False, before))
            elif before is not None:
                self._set(operation.key, None, revision)
                events.append(Event(KeyValue(operation.key, b"", 0, revision), True, before))
        if events:
            self.revision = revision
            self._log.append((revision, tuple(events)))
        return TxnResult(succeeded, self.revision, tuple(reads))

    def delete_all(self, keys: Iterable[str]) -> None:
        """Delete keys as one revision, however many (a lease ended)."""
        self._run(True, [Delete(key) for key in keys])

    def _set(self, key: str, state: KeyValue | None, revision: int) -> None:
        if key not in self._states:
            self._states[key], self._since[key] = [], []
            insort(self._order, (order(key), key))
        self._states[key].append(state)
        self._since[key].append(revision)

    def events_from(self, revision: int, prefix: str) -> Iterator[tuple[int, tuple[Event, ...]]]:
        """Revisions from `revision` on with their events under the prefix; revisions without are left out."""
        raw = order(prefix)
        first = bisect_left(self._log, revision, key=lambda entry: entry[0])
        for index in range(first, len(self._log)):
            number, events = self._log[index]
            matching = tuple(event for event in events if order(event.kv.key).startswith(raw))
            if matching:
                yield number, matching

    def compact(self, revision: int) -> None:
        """Keep nothing before `revision`. Raises `Compacted` when that was done, `RevisionFuture`."""
        if revision <= self.compacted:
            raise Compacted(f"revision {revision} was compacted", compact_revision=self.compacted)
        self._check(revision)
        self.compacted = revision
        self._log = [entry for entry in self._log if entry[0] >= revision]
        for key, since in list(self._since.items()):
            gone = max(0, bisect_right(since, revision) - 1)
            del since[:gone], self._states[key][:gone]
            if self._states[key] == [None]:
                self._forget(key)

    def restore(self, revision: int, *, bump: int = 0) -> None:
        """Go back to an older state, as a restored backup does: what came later never was.

        `bump`: so many revisions are left out then, and all before them are compacted, as `etcdutl` does when asked.
        """
        self._check(revision)
        self.revision = self.restored_to = revision
        self.restores += 1
        self._log = [entry for entry in self._log if entry[0] <= revision]
        for key, since in list(self._since.items()):
            kept = bisect_right(since, revision)
            del since[kept:], self._states[key][kept:]
            if not since:
                self._forget(key)
        if bump:
            self.revision = self.restored_to = revision + bump
            self.compact(self.revision)

    def _forget(self, key: str) -> None:
        del self._states[key], self._since[key]
        self._order.remove((order(key), key))


def _check_key(key: str) -> None:
    if not key:
        raise UsageError("a key may not be empty")


def _check_size(*lists: Sequence[Condition | Operation]) -> None:
    size = 0
    for operations in lists:
        for operation in operations:
            value = operation.value if isinstance(operation, Put) else b""
            key = operation.prefix if isinstance(operation, Unmoved) else operation.key
            size += len(key) + len(value) + _OVERHEAD
    if size > MAX_REQUEST_BYTES:
        raise RequestTooLarge(f"a request of about {size} bytes, {MAX_REQUEST_BYTES} are allowed")


def _check_distinct(branch: Sequence[Operation]) -> None:
    """As etcd does: a key is put once in a branch, and not also deleted there."""
    written: dict[str, bool] = {}
    for operation in branch:
        _check_key(operation.key)
        if isinstance(operation, Get):
            continue
        put = isinstance(operation, Put)
        if operation.key in written and (put or written[operation.key]):
            raise UsageError(f"key {operation.key!r} is written twice in one transaction")
        written[operation.key] = put
