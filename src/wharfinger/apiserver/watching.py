"""One watch: the first list, line by line, and then what changes.

Newer servers send the existing objects as events of the watch and mark their end with a bookmark (WatchList). That
avoids one large document. For a server that refuses it, the list is read in pages, and the watch begins at their
revision.

The error that ends a watch is raised after all events before it were passed on. So the next watch can begin at the
last revision that was seen.

An API server closes the connection of a client that reads slowly. So one task reads the socket continuously and puts
lines into a queue, as bytes. The watch takes them at the pace of its consumer. Reading pauses only when hundreds of
megabytes wait.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from orjson import loads

from wharfinger.apiserver import wire
from wharfinger.apiserver.client import ApiChange, ApiResource, Batch, ChangeKind, Object, ReadRefused, revision_of
from wharfinger.apiserver.connection import ApiConnection
from wharfinger.apiserver.credentials import ApiClocks
from wharfinger.apiserver.wire import GONE, refusal_of
from wharfinger.errors import HistoryGone, UpstreamError, UpstreamUnavailable, WatchEnded

SILENCE = 70.0
"""Seconds without a line after which a watch is given up: an idle one brings a bookmark each minute."""
SLICE = 0.01
"""Seconds of decoding after which others get the event loop."""
GATHER = 0.002
"""Seconds in which lines may gather after some came. A server sends each object on its own; a list costs a fifth less
where they are taken together."""
CAUGHT_UP = 0.1
"""Seconds without a line after which a watch of changes has shown all that changed before, where no change of the kind
has the newest revision. kube-apiserver has these events at hand when it answers."""
SPACING = 0.04
"""Seconds from one batch with new objects to the next, of a consumer that gathers: each costs it a transaction. So a
new object is shown at once where none came just before it; of a hundred a second, four are shown together."""
LINE_LIMIT = 8 * 2**20
"""Bytes of one line; etcd's limit for an object is 1.5 MiB."""
QUEUE_LIMIT = 256 * 2**20
"""Bytes that may wait to be decoded."""

_FIRST_LIST_ENDS = "k8s.io/initial-events-end"
_NOT_OFFERED = frozenset({400, 422})
"""Codes of servers that cannot begin a watch with the objects that there are."""
_NEW = b'{"type":"ADDED"'
"""How the line of a new object begins. One that is spelled otherwise waits for others, no longer than all do."""
_KINDS = {kind.value: kind for kind in ChangeKind}


@dataclass(frozen=True, slots=True)
class WatchSource:
    """What a watch needs of the transport."""

    connection: ApiConnection
    """Where the bytes come from."""
    open: Callable[[ApiResource, str], Awaitable[aiohttp.ClientResponse]]
    """The answer to a watch, by its query, at its first line. Raises as `ApiClient.watch` does."""
    list: Callable[..., AsyncGenerator[tuple[tuple[Object, ...], int], None]]
    """As `ApiClient.list`."""
    silence: float
    """Seconds without a line after which a watch is given up."""
    clocks: ApiClocks
    """They measure slices of work, and the time between batches."""


async def batches(
    source: WatchSource,
    resource: ApiResource,
    revision: int | None,
    field_selector: str,
    *,
    newest: int = 0,
    gather: float = 0.0,
) -> AsyncGenerator[Batch, None]:
    """What `ApiClient.watch` shows."""
    if revision is None:
        try:
            response = await source.open(resource, wire.first_watch(field_selector))
        except ReadRefused as error:
            if error.code not in _NOT_OFFERED:
                raise
        else:
            async with contextlib.aclosing(_lines(source, response, None, gather=gather)) as shown:
                async for batch in shown:
                    yield batch
        async with contextlib.aclosing(_pages(source, resource, field_selector)) as pages:
            async for batch in pages:
                revision = batch.revision
                yield batch
        assert revision is not None
    response = await source.open(resource, wire.next_watch(revision, field_selector))
    async with contextlib.aclosing(_lines(source, response, revision, newest=newest, gather=gather)) as shown:
        async for batch in shown:
            yield batch


async def _pages(source: WatchSource, resource: ApiResource, field_selector: str) -> AsyncGenerator[Batch, None]:
    """The first list in pages; the last batch has its revision."""
    at = 0
    async for objects, revision in source.list(resource, field_selector=field_selector):
        at = revision
        yield Batch(tuple(ApiChange(ChangeKind.ADDED, one, revision_of(one)) for one in objects), 0)
    yield Batch((), at, listed=True)


