"""The workflows `Fleet` and `RollingUpdate`, as the simulated Temporal runs them: thin shells around one `ActorState`.

What they share is `Acting`: take the epoch, plan, write, start steps, wait, again. A step is a small program of
activities (`Task`). Fleet starts a RollingUpdate and stands aside; it acts again when that run is seen closed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.properties.fleet_world.control import MOVED, Looked, Write
from tests.properties.fleet_world.tasks import Task
from tests.properties.fleet_world.temporal import Activity, Fenced
from wharfinger.fleet.deciding.actor import ActorState, StepResult
from wharfinger.fleet.deciding.planner import Asked
from wharfinger.fleet.model.fleet import Role
from wharfinger.fleet.model.rollout import LATE, Memory

if TYPE_CHECKING:
    from tests.properties.fleet_world.timeline import Handle
    from tests.properties.fleet_world.world import World


class Acting:
    """One run that acts on a fleet."""

    role: Role

    def __init__(self, world: World, tenant: str, memory: Memory, *, generation: int = 0) -> None:
        self.world = world
        self.tenant = tenant
        self.generation = generation
        self.actor = ActorState(self.role, memory)
        self.epoch = 0
        self.tasks: dict[int, Task] = {}
        self.closed = False
        self._waiting: tuple[float, float, Handle] | None = None
        """(begun, planned, timer) while nothing is looked at."""
        self._turn = 0
        """Counts beginnings: answers to what was asked before the last one are dropped."""
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
            self._lost_sight()
        self.look()

    def signalled(self) -> None:
        """Something happened."""
        if not self.closed:
            self.actor.signalled()
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
            self._lost_sight()
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

    def _lost_sight(self) -> None:
        """Its view was broken; that no longer counts once another actor took over."""
        actor = self.world.etcd.shelf(self.tenant).actor
        if not self.epoch or actor is None or actor.epoch == self.epoch:
            self.world.judge.lost_sight(self.tenant)

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
            self.actor.signalled()
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
        """An operator terminates it."""
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
        self.actor = ActorState(self.role, memory if memory is not None else self.actor.memory)
        if memory is None:  # no look since the rollout began, as far as it knows
            self.actor.slept(0.0, 2 * LATE)
            if not self.world.acting_rollout(self.tenant):  # which sees all the while
                self.world.judge.lost_sight(self.tenant)
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
                self.actor = ActorState(self.role, replace(self.actor.memory, rollout=open_rollout))
                return
            super().look()

    def after(self, looked: Looked) -> None:
        """Start a rollout, and stand aside; or end."""
        if looked.plan.ended and not self.tasks:
            self.stop()
            self.world.fleet_ended(self)
        elif looked.plan.rollout and not self.tasks:
            generation = looked.plan.rollout
            self.actor = ActorState(self.role, replace(self.actor.memory, rollout=generation))
            self.world.start_rollout(self, generation)
