"""`HttpApiClient`: a Kubernetes API server over HTTP, for everything that `client.ApiClient` promises.

::

    HttpApiClient ─► exchange    one request: its pace, deadline, second try after a 401, and what its answer means
        │              ├─► pacing       how many requests a second, and how many events
        │              ├─► connection   TLS, credentials; failures as text
        │              │     └─► kept_connections   for answers that are read whole (whole_answers), without aiohttp
        ├─ paths, bytes ─► wire
        └─ watch ─► watching    the first list and what changes

Nothing is tried again here, except after a 401: then the credentials are read again, once. Other retries belong to the
callers, because only they can tell whether a second request is safe.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, replace
from functools import partial

import aiohttp
import orjson

from wharfinger.apiserver import watching, wire
from wharfinger.apiserver.client import (
    EVENTS,
    LEASES,
    REQUEST_DEADLINE,
    ApiAnswer,
    ApiCall,
    ApiClient,
    ApiResource,
    Batch,
    Object,
    revision_of,
)
from wharfinger.apiserver.connection import CONNECT_TIMEOUT, ApiConnection
from wharfinger.apiserver.credentials import Access, ApiClocks, ApiIdentity
from wharfinger.apiserver.exchange import ANSWER_LIMIT, ApiRequest, Exchange, Observe
from wharfinger.apiserver.pacing import BIND, OTHER, TokenBucket
from wharfinger.apiserver.wire import DRY_RUN, object_path
from wharfinger.errors import UpstreamUnavailable

METHODS = {"get": "GET", "create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE"}
PAGE_DEADLINE = 60.0
"""Seconds that a page may take."""


@dataclass(frozen=True, slots=True)
class ApiLimits:
    """How much is asked of one API server, and for how long."""

    qps: float = 50.0
    """Requests a second, without watches and leases. Events have a limit of their own, as high. Negative = no limit."""
    burst: int = 100
    """Requests that may be sent at once before `qps` counts."""
    deadline: float = REQUEST_DEADLINE
    """Seconds that a write, or a read of one object, may take."""
    silence: float = watching.SILENCE
    """Seconds without a line after which a watch is given up."""
    answer: int = ANSWER_LIMIT
    """Bytes that an answer may have, except a watch."""


class HttpApiClient(ApiClient):
    """One API server as one user, over connections that are kept open. Made anywhere, used on one event loop."""

    def __init__(
        self,
        access: Access,
        limits: ApiLimits | None = None,
        *,
        clocks: ApiClocks | None = None,
        context: Callable[[Access, ApiIdentity], ssl.SSLContext] | None = None,
        observe: Observe | None = None,
    ) -> None:
        """Requests are sent when they are made; nothing is opened here.

        `limits`, `clocks`: None = the usual ones; `context`: makes the TLS context of an identity, None =
        `tls.context`; `observe`: for metrics.
        """
        self._limits = limits = limits or ApiLimits()
        clocks = clocks or ApiClocks()
        self._beside = partial(HttpApiClient, access, clocks=clocks, context=context, observe=observe)
        self._connection = connection = ApiConnection(access, context)
        self._pace, self._event_pace = (
            TokenBucket(limits.qps, limits.burst, clocks.monotonic, clocks.pause) for _ in range(2)
        )
        self._exchange = Exchange(connection, clocks=clocks, observe=observe, answer_limit=limits.answer)
        self._source = watching.WatchSource(connection, self._open_watch, self.list, limits.silence, clocks)

    def __repr__(self) -> str:
        return f"HttpApiClient({self.server!r})"

    def beside(self, qps: float, burst: int) -> HttpApiClient:
        """The same server as the same user, by connections and a rate of its own; its maker closes it."""
        return self._beside(replace(self._limits, qps=qps, burst=burst))

    @property
    def server(self) -> str:
        """Where it is, for messages: URL without credentials."""
        return self._connection.server

    async def list(
        self, resource: ApiResource, *, namespace: str = "", field_selector: str = "", page: int = 500
    ) -> AsyncGenerator[tuple[tuple[Object, ...], int], None]:
        """All objects at one revision, in pages; at least one page, perhaps empty."""
        path, token = object_path(resource, namespace), ""
        while True:
            request = ApiRequest("GET", f"{path}?{wire.page(page, field_selector, token)}")
            answer = await self._exchange.send(request, PAGE_DEADLINE, pace=self._pace)
            if not answer.done:
                raise self._exchange.unread(request, answer)
            document = answer.object or {}
            try:
                revision = revision_of(document)
                objects = tuple(document.get("items") or ())
                token = document["metadata"].get("continue") or ""
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UpstreamUnavailable(f"the answer is no list of objects: {type(error).__name__}") from error
            yield objects, revision
            if not token:
                return

    def watch(
        self,
        resource: ApiResource,
        *,
        revision: int | None = None,
        newest: int = 0,
        field_selector: str = "",
        gather: float = 0.0,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        """Changes after a revision; None = first all objects."""
        return aclosing(
            watching.batches(self._source, resource, revision, field_selector, newest=newest, gather=gather)
        )

    async def _open_watch(self, resource: ApiResource, query: str) -> aiohttp.ClientResponse:
        """The answer to a watch, before its first line is read."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=self._limits.silence)
        return await self._exchange.stream(ApiRequest("GET", f"{object_path(resource)}?{query}"), timeout)

    async def send(self, call: ApiCall) -> ApiAnswer:
        """Send a request that is no list and no watch; its answer."""
        path = call.name
        pace: TokenBucket | None = self._pace
        if call.resource is not None:
            new = call.verb == "create" and not call.subresource
            path = object_path(call.resource, call.namespace, "" if new else call.name, call.subresource)
            # A lease must not wait behind anything, and a burst of events must delay no bind.
            pace = None if call.resource == LEASES else self._event_pace if call.resource == EVENTS else pace
        request = ApiRequest(
            METHODS[call.verb],
            f"{path}?{DRY_RUN}" if call.dry_run else path,
            None if call.body is None else orjson.dumps(call.body, default=dict),
            call.type,
            applies=call.writes,
            cost=BIND if call.subresource == "binding" else OTHER,
        )
        return await self._exchange.send(request, self._limits.deadline, pace=pace)

    async def close(self) -> None:
        """Give up every connection."""
        await self._connection.close()
