"""An event loop in virtual time: where nothing is ready to run, the next timer's moment has come at once.

Whatever asyncio waits for (`sleep`, `timeout`) waits in this time. Every task remembers the worker that started it,
so a worker dies with all that it has begun.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from heapq import heappop, heappush
from itertools import count
from typing import Any, Protocol


class Owner(Protocol):
    """Whoever runs tasks that end with it."""

    tasks: list[asyncio.Task[Any]]
    """Those that are done, too, for a while."""


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)
"""Whose code runs; None = the world's own."""


MOST_TASKS = 300
"""Of an owner before it looks which of them are done."""
TURNS = 20_000
"""Turns of the loop at one moment, at most: more make no progress."""


class Standstill(Exception):
    """The life can never go on: nothing is ready to run and no timer is set, or something runs again and again."""


class VirtualLoop(asyncio.BaseEventLoop):
    """One life's loop. `moment` is called each time before the time moves, when all has happened at a moment.

    It does what the loop of `asyncio` does, without what only sockets, threads and debugging need: a third of a life's
    time is spent between its tasks. What is due at the same moment runs in the order in which it was called for.
    """

    def __init__(self, now: float = 1000.0) -> None:
        super().__init__()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._turns = 0
        self.now = now
        self.moments = 0
        self.moment: Callable[[], None] = lambda: None
        self.set_task_factory(_owned)  # type: ignore[arg-type]

    def time(self) -> float:
        """Seconds."""
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Run it in the next turn."""
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run it when that time has come."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heappush(self._timers, (when, next(self._numbers), timer))
        return timer

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        """Run it after so many seconds."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """One turn: what is ready now, or at the moment of the next timer where nothing is."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        self._turns += 1
        if self._turns > TURNS:
            raise Standstill("something runs again and again, and never waits")
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not ready:
            if not timers:
                raise Standstill("nothing is ready to run, and no timer is set")
            self._turns = 0
            self.moments += 1
            self.moment()
            self.now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= self.now:
            ready.append(heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle.cancelled():
                handle._run()

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """There is one thread, so that everything happens in the same order each time."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # as in a thread: it is whoever waits that is told
            done.set_exception(error)
        return done

    def _write_to_self(self) -> None:
        """There is one thread."""


def _owned(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context | None = None
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, context=context)
    owner = context.get(OWNER) if context is not None else OWNER.get()
    if owner is not None:
        owner.tasks.append(task)
        if len(owner.tasks) > MOST_TASKS:
            owner.tasks[:] = [one for one in owner.tasks if not one.done()]
    return task
