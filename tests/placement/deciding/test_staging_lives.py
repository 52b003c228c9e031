"""Random lives of staged update runs: lost writes, leavers, stops, failures, retries. What must always hold."""

from __future__ import annotations

from random import Random

import pytest

from tests.placement.deciding.runs import APPROVAL, SNAPSHOT, World, plan_of, stage, wait
from wharfinger.placement.model.update_runs import (
    MemberOutcome,
    OnFailure,
    PlannedStage,
    RunPhase,
    RunPlan,
    RunState,
    RunStep,
    TaskKind,
)

LIVES = 400
WAIT = 60.0
BUSY = (RunPhase.RUNNING, RunPhase.ROLLING_BACK, RunPhase.STOPPING)


def random_plan(rng: Random) -> RunPlan:
    names = list("abcdefghij")
    stages: list[PlannedStage] = []
    for index in range(rng.randint(1, 3)):
        members = "".join(names.pop(rng.randrange(len(names))) for _ in range(rng.randint(0, 3)))
        stages.append(
            stage(
                f"s{index}",
                members,
                "".join(one for one in members if rng.random() < 0.3),
                concurrency=rng.randint(1, 3),
                failures=rng.choice([0, 0, 1, 2]),
                deadline=rng.choice([None, 90.0]),
                on_failure=rng.choice(list(OnFailure)),
                before=APPROVAL if rng.random() < 0.4 else (),
                after=rng.choice([(), wait(WAIT), APPROVAL, (*wait(WAIT), *APPROVAL)]),
            )
        )
    return plan_of(*stages, leaving="xy"[: rng.randint(0, 2)])


class Life(World):
    """A world that checks each step."""

    def __init__(self, rng: Random) -> None:
        super().__init__(random_plan(rng))
        self.rng, self.retries, self.waited = rng, 0, [0.0] * len(self.plan.stages)

    def turn(self) -> RunStep:
        after = self.rng.choice([0.0, 1.0, 15.0, 40.0])
        waits = self.progress.phase is RunPhase.WAITING
        index = next((at for at, state in enumerate(self.progress.stages) if not state.ended), None)
        before = [state.waited for state in self.progress.stages]
        written = len(self.written)
        lost = [one for one in self.works if self.rng.random() < 0.2]
        step = self.go(after, lost)
        for at, state in enumerate(self.progress.stages):
            counted = state.waited - before[at]
            assert counted in (0.0, after)
            assert counted == 0.0 or (waits and at == index)
            self.waited[at] += counted
        self._check(step, self.written[written:])
        return step

    def _check(self, step: RunStep, written: list[str]) -> None:
        progress = step.progress
        proposed = {one.name for one in step.write}
        busy = set(self.flying()) | proposed
        if self.state is not RunState.RUN or progress.phase in (RunPhase.PAUSED, RunPhase.STOPPED):
            assert not proposed
        homes = [part for part in self.plan.stages if busy & {one.name for one in part.members}]
        for part in homes:
            assert len(busy & {one.name for one in part.members}) <= part.concurrency
        if proposed and homes:
            assert len(homes) == 1
        if not self.retries and not progress.rollback:
            self._check_order(proposed)
            assert not self.written or max(map(self.written.count, self.written)) == 1
        for name in written:  # forward, once a retry; and once more back
            assert self.written.count(name) <= 2 * (1 + self.retries)
        if not (proposed or step.done):
            named = set(self.flying()) or step.awaits or step.timer is not None
            assert named or progress.phase in (RunPhase.PAUSED, RunPhase.STOPPED)
        if progress.phase in BUSY and set(self.flying()):
            assert "waits for" in progress.why

    def _check_order(self, proposed: set[str]) -> None:
        """All earlier members are started, or proposed too; all earlier stages have ended."""
        members = {one.name: one for one in self.progress.members}
        for part, state in zip(self.plan.stages, self.progress.stages, strict=True):
            ahead = True
            for one in part.members:
                assert ahead or one.name not in proposed
                ahead = ahead and bool(members[one.name].outcome or members[one.name].counter or one.name in proposed)
            if proposed and not state.ended:
                assert proposed <= {one.name for one in part.members}
                return

    def disturb(self) -> None:
        chance, name = self.rng.random(), self.rng.choice("abcdefghijxy")
        if chance < 0.45 and name in self.works:
            self.fail(name) if self.rng.random() < 0.15 else self.ready(name)
        elif chance < 0.6:
            self.state = self.rng.choice([RunState.RUN, RunState.STOP])
        elif chance < 0.75:
            self.approvals |= {one.key for one in self.look().awaits if one.kind is TaskKind.APPROVAL}
        elif chance < 0.80:
            self.rng.choice([self.unchosen, self.leaving, self.gone]).add(name)
        elif chance < 0.85:
            self.unreachable ^= {name}
        elif chance < 0.88:
            self.retry()
            self.retries += 1

    def settle(self) -> RunStep:
        """Everything goes well from now on."""
        self.state = RunState.RUN
        self.unreachable.clear()
        for _ in range(200):
            step = self.turn()
            if step.done:
                return step
            self.approvals |= {one.key for one in step.awaits if one.kind is TaskKind.APPROVAL}
            self.ready("".join(self.works))
            if step.progress.phase is RunPhase.PAUSED:
                self.retry()
                self.retries += 1
        raise AssertionError(f"it has not ended: {self.progress.phase}, {self.progress.why}")


@pytest.mark.parametrize("part", range(4))
def test_random_lives_keep_all_limits_and_end(part: int) -> None:
    ends = set()
    for seed in range(part * LIVES // 4, (part + 1) * LIVES // 4):
        life = Life(Random(seed))
        for _ in range(life.rng.randint(5, 60)):
            life.disturb()
            if life.turn().done:
                break
        ends.add(_ended(life, life.settle()))
    assert ends == {"succeeded", "failed", "aborted"}


def _ended(life: Life, step: RunStep) -> str:
    progress = step.progress
    outcomes = {one.name: one.outcome for one in progress.members}
    if step.done == "succeeded":
        assert all(state.ended for state in progress.stages)
        assert None not in outcomes.values()
        for part, state, waited in zip(life.plan.stages, progress.stages, life.waited, strict=True):
            failed = [one for one in part.members if outcomes[one.name] is MemberOutcome.FAILED]
            assert len(failed) <= part.failures
            if state.started and any(task.kind is TaskKind.TIMED_WAIT for task in part.after):
                assert waited >= WAIT
            for one in part.members:
                if outcomes[one.name] is MemberOutcome.UPDATED:
                    assert life.snapshot(one.name) == SNAPSHOT
    if step.done == "failed":
        previous = {one.name: one.previous for part in life.plan.stages for one in part.members}
        for one in progress.undone:
            if one.outcome is not MemberOutcome.SKIPPED:
                assert life.snapshot(one.name) == previous[one.name]
    assert step.done is not None
    return step.done
