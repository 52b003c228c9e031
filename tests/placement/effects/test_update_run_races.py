"""What may come between the steps of an update run: lost answers, late waves, other runs, the actor, deletion."""

from __future__ import annotations

import pytest

from tests.placement.objects import member_object, pick
from tests.placement.run_scene import RUN, RunScene, external, run_object, stage
from tests.placement.scene import TIME, P
from wharfinger.errors import Unavailable
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    PLAN,
    PROGRESS,
    RolloutRecord,
    RunPlanRecord,
    SnapshotRecord,
    WorkRecord,
)
from wharfinger.placement.contracts.placement_rollouts import TakeSnapshotInput
from wharfinger.placement.contracts.update_runs import RecordRunInput
from wharfinger.placement.effects.rolling_out import rollout_of
from wharfinger.placement.effects.snapshots import take
from wharfinger.placement.effects.update_writing import record
from wharfinger.placement.model.delivery import StepKind
from wharfinger.placement.reading.observe_update_runs import status_of
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.update_runs_view import SUPERSEDES

OTHER = "hurry"


@pytest.fixture
async def scene() -> RunScene:
    """A run that has made its plan, and has written nothing."""
    scene = RunScene()
    await scene.arrange(stage("all", maxConcurrency=2))
    await scene.put(run_object())
    await scene.turn()
    return scene


# --- lost answers, late waves ---


async def test_progress_whose_answer_was_lost_is_recorded_once(scene: RunScene) -> None:
    planned = await scene.plan()
    scene.store.fail_next(applied=True)
    with pytest.raises(Unavailable):
        await scene.record(planned, wave="w1")
    recorded = await scene.record(planned, wave="w1")
    await scene.see()
    assert (recorded.outcome, recorded.rollout) == ("recorded", scene.view.mod_revision(placement_keys.rollout(P)))


async def test_progress_that_another_wave_followed_is_not_counted_twice(scene: RunScene) -> None:
    """Its answer was lost, and the actor has begun a wave since."""
    planned = await scene.plan()
    scene.store.fail_next(applied=True)
    with pytest.raises(Unavailable):
        await scene.record(planned, wave="w1")
    await scene.store.put(
        placement_keys.rollout(P), (await scene.rollout()).model_copy(update={"token": "w2"}).to_bytes()
    )
    recorded = await scene.record(planned, wave="w1")
    assert (recorded.outcome, recorded.rollout) == ("recorded", 0)
    assert (await scene.write(planned, max(recorded.rollout, 1))).written == ()
    assert (await scene.record(planned, wave="w3")).outcome == "contended"


async def test_works_whose_answer_was_lost_are_written_once(scene: RunScene) -> None:
    planned = await scene.plan()
    fence = (await scene.record(planned)).rollout
    scene.store.fail_next(applied=True)
    with pytest.raises(Unavailable):
        await scene.write(planned, fence)
    written = await scene.write(planned, fence)
    assert (written.written, written.moved) == (("a", "b"), ())
    await scene.see()
    assert {one.counter for one in scene.view.works[P].values()} == {1}


async def test_a_crash_between_progress_and_works_writes_them_then(scene: RunScene) -> None:
    await scene.record(await scene.plan())
    assert await scene.has() == {}
    await scene.settle()
    assert await scene.has() == {"a": 1, "b": 1}


async def test_a_late_wave_writes_nothing(scene: RunScene) -> None:
    late = await scene.plan()
    fence = (await scene.record(late)).rollout
    await scene.settle()
    await scene.store.delete(placement_keys.work(P, "a"))
    written = await scene.write(late, fence)
    assert written.moved == tuple(f"{name}: {placement_keys.rollout(P)}" for name in ("a", "b"))
    assert "a" not in await scene.has()


async def test_progress_of_a_former_plan_is_refused(scene: RunScene) -> None:
    late = await scene.plan()
    await scene.settle()
    assert (await scene.record(late)).outcome == "contended"


