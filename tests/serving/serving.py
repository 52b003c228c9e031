"""A server on loopback for tests, what clients need to ask it, and an API server that only reviews."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import aiohttp

from tests.etcd.certificates import Signed
from wharfinger.apiserver.client import ApiAnswer, ApiClient, ApiResource, Object
from wharfinger.errors import UpstreamUnavailable
from wharfinger.serving.content import Content
from wharfinger.serving.options import ServingOptions
from wharfinger.serving.server import Server
from wharfinger.telemetry import Metrics


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Reviews:
    """Answers reviews as a cluster would, and keeps what it was asked."""

    def __init__(self) -> None:
        self.users: dict[str, Mapping[str, Any]] = {}
        """By token: `user` of a TokenReview's status."""
        self.allowed: set[tuple[str, str, str]] = set()
        """User, path and verb."""
        self.asked: list[Object] = []
        self.away = False
        self.away_because = "connection refused"
        self.code = 201
        self.published: Mapping[str, str] | None = None
        """Data of the ConfigMap with the authorities of clients."""

    @property
    def apiserver(self) -> ApiClient:
        return cast("ApiClient", self)

    async def create(self, resource: ApiResource, body: Object, **_: Any) -> ApiAnswer:
        self.asked.append(body)
        if self.away:
            raise UpstreamUnavailable(self.away_because)
        if self.code != 201:
            return ApiAnswer(self.code, reason="Forbidden", message=f"may not create {resource.plural}")
        spec = body["spec"]
        if resource.plural == "tokenreviews":
            user = self.users.get(spec["token"])
            status: dict[str, Any] = {"authenticated": user is not None} | ({"user": user} if user else {})
        else:
            what = spec["nonResourceAttributes"]
            status = {"allowed": (spec["user"], what["path"], what["verb"]) in self.allowed}
        return ApiAnswer(201, {**body, "status": status})

    async def get(self, resource: ApiResource, name: str, *, namespace: str = "", **_: Any) -> ApiAnswer:
        if self.away:
            raise UpstreamUnavailable("connection refused")
        published = self.published if resource.plural == "configmaps" else None
        if published is None or (namespace, name) != ("kube-system", "extension-apiserver-authentication"):
            return ApiAnswer(404, reason="NotFound", message="no such object")
        return ApiAnswer(200, {"data": dict(published)})

    def kinds(self) -> list[str]:
        """Of the reviews so far."""
        return [str(one["kind"]) for one in self.asked]


def content(**changes: Any) -> Content:
    """Pages of a process that is ready."""
    return Content(Metrics().registry, **{"checks": lambda: {"etcd": "ok"}, **changes})


@asynccontextmanager
async def serving(options: ServingOptions, pages: Content | None = None, **collaborators: Any) -> AsyncIterator[Server]:
    """A server on a free port of loopback."""
    server = Server(options, pages if pages is not None else content(), **collaborators)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


def trusting(authority: Path | None = None, *, showing: Signed | None = None) -> ssl.SSLContext:
    """A client's TLS: with the authority whose certificates it takes (None: any), and a certificate to show."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # which reads no authorities of the machine, for 50 ms
    if authority is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        context.load_verify_locations(authority)
    if showing is not None:
        context.load_cert_chain(showing.cert, showing.key)
    return context


async def get(
    server: Server, path: str, *, tls: ssl.SSLContext | None = None, method: str = "GET", **request: Any
) -> tuple[int, str]:
    """Status and body of one page."""
    connector = aiohttp.TCPConnector(ssl=tls if tls is not None else True)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.request(method, server.url + path, **request) as answer,
    ):
        return answer.status, await answer.text()


def bearer(token: str) -> dict[str, str]:
    """The header of a token."""
    return {"Authorization": f"Bearer {token}"}
