"""One watch on etcd: a stream that is opened again as often as it takes, resumed without gap or double.

Fragments of a message are kept until the last one has come, so that each batch is a whole revision.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing

from wharfinger.errors import AccessDenied, Compacted, RevisionWentBack, StoreError, Unavailable
from wharfinger.etcd import etcd_wire as wire
from wharfinger.etcd.etcd_connection import PAUSES, Connection
from wharfinger.etcd.etcd_gateway import CertificateRefused, NotSent, TokenRefused, Unanswered
from wharfinger.etcd.etcd_wire import Method, Notice
from wharfinger.etcd.store import Event, WatchBatch
from wharfinger.pressure import delays

LARGEST_REVISION = 256 * 2**20
"""Bytes of values that the pieces of one message may have together."""
TOKENS_IN_A_ROW = 3
"""Tokens refused one after the other before the watch calls itself denied."""


class Watch:
    """The state of one watch: where it goes on, and pieces of a message that is not complete."""

    def __init__(
        self,
        connection: Connection,
        prefix: str,
        start_revision: int,
        *,
        previous: bool,
        observe: Callable[[int], None],
    ) -> None:
        self._connection = connection
        self._prefix = wire.key_bytes(prefix)
        self._next = max(0, start_revision)
        """The first revision not delivered yet; 0 = from now on."""
        self._sooner = 1
        """Revisions that are asked for before that one; 0 once etcd has forgotten exactly these."""
        self._previous = previous
        self._observe = observe
        self._pieces: list[Event] = []
        self._pieces_size = 0
        self._pauses = delays(*PAUSES, connection.random)
        self._untrusted: set[str] = set()
        self._tokens = 0

    async def batches(self) -> AsyncGenerator[WatchBatch, None]:
        """Batches without end, until the connection is closed.

        Raises `Compacted`, `RevisionWentBack`, `AccessDenied`; everything else is tried again.
        """
        while not self._connection.closed.is_set():
            endpoint = self._connection.endpoint
            self._drop_pieces()
            try:
                async with aclosing(self._messages()) as messages:
                    async for message in messages:
                        for batch in await self._take(message):
                            yield batch
            except TokenRefused as error:
                self._tokens += 1
                if self._tokens > TOKENS_IN_A_ROW:
                    raise AccessDenied(f"etcd at {endpoint} refuses the token it gave: {error}") from error
                continue
            except CertificateRefused as error:
                self._untrusted.add(endpoint)
                if len(self._untrusted) == self._connection.size:
                    raise AccessDenied(f"no trust between us and etcd at {endpoint}: {error}") from error
            except (NotSent, Unanswered, Unavailable):
                pass
            self._connection.leave(endpoint)
            await self._pause()

    async def _pause(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(next(self._pauses)):
                await self._connection.closed.wait()

    async def _messages(self) -> AsyncGenerator[Notice, None]:
        """Open the stream once and decode its messages until it breaks or falls silent."""
        # One revision more than is needed: etcd sends no progress notices to a watch that begins behind its newest
        # revision, and a watch that hears nothing takes its endpoint for dead.
        start = max(1, self._next - self._sooner) if self._next else 0
        spelled = self._connection.wire
        request = wire.watch(self._prefix, start, previous=self._previous)
        idle = self._connection.settings.watch_idle
        async with self._connection.stream(Method.WATCH, request, idle=idle) as messages:
            async for message in messages:
                yield spelled.notice(message)

    async def _take(self, message: Notice) -> list[WatchBatch]:
        # a refused watch is created and canceled at once: canceled comes first
        if message.canceled:
            raise self._end(message)
        revision = message.revision
        if message.created:
            await self._begin(revision)
            return []
        if message.events:
            events = [event for event in message.events if event.kv.mod_revision >= self._next]
            if events:
                self._serves()
            return list(self._complete(events, more=message.fragment))
        # Only a message without events says that nothing happened up to its revision, and not between two pieces.
        if self._pieces or revision < self._next - 1:
            return []
        self._serves()
        self._next = revision + 1
        self._observe(revision)
        return [WatchBatch(revision)]

    def _serves(self) -> None:
        """It told something new; not before: a member may open watches, and tell what is known, only to end them."""
        self._pauses = delays(*PAUSES, self._connection.random)
        self._sooner = 1

    def _complete(self, events: list[Event], *, more: bool) -> Iterator[WatchBatch]:
        if more or self._pieces:
            self._pieces.extend(events)
            self._pieces_size += sum(len(event.kv.value) for event in events)
            if self._pieces_size > LARGEST_REVISION:
                self._drop_pieces()
                raise Unanswered(f"a message in pieces has more than {LARGEST_REVISION >> 20} MiB")
            if more:
                return
            events = self._pieces
            self._drop_pieces()
        for batch in wire.batches(events):
            # Behind the event, not behind the header's revision: that is the store's newest, and events before it
            # may still be under way.
            self._next = batch.revision + 1
            self._observe(batch.revision)
            yield batch

    def _drop_pieces(self) -> None:
        self._pieces, self._pieces_size = [], 0

    async def _begin(self, revision: int) -> None:
        """The stream stands. A member that lags is fine, a cluster that went back is not: ask it."""
        self._untrusted.clear()
        self._tokens = 0
        if self._next == 0:
            self._next = revision + 1
        if revision >= self._next - 1:
            return
        spelled = self._connection.wire
        end = wire.prefix_end(self._prefix)
        request = wire.page(self._prefix or b"\0", end, 0, 1, keys_only=True)
        answer = await self._connection.call(Method.RANGE, request, repeatable=True)
        current = spelled.header_revision(answer)
        if current < self._next - 1:
            raise RevisionWentBack(
                f"etcd is at revision {current} and the watch was at {self._next - 1}: restored from a backup? "
                "Restart after restoring with --bump-revision and --mark-compacted"
            )

    def _end(self, message: Notice) -> Exception:
        """Why etcd ended the watch."""
        compacted = message.compact_revision
        if compacted == self._next > self._sooner > 0:
            self._sooner = 0
            return Unanswered(f"etcd keeps nothing before revision {compacted}, and none of it is needed")
        if compacted:
            text = f"etcd keeps nothing before revision {compacted}, the watch was at {self._next}"
            return Compacted(text, compact_revision=compacted)
        reason = message.reason or "no reason given"
        meaning = self._connection.refusal(reason)
        if isinstance(meaning, StoreError | TokenRefused) and not isinstance(meaning, Unavailable):
            return meaning
        return Unanswered(f"etcd ended the watch: {reason}")
