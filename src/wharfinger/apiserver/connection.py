"""Connections to one API server, with our credentials.

::

    whole   an answer that is read to its end    own connections (`kept_connections`); behind a proxy: aiohttp
    open    an answer that goes on, a watch      aiohttp

Connections are kept open between requests. Failures are raised as `Broken`, whose text contains neither headers nor
credentials. Exceptions of aiohttp are not chained to it, because some of them contain the request's headers.

A body is sent once. aiohttp sends some requests again on a new connection when a kept one turns out to be closed.
The answer to the second request would be misleading: "conflict" for a write that the first one had done.
"""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from wharfinger.apiserver.credentials import Access, ApiIdentity
from wharfinger.apiserver.kept_connections import ConnectionCut, ConnectionFailed, KeptConnections, RequestBody
from wharfinger.apiserver.tls import context as tls_context
from wharfinger.apiserver.whole_answers import AnswerTooLarge, BadAnswer, WholeAnswer
from wharfinger.apiserver.wire import one_line

KEEP_OPEN = 55.0
"""Seconds that an idle connection is kept: less than API servers and most balancers keep it."""
USER_TIMEOUT = 15.0
"""Seconds after which the kernel gives up a connection whose other side no longer acknowledges."""
CONNECT_TIMEOUT = 10.0
"""Seconds that a connection may take to open, where the request has no shorter deadline."""
READ_AHEAD = 256 * 1024
"""Bytes of one answer that aiohttp buffers before it stops reading the socket."""


def _version() -> str:
    try:
        return version("wharfinger")
    except PackageNotFoundError:
        return "unknown"


HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": f"wharfinger/{_version()}",
}
"""Of every request."""
Timeouts = aiohttp.ClientTimeout
WHOLE = Timeouts(total=None, sock_connect=CONNECT_TIMEOUT)
"""For requests whose caller limits their time."""


class Broken(Exception):
    """No usable answer came; `str()` is why, for a user."""


class OnceBody(aiohttp.payload.BytesPayload):
    """The body of a write, for aiohttp."""

    def __init__(self, body: RequestBody) -> None:
        super().__init__(body.data, content_type=body.type)
        self._given = body

    @property
    def consumed(self) -> bool:
        """Whether it was sent, so that it must not be sent again."""
        return self._given.sent

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body. Raises `ConnectionResetError` the second time."""
        if self._given.sent:
            raise ConnectionResetError("the connection was closed while the request was sent")
        self._given.sent = True
        await super().write_with_length(writer, content_length)


class ApiConnection:
    """Sends single requests to the server of an `Access`, with its credentials."""

    def __init__(self, access: Access, context: Callable[[Access, ApiIdentity], ssl.SSLContext] | None = None) -> None:
        """`context` makes the TLS context of an identity; None = `tls.context`."""
        self._access = access
        self._context = context or tls_context
        self._base = access.server.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._kept: KeptConnections | None = None
        self._head = b""
        """What every head of a request has, with our credentials."""
        self._closed = False
        self._closing: set[Callable[[], None]] = set()
        self._identity: ApiIdentity | None = None
        self._options: dict[str, Any] = {}
        self._authorization: dict[str, str] = {}
        url = URL(self._base)
        self._host = url.raw_authority.rpartition("@")[2]
        self._base_path = url.raw_path.rstrip("/")

    @property
    def server(self) -> str:
        """The URL, for messages."""
        return self._base

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    async def whole(self, method: str, path: str, body: RequestBody | None, limit: int) -> WholeAnswer:
        """Send one request and read its answer, whose body may have `limit` bytes. The caller limits the time.

        Raises `Broken`, and `UpstreamDenied` when there are no credentials.
        """
        await self._identify()
        if self._access.proxy:
            response = await self.open(method, path, body)
            content = await self.body(response, limit)
            return WholeAnswer(response.status, content, response.headers.get("Retry-After"))
        kept = self._kept
        if kept is None:
            kept = self._kept = self._keep()
        kept.adopt(self._options.get("ssl"))
        if not path.isascii() or not path.isprintable() or " " in path:
            raise Broken("the request has no path that can be sent")
        begin = f"{method} {self._base_path}{path} HTTP/1.1\r\n".encode()
        end = (
            b"\r\n"
            if body is None
            else b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n"
            % (
                body.type.encode(),
                len(body.data),
            )
        )
        failure: Broken
        try:
            return await kept.exchange(begin + self._head + end, body, limit)
        except (ConnectionFailed, ConnectionCut, BadAnswer, OSError, ValueError, RuntimeError) as error:
            failure = self.broken(error)
        raise failure

    async def open(
        self, method: str, path: str, body: RequestBody | None = None, *, timeout: aiohttp.ClientTimeout = WHOLE
    ) -> aiohttp.ClientResponse:
        """Send one request and wait for the head of its answer.

        Raises `Broken`, and `UpstreamDenied` when there are no credentials.
        """
        await self._identify()
        session = self._session or self._start()
        failure: Broken
        try:
            return await session.request(
                method,
                URL(self._base + path, encoded=True),
                data=OnceBody(body) if body is not None else None,
                allow_redirects=False,
                timeout=timeout,
                headers=self._authorization,
                **self._options,
            )
        except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:
            failure = self.broken(error)
        raise failure

    async def body(self, response: aiohttp.ClientResponse, limit: int) -> bytes:
        """The whole body of an answer. Raises `Broken`, also for more than `limit` bytes."""
        failure: Broken
        try:
            length = response.content_length
            if length is not None and length <= limit:
                return await response.read()
            pieces: list[bytes] = []
            size = 0
            async for piece in response.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                if size > limit:
                    break
            else:
                return b"".join(pieces)
            failure = Broken(f"the answer has more than {limit} bytes")
        except (aiohttp.ClientError, OSError) as error:
            failure = self.broken(error)
        except BaseException:
            response.close()  # given up while it came: the connection is of no use to others
            raise
        response.close()
        raise failure

    def refused(self) -> None:
        """The server answered 401: credentials are read again for the next request."""
        self._access.credentials.refused()
        self._identity = None

    def hide(self, text: str) -> str:
        """The text without our secrets, in case the server repeated one."""
        identity = self._identity
        for secret in (identity.token, identity.password) if identity is not None else ():
            if secret and secret in text:
                text = text.replace(secret, "...")
        return text

    def broken(self, error: BaseException) -> Broken:
        """What a failure means, in words that are safe to log."""
        return Broken(self.hide(_explain(error)))

    def on_close(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Have `close` call something; the result undoes that. aiohttp leaves readers of an answer waiting."""
        self._closing.add(callback)
        return lambda: self._closing.discard(callback)

    async def close(self) -> None:
        """Close all connections; what is under way on them breaks."""
        self._closed = True
        for callback in tuple(self._closing):
            callback()
        if self._kept is not None:
            self._kept.close()
        if self._session is not None:
            await self._session.close()

    async def _identify(self) -> None:
        """Be who the credentials say we are now. Raises `Broken` once it is closed, and `UpstreamDenied`."""
        if self._closed:
            raise Broken("the connection to the API server is closed")
        identity = await self._access.credentials.current()
        if identity is not self._identity:
            self._adopt(identity)

    def _adopt(self, identity: ApiIdentity) -> None:
        """Prepare what every request of this identity has: once, because a bind has 0.23 ms."""
        self._authorization = {}
        if identity.token:
            self._authorization["Authorization"] = f"Bearer {identity.token}"
        elif identity.username:
            pair = base64.b64encode(f"{identity.username}:{identity.password}".encode()).decode()
            self._authorization["Authorization"] = f"Basic {pair}"
        headers = {"Host": self._host, **HEADERS, **self._authorization}
        if any(not value.isprintable() for value in headers.values()):
            raise Broken("the credentials, or the server's name, cannot be sent in a header")
        self._head = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        options: dict[str, Any] = {}
        if self._base.startswith("https:"):
            before = self._identity
            same = before is not None and (before.certificate, before.key) == (identity.certificate, identity.key)
            options["ssl"] = self._options["ssl"] if same else self._context(self._access, identity)
            if self._access.tls_server_name:
                options["server_hostname"] = self._access.tls_server_name
        if self._access.proxy:
            options["proxy"] = self._access.proxy
        self._identity, self._options = identity, options

    def _keep(self) -> KeptConnections:
        url = URL(self._base)
        return KeptConnections(
            url.raw_host or "",
            url.port or 0,
            open_socket=api_socket,
            patience=CONNECT_TIMEOUT,
            idle_for=KEEP_OPEN,
            server_name=self._access.tls_server_name,
        )

    def _start(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,  # callers bound what they have under way
            keepalive_timeout=KEEP_OPEN,
            socket_factory=api_socket,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,  # nothing compressed was asked for; so no answer can grow here
            read_bufsize=READ_AHEAD,
            headers=HEADERS,
        )
        return self._session


