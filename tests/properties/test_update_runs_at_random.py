"""Random lives of two update runs of one placement: late and doubled activities, lost answers, stops, retries.

In the end every run is over or stopped, and members have what the last run that delivered wanted.
"""

from __future__ import annotations

import random

import pytest

from tests.placement.objects import member_object
from tests.placement.run_scene import APPROVAL, RUN, RunScene, run_object, stage
from tests.placement.scene import P
from tests.properties.shares import shared_out
from wharfinger.errors import Unavailable
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import WorkRecord
from wharfinger.placement.contracts.update_runs import PlannedRun
from wharfinger.placement.state.update_runs_view import SUPERSEDES

LIVES, STEPS = 100, 60
OTHER = "hurry"
SNAPSHOTS = {RUN: 2, OTHER: 3}
MEMBERS = "abcde"
DEEDS = [*["turn"] * 6, *["late", "answer"] * 2, "fail", "state", "retry", "approve", "rare"]


class Life:
    """One world, and activities that are still under way."""

    def __init__(self, seed: int) -> None:
        self.rng, self.scene = random.Random(seed), RunScene()
        self.late: list[tuple[str, PlannedRun, int]] = []
        """Run, plan, and the fence of its wave; 0 = it was not recorded."""
        self.contents: dict[tuple[str, int], tuple[object, ...]] = {}
        self.counters: dict[str, int] = {}
        self.left = False

    async def begin(self) -> None:
        on_failure = self.rng.choice(["Pause", "Abort", "Rollback"])
        second = stage("two", {"name": "b"}, beforeStageTasks=[APPROVAL])
        first = stage("one", maxConcurrency=2, onFailure=on_failure) | {
            "labelSelector": {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["b"]}]}
        }
        await self.scene.arrange(first, second, members=MEMBERS)
        await self.scene.deliver(1, MEMBERS[:3])
        for number in SNAPSHOTS.values():
            await self.scene.snapshot(number)
        await self.put(RUN, "Run")

    async def put(self, name: str, state: str) -> None:
        more = {"annotations": {SUPERSEDES: "true"}} if name == OTHER else {}
        await self.scene.put(run_object(name, state=state, snapshot=str(SNAPSHOTS[name]), **more))

    async def step(self) -> None:
        scene, rng = self.scene, self.rng
        names = [
            name for name in SNAPSHOTS if (await scene.store.get(placement_keys.update_run("", name))).kv is not None
        ]
        name = rng.choice(names)
        match rng.choice(
            ["turn"] * 6 + ["late", "late", "answer", "answer", "fail", "state", "retry", "approve", "rare"]
        ):
            case "turn":
                await self.turn(name)
            case "late" if self.late:
                await self.again(*self.late.pop(rng.randrange(len(self.late))))
            case "answer":
                await scene.answer(rng.choice(MEMBERS))
            case "fail":
                await scene.answer(rng.choice(MEMBERS), available=False, failed=True)
            case "state":
                await self.put(name, rng.choice(["Run", "Stop"]))
            case "retry":
                await scene.retry(rng.randint(1, 3), name)
            case "approve":
                await scene.approve("two", "before", name=name)
            case "rare":
                await self.rare()
        await self.check()

    async def rare(self) -> None:
        if OTHER not in await self.runs() and self.rng.random() < 0.4:
            await self.put(OTHER, "Run")
        elif not self.left and self.rng.random() < 0.3:
            self.left = True
            await self.scene.put(member_object("c", deletionTimestamp="2026-01-01T00:00:00Z"))
            await self.scene.attempt()

    async def runs(self) -> list[str]:
        return [
            name
            for name in SNAPSHOTS
            if (await self.scene.store.get(placement_keys.update_run("", name))).kv is not None
        ]

    async def turn(self, name: str) -> None:
        """Plan, and do some of it; the rest may come late, or twice."""
        scene, rng = self.scene, self.rng
        planned = await scene.plan(name, elapsed=rng.choice([0.0, 5.0]))
        if rng.random() < 0.2:
            self.late.append((name, planned, 0))
            return
        if rng.random() < 0.2:
            scene.store.fail_next(applied=rng.random() < 0.5)
        try:
            await self.again(name, planned, 0)
        except Unavailable:
            self.late.append((name, planned, 0))
        finally:
            scene.store._lost_writes.clear()

    async def again(self, name: str, planned: PlannedRun, fence: int) -> None:
        scene, rng = self.scene, self.rng
        if planned.action == "begin":
            await scene.begin(planned, name)
            return
        if planned.action != "end" and not planned.progress:
            return
        if not fence:
            recorded = await scene.record(planned, name, wave=f"{name} {id(planned)}")
            if recorded.outcome != "recorded" or not planned.writes:
                return
            fence = recorded.rollout
            if rng.random() < 0.3:
                self.late.append((name, planned, fence))
                if rng.random() < 0.5:
                    return
        await scene.write(planned, fence, name)

    async def check(self) -> None:
        """Counters of works never fall, and one counter means one content."""
        async for page in self.scene.store.list(placement_keys.work.below(P)):
            for kv in page.items:
                member, work = kv.key.rpartition("/")[2], WorkRecord.model_validate_json(kv.value)
                found = work.want, work.snapshot, work.identity
                assert self.contents.setdefault((member, work.counter), found) == found
                assert work.counter >= self.counters.get(member, 0)
                self.counters[member] = work.counter
        for member in MEMBERS:  # a work that is gone may begin again
            if (await self.scene.store.get(placement_keys.work(P, member))).kv is None:
                self.counters.pop(member, None)
                self.contents = {key: one for key, one in self.contents.items() if key[0] != member}

    async def calm(self) -> str:
        """No more trouble; the last run that delivered."""
        scene = self.scene
        for attempt in range(1, 40):
            for name in await self.runs():
                await self.put(name, "Run")
                await scene.approve("two", "before", name=name)
                await scene.settle(name)
            await scene.answer()
            ends = {name: await scene.plan(name) for name in await self.runs()}
            holder = (await scene.rollout()).run.rpartition("/")[0]
            if all(one.action == "over" for one in ends.values()) and ends[holder].ends == "succeeded":
                return holder
            if attempt % 8 == 0 and ends[holder].ends != "superseded":
                await scene.retry(100 + attempt, holder)
        raise AssertionError({name: (one.action, one.ends, one.why) for name, one in ends.items()})


@pytest.mark.parametrize("seed", shared_out(LIVES, quick=12))
async def test_members_have_what_the_last_run_wanted(seed: int) -> None:
    life = Life(seed)
    await life.begin()
    for _ in range(STEPS):
        await life.step()
    holder = await life.calm()
    has = await life.scene.has()
    there = [name for name in MEMBERS if not (life.left and name == "c")]
    assert {name: has.get(name) for name in there} == dict.fromkeys(there, SNAPSHOTS[holder])
