"""The workflows `Fleet` and `RollingUpdate`, as the simulated Temporal runs them: thin shells around the same `Actor`.

What they share is `Acting`: take the epoch, plan, write, start steps, wait, again. A step is a small program of
activities (`Steps`). Fleet starts a RollingUpdate and stands aside; it acts again when that run is seen closed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.properties.fleet_world.control import MOVED, Looked, Write
from tests.properties.fleet_world.temporal import Activity, Cancelled, Fenced, Silent
from wharfinger.fleet.actor import Actor, StepResult
from wharfinger.fleet.planner import Asked
from wharfinger.model.fleet import Role
from wharfinger.model.rollout import LATE, Drop, Memory, Retire, Up

if TYPE_CHECKING:
    from tests.properties.fleet_world.timeline import Handle
    from tests.properties.fleet_world.world import World


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


class Acting:
    """One run that acts on a fleet."""

    role: Role

    def __init__(self, world: World, tenant: str, memory: Memory, *, generation: int = 0) -> None:
        self.world = world
        self.tenant = tenant
        self.generation = generation
        self.actor = Actor(self.role, memory)
        self.epoch = 0
        self.tasks: dict[int, Task] = {}
        self.closed = False
        self._waiting: tuple[float, float, Handle] | None = None
        """(begun, planned, timer) while nothing is looked at."""
        self._turn = 0
        """Counts beginnings: answers to what was asked before the last one are nobody's."""
        self.run_id = world.next_run()

    @property
    def name(self) -> str:
        """Its workflow id."""
        return f"{self.role}/{self.generation}" if self.generation else self.role

    # --- the loop -----------------------------------------------------------------------------

    def look(self) -> None:
        """Plan, or wait until there is something to plan for."""
        if self.closed or self._waiting is not None:
            return
        if not self.actor.due:
            planned = self.actor.timeout
            begun = self.world.timeline.now
            self._waiting = (begun, planned, self.world.timeline.after(planned, self._woken))
            return
        memory, busy = self.actor.look()
        over = self.world.tenant(self.tenant).over if self.role == "fleet" else ""
        asked = Asked(self.role, self.tenant, self.generation, busy, self.world.lease_ttl, over)
        began, turn = self.world.timeline.now, self._turn
        activity = Activity(
            self.world,
            lambda done: self.world.control.plan(asked, memory, done),
            lambda answer: self._planned(answer, began, activity.retried) if turn == self._turn else None,
        )

    def _woken(self) -> None:
        """The timer fired, or something cut it short."""
        if self.closed or self._waiting is None:
            return
        if self.world.temporal.away:
            self.world.temporal.through(self._woken)
            return
        begun, planned, timer = self._waiting
        self._waiting = None
        self.world.timeline.cancel(timer)
        elapsed = self.world.timeline.now - begun
        self.actor.slept(planned, elapsed)
        if elapsed - planned > LATE:
            self._blinked()
        self.look()

    def poked(self) -> None:
        """Something happened."""
        if not self.closed:
            self.actor.poked()
            self._woken()

    def granted(self, task: Task, incarnation: int) -> None:
        """An `up` has its incarnation."""
        if self.tasks.get(task.key) is task and not self.closed:
            self.actor.granted(task.key, incarnation)

    def ended(self, task: Task, result: StepResult) -> None:
        """A step ended."""
        if self.tasks.get(task.key) is task:
            del self.tasks[task.key]
            if not self.closed:
                self.actor.ended(task.key, result)
                self._woken()

    def _planned(self, answer: Any, began: float, retried: bool) -> None:
        if self.closed:
            return
        plan = self.actor.looked(answer.plan, self.world.timeline.now - began, retried)
        looked: Looked = answer if plan is answer.plan else replace(answer, plan=plan)
        if plan is not answer.plan:
            self._blinked()
        else:
            self.world.judge.learned(self.tenant, plan.memory)
        if self.epoch and plan.writes.empty:
            self._start(looked)
            return
        # The first write takes the epoch behind the actor that the plan saw, and writes by it.
        take = self.epoch == 0
        write = Write(plan.writes, looked.basis, looked.epoch if take else self.epoch, take, self.run_id)
        began, turn = self.world.timeline.now, self._turn
        Activity(
            self.world,
            lambda done: self.world.control.record(self.tenant, write, done),
            lambda answer: (
                self._written(answer, looked, self.world.timeline.now - began) if turn == self._turn else None
            ),
        )

    def _blinked(self) -> None:
        """Its view was broken: nobody's, once another actor took over from it."""
        actor = self.world.etcd.shelf(self.tenant).actor
        if not self.epoch or actor is None or actor.epoch == self.epoch:
            self.world.judge.blinked(self.tenant)

    def _written(self, answer: Any, looked: Looked, took: float) -> None:
        if self.closed:
            return
        if isinstance(answer, Fenced):
            self.actor.unwritten()
            self.fenced()
            return
        self.actor.slept(0.0, took)
        if answer == MOVED:
            self.actor.unwritten()
            self.look()
            return
        self.epoch = answer
        if took > LATE:  # what was seen may not be so any more
            for step in looked.plan.steps:
                self.actor.put_off(step)
            self.actor.poked()
            self.look()
            return
        self._start(looked)

    def _start(self, looked: Looked) -> None:
        plan = looked.plan
        for task in list(self.tasks.values()):
            if task.step.kind == "up" and task.step.slot in plan.give_up:
                task.give_up()
        for step in plan.steps:
            key = self.actor.begun(step)
            self.tasks[key] = Task(self, key, step, looked)
        self.after(looked)
        self.look()

    def after(self, looked: Looked) -> None:
        """What else a plan says."""
        raise NotImplementedError

    def fenced(self) -> None:
        """Another actor took over: stop acting."""
        self.stop()

    def stop(self) -> None:
        """The run is closed; what its activities do still happens."""
        self.closed = True
        if self._waiting is not None:
            self.world.timeline.cancel(self._waiting[2])
        for task in list(self.tasks.values()):
            task.give_up()