def api_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket that notices within seconds that the other side is gone."""
    made = socket.socket(address[0], address[1], address[2])
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 5), ("TCP_USER_TIMEOUT", int(USER_TIMEOUT * 1000))):
        if hasattr(socket, name):  # not on every system
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


def _explain(error: BaseException) -> str:
    match error:
        case ConnectionFailed(__cause__=None):
            return "cannot connect: no answer in time"
        case ConnectionFailed(__cause__=ssl.SSLCertVerificationError() as cause):
            return f"its certificate is not trusted: {one_line(str(cause), 300)}"
        case ConnectionFailed(__cause__=cause):
            return f"cannot connect: {one_line(str(getattr(cause, 'strerror', None) or cause), 300)}"
        case ConnectionCut(began=True):
            return "the connection broke in the middle of the answer"
        case ConnectionCut(__cause__=None):
            return "the connection was closed before the answer"
        case ConnectionCut(__cause__=cause):
            return f"the connection broke: {one_line(getattr(cause, 'strerror', None) or type(cause).__name__, 300)}"
        case AnswerTooLarge():
            return str(error)
        case BadAnswer():
            return f"the answer is no valid HTTP: {error}"
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted: {one_line(str(error.certificate_error), 300)}"
        case aiohttp.ClientConnectorError():
            return f"cannot connect: {one_line(str(error.os_error.strerror or error.os_error), 300)}"
        case aiohttp.ConnectionTimeoutError():
            return "cannot connect: no answer in time"
        case aiohttp.SocketTimeoutError():
            return "nothing was heard in time"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before the answer"
        case aiohttp.ClientPayloadError():
            return "the connection broke in the middle of the answer"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy refuses the connection with code {error.status}"
        case aiohttp.ClientResponseError():
            return f"the answer is no valid HTTP: {one_line(error.message, 100)}"
        case TimeoutError():
            return "no answer in time"
        case OSError():
            return f"the connection broke: {one_line(error.strerror or type(error).__name__, 300)}"
        case _:
            return f"the request failed: {type(error).__name__}"
