"""One call to an extender: a POST, its time, its size, and what went wrong in words that are safe to log.

Connections are kept open and shared by all extenders of a process. A redirect is not followed: its target was not
configured, and may be any server. A call is sent once more only where a connection that was kept open turns out to be
closed; one that binds a pod never is.

Unlike kube-scheduler, `enableHTTPS` without an authority does not switch verification off: the system's authorities
are trusted then, and only `tlsConfig.insecure` trusts any certificate.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from yarl import URL

from wharfinger.apiserver.tls import blocks, load_pair
from wharfinger.errors import ConfigurationError
from wharfinger.objects.model.extenders import Extender, ExtenderTls
from wharfinger.objects.model.texts import one_line

KEEP_OPEN = 55.0
"""Seconds that an idle connection is kept."""
SMALLEST_LIMIT = 4 * 1024 * 1024
"""Bytes of an answer that are always taken."""
LIMIT_FACTOR = 4
"""And so many times the size of the request: it may repeat whole nodes, and has a reason for each."""
HTTP_OK = 200
ERROR_LIMIT = 300
"""Characters of a foreign error."""


@dataclass(frozen=True, slots=True)
class CallFailed:
    """No usable answer came."""

    message: str
    """For people; holds no secret."""


class ExtenderCalls:
    """Calls extenders. Made anywhere, used on one event loop."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, smallest_limit: int = SMALLEST_LIMIT) -> None:
        """Nothing is opened here. `clock`: monotonic, in seconds, for reading certificates again."""
        self._clock = clock
        self._smallest_limit = smallest_limit
        self._session: aiohttp.ClientSession | None = None
        self._trusts: dict[Extender, ExtenderTrust] = {}
        self._closed = False

    async def call(self, extender: Extender, verb: str, body: bytes, *, once: bool = False) -> bytes | CallFailed:
        """POST a body to a verb of an extender; the body of the answer, or why there is none.

        `once`: whether a second call would do harm, as that of a bind.
        """
        if self._closed:
            return CallFailed("this process is stopping")
        url = extender.url(verb)
        trust = self._trusts.setdefault(extender, ExtenderTrust(extender.tls, self._clock))
        try:
            async with asyncio.timeout(extender.timeout):
                try:
                    return await self._post(extender, verb, url, trust, body)
                except aiohttp.ServerDisconnectedError:
                    if once:
                        raise
                    return await self._post(extender, verb, url, trust, body)
        except ConfigurationError as error:
            return CallFailed(str(error))
        except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:
            # Certificates are rotated in place: what was read may be outdated before it is due to be read again.
            if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
                trust.forget()
            return CallFailed(_explained(error, url, extender.timeout))

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def _post(
        self, extender: Extender, verb: str, url: str, trust: ExtenderTrust, body: bytes
    ) -> bytes | CallFailed:
        secure = url.startswith("https:")
        async with self._opened().post(
            URL(url, encoded=True),
            data=body,
            headers={"Content-Type": "application/json"},
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=extender.timeout),
            ssl=trust.context() if secure else True,
            server_hostname=trust.server_name if secure else None,
        ) as response:
            if response.status != HTTP_OK:
                return CallFailed(f"failed {verb} with extender at URL {url}, code {response.status}")
            return await self._content(response, max(self._smallest_limit, LIMIT_FACTOR * len(body)))

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_OPEN),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # nothing compressed was asked for, so no answer can grow here
                headers={"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "wharfinger"},
            )
        return self._session

    async def _content(self, response: aiohttp.ClientResponse, limit: int) -> bytes | CallFailed:
        if response.content_length is not None and response.content_length > limit:
            response.close()
            return CallFailed(f"the answer has more than {limit} bytes")
        pieces: list[bytes] = []
        size = 0
        async for piece in response.content.iter_any():
            size += len(piece)
            if size > limit:
                response.close()
                return CallFailed(f"the answer has more than {limit} bytes")
            pieces.append(piece)
        return b"".join(pieces)


