"""An HTTPS server whose answers a test writes, for what a real API server does rarely or never."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.etcd.certificates import Authority
from wharfinger.apiserver.client import PODS, ApiAnswer, ApiClient
from wharfinger.apiserver.credentials import Access, ApiIdentity

BODY = {"metadata": {"name": "a"}}
Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Heard:
    """One request, as the server saw it."""

    method: str
    target: str
    headers: dict[str, str]
    body: Any


@dataclass
class ScriptedServer:
    """`answer` is called for each request; `heard` has all of them."""

    url: str
    authority: Authority
    answer: Answering
    heard: list[Heard] = field(default_factory=list)
    connections: set[object] = field(default_factory=set)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.connections.add(request.transport)
        decoded = orjson.loads(body) if body else None
        self.heard.append(Heard(request.method, request.path_qs, dict(request.headers), decoded))
        return await self.answer(request)

    def access(self, credentials: FixedCredentials | None = None, **more: Any) -> Access:
        known = {"server": self.url, "ca": self.authority.pem.read_bytes(), **more}
        return Access(credentials=credentials or FixedCredentials(), **known)


class FixedCredentials:
    """Identities one after the other: each refusal leads to the next, and the last one stays."""

    def __init__(self, *tokens: str) -> None:
        self.identities = [ApiIdentity(token=token) for token in tokens or ("secret-token",)]
        self.refusals = 0

    async def current(self) -> ApiIdentity:
        return self.identities[min(self.refusals, len(self.identities) - 1)]

    def refused(self) -> None:
        self.refusals += 1


def status(code: int, message: str = "", reason: str = "", **headers: str) -> web.Response:
    """A refusal, as kube-apiserver prints it."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason}
    return web.json_response({**body, "code": code}, status=code, headers=headers)


@asynccontextmanager
async def scripted_server(
    folder: Path, answer: Answering, *, host: str = "127.0.0.1", clients: bool = False
) -> AsyncIterator[ScriptedServer]:
    """A server until the end of the block; its certificate is for `host`. `clients`: they need a certificate, too."""
    authority = Authority(folder, "authority")
    signed = authority.sign("server", host=host)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed.cert, signed.key)
    if clients:
        context.load_verify_locations(authority.pem)
        context.verify_mode = ssl.CERT_REQUIRED
    server = ScriptedServer("", authority, answer)
    runner = web.ServerRunner(web.Server(server.handle), shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


async def lines(request: web.Request, *pieces: bytes, then: str = "end") -> web.StreamResponse:
    """An answer to a watch in pieces; then it ends, is cut, or goes on without a byte until the client goes."""
    response = web.StreamResponse()
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    if then == "cut":
        assert request.transport is not None
        request.transport.abort()
    if then == "hang":
        await gone(request)
    return response


async def gone(request: web.Request) -> web.StreamResponse:
    """No answer: wait until the client has closed the connection."""
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.01)
    return web.Response()


def event(kind: str, name: str, revision: int, **metadata: Any) -> bytes:
    """One line of a watch on pods."""
    described = {"name": name, "namespace": "default", "resourceVersion": str(revision), **metadata}
    return orjson.dumps({"type": kind, "object": {"kind": "Pod", "apiVersion": "v1", "metadata": described}}) + b"\n"


def bookmark(revision: int, *, ends: bool = False) -> bytes:
    """A bookmark; with `ends`, the one after the first list."""
    annotations = {"annotations": {"k8s.io/initial-events-end": "true"}} if ends else {}
    described = {"resourceVersion": str(revision), **annotations}
    return orjson.dumps({"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": described}}) + b"\n"


def error_event(code: int, message: str, reason: str) -> bytes:
    """The server's reason to end a watch."""
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "code": code}
    return orjson.dumps({"type": "ERROR", "object": body}) + b"\n"


async def ok(request: web.Request) -> web.StreamResponse:
    """The answer to a bind that was done."""
    return web.json_response({"kind": "Status", "status": "Success"}, status=201)


async def bind(apiserver: ApiClient) -> ApiAnswer:
    """A write whose body is sent."""
    return await apiserver.create(PODS, BODY, namespace="ns", name="a", subresource="binding")
