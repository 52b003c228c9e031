"""A shell of Temporal: activities that are scheduled, tried, lost, repeated and answered late.

An attempt's effect happens at one moment, or begins there and ends later (`Effect` may answer whenever it likes). What
goes wrong between it and its workflow: it is scheduled late; it stalls, times out, is tried again, and happens all the
same some time after (a zombie); its answer is lost, and it is tried again; etcd is away, and it is retried with growing
pauses; its queue has no poller. A worker's crash costs a workflow nothing but time: its state is replayed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.properties.fleet_world.etcd import Away
from tests.properties.fleet_world.machines import Machine, NoRoom, Refused

if TYPE_CHECKING:
    from tests.properties.fleet_world.timeline import Handle
    from tests.properties.fleet_world.world import World

Done = Callable[[Any], None]
Stop = Callable[[], None]
Effect = Callable[[Done], Stop | None]
"""Begin; call `done` once with the answer; what is returned ends it before that."""


class Fenced(Exception):
    """Another actor took over."""


class Silent(Exception):
    """No worker polled the queue within the schedule-to-start time-out."""


class Cancelled(Exception):
    """Its workflow gave it up."""


class Temporal:
    """The server: away or not."""

    def __init__(self) -> None:
        self.away = False
        self._waiting: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def through(self, act: Callable[..., object], *args: Any) -> None:
        """Do it now, or as soon as the server is back."""
        if self.away:
            self._waiting.append((act, args))
        else:
            act(*args)

    def back(self) -> list[tuple[Callable[..., object], tuple[Any, ...]]]:
        """The server answers again; what waited for it."""
        self.away = False
        waiting, self._waiting = self._waiting, []
        return waiting


def _nobody(answer: Any) -> None:
    """Its workflow has the answer."""


class Activity:
    """One activity of a workflow, with all of its attempts."""

    __slots__ = (
        "_answered",
        "_attempt",
        "_cancelled",
        "_effect",
        "_host",
        "_pause",
        "_running",
        "_silence",
        "_told",
        "_world",
        "began",
        "retried",
        "timeout",
    )

    def __init__(
        self,
        world: World,
        effect: Effect,
        told: Callable[[Any], None],
        *,
        host: Machine | None = None,
        timeout: float = 15.0,
    ) -> None:
        """`told` gets the answer, or one of the exceptions `Fenced`, `Refused`, `Silent`, `Cancelled` as a value."""
        self._world = world
        self._effect = effect
        self._told = told
        self._host = host
        self.timeout = timeout
        self.retried = False
        self.began = world.timeline.now
        self._attempt = 0
        self._answered = False
        self._cancelled = False
        self._pause = 1.0
        self._running: Stop | None = None
        self._silence: Handle | None = None
        if host is not None:
            self._silence = world.timeline.after(30.0, self._answer, Silent())
        self._schedule()

    def cancel(self) -> None:
        """Give it up: its workflow waits until it has ended."""
        if not self._answered and not self._cancelled:
            self._cancelled = True
            # The running attempt hears of it with a heartbeat; until then it goes on, and may still happen.
            self._world.timeline.after(self._world.rng.uniform(0.1, 5.0), self._end)

    def _end(self) -> None:
        if not self._answered:
            self._stop()
            self._answer(Cancelled())

    def _stop(self) -> None:
        if self._running is not None:
            self._running()
            self._running = None

    def _schedule(self, pause: float = 0.0) -> None:
        self._attempt += 1
        rng = self._world.rng
        self._world.timeline.after(pause + rng.uniform(0.005, 0.1), self._arrive, self._attempt)

    def _arrive(self, attempt: int) -> None:
        """The task is in its queue."""
        if self._answered or attempt != self._attempt:
            return
        world = self._world
        if world.temporal.away:
            world.temporal.through(self._arrive, attempt)
            return
        queue = self._host.queue if self._host is not None else world.control_queue
        if not (self._host.polling if self._host is not None else world.controlled):
            queue.append(lambda: self._arrive(attempt))
            return
        if self._silence is not None:
            world.timeline.cancel(self._silence)
            self._silence = None
        trouble = world.rng.random()
        if trouble < world.odds.stall:
            self.retried = True
            world.timeline.after(world.rng.uniform(self.timeout * 0.5, self.timeout * 3), self._run, attempt, True)
            world.timeline.after(self.timeout, self._again, attempt)
        elif trouble < world.odds.stall + world.odds.slow:
            world.timeline.after(world.rng.uniform(0.1, 8.0), self._run, attempt, False)
        else:
            self._run(attempt, zombie=False)

    def _again(self, attempt: int) -> None:
        """The server's patience with an attempt is over."""
        if not self._answered and attempt == self._attempt:
            self._stop()
            self.retried = True
            self._schedule(self._pause)
            self._pause = min(self._pause * 2, 10.0)

    def _run(self, attempt: int, zombie: bool) -> None:
        """The effect happens even if no workflow waits for it."""
        if not zombie and (self._answered or attempt != self._attempt):
            return
        lost = zombie or self._world.rng.random() < self._world.odds.lost
        if lost and not zombie:
            self._world.timeline.after(self.timeout, self._again, attempt)

        def done(answer: Any) -> None:
            if not lost and attempt == self._attempt:
                self._running = None
                if isinstance(answer, Away):
                    self._again(attempt)
                    return
                self._world.timeline.after(self._world.rng.uniform(0.001, 0.05), self._answer, answer)

        try:
            stop = self._effect(done)
        except Away:
            if not lost:
                self._again(attempt)
        except NoRoom:
            if not lost:
                self._again(attempt)
        except (Fenced, Refused) as final:
            done(final)
        else:
            if lost:
                if stop is not None:  # it noticed, later, that no workflow waits for it
                    self._world.timeline.after(self._world.rng.uniform(0.0, self.timeout), stop)
            elif not self._answered and attempt == self._attempt:
                self._running = stop

    def _answer(self, answer: Any) -> None:
        if self._world.temporal.away:
            self._world.temporal.through(self._answer, answer)
            return
        if self._answered:
            return
        self._answered = True
        if self._running is not None:
            self._stop()
        if self._silence is not None:
            self._world.timeline.cancel(self._silence)
        told, self._told = self._told, _nobody  # which may know this activity
        told(answer)