@pytest.mark.parametrize("what", ["decision", "member", "work"])
async def test_a_work_whose_reasons_moved_is_not_written(scene: RunScene, what: str) -> None:
    planned = await scene.plan()
    fence = (await scene.record(planned)).rollout
    if what == "decision":
        kv = (await scene.store.get(placement_keys.decision(P))).kv
        assert kv is not None
        await scene.store.put(placement_keys.decision(P), kv.value)
    elif what == "member":
        await scene.put(member_object("a", deletionTimestamp="2026-01-01T00:00:00Z"))
    else:
        await scene.store.put(placement_keys.work(P, "a"), WorkRecord(counter=7).to_bytes())
    written = await scene.write(planned, fence)
    key = {
        "decision": placement_keys.decision(P),
        "member": placement_keys.member_cluster("a"),
        "work": placement_keys.work(P, "a"),
    }[what]
    assert f"a: {key}" in written.moved
    assert written.written == (() if what == "decision" else ("b",))


# --- other runs ---


async def test_a_second_run_waits_for_the_first(scene: RunScene) -> None:
    await scene.settle()
    await scene.put(run_object(OTHER))
    assert (await scene.settle(OTHER)).why == f"waits for run {RUN} to end"
    for _ in range(2):
        await scene.answer()
        await scene.settle()
    await scene.settle(OTHER)
    assert (await scene.rollout()).run == f"{OTHER}/{await scene.identity(OTHER)}"


async def test_a_run_that_may_takes_over_and_the_first_is_superseded(scene: RunScene) -> None:
    await scene.settle()
    await scene.snapshot(2)
    await scene.put(run_object(OTHER, snapshot="2", annotations={SUPERSEDES: "true"}))
    await scene.settle(OTHER)
    late = await scene.turn()
    assert (late.ends, await scene.end()) == ("superseded", ("superseded", f"run {OTHER} has taken over"))
    assert await scene.has() == {"a": 2, "b": 2}


async def test_a_superseded_run_goes_on_by_a_retry_once_the_other_ended(scene: RunScene) -> None:
    await scene.settle()
    await scene.snapshot(2)
    await scene.put(run_object(OTHER, snapshot="2", annotations={SUPERSEDES: "true"}))
    await scene.settle(OTHER)
    await scene.turn()
    await scene.retry()
    assert (await scene.turn()).ends == "superseded"
    for _ in range(2):
        await scene.answer()
        await scene.settle(OTHER)
    await scene.retry(2)
    await scene.settle()
    assert (await scene.rollout()).run == f"{RUN}/{await scene.identity()}"


# --- deletion ---


async def test_a_run_that_is_deleted_is_given_up_where_it_is(scene: RunScene) -> None:
    planned, which = await scene.plan(), await scene.which()
    await scene.store.delete(placement_keys.update_run("", RUN))
    await scene.put(run_object(RUN))
    recorded = await record(scene.store, RecordRunInput(**which, planned=planned, wave="w"), TIME)
    assert recorded.outcome == "contended"
    assert (await scene.store.get(placement_keys.run_record(P, RUN, which["identity"], PROGRESS))).kv is None


@pytest.mark.parametrize("again", [False, True], ids=["deleted", "made again"])
async def test_a_run_whose_placement_is_gone_ends(scene: RunScene, again: bool) -> None:
    await scene.settle()
    await scene.store.delete(placement_keys.placement(P))
    if again:
        await scene.put(external())
    await scene.turn()
    assert (await scene.end())[0] == "gone"


async def test_of_two_runs_that_begin_together_one_waits() -> None:
    scene = RunScene()
    await scene.arrange(stage("all"))
    for name in (RUN, OTHER):
        await scene.put(run_object(name))
    first, second = await scene.plan(RUN), await scene.plan(OTHER)
    assert (await scene.begin(first, RUN)).outcome == "begun"
    assert (await scene.begin(second, OTHER)).outcome == "contended"
    planned = await scene.plan(OTHER)
    assert (planned.action, planned.why) == ("queue", f"waits for run {RUN} to end")
    assert (await scene.begin(planned, OTHER)).outcome == "contended"
    for name in (RUN, OTHER):
        for _ in range(4):
            await scene.settle(name)
            await scene.answer()
        assert (await scene.end(name))[0] == "succeeded"


