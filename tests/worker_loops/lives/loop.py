"""An event loop in virtual time: where nothing is ready to run, the next timer's moment has come at once.

Whatever asyncio waits for (`sleep`, `timeout`) waits in this time. Every task remembers the worker that started it,
so a worker dies with all that it has begun.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, Protocol


class Owner(Protocol):
    """Whoever runs tasks that end with it."""

    tasks: dict[asyncio.Task[Any], None]


OWNER: contextvars.ContextVar[Owner | None] = contextvars.ContextVar("owner", default=None)
"""Whose code runs; None = the world's own."""


TURNS = 20_000
"""Turns of the loop at one moment, at most: more make no progress."""


class Standstill(Exception):
    """The life can never go on: nothing is ready to run and no timer is set, or something runs again and again."""


class _Moments:
    """In the place of a selector, which is called without a time limit of zero only when nothing is ready to run."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._turns = 0

    def select(self, timeout: float | None) -> tuple[()]:
        """Move the time."""
        self._turns += 1
        if timeout is None:
            raise Standstill("nothing is ready to run, and no timer is set")
        if timeout > 0:
            self._turns = 0
            self._loop.moved(timeout)
        elif self._turns > TURNS:
            raise Standstill("something runs again and again, and never waits")
        return ()


class VirtualLoop(asyncio.BaseEventLoop):
    """One life's loop. `moment` is called each time before the time moves, when all has happened at a moment."""

    def __init__(self, now: float = 1000.0) -> None:
        super().__init__()
        self._selector = _Moments(self)
        self._clock_resolution = 1e-6
        self.now = now
        self.moments = 0
        self.moment: Callable[[], None] = lambda: None
        self.set_task_factory(_owned)  # type: ignore[arg-type]

    def time(self) -> float:
        """Seconds."""
        return self.now

    def moved(self, seconds: float) -> None:
        """Let the time pass to the next timer."""
        self.moments += 1
        self.moment()
        self.now += seconds

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """There is one thread, so that everything happens in the same order each time."""
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # as in a thread: it is whoever waits that is told
            done.set_exception(error)
        return done

    def _process_events(self, event_list: object) -> None:
        """There are no events but timers."""

    def _write_to_self(self) -> None:
        """There is one thread."""


def _owned(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], context: contextvars.Context | None = None
) -> asyncio.Task[Any]:
    task = asyncio.Task(work, loop=loop, context=context)
    owner = context.get(OWNER) if context is not None else OWNER.get()
    if owner is not None:
        owner.tasks[task] = None
        task.add_done_callback(lambda done: owner.tasks.pop(done, None))
    return task
