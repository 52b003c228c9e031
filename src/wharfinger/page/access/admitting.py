"""How much of the page one viewer may take, and one stranger: streams, topics, long lists, forms, wrong tokens.

::

    stranger ─► 16 forms at a time, ten seconds each; so many wrong tokens a minute from one address, then it gets 429
    viewer   ─► its share of the streams and topics; one long list at a time
    streams  ─► ended when their session is: signed out, twelve hours old, or its token taken away

When all streams are taken, whoever has most of them gives one up to whoever has fewer: nobody is kept out by another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from wharfinger.serving.access import Barred

log = logging.getLogger(__name__)

CHECK_EVERY = 2.0
"""Seconds between two looks whether those who follow are still let in."""
MOST_STREAMS_OF_ONE = 200
"""Of one viewer: less than all."""
MOST_TOPICS_OF_ONE, MOST_TOPICS_OF_ALL = 320, 640
"""Different topics, each of which is made anew at every tick."""
LISTS_AT_ONCE = 2
"""Of all viewers."""
FORMS_AT_ONCE = 16
FORM_WITHIN = 10.0
"""Seconds for the body of a form of somebody who is not let in yet."""
MOST_WRONG, WRONG_WITHIN = 240, 60.0
"""Wrong tokens from one address, and the seconds in which so many are too many."""
MOST_ADDRESSES = 10_000

TOO_MANY_STREAMS = Barred(503, "TooManyViewers", "all streams are taken: close other windows of this page")
TOO_MANY_TOPICS = Barred(503, "TooManyTopics", "too many different topics are followed already")
TOO_SLOW = Barred(408, "RequestTimeout", "the form did not come in time")
TOO_MANY_WRONG = Barred(429, "TooManyRequests", "too many wrong tokens came from this address, and this is one more")


@dataclass(eq=False, slots=True)
class _Followed:
    request: web.Request
    key: str
    session: str
    """Cookie of its session; empty without one."""
    topics: frozenset[str]


class OpenStreams:
    """The streams that are open, and for whom."""

    def __init__(
        self,
        still_in: Callable[[web.Request], Awaitable[bool]],
        most: int,
        *,
        gone: Callable[[web.Request], bool] = lambda request: request.transport is None,
    ) -> None:
        """`still_in`: whether who sent a request would be let in now; `most`: streams of all viewers; `gone`: whether
        the connection of a request is closed, which is noticed otherwise when there is something to tell.
        """
        self._gone = gone
        self._still_in = still_in
        self._most = most
        self._open: dict[asyncio.Task[object], _Followed] = {}
        """The oldest one first."""

    def __len__(self) -> int:
        return len(self._open)

    def refused(self, viewer: str, made: Collection[str]) -> Barred | None:
        """Why a viewer gets no further stream; None when it may take one.

        `viewer`: the key by which its share is counted; `made`: topics that are made at each tick.
        """
        for task in [task for task, one in self._open.items() if self._gone(one.request)]:
            self._end(task)
        own = [one for one in self._open.values() if one.key == viewer]
        if len(own) >= MOST_STREAMS_OF_ONE:
            return TOO_MANY_STREAMS
        if len(set(made).union(*(one.topics for one in own))) > MOST_TOPICS_OF_ONE:
            return TOO_MANY_TOPICS
        if len(set(made).union(*(one.topics for one in self._open.values()))) > MOST_TOPICS_OF_ALL:
            return TOO_MANY_TOPICS
        if len(self._open) >= self._most:
            shares = Counter(one.key for one in self._open.values())
            largest, count = shares.most_common(1)[0]
            if count <= len(own) + 1:
                return TOO_MANY_STREAMS
            self._end(next(task for task, one in self._open.items() if one.key == largest))
        return None

    def join(self, request: web.Request, viewer: str, session: str, made: Collection[str]) -> Callable[[], None]:
        """The task that runs now follows; answers what is to be called when it does no more."""
        task = asyncio.current_task()
        assert task is not None, "a handler runs in a task"
        self._open[task] = _Followed(request, viewer, session, frozenset(made))
        return lambda: self._leave(task)

    def end_session(self, session: str) -> None:
        """Its streams end now."""
        for task in [task for task, one in self._open.items() if session and one.session == session]:
            self._end(task)

    def end_all(self) -> None:
        """Nobody follows any more."""
        for task in list(self._open):
            self._end(task)

    async def run(self) -> None:
        """End the streams of those who are not let in any more, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            await self.check()

    async def check(self) -> None:
        """Look once."""
        for task, one in list(self._open.items()):
            if not await self._still_in(one.request):
                log.info("stream_ended why=not_let_in_any_more")
                self._end(task)

    def _end(self, task: asyncio.Task[object]) -> None:
        self._leave(task)
        task.cancel()

    def _leave(self, task: asyncio.Task[object]) -> None:
        self._open.pop(task, None)


class ListTurns:
    """Long lists are made one after the other, and of one viewer one at a time: a few viewers cannot hold up others."""

    def __init__(self) -> None:
        self._all = asyncio.Semaphore(LISTS_AT_ONCE)
        self._of: dict[str, tuple[asyncio.Lock, int]] = {}
        """By viewer, with how many have or want the turn."""

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for the viewer's turn, and have it."""
        lock, waiting = self._of.get(key, (asyncio.Lock(), 0))
        self._of[key] = lock, waiting + 1
        try:
            async with lock, self._all:
                yield
        finally:
            lock, waiting = self._of[key]
            if waiting == 1:
                del self._of[key]
            else:
                self._of[key] = lock, waiting - 1


class FormReading:
    """Reads what those send who are not let in yet; when too many do, the one that takes longest is given up."""

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Timeout, None] = {}

    async def read(self, request: web.Request, body: Callable[[web.Request], Awaitable[bytes]]) -> bytes | Barred:
        """The body of a form."""
        while len(self._under_way) >= FORMS_AT_ONCE:
            oldest = next(iter(self._under_way))
            del self._under_way[oldest]
            oldest.reschedule(asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(FORM_WITHIN) as limit:
                self._under_way[limit] = None
                try:
                    return await body(request)
                finally:
                    self._under_way.pop(limit, None)
        except TimeoutError:
            return TOO_SLOW


class WrongTokens:
    """Counts wrong tokens by the address that they come from."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._counts: OrderedDict[str, tuple[float, int]] = OrderedDict()
        """By address: when counting began, and how many there were."""

    def too_many(self, address: str | None) -> bool:
        """Whether wrong tokens of this address get no other answer now. A right one is let in all the same."""
        began, count = self._counts.get(address or "", (0.0, 0))
        return count >= MOST_WRONG and self._clock() - began < WRONG_WITHIN

    def note(self, address: str | None) -> None:
        """One more."""
        began, count = self._counts.pop(address or "", (self._clock(), 0))
        if self._clock() - began >= WRONG_WITHIN:
            began, count = self._clock(), 0
        self._counts[address or ""] = began, count + 1
        if len(self._counts) > MOST_ADDRESSES:
            self._counts.popitem(last=False)
