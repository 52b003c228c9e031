"""Steps as an actor takes them in the simulated Temporal: each is a small program of activities.

Neighbours: `shell` starts them, and hears how they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.properties.fleet_world.control import MOVED, Looked
from tests.properties.fleet_world.temporal import Activity, Cancelled, Fenced, Silent
from wharfinger.fleet.deciding.actor import StepResult
from wharfinger.fleet.model.rollout import Drop, Retire, Up

if TYPE_CHECKING:
    from tests.properties.fleet_world.shell import Acting


class Task:
    """A step that is being taken."""

    __slots__ = ("_acting", "_activity", "_cancelled", "_looked", "incarnation", "key", "step")

    def __init__(self, acting: Acting, key: int, step: Up | Retire | Drop, looked: Looked) -> None:
        self._acting = acting
        self._looked = looked
        self.key = key
        self.step = step
        self.incarnation = step.incarnation
        self._cancelled = False
        self._activity: Activity | None = None
        match step:
            case Up():
                self._up(step)
            case Retire():
                self._retire(step)
            case Drop():
                self._drop(step)

    def give_up(self) -> None:
        """Cancel it; it ends when its activity has."""
        self._cancelled = True
        if self._activity is not None:
            self._activity.cancel()

    def _do(self, effect: Any, then: Any, *, host: str | None = None, timeout: float = 15.0) -> None:
        world = self._acting.world
        machine = world.machines[host] if host is not None else None
        self._activity = Activity(world, effect, then, host=machine, timeout=timeout)
        if self._cancelled:
            self._activity.cancel()

    def _end(self, kind: str, **more: Any) -> None:
        self._activity = None
        self._acting.ended(self, StepResult(kind, incarnation=self.incarnation, **more))  # type: ignore[arg-type]

    def _trouble(self, answer: Any) -> bool:
        """Whether the answer ends the step, whatever it is of."""
        if isinstance(answer, Fenced):
            self._acting.fenced()
            return True
        if isinstance(answer, Cancelled):
            self._end("cancelled")
        elif isinstance(answer, Silent):
            self._end("silent")
        elif isinstance(answer, Exception):
            self._end("refused", why=str(answer))
        else:
            return False
        return True

    # --- bring up -----------------------------------------------------------------------------

    def _up(self, step: Up) -> None:
        control, acting = self._acting.world.control, self._acting
        if step.incarnation:
            self._create(step.incarnation)
            return
        token = object()
        self._do(
            lambda done: control.grant(acting.tenant, acting.epoch, step, self._looked.basis, token, done),
            self._granted,
        )

    def _granted(self, answer: Any) -> None:
        if self._trouble(answer):
            return
        if answer == MOVED:
            self._end("moved")
            return
        self.incarnation = answer
        self._acting.granted(self, answer)
        if self._cancelled:
            self._end("cancelled")
            return
        self._create(answer)

    def _create(self, incarnation: int) -> None:
        acting, step = self._acting, self.step
        machine = acting.world.machines[step.host]  # type: ignore[union-attr]
        self._do(
            lambda done: done(machine.create(acting.tenant, (step.slot, incarnation))),
            self._created,
            host=machine.name,
        )

    def _created(self, answer: Any) -> None:
        if self._trouble(answer):
            return
        if answer != "created":
            self._end(answer)
            return
        acting, life = self._acting, (self.step.slot, self.incarnation)
        self._do(
            lambda done: acting.world.control.await_ready(acting.tenant, life, self._looked.min_ready, done),
            self._awaited,
            timeout=30.0,
        )

    def _awaited(self, answer: Any) -> None:
        if self._trouble(answer):
            return
        if isinstance(answer, int):
            self._end("ready", mod_revision=answer)
        else:
            self._end(answer)

    # --- take down ----------------------------------------------------------------------------

    def _retire(self, step: Retire) -> None:
        acting, looked = self._acting, self._looked
        self._do(
            lambda done: acting.world.control.drain(
                acting.tenant, acting.epoch, step, looked.basis, self._patience(step), done
            ),
            self._drained,
            timeout=self._patience(step) + 15.0,
        )

    def _patience(self, step: Retire) -> float:
        """Seconds that the drain still may take."""
        return max(self._looked.drain_timeout - step.waited, 0.0)

    def _drained(self, answer: Any) -> None:
        if self._trouble(answer):
            return
        if answer == "still-there":
            self._kill()
        else:
            self._end(answer)

    def _kill(self) -> None:
        acting, step = self._acting, self.step
        machine = acting.world.machines[step.host]  # type: ignore[union-attr]
        self._do(
            lambda done: done(machine.kill(acting.tenant, (step.slot, step.incarnation))),
            lambda answer: self._trouble(answer) or self._end("gone"),
            host=machine.name,
        )

    def _drop(self, step: Drop) -> None:
        acting = self._acting
        self._do(
            lambda done: acting.world.control.revoke(acting.tenant, acting.epoch, step, self._looked.basis, done),
            self._fenced_off,
        )

    def _fenced_off(self, answer: Any) -> None:
        if self._trouble(answer):
            return
        if answer == MOVED:
            self._end("moved")
            return
        if isinstance(self.step, Drop) and self.step.kill:
            self._kill()
        else:
            self._end("gone")
