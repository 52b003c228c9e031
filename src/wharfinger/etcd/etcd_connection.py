"""One event loop's way to etcd: endpoints, deadlines, tries, the user's token.

`Connection` takes a method and a request and answers what etcd answered, or raises one of
`wharfinger.errors`. The store has one; every lease has its own on its own thread. What sends the
request is a `Gateway`, one for each protocol, which says *how* a try failed (`etcd_gateway`); what
that means for the call is decided here, in one place.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from random import Random
from typing import Any

from wharfinger.errors import (
    AccessDenied,
    ConfigurationError,
    StoreAnswerTooLarge,
    Unavailable,
    UserWanted,
    WharfingerError,
)
from wharfinger.etcd import etcd_tls as tls
from wharfinger.etcd.etcd_gateway import (
    CertificateRefused,
    Dropped,
    Gateway,
    NotSent,
    Stream,
    TokenRefused,
    TooMuch,
    Unanswered,
    refusal,
)
from wharfinger.etcd.etcd_wire import Method, Wire
from wharfinger.pressure import ConcurrencyLimiter, Slots, delays
from wharfinger.settings import EtcdSettings

CONCURRENT_CALLS = 64
"""Unary calls at a time, at most; more only queue inside etcd. Watches are not counted."""
LEAST_CALLS = 8
"""At a time, however slow etcd is, and with which it begins again after an outage."""
SLOW = 1.0
"""Seconds after which etcd's answer is late; usual are 1 to 50 ms."""

OpenGateway = Callable[[EtcdSettings, ssl.SSLContext | None], Gateway]
"""Makes the gateway of one protocol; the context is for endpoints with TLS."""

TOKENS_PER_CALL = 3
"""How often one call asks for a new token before it calls itself denied."""


PAUSES = 0.05, 1.0
"""Seconds between two rounds of tries: the first pause, and the longest."""