async def _lines(
    source: WatchSource,
    response: aiohttp.ClientResponse,
    revision: int | None,
    *,
    newest: int = 0,
    gather: float,
) -> AsyncGenerator[Batch, None]:
    """Batches of what one connection brings after the revision, None = with the first list; ends by an exception."""
    clock, pause, listing = source.clocks.monotonic, source.clocks.pause, revision is None
    queue = LineQueue(QUEUE_LIMIT, urgent=_NEW)
    where = f"the watch on {response.url.path} at {source.connection.server}"
    reader = asyncio.create_task(_read(source, response, queue, where), name=f"read {response.url.path}")
    forget = source.connection.on_close(lambda: queue.end(UpstreamUnavailable(f"{where} was closed")))
    events = EventDecoder(where, listing=listing, revision=revision or 0)
    shown = float("-inf")
    try:
        if not listing:
            caught_up = await events.up_to(newest, queue, clock, pause)
            if caught_up.changes or events.failure is None:
                yield caught_up
            if events.failure is not None:
                raise events.failure
        while True:
            await queue.filled()
            if gather > 0 and not events.listing:
                await queue.gather(gather)
                if queue.urgent and (early := shown + SPACING - clock()) > 0:
                    await pause(early)
            urgent = queue.urgent
            batch = events.some(queue, clock)
            if batch is not None:
                shown = clock() if urgent and not queue else shown
                yield batch
            if events.failure is not None:
                raise events.failure
            if queue:
                await asyncio.sleep(0)
    finally:
        forget()
        reader.cancel()
        response.close()
        await asyncio.wait([reader])


async def _read(source: WatchSource, response: aiohttp.ClientResponse, queue: LineQueue, where: str) -> None:
    """Read the connection continuously; put the error that ended it behind the last line."""
    splitter = LineSplitter(LINE_LIMIT)
    try:
        async for piece in response.content.iter_any():
            queue.put(splitter.feed(piece))
            await asyncio.sleep(GATHER)
            await queue.room()
        cut = " in the middle of a line" if splitter.rest else ""
        ended = UpstreamUnavailable if cut else WatchEnded
        queue.end(ended(f"{where} was ended by the server{cut}"))
    except LineTooLong as error:
        queue.end(UpstreamUnavailable(f"{where} cannot be read: {error}"))
    except aiohttp.SocketTimeoutError:
        queue.end(UpstreamUnavailable(f"{where} was silent for {source.silence:g} s"))
    except Exception as error:  # of any kind: the consumer must not wait for ever
        queue.end(UpstreamUnavailable(f"{where} broke: {source.connection.broken(error)}"))


class EventDecoder:
    """Makes batches of lines."""

    def __init__(self, where: str, *, listing: bool, revision: int) -> None:
        self._where = where
        self.listing = listing
        """Whether the first list is under way."""
        self._revision = revision
        self._listed = False
        self.failure: UpstreamError | None = None
        """What the server, or a line that cannot be read, ended the watch with; after the batch it came with."""

    async def up_to(
        self,
        newest: int,
        queue: LineQueue,
        clock: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
    ) -> Batch:
        """One batch of all up to this revision, by slices; of all that came before a silence, where none reaches it.

        Raises what ended the reading where no line came.
        """
        changes: list[ApiChange] = []
        while self.failure is None and self._revision < newest:
            if not queue and not await queue.filled_within(pause, CAUGHT_UP):
                if not changes:
                    queue.check()
                break
            batch = self.some(queue, clock)
            changes += batch.changes if batch is not None else ()
            await asyncio.sleep(0)
        return Batch(tuple(changes), self._revision)

    def some(self, queue: LineQueue, clock: Callable[[], float]) -> Batch | None:
        """A batch of what waits, of at most a slice's work; it ends with the first list. None without news."""
        changes: list[ApiChange] = []
        before = self._revision
        self._listed = False
        until = clock() + SLICE
        while queue and not self._listed and self.failure is None:
            try:
                event = loads(queue.take())
                kind, obj = _KINDS.get(event["type"]), event["object"]
                if kind is not None:
                    revision = int(obj["metadata"]["resourceVersion"])
                    changes.append(ApiChange(kind, obj, revision))
                    self._revision = max(self._revision, revision)
                else:
                    self._take(event["type"], obj)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                reason = type(error).__name__
                self.failure = UpstreamUnavailable(f"{self._where} brought a line that is no event: {reason}")
            if clock() >= until:
                break
        if not changes and not self._listed and self._revision == before:
            return None
        return Batch(tuple(changes), 0 if self.listing else self._revision, self._listed)

    def _take(self, name: str, obj: Mapping[str, Any]) -> None:
        """An event that is no change."""
        if name == "BOOKMARK":
            self._revision = max(self._revision, revision_of(obj))
            ends = (obj["metadata"].get("annotations") or {}).get(_FIRST_LIST_ENDS)
            if self.listing and ends == "true":
                self.listing, self._listed = False, True
        elif name == "ERROR":
            self.failure = self._refusal(obj)
        else:
            raise ValueError(name)

    def _refusal(self, status: Mapping[str, Any]) -> UpstreamError:
        answer = refusal_of(status)
        text = f"{self._where} was ended by the server with code {answer.code}: {answer.message}"
        if answer.code == GONE or answer.reason in {"Expired", "Gone"}:
            return HistoryGone(text)
        return UpstreamUnavailable(text)


