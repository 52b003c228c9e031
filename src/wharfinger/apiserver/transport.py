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

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from functools import partial
from typing import Any

import aiohttp
import orjson

from wharfinger.apiserver import watching, wire
from wharfinger.apiserver.client import (
    EVENTS,
    LEASES,
    REQUEST_DEADLINE,
    ApiAnswer,
    ApiResource,
    Batch,
    Object,
    PatchType,
    revision_of,
)
from wharfinger.apiserver.connection import CONNECT_TIMEOUT, ApiConnection
from wharfinger.apiserver.credentials import Access, ApiIdentity
from wharfinger.apiserver.exchange import ANSWER_LIMIT, JSON, ApiRequest, Exchange, Observe
from wharfinger.apiserver.pacing import BIND, OTHER, TokenBucket
from wharfinger.apiserver.wire import DRY_RUN, object_path
from wharfinger.errors import UpstreamUnavailable

PAGE_DEADLINE = 60.0
"""Seconds that a page may take."""

Page = tuple[tuple[Object, ...], int]
"""Objects, and the revision of the whole list."""
FetchPage = Callable[[str], Awaitable[Mapping[str, Any]]]
"""Given the query of a page: the list as the server prints it. Raises as `ApiClient.list` does."""


async def pages(fetch: FetchPage, field_selector: str, limit: int) -> AsyncGenerator[Page, None]:
    """The pages of a list; at least one, perhaps empty."""
    token = ""
    while True:
        document = await fetch(wire.page(limit, field_selector, token))
        try:
            revision = revision_of(document)
            objects = tuple(document.get("items") or ())
            token = document["metadata"].get("continue") or ""
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UpstreamUnavailable(f"the answer is no list of objects: {type(error).__name__}") from error
        yield objects, revision
        if not token:
            return