class Connection:
    """Calls to a cluster of endpoints; lives on one event loop.

    An endpoint is kept while it works; a failure moves all calls on to the next one.
    """

    def __init__(self, settings: EtcdSettings, open_gateway: OpenGateway, random: Random) -> None:
        self.settings = settings
        self.random = random
        self.closed = asyncio.Event()
        self._endpoints = tuple(dict.fromkeys(tls.endpoints(settings)))
        secure = any(endpoint.startswith("https:") for endpoint in self._endpoints)
        self._context = tls.context(settings) if secure else None
        self._gateway = open_gateway(settings, self._context)
        self._gateway.endpoint = self._endpoints[0]
        self.wire: Wire = self._gateway.wire
        window = ConcurrencyLimiter(CONCURRENT_CALLS, least=LEAST_CALLS, slow=SLOW)
        self._slots = Slots(window, asyncio.get_running_loop().time)
        self._proven: set[str] = set()
        """Endpoints that have answered: they accept our certificate."""
        self._streams: set[Stream] = set()
        self._authenticating = asyncio.Lock()

    @property
    def endpoint(self) -> str:
        """The endpoint in use."""
        return self._gateway.endpoint

    @property
    def size(self) -> int:
        """How many endpoints there are."""
        return len(self._endpoints)

    def leave(self, endpoint: str) -> None:
        """Move on to the next endpoint, unless another call has moved on from this one already."""
        if self._gateway.endpoint == endpoint:
            following = (self._endpoints.index(endpoint) + 1) % len(self._endpoints)
            self._gateway.endpoint = self._endpoints[following]

    async def call(
        self,
        method: Method,
        request: Any,
        *,
        repeatable: bool,
        within: float | None = None,
        attempt: float | None = None,
    ) -> Any:
        """One unary call with all its tries.

        `within` (seconds for all of it) and `attempt` (for one try) stand in for the settings'.
        `repeatable` calls are tried again when an answer got lost. Raises `Unavailable` (with
        `maybe_applied` for the others), `AccessDenied`, and what etcd's refusal means.
        """
        clock = asyncio.get_running_loop().time
        ends = clock() + (self.settings.deadline if within is None else within)
        each = self.settings.attempt_timeout if attempt is None else attempt
        try:
            async with self._slots.slot(ends - clock()) as slot:
                try:
                    return await self._try_until(ends, method, request, repeatable, each)
                except WharfingerError as error:
                    slot.blameless = not isinstance(error, Unavailable)  # it said no: that is an answer
                    raise
        except TimeoutError:
            raise Unavailable(f"too many calls wait for etcd at {self.endpoint}") from None

    async def _try_until(self, ends: float, method: Method, request: Any, repeatable: bool, attempt: float) -> Any:
        clock = asyncio.get_running_loop().time
        pauses = delays(*PAUSES, self.random)
        tries = tokens = 0
        untrusted: set[str] = set()
        while True:
            if self.closed.is_set():
                raise Unavailable("the connection to etcd is closed")
            endpoint = self.endpoint
            try:
                return await self._once(method, request, min(attempt, ends - clock()))
            except TokenRefused as error:
                tokens += 1
                if tokens > TOKENS_PER_CALL:
                    raise AccessDenied(f"etcd at {endpoint} refuses the token it gave: {error}") from error
                continue
            except CertificateRefused as error:
                problem: Exception = error
                untrusted.add(endpoint)
                if len(untrusted) == len(self._endpoints):
                    raise AccessDenied(f"no trust between us and etcd at {endpoint}: {error}") from error
            except TooMuch as error:
                raise StoreAnswerTooLarge(f"etcd at {endpoint}: {error}", maybe_applied=not repeatable) from error
            except NotSent as error:
                problem = error
            except Unanswered as error:
                if not repeatable:
                    message = f"etcd at {endpoint} gave no answer, the write may have happened: {error}"
                    raise Unavailable(message, maybe_applied=True) from error
                problem = error
            self.leave(endpoint)
            tries += 1
            pause = next(pauses) if tries % len(self._endpoints) == 0 else 0.0
            if clock() + pause >= ends:
                raise Unavailable(f"etcd does not answer at {endpoint}: {problem}") from problem
            await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.closed.wait()

    async def _once(self, method: Method, request: Any, seconds: float) -> Any:
        if self.settings.user and self._gateway.token is None:
            clock = asyncio.get_running_loop().time
            began = clock()
            await self._authenticate(seconds)
            seconds -= clock() - began
        token, endpoint = self._gateway.token, self.endpoint
        try:
            answer = await self._gateway.exchange(method, request, seconds)
            self._proven.add(endpoint)
            return answer
        except (Dropped, Unanswered) as error:
            await self._explain(endpoint, error)
            raise
        except TokenRefused as error:
            self._distrust(token, error)
            raise

    @contextlib.asynccontextmanager
    async def stream(self, method: Method, request: Any, *, idle: float) -> AsyncIterator[AsyncGenerator[Any, None]]:
        """The messages of a stream from the current endpoint: one try, bounded; `idle` seconds of silence end it.

        Raises the four classes above, `AccessDenied`, and what etcd's refusal means.
        """
        opened = await self._open_stream(method, request, idle)
        self._streams.add(opened)
        try:
            async with contextlib.aclosing(opened.messages()) as messages:
                yield messages
        except TokenRefused:
            self._gateway.token = None
            raise
        finally:
            self._streams.discard(opened)
            opened.close()

    async def _open_stream(self, method: Method, request: Any, idle: float) -> Stream:
        if self.settings.user and self._gateway.token is None:
            await self._authenticate(self.settings.attempt_timeout)
        token, endpoint = self._gateway.token, self.endpoint
        try:
            # etcd answers with the first message, so a stalled server shows only by the clock
            async with asyncio.timeout(self.settings.attempt_timeout):
                return await self._gateway.open_stream(method, request, idle)
        except TimeoutError as error:
            raise Unanswered("no answer in time") from error
        except (Dropped, Unanswered) as error:
            await self._explain(endpoint, error)
            raise
        except TokenRefused as error:
            self._distrust(token, error)
            raise

    async def _explain(self, endpoint: str, error: Exception) -> None:
        """Raise `CertificateRefused` if that is why a server that never answered us ended the connection.

        Such a server reads no request. Its reset of the connection may arrive before the reason is read, and then a
        request that was written whole looks like one without an answer.
        """
        if self._context is None or endpoint in self._proven or not endpoint.startswith("https:"):
            return
        reason = await asyncio.to_thread(tls.refusal, endpoint, self._context, 0.5)
        if reason is not None:
            raise CertificateRefused(reason) from error

    def refusal(self, reason: str) -> Exception:
        """What etcd's reason for ending a stream means."""
        meaning = refusal(reason, 2)
        if isinstance(meaning, TokenRefused):
            self._gateway.token = None
        return meaning

    def _distrust(self, token: str | None, error: TokenRefused) -> None:
        if not self.settings.user:
            raise UserWanted(f"etcd at {self.endpoint} wants a user and a password") from error
        if self._gateway.token == token:
            self._gateway.token = None

    async def _authenticate(self, seconds: float) -> None:
        """Log in, unless another call did meanwhile. Whatever goes wrong, the call itself was not sent."""
        try:
            async with asyncio.timeout(seconds), self._authenticating:
                if self._gateway.token is not None:
                    return
                request = {"name": self.settings.user, "password": _password(self.settings)}
                answer = await self._gateway.exchange(Method.AUTHENTICATE, request, seconds)
                self._gateway.token = self.wire.token(answer)
        except TimeoutError as error:
            raise NotSent("no login in time") from error
        except (Unanswered, TokenRefused, KeyError) as error:
            raise NotSent(f"no login: {error}") from error

    async def close(self) -> None:
        """Close all connections; streams end."""
        self.closed.set()
        for stream in self._streams:
            stream.break_off()
        await self._gateway.close()


def _password(settings: EtcdSettings) -> str:
    """Read anew at each login, so that a changed password needs no restart."""
    if settings.password_file is None:
        raise ConfigurationError(f"etcd user {settings.user} needs a password file")
    try:
        return settings.password_file.read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        # its text and its chain would show what the file holds
        raise ConfigurationError(f"etcd's password file {settings.password_file} is no UTF-8 text") from None
    except OSError as error:
        raise ConfigurationError(f"cannot read etcd's password file {settings.password_file}: {error}") from error