async def test_a_run_that_is_only_planned_keeps_no_other_waiting() -> None:
    scene = RunScene()
    await scene.arrange(stage("all"))
    await scene.put(run_object(OTHER, state="Initialize"))
    await scene.settle(OTHER)
    assert (await scene.rollout()).run == ""
    await scene.put(run_object())
    assert (await scene.plan()).action == "begin"


async def test_a_run_ends_when_its_placement_is_no_longer_external(scene: RunScene) -> None:
    await scene.settle()
    obj = external()
    obj["spec"]["strategy"] = {"type": "RollingUpdate"}
    await scene.put(obj)
    await scene.turn()
    outcome, why = await scene.end()
    assert (outcome, why) == ("failed", "the placement is delivered by rolling updates now: start another run")


# --- selected objects in trouble ---


async def in_trouble() -> RunScene:
    """A run that names no snapshot has found that what is selected cannot be placed."""
    scene = RunScene()
    await scene.arrange(stage("all"))
    await scene.put(run_object(snapshot=""))
    planned = await scene.plan()
    assert planned.action == "begin"
    selected, rollout = planned.selected, RolloutRecord(selected=planned.selected, trouble="a is selected twice")
    assert selected
    await scene.store.put(placement_keys.rollout(P), rollout.to_bytes())
    return scene


async def test_a_run_waits_while_what_is_selected_cannot_be_placed() -> None:
    scene = await in_trouble()
    planned = await scene.plan()
    assert (planned.action, planned.why.endswith("cannot be placed: a is selected twice")) == ("queue", True)
    run = scene.view.update_runs.run(P, RUN)
    assert run is not None
    assert status_of(scene.view, run)["why"] == planned.why
    record = (await scene.rollout()).model_copy(update={"selected": "as it was before"})
    await scene.store.put(placement_keys.rollout(P), record.to_bytes())
    assert (await scene.plan()).action == "begin"


async def test_trouble_keeps_no_run_waiting_that_names_a_snapshot() -> None:
    scene = await in_trouble()
    await scene.put(run_object(OTHER, snapshot="1"))
    assert (await scene.plan(OTHER)).action == "begin"


# --- the actor ---


async def test_the_actor_leaves_removals_to_the_run_that_delivers() -> None:
    scene = RunScene()
    await scene.arrange(stage("all", maxConcurrency=3))
    await scene.deliver(1)
    await scene.put(external(generation=2, **pick(2)))
    await scene.attempt()
    assert [(one.member, one.kind) for one in rollout_of(scene.view, P).steps.steps] == [("a", StepKind.REMOVE)]
    await scene.snapshot(2)
    await scene.put(run_object(snapshot="2"))
    await scene.settle()
    await scene.see()
    assert rollout_of(scene.view, P).steps.steps == ()
    await scene.answer("bc")
    await scene.see()
    assert rollout_of(scene.view, P).steps.steps == ()
    await scene.store.delete(placement_keys.update_run("", RUN))
    await scene.see()
    assert [one.member for one in rollout_of(scene.view, P).steps.steps] == ["a"]


async def test_the_actor_releases_a_leaver_during_a_run(scene: RunScene) -> None:
    await scene.settle()
    await scene.put(member_object("a", deletionTimestamp="2026-01-01T00:00:00Z"))
    await scene.attempt()
    assert [(one.member, one.want) for one in rollout_of(scene.view, P).steps.steps] == [("a", "release")]