class LineTooLong(Exception):
    """A line has more bytes than an object can have: what is sent is no watch."""


class LineSplitter:
    """Cuts pieces, as they come from a socket, into lines."""

    def __init__(self, limit: int) -> None:
        """`limit`: bytes that a line may have."""
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def rest(self) -> bool:
        """Whether a line has begun and not ended."""
        return self._size > 0

    def feed(self, piece: bytes) -> list[bytes]:
        """The lines that end in this piece. Raises `LineTooLong`."""
        lines = piece.split(b"\n")
        rest = lines.pop()
        if lines:
            lines[0] = b"".join((*self._pieces, lines[0]))
            self._pieces, self._size = [], 0
        if rest:
            self._pieces.append(rest)
            self._size += len(rest)
        if self._size > self._limit or any(len(line) > self._limit for line in lines):
            raise LineTooLong(f"a line has more than {self._limit} bytes")
        return [line for line in lines if line]


class LineQueue:
    """Lines between one reader and one consumer; the error that ended the reading comes after the last line."""

    def __init__(self, limit: int, urgent: bytes = b"") -> None:
        """`limit`: bytes that may wait before `room` lets the reader wait; `urgent`: how lines begin that do not
        gather, empty = all lines.
        """
        self._limit = limit
        self._begins = urgent
        self._lines: deque[bytes] = deque()
        self._waiting = 0
        self._ended: Exception | None = None
        self._filled = asyncio.Event()
        self._urgent = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def __bool__(self) -> bool:
        """Whether a line waits."""
        return bool(self._lines)

    @property
    def urgent(self) -> bool:
        """Whether an urgent line waits, or the reading has ended."""
        return self._urgent.is_set()

    def put(self, lines: Iterable[bytes]) -> None:
        """Add lines."""
        for line in lines:
            self._lines.append(line)
            self._waiting += len(line)
            if line.startswith(self._begins):
                self._urgent.set()
        if self._lines:
            self._filled.set()
        if self._waiting > self._limit:
            self._room.clear()

    def take(self) -> bytes:
        """The oldest line; there must be one."""
        line = self._lines.popleft()
        self._waiting -= len(line)
        if self._waiting <= self._limit:
            self._room.set()
        if not self._lines and self._ended is None:
            self._filled.clear()
            self._urgent.clear()
        return line

    def end(self, why: Exception) -> None:
        """No more lines will come."""
        self._ended = why
        self._filled.set()
        self._urgent.set()

    async def room(self) -> None:
        """Wait until less than the limit waits."""
        await self._room.wait()

    async def gather(self, seconds: float) -> None:
        """Let lines gather for some time, but no longer than until an urgent one waits, or the reading has ended."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._urgent.wait()

    async def filled_within(self, pause: Callable[[float], Awaitable[None]], seconds: float) -> bool:
        """Wait for a line, as long as a pause of so many seconds takes; whether one waits."""
        waits = [asyncio.ensure_future(pause(seconds)), asyncio.ensure_future(self._filled.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        return bool(self._lines)

    async def filled(self) -> None:
        """Wait for a line. Raises what ended the reading once all lines are taken."""
        await self._filled.wait()
        self.check()

    def check(self) -> None:
        """Raise what ended the reading, once all lines are taken."""
        if not self._lines and self._ended is not None:
            raise self._ended