class HttpApiClient:
    """One API server as one user, over connections that are kept open. Made anywhere, used on one event loop."""

    def __init__(
        self,
        access: Access,
        *,
        qps: float = 50.0,
        burst: int = 100,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        silence: float = watching.SILENCE,
        context: Callable[[Access, ApiIdentity], ssl.SSLContext] | None = None,
        observe: Observe | None = None,
        answer_limit: int = ANSWER_LIMIT,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Requests are sent when they are made; nothing is opened here.

        Args:
            access: the server, and who we are there.
            qps: requests a second, but for watches and leases; as many events besides; negative = no limit.
            burst: requests that may be sent at once before `qps` counts.
            clock: monotonic, in seconds.
            now: seconds since the epoch, for a `Retry-After` that is a date.
            silence: seconds without a line after which a watch is given up.
            context: makes the TLS context of an identity; None = `tls.context`.
            observe: for metrics.
            answer_limit: bytes that an answer may have, except a watch.
            pause: waits for so many seconds.
        """
        self._beside = partial(
            HttpApiClient, access,
            clock=clock, now=now, silence=silence, context=context, observe=observe, answer_limit=answer_limit,
            pause=pause,
        )  # fmt: skip
        self._connection = ApiConnection(access, context)
        self._pace, self._event_pace = (TokenBucket(qps, burst, clock, pause) for _ in range(2))
        self._exchange = Exchange(self._connection, clock=clock, now=now, observe=observe, answer_limit=answer_limit)
        self._clock = clock
        self._pause = pause
        self._silence = silence
        self._watch_timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT, sock_read=silence)

    def __repr__(self) -> str:
        return f"HttpApiClient({self.server!r})"

    def beside(self, qps: float, burst: int) -> HttpApiClient:
        """The same server as the same user, by connections and a rate of its own; its maker closes it."""
        return self._beside(qps=qps, burst=burst)

    @property
    def server(self) -> str:
        """Where it is, for messages: URL without credentials."""
        return self._connection.server

    @property
    def connection(self) -> ApiConnection:
        """The connection, for `watching`."""
        return self._connection

    @property
    def silence(self) -> float:
        """Seconds without a line after which a watch is given up, for `watching`."""
        return self._silence

    async def pause(self, seconds: float) -> None:
        """Wait for so many seconds, for `watching`."""
        await self._pause(seconds)

    # Reads

    async def get(
        self, resource: ApiResource, name: str, *, namespace: str = "", deadline: float = REQUEST_DEADLINE
    ) -> ApiAnswer:
        """One object as it is now."""
        return await self._send("GET", resource, object_path(resource, namespace, name), deadline)

    async def read(self, path: str, *, deadline: float = REQUEST_DEADLINE) -> ApiAnswer:
        """Any JSON document of the server."""
        return await self._exchange.send(ApiRequest("GET", path), deadline, pace=self._pace)

    def list(
        self, resource: ApiResource, *, namespace: str = "", field_selector: str = "", page: int = 500
    ) -> AsyncGenerator[tuple[tuple[Object, ...], int], None]:
        """All objects at one revision, in pages."""
        path = object_path(resource, namespace)

        async def fetch(query: str) -> Mapping[str, Any]:
            request = ApiRequest("GET", f"{path}?{query}")
            answer = await self._exchange.send(request, PAGE_DEADLINE, pace=self._pace)
            if not answer.done:
                raise self._exchange.unread(request, answer)
            return answer.object or {}

        return pages(fetch, field_selector, page)

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
        shown = watching.batches(self, resource, revision, field_selector, self._clock, newest=newest, gather=gather)
        return aclosing(shown)

    async def open_watch(self, resource: ApiResource, query: str) -> aiohttp.ClientResponse:
        """The answer to a watch, before its first line is read; for `watching`."""
        return await self._exchange.stream(ApiRequest("GET", f"{object_path(resource)}?{query}"), self._watch_timeout)

    # Writes

    async def create(
        self,
        resource: ApiResource,
        body: Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
        deadline: float = REQUEST_DEADLINE,
    ) -> ApiAnswer:
        """POST an object, or to a part of one."""
        path = object_path(resource, namespace, name, subresource)
        cost = BIND if subresource == "binding" else OTHER
        return await self._send("POST", resource, path, deadline, body, dry_run=dry_run, cost=cost)

    async def replace(
        self, resource: ApiResource, name: str, body: Object, *, namespace: str = "", deadline: float = REQUEST_DEADLINE
    ) -> ApiAnswer:
        """PUT an object."""
        return await self._send("PUT", resource, object_path(resource, namespace, name), deadline, body)

    async def patch(
        self,
        resource: ApiResource,
        name: str,
        body: Object,
        *,
        namespace: str = "",
        subresource: str = "",
        type_: PatchType = PatchType.STRATEGIC,
        deadline: float = REQUEST_DEADLINE,
    ) -> ApiAnswer:
        """PATCH an object or a part of it."""
        path = object_path(resource, namespace, name, subresource)
        return await self._send("PATCH", resource, path, deadline, body, type_=type_)

    async def delete(
        self,
        resource: ApiResource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        revision: int = 0,
        grace_seconds: int | None = None,
        deadline: float = REQUEST_DEADLINE,
    ) -> ApiAnswer:
        """DELETE an object, if it still has the uid and the revision."""
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": uid, "resourceVersion": str(revision) if revision else ""}
        if any(conditions.values()):
            body["preconditions"] = {name: value for name, value in conditions.items() if value}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        path = object_path(resource, namespace, name)
        return await self._send("DELETE", resource, path, deadline, body)

    async def close(self) -> None:
        """Give up every connection."""
        await self._connection.close()

    async def _send(
        self,
        method: str,
        resource: ApiResource,
        path: str,
        deadline: float,
        body: Object | None = None,
        *,
        type_: str = JSON,
        dry_run: bool = False,
        cost: int = OTHER,
    ) -> ApiAnswer:
        data = orjson.dumps(body, default=dict) if body is not None else None
        target = f"{path}?{DRY_RUN}" if dry_run else path
        request = ApiRequest(method, target, data, type_, applies=data is not None and not dry_run, cost=cost)
        return await self._exchange.send(request, deadline, pace=self._pace_of(resource))

    def _pace_of(self, resource: ApiResource) -> TokenBucket | None:
        """Events have a limit of their own, so that a burst of them delays no bind."""
        if resource == LEASES:
            return None
        return self._event_pace if resource == EVENTS else self._pace
