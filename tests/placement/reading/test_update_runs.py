"""`placement.reading.observe_update_runs` on a store in memory: awaited tasks, rollbacks."""

from __future__ import annotations

from typing import Any

from tests.placement.run_scene import APPROVAL, RUN, RunScene, run_object, stage
from tests.placement.scene import TIME
from wharfinger.placement.reading.update_runs import UpdateRuns

WAIT = {"type": "TimedWait", "waitTime": "30s"}


async def begun(*stages: Any) -> RunScene:
    scene = RunScene()
    await scene.arrange(*stages)
    await scene.put(run_object())
    await scene.settle()
    return scene


async def status(scene: RunScene) -> dict[str, Any]:
    return await UpdateRuns(scene.store).status(RUN)


def members(told: dict[str, Any]) -> list[dict[str, str]]:
    return [one for each in told["stages"] for one in each["members"]]


async def test_a_wait_and_an_approval_after_a_stage_are_both_shown() -> None:
    scene = await begun(stage("all", maxConcurrency=3, afterStageTasks=[WAIT, APPROVAL]))
    await scene.answer()
    await scene.settle()
    (only,) = (await status(scene))["stages"]
    assert (only["waitsFor"], only["awaitedApprovals"]) == (["all.after"], ["all.after"])
    assert only["remainingSeconds"] == 30


async def test_a_remaining_wait_is_shown_as_it_was_recorded() -> None:
    scene = await begun(stage("all", maxConcurrency=3, afterStageTasks=[WAIT, APPROVAL]))
    await scene.answer()
    await scene.settle()
    told = await status(scene)
    wait = f"at most 30 s are left of the wait after stage all (at {TIME})"
    assert (told["phase"], told["why"]) == ("waiting", f"{wait}; waits for approval all.after")


async def test_an_approval_that_is_awaited_alone_has_no_wait() -> None:
    scene = await begun(stage("all", beforeStageTasks=[APPROVAL]))
    told = await status(scene)
    assert told["why"] == "waits for approval all.before"
    assert told["stages"][0]["awaitedApprovals"] == ["all.before"]
    assert told["stages"][0]["remainingSeconds"] is None


async def test_members_and_stages_are_rolled_back_after_a_rollback() -> None:
    scene = await begun(stage("all", maxConcurrency=2, onFailure="Rollback"), stage("more", {"name": "none"}))
    await scene.answer("a")
    await scene.answer("b", available=False, failed=True, reason="v1 Pod web/x: Failed")
    await scene.settle()
    told = await status(scene)
    assert (told["phase"], told["stages"][0]["state"]) == ("rolling back", "rolling back")
    for _ in range(3):
        await scene.answer()
        await scene.settle()
    told = await status(scene)
    assert (told["phase"], told["outcome"]) == ("failed", "failed")
    assert [one["state"] for one in told["stages"]] == ["rolled back", "not started"]
    assert [(one["cluster"], one["state"]) for one in members(told)][:2] == [("a", "rolled back"), ("b", "rolled back")]
    assert members(told)[1]["why"] == "its update failed: v1 Pod web/x: Failed"


async def test_members_that_wait_for_the_rollback_are_shown_so() -> None:
    scene = await begun(stage("all", maxConcurrency=2, onFailure="Rollback"))
    await scene.answer("a")
    await scene.settle()
    await scene.answer("bc", available=False, failed=True)
    await scene.settle()
    states = {one["cluster"]: one["state"] for one in members(await status(scene))}
    assert states["a"] == "waits for the rollback"
    assert states["c"] == "rolling back"
