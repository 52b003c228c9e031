"""etcd behind the `Store` protocol: the only file that imports the etcd client, etcd3-py.

Of that package four things are used, for the rest of it does not fit servers and libraries of today:
`AioClient.call_rpc` with raw answers, its URL prefix, its token header, and its error classes.
`GatewayClient` mends what stands in the way of these. Tries and deadlines belong to
`etcd_connection`, trust to `etcd_tls`, streams to `etcd_watch`, keep-alives to `etcd_lease`,
spelling to `etcd_wire`.
"""

from __future__ import annotations

import math
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from random import Random
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson
from etcd3 import errors as refusals
from etcd3.aio_client import AioClient
from etcd3.baseclient import BaseClient, sem

from wharfinger.errors import (
    AccessDenied,
    Compacted,
    LeaseLost,
    RequestTooLarge,
    RevisionFuture,
    RevisionWentBack,
    StoreError,
    Unavailable,
    UsageError,
)
from wharfinger.registry import etcd_wire as wire
from wharfinger.registry import keys
from wharfinger.registry.etcd_connection import Connection
from wharfinger.registry.etcd_gateway import CertificateRefused, Dropped, NotSent, TokenRefused, Unanswered
from wharfinger.registry.etcd_lease import EtcdLease
from wharfinger.registry.etcd_watch import Watch
from wharfinger.registry.etcd_wire import Body
from wharfinger.registry.store import Condition, Get, Lease, Operation, Page, Read, Store, TxnResult, WatchBatch
from wharfinger.settings import EtcdSettings

SPOKEN_VERSION = "3.6.0"
"""The server version whose spelling we use (any from 3.4 on); asking the server would block the loop."""

_MEANINGS: tuple[tuple[tuple[type[Exception], ...], Callable[[str], Exception]], ...] = (
    ((refusals.ErrCompacted,), Compacted),
    ((refusals.ErrFutureRev,), RevisionFuture),
    ((refusals.ErrLeaseNotFound,), LeaseLost),
    ((refusals.ErrInvalidAuthToken, refusals.ErrUserEmpty), TokenRefused),
    ((refusals.ErrAuthFailed, refusals.ErrPermissionDenied, refusals.ErrAuthNotEnabled), AccessDenied),
    ((refusals.ErrRequestTooLarge, refusals.ErrTooManyOps), RequestTooLarge),
    ((refusals.ErrDuplicateKey, refusals.ErrEmptyKey), UsageError),
    ((refusals.ErrTooManyRequests,), NotSent),  # refused before it is proposed
    ((refusals.ErrNoSpace,), Unavailable),
)
PAGE_BYTES = 16 * 1024 * 1024
"""Of values in one page of a list, about: where the last one held more, the next has fewer keys."""
NAMED_CERTIFICATE = b"CommonName of client sending a request against gateway"
"""etcd says so, as plain text: a name would be taken for the user's in every other interface of it."""
_UNDECIDED_CODES = frozenset({1, 2, 4, 10, 13, 14})
"""gRPC: cancelled, unknown, deadline exceeded, aborted, internal, unavailable."""


JSON = {"Content-Type": "application/json"}


