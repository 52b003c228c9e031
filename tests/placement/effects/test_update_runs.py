"""The life of a staged update run on a store in memory: plan, stages, approvals, waits, failures, endings."""

from __future__ import annotations

import pytest

from tests.placement.objects import member_object, pick
from tests.placement.run_scene import RUN, RunScene, external, run_object, stage, strategy_object
from tests.placement.scene import P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.model.update_runs import RunPhase

CANARY, ALL = stage("canary", {"name": "b"}), stage("prod", maxConcurrency=2)
REST = stage("prod", maxConcurrency=2) | {
    "labelSelector": {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["b"]}]}
}


@pytest.fixture
async def scene() -> RunScene:
    scene = RunScene()
    await scene.arrange(CANARY, REST)
    await scene.put(run_object())
    return scene


async def test_a_run_delivers_its_stages_one_after_the_other(scene: RunScene) -> None:
    assert (await scene.plan()).action == "begin"
    await scene.settle()
    assert await scene.has() == {"b": 1}
    await scene.answer()
    await scene.settle()
    assert await scene.has() == {"a": 1, "b": 1, "c": 1}
    await scene.answer()
    planned = await scene.settle()
    assert (planned.action, planned.ends) == ("over", "succeeded")
    assert scene.written == ["b", "a", "c"]
    assert (await scene.end())[0] == "succeeded"


async def test_the_run_is_named_by_the_record_of_who_delivers(scene: RunScene) -> None:
    await scene.settle()
    record = await scene.rollout()
    assert (record.role, record.run, record.workflow_id) == ("run", f"{RUN}/{await scene.identity()}", "w/release")


async def test_a_plan_compares_its_snapshot(scene: RunScene) -> None:
    planned = await scene.plan()
    await scene.store.delete(placement_keys.snapshot(P, 1))
    assert (await scene.begin(planned)).outcome == "contended"


async def test_a_plan_rewrites_who_delivers_so_clean_up_fails(scene: RunScene) -> None:
    planned = await scene.plan()
    await scene.store.put(placement_keys.rollout(P), b"{}")
    assert (await scene.begin(planned)).outcome == "contended"
    planned = await scene.plan()
    assert (await scene.begin(planned)).outcome == "begun"
    await scene.see()
    assert scene.view.mod_revision(placement_keys.rollout(P)) > planned.rollout


async def test_a_plan_whose_answer_was_lost_is_put_once(scene: RunScene) -> None:
    planned = await scene.plan()
    assert (await scene.begin(planned)).outcome == "begun"
    assert (await scene.begin(planned)).outcome == "begun"


@pytest.mark.parametrize(
    ("stages", "problem"),
    [
        ([CANARY], "no stage selects a, c"),
        ([CANARY, CANARY | {"name": "two"}, REST], "b is in 2 stages: canary, two"),
    ],
    ids=["unmatched", "overlap"],
)
async def test_a_run_without_a_possible_plan_fails(
    scene: RunScene, stages: list[dict[str, object]], problem: str
) -> None:
    await scene.put(strategy_object(*stages))
    await scene.turn()
    assert await scene.end() == ("failed", problem)
    assert (await scene.plan()).ends == "failed"


async def test_all_that_hinders_a_plan_is_told(scene: RunScene) -> None:
    await scene.put(external(generation=2) | {"spec": {"resourceSelectors": []}})
    await scene.store.delete(placement_keys.snapshot(P, 1))
    await scene.store.delete(placement_keys.update_strategy("", "slowly"))
    await scene.turn()
    outcome, why = await scene.end()
    assert outcome == "failed"
    for part in ("not External", "has no snapshot 1", "no strategy slowly"):
        assert part in why


async def test_a_plan_tells_why_its_strategy_cannot_be_read(scene: RunScene) -> None:
    key = placement_keys.update_strategy("", "slowly")
    await scene.store.delete(key)
    await scene.see()
    await scene.put(strategy_object(CANARY | {"maxConcurrency": "many"}))
    await scene.turn()
    _, why = await scene.end()
    assert why.startswith("strategy slowly cannot be read: spec.stages[0].maxConcurrency: must be a number")


async def test_a_run_waits_until_its_placement_is_decided(scene: RunScene) -> None:
    await scene.put(external(generation=2, **pick(2)))
    planned = await scene.plan()
    assert (planned.action, planned.why[:5]) == ("queue", "waits")
    await scene.attempt()
    assert (await scene.plan()).action == "begin"


