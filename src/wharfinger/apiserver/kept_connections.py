"""Connections for requests whose answers are read whole: binds, events, statuses, pages of lists.

A bind and its event are all that a placed pod costs on this way, and aiohttp needs four times as long for each as for
the bytes themselves (`benchmarks/kubernetes_binds.py`). So these requests are written, and their answers read
(`whole_answers.py`), without it. It remains for watches and behind proxies (`connection.py`).

A connection has one request at a time. It is kept for the next one until the server closes it, the answer was not read
to its end, or it has been idle for long.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from wharfinger.apiserver.whole_answers import AnswerReader, BadAnswer, WholeAnswer

SEVERAL = 1.0
"""Seconds that one of several addresses has to answer before the next one is tried."""


@dataclass(slots=True)
class RequestBody:
    """The body of a write. `sent` is the border between "was not applied" and "may be applied"."""

    data: bytes
    type: str
    """Its media type."""
    sent: bool = False


class ConnectionFailed(Exception):
    """No connection could be opened; `__cause__` is why, None = there was no answer in time."""


class ConnectionCut(Exception):
    """The connection ended before the answer did; `__cause__` is why, None = the other side closed it."""

    def __init__(self, *, began: bool) -> None:
        """`began`: whether anything of the answer had come."""
        super().__init__()
        self.began = began
        """See above."""


class _Kept(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self.reader = AnswerReader()
        self.fresh = True
        """Whether no request was sent on it yet."""
        self.idle_since = 0.0
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[WholeAnswer] | None = None
        self._broken = False

    @property
    def usable(self) -> bool:
        """Whether another request may be sent."""
        return (
            not self._broken
            and self.reader.keeps
            and self.reader.idle
            and self._transport is not None
            and not self._transport.is_closing()
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes, limit: int) -> asyncio.Future[WholeAnswer]:
        """Send a request; its answer."""
        assert self._transport is not None
        self.reader.begin(limit)
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        try:
            found = self.reader.feed(data) if self._answer is not None else None
        except BadAnswer as error:
            self._end(error)
            self.abort()
            return
        if self._answer is None:
            self.abort()  # nobody has asked
        elif found is not None:
            self._end(found)

    def eof_received(self) -> None:
        """The other side sends no more: the transport closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._broken = True
        if self._answer is None:
            return
        whole = self.reader.end() if exc is None else None
        if whole is not None:
            self._end(whole)
            return
        cut = ConnectionCut(began=self.reader.started)
        cut.__cause__ = exc
        self._end(cut)

    def abort(self) -> None:
        """Give the connection up."""
        self._broken = True
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection; a request under way is cut."""
        self._broken = True
        if self._transport is not None:
            self._transport.close()

    def _end(self, what: WholeAnswer | Exception) -> None:
        answer, self._answer = self._answer, None
        if answer is None or answer.done():
            return
        if isinstance(what, WholeAnswer):
            answer.set_result(what)
        else:
            answer.set_exception(what)


class KeptConnections:
    """The connections to one server."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        open_socket: Callable[[tuple[Any, ...]], socket.socket],
        patience: float,
        idle_for: float,
        server_name: str = "",
    ) -> None:
        """`open_socket`: makes a socket of what `getaddrinfo` found; `patience`: seconds that opening a connection may
        take; `idle_for`: seconds that an idle one is kept; `server_name`: of the certificate, empty = the host.
        """
        self._host = host
        self._port = port
        self._open_socket = open_socket
        self._patience = patience
        self._idle_for = idle_for
        self._server_name = server_name or host
        self._context: ssl.SSLContext | None = None
        self._idle: deque[_Kept] = deque()
        """The one that was used last is at the right."""
        self._busy: set[_Kept] = set()
        self._closed = False

    def adopt(self, context: ssl.SSLContext | None) -> None:
        """New connections have this context from now on, None = no TLS; connections with another one are not kept."""
        if context is not self._context:
            self._context = context
            while self._idle:
                self._idle.pop().close()

    async def exchange(self, head: bytes, body: RequestBody | None, limit: int) -> WholeAnswer:
        """Send a request, whose head is complete, and read its answer of at most `limit` bytes.

        A request without a body is sent again where a kept connection turns out to be closed. Raises
        `ConnectionFailed`, `ConnectionCut`, `BadAnswer`.
        """
        while True:
            context = self._context
            kept = self._take() or await self._open(context)
            if self._closed:
                kept.close()
                raise ConnectionCut(began=False)
            if body is not None:
                body.sent = True
            again = not kept.fresh and body is None
            kept.fresh = False
            self._busy.add(kept)
            try:
                return await kept.ask(head if body is None else head + body.data, limit)
            except ConnectionCut as error:
                if not again or error.began:
                    raise
            except BaseException:
                kept.abort()  # given up while the answer came: the connection is of no use to others
                raise
            finally:
                self._busy.discard(kept)
                if kept.usable and context is self._context:
                    kept.idle_since = asyncio.get_running_loop().time()
                    self._idle.append(kept)
                else:
                    kept.close()

    def close(self) -> None:
        """Close all of them; what is under way is cut, and nothing is sent any more."""
        self._closed = True
        for kept in (*self._idle, *self._busy):
            kept.close()
        self._idle.clear()

    def _take(self) -> _Kept | None:
        """One that is idle, and closes those that are for too long."""
        late = asyncio.get_running_loop().time() - self._idle_for
        while self._idle and self._idle[0].idle_since < late:
            self._idle.popleft().close()
        while self._idle:
            kept = self._idle.pop()
            if kept.usable:
                return kept
        return None

    async def _open(self, context: ssl.SSLContext | None) -> _Kept:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._patience):
                connected = await self._connected()
                try:
                    _, kept = await loop.create_connection(
                        _Kept, sock=connected, ssl=context, server_hostname=self._server_name if context else None
                    )
                except BaseException:  # also when cancelled: no other part closes the socket
                    connected.close()
                    raise
        except TimeoutError:
            raise ConnectionFailed from None
        except (OSError, ssl.CertificateError) as error:
            raise ConnectionFailed from error
        return kept

    async def _connected(self) -> socket.socket:
        """A socket that is connected to one of the server's addresses."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        failed: OSError = OSError("it has no address")
        for address in found:
            made: socket.socket | None = None
            try:
                made = self._open_socket(address)  # fails for a family that this machine does not have
                async with asyncio.timeout(SEVERAL if address is not found[-1] else None):
                    await loop.sock_connect(made, address[4])
            except (OSError, TimeoutError) as error:
                if made is not None:
                    made.close()
                failed = error
            except BaseException:  # also when cancelled: no other part closes the socket
                if made is not None:
                    made.close()
                raise
            else:
                return made
        raise failed
