"""The activities of update runs on a store in memory: waits that count seen seconds, what is refused."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.patience import patient
from tests.placement.run_scene import RUN, RunScene, run_object, stage
from tests.placement.scene import P
from wharfinger.activities import placements
from wharfinger.activities.placements import StagingActivities
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import RolloutRecord
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.contracts.update_runs import AwaitedRun, AwaitRunInput, PlanRunInput
from wharfinger.placement.state import catching_up
from wharfinger.process.names import update_run_id
from wharfinger.process.parts import ProcessParts
from wharfinger.telemetry import Metrics


@pytest.fixture
async def scene() -> RunScene:
    """A run that waits for its members."""
    scene = RunScene()
    await scene.arrange(stage("all", maxConcurrency=3, deadlineSeconds=100))
    await scene.put(run_object())
    await scene.settle()
    await scene.see()
    return scene


def activities(scene: RunScene) -> StagingActivities:
    process = ProcessParts(scene.store, Metrics(), clock=scene.clock, rng=random.Random(1))
    return StagingActivities(process, scene.view, scene.contents, cluster="c")


async def wait(scene: RunScene, environment: ActivityEnvironment, **of: Any) -> AwaitedRun:
    given = {"seconds": 60.0, **of}
    request = AwaitRunInput(**await scene.which(), **given)
    found = await environment.run(activities(scene).await_run, request)
    assert isinstance(found, AwaitedRun)
    return found


async def begun(scene: RunScene, beats: list[Any] | None = None) -> asyncio.Task[AwaitedRun]:
    """A wait that has looked once, found nothing, and sent a heartbeat; `beats` gets what it sends."""
    environment, beat, sent = ActivityEnvironment(), asyncio.Event(), [] if beats is None else beats

    def note(*details: Any) -> None:
        sent.append(details)
        beat.set()

    environment.on_heartbeat = note
    waiting = asyncio.create_task(wait(scene, environment))
    async with asyncio.timeout(patient(20)):
        await beat.wait()
    return waiting


async def test_a_wait_ends_when_a_member_is_ready(scene: RunScene) -> None:
    waiting = await begun(scene)
    await asyncio.sleep(0)
    assert not waiting.done()
    scene.view.delivery.tick(2.0)
    await scene.answer("a")
    await scene.see()
    async with asyncio.timeout(patient(20)):
        found = await waiting
    assert (found.news, found.elapsed) == (True, 2.0)


async def test_a_run_in_trouble_waits_until_something_changes(scene: RunScene) -> None:
    scene = RunScene()
    await scene.arrange(stage("all"))
    await scene.put(run_object(snapshot=""))
    trouble = RolloutRecord(selected=(await scene.plan()).selected, trouble="it selects nothing")
    await scene.store.put(placement_keys.rollout(P), trouble.to_bytes())
    await scene.see()
    waiting = await begun(scene)
    await asyncio.sleep(0)
    assert not waiting.done()
    await scene.state("Stop", snapshot="")
    await scene.see()
    async with asyncio.timeout(patient(20)):
        assert (await waiting).news


async def test_revisions_that_others_have_not_heard_of_are_not_passed_on(scene: RunScene) -> None:
    newest = scene.view.newest
    scene.view.reached("hub", 5000)
    await scene.answer("a")
    assert (await scene.plan()).seen.hub < 5000
    assert (await wait(scene, ActivityEnvironment())).seen.hub < 5000
    assert scene.view.newest.hub >= newest.hub


async def test_a_wait_ends_when_its_slice_is_over(scene: RunScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placements, "TICK", 0.02)
    waiting = await begun(scene)
    await asyncio.sleep(0)
    scene.view.delivery.tick(1.5)
    scene.clock.now += 60
    async with asyncio.timeout(patient(20)):
        found = await waiting
    assert (found.news, found.elapsed) == (False, 1.5)


async def test_a_wait_ends_when_a_deadline_has_passed(scene: RunScene) -> None:
    assert (await wait(scene, ActivityEnvironment(), elapsed=101.0)).news


async def test_a_wait_goes_on_with_the_seconds_of_a_hub_that_died(scene: RunScene) -> None:
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, heartbeat_details=[42.5])
    await scene.answer("a")
    await scene.see()
    assert (await wait(scene, environment)).elapsed == 42.5


async def test_a_wait_heart_beats_the_seconds_that_it_has_seen(scene: RunScene) -> None:
    beats: list[Any] = []
    waiting = await begun(scene, beats)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert beats == [(0.0,)]


async def test_a_plan_under_another_id_is_refused(scene: RunScene) -> None:
    request = PlanRunInput(**await scene.which())
    with pytest.raises(ApplicationError, match="run under the workflow id") as refused:
        await ActivityEnvironment().run(activities(scene).plan_run, request)
    assert refused.value.non_retryable
    right = update_run_id("c", P, RUN, await scene.identity())
    planned = await ActivityEnvironment().run(
        activities(scene).plan_run, request.model_copy(update={"workflow_id": right})
    )
    assert planned.action == "step"


async def test_a_hub_that_has_not_seen_enough_does_not_plan(scene: RunScene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catching_up, "WITHIN", 0.02)
    which = {**await scene.which(), "workflow_id": update_run_id("c", P, RUN, await scene.identity())}
    unseen = await scene.store.put(placement_keys.hub("other"), b"{}")
    request = PlanRunInput(**which, seen=StreamRevisions(hub=unseen))
    with pytest.raises(ApplicationError) as refused:
        await ActivityEnvironment().run(activities(scene).plan_run, request)
    assert refused.value.type == "Behind"


def test_the_id_of_a_long_run_is_hashed_and_keeps_its_identity() -> None:
    short = update_run_id("c", P, RUN, 7)
    long = update_run_id("c", P, "r" * 253, 7)
    assert short == "c/update-run/cluster/web/release/7"
    assert len(long) == 255
    assert long.endswith("/7")
    assert long != update_run_id("c", P, "r" * 252 + "s", 7)