class RollingUpdate(Acting):
    """One rollout."""

    role = "rollout"
    over = ""
    """Why it is not started again."""

    def fenced(self) -> None:
        """Another actor took over: it ends, without a report."""
        self.over = "its workflow ended without a report"
        self.terminated()

    def terminated(self) -> None:
        """Somebody terminates it."""
        self.stop()
        self.world.rollout_closed(self)

    def after(self, looked: Looked) -> None:
        """It is over: report."""
        if looked.plan.done is not None and not self.tasks:
            self.stop()
            self.world.tell(f"{self.tenant}: rollout {self.generation} {looked.plan.done}")
            self.world.report(self, self.actor.memory)


class Fleet(Acting):
    """The entity."""

    role = "fleet"
    aside = False
    """Whether a rollout acts."""

    def again(self, memory: Memory | None) -> None:
        """The rollout was seen closed: act again, with what it learned, if it told."""
        if self.closed:
            return
        self.aside = False
        self._turn += 1
        if self._waiting is not None:  # what it waited so far is no part of the view that begins now
            begun, planned, timer = self._waiting
            self._waiting = None
            self.world.timeline.cancel(timer)
            self.actor.slept(planned, self.world.timeline.now - begun)
        self.actor = Actor(self.role, memory if memory is not None else self.actor.memory)
        if memory is None:  # nobody looked since the rollout began, as far as it knows
            self.actor.slept(0.0, 2 * LATE)
            if not self.world.acting_rollout(self.tenant):  # which sees all the while
                self.world.judge.blinked(self.tenant)
        self.epoch = 0
        self.run_id = self.world.next_run()
        self.look()

    def fenced(self) -> None:
        """Another actor took over: its steps are given up, and it looks again who acts."""
        for task in list(self.tasks.values()):
            task.give_up()
        self.tasks.clear()
        self.again(None)

    def look(self) -> None:
        """Not while a rollout acts: a Fleet that is new finds it, and stands aside."""
        if not self.aside and not self.closed:
            open_rollout = self.world.acting_rollout(self.tenant)
            if open_rollout and self.epoch == 0:
                self.aside = True
                self.actor = Actor(self.role, replace(self.actor.memory, rollout=open_rollout))
                return
            super().look()

    def after(self, looked: Looked) -> None:
        """Start a rollout, and stand aside; or end."""
        if looked.plan.ended and not self.tasks:
            self.stop()
            self.world.fleet_ended(self)
        elif looked.plan.rollout and not self.tasks:
            generation = looked.plan.rollout
            self.actor = Actor(self.role, replace(self.actor.memory, rollout=generation))
            self.world.start_rollout(self, generation)