class GatewayClient(AioClient):  # type: ignore[misc]  # the package has no types
    """etcd3-py's asynchronous client, mended: no I/O at start-up, any endpoint, errors that are told apart."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.endpoint = ""
        # not AioClient's own: it makes a session with 30 connections that watches would use up
        BaseClient.__init__(self, server_version=SPOKEN_VERSION, cluster_version=SPOKEN_VERSION)
        self.session = session
        self.ssl_context = None

    def _retrieve_version(self) -> None:
        self.server_version_sem = self.cluster_version_sem = sem.Version(SPOKEN_VERSION)

    @property
    def baseurl(self) -> str:
        """The endpoint that the next call goes to."""
        return self.endpoint

    @staticmethod
    async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
        if response.status < 400:
            return
        text = await response.read()
        try:
            answer = orjson.loads(text)
            message, code = str(answer["message"]), int(answer["code"])
        except (ValueError, KeyError, TypeError):
            if NAMED_CERTIFICATE in text:
                raise AccessDenied(
                    "etcd has users, so its JSON gateway takes no client certificate with a common name: "
                    "use one whose subject has none (CN)"
                ) from None
            raise Unanswered(f"HTTP {response.status}, not from etcd's JSON gateway") from None
        raise refusals.get_client_error(message, code if 0 <= code <= 16 else 2, response.status)

    async def exchange(self, path: str, body: Body, timeout: aiohttp.ClientTimeout) -> Body:
        """One call, one answer; raises the errors that `etcd_gateway` distinguishes, or a `StoreError`."""
        try:
            call = self.call_rpc(
                path, orjson.dumps(body), raw=True, timeout=timeout, headers=dict(JSON), allow_redirects=False
            )
            async with call as response:
                await self._raise_for_status(response)
                answer = orjson.loads(await response.read())
        except refusals.Etcd3Exception as error:
            raise _meaning(error) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(error) from error
        if not isinstance(answer, dict):
            raise Unanswered("the answer is no JSON object")
        if "error" in answer:
            raise self.refusal(str(answer["error"].get("message", "")), int(answer["error"].get("code", 2)))
        return answer

    async def open_stream(self, path: str, body: Body, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """One call whose answer goes on; it ends when its member loses the leader."""
        headers = {"Grpc-Metadata-hasleader": "true"}
        try:
            response: aiohttp.ClientResponse = await self.call_rpc(
                path, body, encode=False, raw=True, timeout=timeout, headers=headers, allow_redirects=False
            )
            try:
                await self._raise_for_status(response)
            except BaseException:
                response.close()
                raise
        except refusals.Etcd3Exception as error:
            raise _meaning(error) from error
        except (aiohttp.ClientError, OSError) as error:
            raise _failure(error) from error
        return response

    def refusal(self, message: str, code: int) -> Exception:
        """What etcd's words mean, where they came inside an answer; some come wrapped by gRPC's own."""
        words = message.rpartition("desc = ")[2]
        return _meaning(refusals.get_client_error(words, code if 0 <= code <= 16 else 2, 200))


def _meaning(error: Any) -> Exception:
    """A refusal by etcd in the words of `wharfinger.errors`."""
    words: str = error.error.removeprefix("etcdserver: ").removeprefix("mvcc: ")
    for classes, meaning in _MEANINGS:
        if isinstance(error, classes):
            return meaning(f"etcd refuses: {words}")
    if "revision of auth store is old" in words:
        return TokenRefused(words)
    if error.code == 8 and "larger than max" in words:
        return RequestTooLarge(f"etcd refuses: {words}")
    if error.code in _UNDECIDED_CODES:
        return Unanswered(words)
    return AccessDenied(f"etcd refuses: {words}") if error.code in {7, 16} else StoreError(f"etcd refuses: {words}")


def _failure(error: Exception) -> Exception:
    """How a try failed on its way."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return CertificateRefused(str(error))
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotSent(_reason(error))
    unwritten = error.__cause__ or error
    if isinstance(unwritten, aiohttp.ClientConnectionResetError) and "closing transport" in str(unwritten):
        # the connection was gone before the body was complete: no server acts on half a request
        return Dropped(str(unwritten))
    if isinstance(error, ssl.SSLError) or isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error):
        # TLS 1.3: the server looks at our certificate only after the handshake
        return CertificateRefused(str(error))
    if isinstance(error, TimeoutError):
        return Unanswered(str(error) or "no answer in time")
    if isinstance(error, aiohttp.ClientResponseError):  # its repr shows the request, token and all
        return Unanswered(f"the answer is no HTTP: {error.message.partition(chr(10))[0].rstrip(':')}")
    return Unanswered(repr(error))


def _reason(error: OSError) -> str:
    """Why there is no connection, in the system's words rather than the HTTP library's."""
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error) or "no connection in time"