async def test_a_run_that_is_only_initialized_is_planned() -> None:
    scene = RunScene()
    await scene.arrange(ALL)
    await scene.put(run_object(state="Initialize"))
    planned = await scene.settle()
    assert (planned.action, planned.ends, await scene.has()) == ("over", "planned", {})
    await scene.state("Run")
    await scene.settle()
    assert await scene.has() == {"a": 1, "b": 1}


async def test_a_plan_that_has_become_stale_is_not_followed() -> None:
    """A rollback would bring back contents from before another run."""
    scene = RunScene()
    await scene.arrange(ALL)
    await scene.deliver(1)
    await scene.snapshot(2)
    await scene.put(run_object(state="Initialize", snapshot="2"))
    await scene.settle()
    await scene.snapshot(3)
    await scene.deliver(3)
    await scene.state("Run", snapshot="2")
    await scene.turn()
    assert "start another run" in (await scene.end())[1]


async def test_a_member_that_leaves_is_skipped_and_a_joiner_ignored(scene: RunScene) -> None:
    await scene.settle()
    await scene.answer()
    await scene.member("d", labels={"name": "d"})
    await scene.put(member_object("c", labels={"name": "c"}, deletionTimestamp="2026-01-01T00:00:00Z"))
    await scene.attempt()
    await scene.settle()
    await scene.answer()
    planned = await scene.settle()
    assert (planned.ends, planned.why) == ("succeeded", "1 skipped (c)")
    assert await scene.has() == {"a": 1, "b": 1}


async def test_members_that_are_not_chosen_are_cleared_at_the_end() -> None:
    scene = RunScene()
    await scene.arrange(stage("all", maxConcurrency=3))
    await scene.deliver(1)
    await scene.put(external(generation=2, **pick(2)))
    await scene.attempt()
    await scene.snapshot(2)
    await scene.put(run_object(snapshot="2"))
    await scene.settle()
    assert await scene.has() == {"a": 1, "b": 2, "c": 2}
    await scene.answer()
    await scene.settle()
    assert scene.view.works[P]["a"].want == "absent"
    await scene.answer()
    assert (await scene.settle()).ends == "succeeded"
    assert await scene.has() == {"b": 2, "c": 2}


# --- failures ---


async def failing(on_failure: str) -> RunScene:
    """Members a and b have snapshot 1, c is a newcomer; b fails with snapshot 2."""
    scene = RunScene()
    await scene.arrange(stage("all", maxConcurrency=3, onFailure=on_failure))
    await scene.deliver(1, "ab")
    await scene.snapshot(2)
    await scene.put(run_object(snapshot="2"))
    await scene.settle()
    assert await scene.has() == {"a": 2, "b": 2, "c": 2}
    await scene.answer("ac")
    await scene.answer("b", available=False, failed=True, reason="ApplyFailed")
    return scene


async def test_too_many_failures_pause_until_a_retry() -> None:
    scene = await failing("Pause")
    planned = await scene.settle()
    assert (planned.phase, planned.why) == (
        RunPhase.PAUSED,
        "stage all: 1 of 3 failed (b); a retry tries them again",
    )
    await scene.retry()
    await scene.settle()
    await scene.answer()
    assert (await scene.settle()).ends == "succeeded"
    assert scene.written == ["a", "b", "c", "b"]


async def test_too_many_failures_abort_and_a_retry_goes_on() -> None:
    scene = await failing("Abort")
    await scene.settle()
    assert (await scene.end())[0] == "aborted"
    await scene.retry()
    await scene.settle()
    await scene.answer()
    assert (await scene.settle()).ends == "succeeded"
    assert (await scene.end())[0] == "succeeded"


async def test_a_rollback_brings_back_what_each_member_had() -> None:
    scene = await failing("Rollback")
    await scene.settle()
    for _ in range(3):
        await scene.answer()
        planned = await scene.settle()
    assert (planned.ends, (await scene.end())[0]) == ("failed", "failed")
    assert await scene.has() == {"a": 1, "b": 1}


async def test_a_retry_of_a_finished_run_without_failures_ends_again(scene: RunScene) -> None:
    for _ in range(3):
        await scene.settle()
        await scene.answer()
    await scene.settle()
    await scene.retry()
    assert (await scene.plan()).action == "step"
    assert (await scene.settle()).ends == "succeeded"