def _system(error: OSError) -> str:
    """The system's words; aiohttp puts the address in their place. Names that are not found have numbers below 0."""
    return os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error.strerror or error)


def _explained(error: Exception, url: str, timeout: float) -> str:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            why = f"its certificate is not trusted: {one_line(str(error.certificate_error), ERROR_LIMIT)}"
        case aiohttp.ClientConnectorError():
            why = f"cannot connect: {one_line(_system(error.os_error), ERROR_LIMIT)}"
        case TimeoutError():
            why = f"no answer within {timeout:g} s"
        case aiohttp.ServerDisconnectedError():
            why = "the connection was closed before the answer"
        case aiohttp.ClientPayloadError():
            why = "the connection broke in the middle of the answer"
        case aiohttp.ClientResponseError():
            why = f"the answer is no valid HTTP: {one_line(error.message, ERROR_LIMIT)}"
        case OSError():
            why = f"the connection broke: {one_line(error.strerror or type(error).__name__, ERROR_LIMIT)}"
        case _:
            why = f"the call failed: {type(error).__name__}"
    return f"extender at URL {url}: {why}"


REREAD_AFTER = 60.0
"""Seconds after which files are read again, because certificates are rotated in place."""
_NOTHING = ExtenderTls()

Read = Callable[[Path], bytes]


@dataclass(frozen=True, slots=True)
class _Pems:
    authorities: bytes
    certificate: bytes
    key: bytes = field(repr=False)


class ExtenderTrust:
    """The TLS context for one extender. The same object while the files are the same, so connections are reused."""

    def __init__(self, tls: ExtenderTls | None, clock: Callable[[], float], read: Read = Path.read_bytes) -> None:
        """`clock`: monotonic, in seconds."""
        self._tls = tls or _NOTHING
        self._clock = clock
        self._read = read
        self._pems: _Pems | None = None
        self._context: ssl.SSLContext | None = None
        self._read_at = 0.0

    @property
    def server_name(self) -> str | None:
        """Name that the certificate must have; None = the host of the URL."""
        return self._tls.server_name or None

    def context(self) -> ssl.SSLContext:
        """What connections are made with. Blocks where files are due. Raises `ConfigurationError`, one line."""
        tls = self._tls
        from_files = bool(tls.ca_file or tls.cert_file or tls.key_file)
        if self._context is None or (from_files and self._clock() >= self._read_at + REREAD_AFTER):
            pems = _Pems(
                self._pem(tls.ca_data, tls.ca_file),
                self._pem(tls.cert_data, tls.cert_file),
                self._pem(tls.key_data, tls.key_file),
            )
            if self._context is None or pems != self._pems:
                self._context = _made(pems, insecure=tls.insecure)
                self._pems = pems
            self._read_at = self._clock()
        return self._context

    def forget(self) -> None:
        """A handshake failed: files are read again for the next call, should they have changed."""
        self._read_at = float("-inf")

    def _pem(self, data: bytes, file: str) -> bytes:
        if data or not file:
            return data
        try:
            return self._read(Path(file))
        except OSError as error:
            raise ConfigurationError(f"cannot read {file}: {error.strerror or error}") from error


def _made(pems: _Pems, *, insecure: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif pems.authorities:
        _trust(context, pems.authorities)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if pems.certificate:
        try:
            load_pair(context, pems.certificate, pems.key)
        except ConfigurationError as error:
            raise ConfigurationError(f"the client certificate under tlsConfig {error}") from error
    return context


def _trust(context: ssl.SSLContext, authorities: bytes) -> None:
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Go: also what stands there and is not self-signed
    try:
        context.load_verify_locations(cadata="\n".join(blocks(authorities)))
    except (ssl.SSLError, ValueError):
        raise ConfigurationError("the authorities under tlsConfig cannot be used by OpenSSL") from None