class EtcdStore(Store):
    """A `Store` on etcd. Use `async with EtcdStore(settings)`, or `await EtcdStore.connect(settings)`.

    The first connects when first used, the second asks etcd something first and raises what is
    wrong. Lives on one event loop (plain asyncio or uvloop). `clock` is monotonic, in seconds.
    """

    def __init__(
        self, settings: EtcdSettings, *, clock: Callable[[], float] = time.monotonic, random: Random | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._random = random if random is not None else Random()  # noqa: S311  # spreads retries, no secret
        self._opened: Connection | None = None
        self._closed = False
        self._seen = 0
        self._leases: list[EtcdLease] = []

    @classmethod
    async def connect(cls, settings: EtcdSettings, *, within: float | None = None) -> Self:
        """A store that has answered once, `within` so many seconds (None = the settings' deadline).

        Raises `Unavailable`, `AccessDenied`, `ConfigurationError`.
        """
        store = cls(settings)
        try:
            await store._call("/kv/range", wire.get_request(keys.INSTALLATION, 0), repeatable=True, within=within)
        except BaseException:
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
            raise Unavailable("the store is closed")
        if self._opened is None:
            self._opened = self._new_connection()
        return self._opened

    def _new_connection(self) -> Connection:
        return Connection(self._settings, GatewayClient, self._random)

    def _observe(self, revision: int) -> None:
        self._seen = max(self._seen, revision)

    async def _call(self, path: str, body: Body, *, repeatable: bool, within: float | None = None) -> Body:
        """A linearizable call: its answer can show no older state than any answer before it was sent."""
        known = self._seen
        answer = await self._connection.call(path, body, repeatable=repeatable, within=within)
        revision = wire.header_revision(answer)
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
        answer = await self._call("/kv/range", wire.get_request(key, revision), repeatable=True)
        kvs = answer.get("kvs")
        return Read(wire.key_value(kvs[0]) if kvs else None, wire.header_revision(answer))

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        """All keys with the prefix, page by page, all of one revision; at least one page."""
        start = wire.key_bytes(prefix)
        end = wire.prefix_end(start)
        more, size = True, page_size
        while more:
            request = wire.page_request(start or b"\0", end, revision, size)
            answer = await self._call("/kv/range", request, repeatable=True)
            revision = revision or wire.header_revision(answer)
            items = tuple(map(wire.key_value, answer.get("kvs", ())))
            yield Page(items, revision)
            more = bool(answer.get("more")) and bool(items)
            weight = sum([len(item.value) for item in items])
            size = max(1, min(page_size, PAGE_BYTES * len(items) // weight)) if weight else page_size
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
        answer = await self._call("/kv/txn", wire.txn_request(compares, success, failure), repeatable=reads)
        return wire.txn_result(answer, success, failure)

    async def put(self, key: str, value: bytes, *, lease: int = 0) -> int:
        """Write one key unconditionally; answers the revision."""
        answer = await self._call("/kv/put", wire.put_request(key, value, lease), repeatable=False)
        return wire.header_revision(answer)

    async def delete(self, key: str) -> bool:
        """Delete one key; whether it existed."""
        request = {"key": wire.encoded_key(key)}
        answer = await self._call("/kv/deleterange", request, repeatable=False)
        return int(answer.get("deleted", 0)) > 0

    async def grant_lease(self, ttl: float, *, alive: Callable[[], bool] | None = None) -> Lease:
        """A new lease of `ttl` seconds (rounded up; etcd may grant more), kept by a thread of its own."""
        sent = self._clock()
        # an answer that got lost leaves an unused lease behind, which ends by itself: repeatable
        answer = await self._connection.call("/lease/grant", {"TTL": math.ceil(ttl)}, repeatable=True)
        lease = EtcdLease(
            int(answer["ID"]), float(answer["TTL"]), sent,
            open_connection=self._new_connection, give_back=self._revoke, alive=alive, clock=self._clock,
        )  # fmt: skip
        self._leases = [kept for kept in self._leases if not kept.lost]
        self._leases.append(lease)
        return lease

    async def _revoke(self, lease: int) -> None:
        await self._connection.call("/lease/revoke", {"ID": lease}, repeatable=True)

    async def close(self) -> None:
        """Close all connections and end the leases' threads; open watches end. Leases are not given back."""
        self._closed = True
        leases, self._leases = self._leases, []
        for lease in leases:
            await lease.stop("the store was closed")
        if self._opened is not None:
            await self._opened.close()
