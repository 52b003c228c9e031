"""etcd behind the `Store` protocol.

A store speaks one of two protocols of etcd's (`EtcdSettings.protocol`): `etcd_json` its JSON gateway,
`etcd_grpc` gRPC. Tries and deadlines belong to `etcd_connection`, trust to `etcd_tls`, streams to
`etcd_watch`, keep-alives to `etcd_lease`, what etcd refuses to `etcd_gateway`, spelling to `etcd_wire`.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import replace
from random import Random
from types import TracebackType
from typing import Any, Self

from wharfinger.errors import ConfigurationError, RevisionWentBack, StoreAnswerTooLarge, Unavailable, UserWanted
from wharfinger.etcd import etcd_wire as wire
from wharfinger.etcd import keys
from wharfinger.etcd.etcd_connection import Connection, OpenGateway
from wharfinger.etcd.etcd_lease import EtcdLease
from wharfinger.etcd.etcd_users import ADMIN, NotFoundHere, found_here
from wharfinger.etcd.etcd_watch import Watch
from wharfinger.etcd.etcd_wire import Method
from wharfinger.etcd.store import Condition, Get, Lease, Operation, Page, Read, Store, TxnResult, WatchBatch
from wharfinger.settings import EtcdSettings

GROWN = 8
"""Times as many keys as asked for that a later page of a long list has at most: etcd counts all keys for each page."""
PAGE_BYTES = 16 * 1024 * 1024
"""Of values in one page of a list, about: where the last one held more, the next has fewer keys."""


class EtcdStore(Store):
    """A `Store` on etcd. Use `async with EtcdStore(settings)`, or `await EtcdStore.connect(settings)`.

    The first connects when first used, the second asks etcd something first and raises what is
    wrong. Lives on one event loop (plain asyncio or uvloop). `clock` is monotonic, in seconds.
    """

    def __init__(
        self, settings: EtcdSettings, *, clock: Callable[[], float] = time.monotonic, random: Random | None = None
    ) -> None:
        self._settings = settings
        self._open_gateway = _opener(settings)
        self._clock = clock
        self._random = random if random is not None else Random()  # noqa: S311  # spreads retries, no secret
        self._opened: Connection | None = None
        self._closed = ""
        """Why no call is taken any more."""
        self._seen = 0
        self._leases: list[EtcdLease] = []

    @classmethod
    async def connect(cls, settings: EtcdSettings, *, within: float | None = None) -> Self:
        """A store that has answered once, `within` so many seconds (None = the settings' deadline).

        Without a user, one of the person's own etcd on this machine is used (`etcd_users`) where it wants one.
        Raises `Unavailable`, `AccessDenied`, `ConfigurationError`.
        """
        try:
            return await cls._connected(settings, within)
        except UserWanted as error:
            try:
                endpoint, file = found_here(settings.endpoints)
            except NotFoundHere as reason:
                raise UserWanted(f"{error}: --etcd-user and --etcd-password-file name them ({reason})") from error
            found = replace(settings, endpoints=(endpoint,), user=ADMIN.name, password_file=file)
            return await cls._connected(found, None)  # it has answered, so a slow login is worth the usual wait

    @classmethod
    async def _connected(cls, settings: EtcdSettings, within: float | None) -> Self:
        store = cls(settings)
        try:
            request = wire.get(keys.INSTALLATION, 0)
            await store._call(Method.RANGE, request, repeatable=True, within=within)
        except BaseException:  # also when cancelled: no caller has the store yet
            await store.close()
            raise
        return store

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def _connection(self) -> Connection:
        if self._closed:
            raise Unavailable(self._closed)
        if self._opened is None:
            self._opened = self._new_connection()
        return self._opened

    def _new_connection(self) -> Connection:
        return Connection(self._settings, self._open_gateway, self._random)

    def _observe(self, revision: int) -> None:
        self._seen = max(self._seen, revision)

    async def _call(self, method: Method, request: Any, *, repeatable: bool, within: float | None = None) -> Any:
        """A linearizable call: its answer can show no older state than any answer before it was sent."""
        # Taken before the call: answers of calls beside this one may raise it, and they are no proof against this one.
        known = self._seen
        connection = self._connection
        answer = await connection.call(method, request, repeatable=repeatable, within=within)
        revision = connection.wire.header_revision(answer)
        if not revision:
            raise Unavailable("the server is no etcd: its answer has no revision", maybe_applied=not repeatable)
        if revision < known:
            raise RevisionWentBack(
                f"etcd is at revision {revision} and was at {known}: restored from a backup? "
                "Restart after restoring with --bump-revision and --mark-compacted"
            )
        self._observe(revision)
        return answer

    async def get(self, key: str, *, revision: int = 0) -> Read:
        """Read one key, linearizably at revision 0, else as it was at `revision`."""
        spelled = self._connection.wire
        answer = await self._call(Method.RANGE, wire.get(key, revision), repeatable=True)
        kvs, _ = spelled.range_result(answer)
        return Read(kvs[0] if kvs else None, spelled.header_revision(answer))

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """All keys with the prefix, page by page, all of one revision; at least one page."""
        start = wire.key_bytes(prefix)
        end = wire.prefix_end(start)
        spelled = self._connection.wire
        more, size = True, page_size
        while more:
            request = wire.page(start or b"\0", end, revision, size)
            try:
                answer = await self._call(Method.RANGE, request, repeatable=True)
            except StoreAnswerTooLarge:
                if size == 1:
                    raise
                size //= 2
                continue
            revision = revision or spelled.header_revision(answer)
            items, more = spelled.range_result(answer)
            yield Page(items, revision)
            more = more and bool(items)
            weight = sum([len(item.value) for item in items])
            most = min(GROWN * page_size, 2 * size)
            size = max(1, min(most, PAGE_BYTES * len(items) // weight)) if weight else most
            start = wire.key_bytes(items[-1].key) + b"\0" if items else start

    def watch(
        self, prefix: str, start_revision: int, *, previous: bool = False
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchBatch]]:
        """Every change under the prefix from `start_revision` on (0 = from now on), a batch a revision."""
        watch = Watch(self._connection, prefix, start_revision, previous=previous, observe=self._observe)
        return aclosing(watch.batches())

    async def txn(
        self, compares: Sequence[Condition], success: Sequence[Operation], failure: Sequence[Operation] = ()
    ) -> TxnResult:
        """Compare and write in one step; one that only reads is tried again like a read."""
        reads = all(isinstance(operation, Get) for branch in (success, failure) for operation in branch)
        spelled = self._connection.wire
        request = wire.txn(compares, success, failure)
        answer = await self._call(Method.TXN, request, repeatable=reads)
        return spelled.txn_result(answer, success, failure)

    async def grant_lease(self, ttl: float, *, alive: Callable[[], bool] | None = None) -> Lease:
        """A new lease of `ttl` seconds (rounded up; etcd may grant more), kept by a thread of its own."""
        sent = self._clock()
        # an answer that got lost leaves an unused lease behind, which ends by itself: repeatable
        spelled = self._connection.wire
        answer = await self._connection.call(Method.GRANT, {"TTL": math.ceil(ttl)}, repeatable=True)
        lease = EtcdLease(
            *spelled.granted(answer), sent,
            open_connection=self._new_connection, give_back=self._revoke, alive=alive, clock=self._clock,
        )  # fmt: skip
        self._leases = [kept for kept in self._leases if not kept.lost]
        self._leases.append(lease)
        return lease

    async def _revoke(self, lease: int) -> None:
        await self._connection.call(Method.REVOKE, {"ID": lease}, repeatable=True)

    async def close(self, why: str = "the store is closed") -> None:
        """Close all connections and end the leases' threads; open watches end. Leases are not given back.

        `why`: what later calls say, by `Unavailable`.
        """
        self._closed = self._closed or why
        leases, self._leases = self._leases, []
        for lease in leases:
            await lease.stop("the store was closed")
        if self._opened is not None:
            await self._opened.close()


def _opener(settings: EtcdSettings) -> OpenGateway:
    """What makes the gateway of the protocol; that of gRPC is imported only when it is wanted, because it is an extra.

    Raises `ConfigurationError` when its packages are not installed.
    """
    if settings.protocol == "grpc":
        try:
            from wharfinger.etcd.etcd_grpc import GrpcGateway
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in {"grpc", "google"}:
                raise
            raise ConfigurationError(
                "etcd's gRPC protocol needs packages that are not installed: pip install 'wharfinger[grpc]', "
                "or use --etcd-protocol json"
            ) from None
        return GrpcGateway
    from wharfinger.etcd.etcd_json import JsonGateway

    return JsonGateway