async def test_snapshots_that_a_run_names_are_not_forgotten(scene: RunScene) -> None:
    """Neither the one that it delivers, nor those that it would go back to."""
    for number in range(2, 14):
        await scene.snapshot(number)
    await scene.see()
    request = TakeSnapshotInput(
        placement=P,
        selected="s",
        decision=scene.view.mod_revision(placement_keys.decision(P)),
        rollout=scene.view.mod_revision(placement_keys.rollout(P)),
        workflow_id="w",
        run_id="r",
        role="run",
    )
    behind = HubView(scene.clock)  # of a hub that has not seen the plan yet
    taken = await take(scene.store, behind, request, TIME)
    assert (taken.outcome, taken.number) == ("taken", 14)
    kept = [
        int(kv.key.rpartition("/")[2])
        async for page in scene.store.list(placement_keys.snapshot.below(P))
        for kv in page.items
    ]
    assert sorted(kept) == [1, *range(5, 15)]
    assert (await scene.rollout()).role == "run"


# --- overrides ---


def override(value: str, **selector: str) -> dict[str, object]:
    chosen = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": selector}}]} if selector else {}
    patches = [{"op": "add", "path": "/metadata/labels/tier", "value": value}]
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourceOverride",
        "metadata": {"name": "tier"},
        "spec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}],
            "policy": {
                "overrideRules": [{"clusterSelector": chosen, "jsonPatchOverrides": patches}],
            },
        },
    }


async def test_overrides_are_frozen_with_the_plan() -> None:
    scene = RunScene()
    await scene.arrange(stage("all"))
    head = SnapshotRecord(digest="1", objects=(("", "v1", "Namespace", "", "web"),))
    await scene.store.put(placement_keys.snapshot(P, 1), head.to_bytes())
    await scene.put(override("gold", name="b"))
    await scene.put(run_object())
    await scene.turn()
    kv = (await scene.store.get(await scene.key(PLAN))).kv
    assert kv is not None
    frozen = RunPlanRecord.model_validate_json(kv.value)
    assert [one.overrides != "" for one in frozen.plan.stages[0].members] == [False, True, False]
    await scene.put(override("silver", name="b"))
    for _ in range(3):
        await scene.settle()
        await scene.answer()
    written = (await scene.store.get(placement_keys.work(P, "b"))).kv
    assert written is not None
    work = WorkRecord.model_validate_json(written.value)
    assert "gold" in str(work.resolved)
    assert work.overrides in frozen.overrides
    assert (await scene.settle()).ends == "succeeded"


async def test_a_rollback_brings_back_the_overrides_that_members_had() -> None:
    scene = RunScene()
    await scene.arrange(stage("all", maxConcurrency=3, onFailure="Rollback"))
    await scene.deliver(1)
    kv = (await scene.store.get(placement_keys.work(P, "a"))).kv
    assert kv is not None
    had = WorkRecord.model_validate_json(kv.value).model_copy(
        update={"overrides": "0123456789abcdef", "resolved": ({"source": "former"},)}
    )
    await scene.store.put(placement_keys.work(P, "a"), had.to_bytes())
    await scene.snapshot(2)
    await scene.put(run_object(snapshot="2"))
    await scene.settle()
    await scene.answer("b", available=False, failed=True)
    for _ in range(4):
        await scene.settle()
        await scene.answer()
    kv = (await scene.store.get(placement_keys.work(P, "a"))).kv
    assert kv is not None
    back = WorkRecord.model_validate_json(kv.value)
    assert (back.snapshot, back.overrides, back.resolved) == (1, had.overrides, had.resolved)
    assert back.counter > had.counter


async def test_a_fresh_snapshot_is_taken_for_a_run_that_names_none(scene: RunScene) -> None:
    await scene.put(run_object(OTHER, snapshot="", state="Initialize"))
    await scene.see()
    scene.contents = ContentsView(scene.clock)
    planned = await scene.plan(OTHER)
    assert (planned.action, planned.named) == ("begin", None)
    assert planned.selected
