"""etcd's JSON gateway: the only file that imports the client of etcd3-py.

Of that package three things are used, for the rest of it does not fit servers and libraries of today:
`AioClient.call_rpc` with raw answers, its URL prefix and its token header. (`etcd_gateway` takes its
error classes.) `JsonGateway` mends what stands in the way of these. Tries and deadlines belong to
`etcd_connection`, trust to `etcd_tls`, spelling to `etcd_json_wire`.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Protocol

import aiohttp
import orjson
from etcd3.aio_client import AioClient
from etcd3.baseclient import BaseClient, sem

from wharfinger.errors import AccessDenied
from wharfinger.etcd import etcd_json_wire
from wharfinger.etcd.etcd_gateway import (
    LARGEST_ANSWER,
    CertificateRefused,
    Dropped,
    NotSent,
    TooMuch,
    Unanswered,
    refusal,
)
from wharfinger.etcd.etcd_json_wire import Body, encoded
from wharfinger.etcd.etcd_wire import Method, Wire
from wharfinger.settings import EtcdSettings

SPOKEN_VERSION = "3.6.0"
"""The server version whose spelling we use (any from 3.4 on); asking the server would block the loop."""
NAMED_CERTIFICATE = b"CommonName of client sending a request against gateway"
"""etcd says so, as plain text: a name would be taken for the user's in every other interface of it."""
JSON = {"Content-Type": "application/json"}


class JsonGateway(AioClient):  # type: ignore[misc]  # the package has no types
    """etcd3-py's asynchronous client, mended: no I/O at start-up, any endpoint, errors that are told apart."""

    wire: Wire = etcd_json_wire

    def __init__(self, settings: EtcdSettings, context: ssl.SSLContext | None) -> None:
        self.endpoint = ""
        # not AioClient's own: it makes a session with 30 connections that watches would use up
        BaseClient.__init__(self, server_version=SPOKEN_VERSION, cluster_version=SPOKEN_VERSION)
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=context or True),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={"Accept-Encoding": "identity"},
            auto_decompress=False,  # nothing compressed is asked for, so no answer can grow here
            read_bufsize=1 << 18,
        )
        self.ssl_context = None
        self._settings = settings
        self._attempt = self._timeout(settings.attempt_timeout)

    def _retrieve_version(self) -> None:
        self.server_version_sem = self.cluster_version_sem = sem.Version(SPOKEN_VERSION)

    @property
    def baseurl(self) -> str:
        """The endpoint that the next call goes to."""
        return self.endpoint

    def _url(self, method: str, prefix: bool = True) -> str:
        """Each call's, without a parser of URLs."""
        return f"{self.endpoint}{self._prefix(method) if prefix else method}"

    @staticmethod
    async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
        if response.status < 400:
            return
        text = await _whole(response)
        try:
            answer = orjson.loads(text)
            if isinstance(answer.get("error"), dict):  # of a stream that etcd refuses at once
                answer = answer["error"]
            message, code = str(answer["message"]), int(answer["code"])
        except (ValueError, KeyError, TypeError, AttributeError):
            if NAMED_CERTIFICATE in text:
                raise AccessDenied(
                    "etcd has users, so its JSON gateway takes no client certificate with a common name: "
                    "use one whose subject has none (CN)"
                ) from None
            raise Unanswered(f"HTTP {response.status}, not from etcd's JSON gateway") from None
        raise refusal(message, code)

    def _timeout(self, seconds: float) -> aiohttp.ClientTimeout:
        connect = min(self._settings.connect_timeout, seconds)
        return aiohttp.ClientTimeout(total=max(0.001, seconds), sock_connect=connect)

    async def exchange(self, method: Method, request: Body, seconds: float) -> Body:
        """One call, one answer; raises the errors that `etcd_gateway` distinguishes, or a `StoreError`."""
        timeout = self._attempt if seconds == self._settings.attempt_timeout else self._timeout(seconds)
        try:
            call = self.call_rpc(
                method.value, encoded(request), raw=True, timeout=timeout, headers=dict(JSON),
                allow_redirects=False,
            )  # fmt: skip
            async with call as response:
                await self._raise_for_status(response)
                answer = orjson.loads(await _whole(response))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failure(error) from error
        if not isinstance(answer, dict):
            raise Unanswered("the answer is no JSON object")
        if "error" in answer:
            raise _refusal_inside(answer)
        return answer

    async def open_stream(self, method: Method, request: Body, idle: float) -> JsonStream:
        """One call whose answer goes on; it ends when its member loses the leader."""
        headers = {**JSON, "Grpc-Metadata-hasleader": "true"}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._settings.connect_timeout, sock_read=idle)
        try:
            # etcd sends the headers with the first message
            response: aiohttp.ClientResponse = await self.call_rpc(
                method.value, encoded(request), raw=True, timeout=timeout, headers=headers, allow_redirects=False
            )
            try:
                await self._raise_for_status(response)
                _check_plain(response)
            except BaseException:  # also when cancelled: no other part closes the response
                response.close()
                raise
        except (aiohttp.ClientError, OSError) as error:
            raise _failure(error) from error
        return JsonStream(response)

    async def close(self) -> None:
        """Close all sockets."""
        await self.session.close()


class JsonStream:
    """An answer that goes on, a line a message."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    def messages(self) -> AsyncGenerator[Body, None]:
        """The result of each line. Raises `Unanswered`, and what a refusal means."""
        return messages(self._response.content)

    def break_off(self) -> None:
        """Have the reader raise: to close the socket alone would leave it waiting for ever."""
        self._response.content.set_exception(aiohttp.ClientConnectionError("closed"))

    def close(self) -> None:
        """Close the connection."""
        self._response.close()


async def _whole(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer. Raises `Unanswered` where it is compressed, and `TooMuch`."""
    _check_plain(response)
    if response.content_length is not None and response.content_length > LARGEST_ANSWER:
        response.close()
        raise TooMuch
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > LARGEST_ANSWER:
            response.close()
            raise TooMuch
        pieces.append(piece)
    return b"".join(pieces)


def _check_plain(response: aiohttp.ClientResponse) -> None:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() != "identity":
        response.close()
        raise Unanswered("the answer is compressed, which was not asked for")


class Bytes(Protocol):
    """What lines are read from, an `aiohttp.StreamReader` for one."""

    async def readany(self) -> bytes:
        """Bytes that have come; empty at the end."""


async def messages(content: Bytes) -> AsyncGenerator[Body, None]:
    """The result of each line of a stream. Raises `Unanswered`, and what a refusal means."""
    try:
        async with aclosing(_lines(content)) as lines:
            async for line in lines:
                message: Body = orjson.loads(line)
                if "error" in message:
                    raise _refusal_inside(message)
                yield message.get("result", {})
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unanswered(repr(error)) from error


async def _lines(content: Bytes) -> AsyncGenerator[bytes, None]:
    """The lines; what follows the last line end when the stream breaks is dropped.

    Raises `ValueError` where one is too long.
    """
    parts: list[bytes] = []
    size = 0
    while chunk := await content.readany():
        *complete, rest = chunk.split(b"\n")
        for line in complete:
            whole = b"".join((*parts, line)) if parts else line
            parts.clear()
            size = 0
            if whole:
                yield whole
        if rest:
            parts.append(rest)
            size += len(rest)
            if size > LARGEST_ANSWER:
                raise ValueError(str(TooMuch()))


def _refusal_inside(answer: Body) -> Exception:
    """Etcd refused, and had begun to answer."""
    error: dict[str, Any] = answer["error"]
    return refusal(str(error.get("message", "")), int(error.get("code", 2)))


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
