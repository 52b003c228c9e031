"""What update runs wait for: approvals, timed waits, deadlines; and what of it a stop keeps."""

from __future__ import annotations

from tests.placement.run_scene import APPROVAL, RUN, RunScene, run_object, stage
from tests.placement.scene import P
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.model.update_runs import FAILING_DEADLINE, RunPhase

ALL = stage("prod", maxConcurrency=2)


async def test_a_stage_waits_for_its_approvals() -> None:
    scene = RunScene()
    await scene.arrange(ALL | {"beforeStageTasks": [APPROVAL], "afterStageTasks": [APPROVAL]}, members="ab")
    await scene.put(run_object())
    planned = await scene.settle()
    assert (planned.approvals, planned.phase, await scene.has()) == (("prod.before",), RunPhase.WAITING, {})
    assert (await scene.approve("prod", "before")).outcome == "approved"
    await scene.settle()
    assert await scene.has() == {"a": 1, "b": 1}
    await scene.answer()
    assert (await scene.settle()).approvals == ("prod.after",)
    await scene.approve("prod", "after")
    assert (await scene.settle()).ends == "succeeded"


async def test_an_approval_counts_once_and_names_who_gave_it() -> None:
    scene = RunScene()
    await scene.arrange(ALL)
    await scene.put(run_object())
    assert (await scene.approve("prod", "before", "ann")).outcome == "approved"
    assert (await scene.approve("prod", "before", "ann")).outcome == "approved"  # its answer was lost
    again = await scene.approve("prod", "before", "bob")
    assert (again.outcome, again.why[:42]) == ("already", "prod.before is approved already by ann at ")


async def test_an_approval_of_a_former_run_of_that_name_counts_not() -> None:
    scene = RunScene()
    await scene.arrange(ALL | {"beforeStageTasks": [APPROVAL]}, members="ab")
    await scene.put(run_object())
    await scene.settle()
    former = await scene.which()
    await scene.approve("prod", "before")
    await scene.store.delete(placement_keys.update_run("", RUN))
    await scene.put(run_object())
    assert (await scene.settle()).approvals == ("prod.before",)
    assert former["identity"] != await scene.identity()


async def test_an_approval_while_stopping_is_honoured_on_resume() -> None:
    scene = RunScene()
    await scene.arrange(ALL | {"afterStageTasks": [APPROVAL]}, members="ab")
    await scene.put(run_object())
    await scene.settle()
    await scene.state("Stop")
    assert (await scene.settle()).phase is RunPhase.STOPPING
    await scene.approve("prod", "after")
    await scene.answer()
    planned = await scene.turn()
    assert planned.ends == "stopped"
    await scene.state("Run")
    assert (await scene.settle()).ends == "succeeded"


async def test_a_wait_keeps_its_remainder_over_a_stop() -> None:
    scene = RunScene()
    await scene.arrange(ALL | {"afterStageTasks": [{"type": "TimedWait", "waitTime": "10m"}]}, members="ab")
    await scene.put(run_object())
    await scene.settle()
    await scene.answer()
    await scene.turn()
    assert (await scene.turn(elapsed=0.0)).timer == 600
    assert (await scene.turn(elapsed=60.0)).timer == 540
    await scene.state("Stop")
    stopped = await scene.turn(elapsed=40.0)
    assert (stopped.ends, stopped.timer) == ("stopped", None)
    assert (await scene.plan(elapsed=1000.0)).timer is None
    await scene.state("Run")
    await scene.turn()
    assert (await scene.plan()).timer == 500
    assert (await scene.turn(elapsed=500.0)).ends == "succeeded"


async def test_a_member_beyond_its_deadline_has_failed() -> None:
    scene = RunScene()
    await scene.arrange(ALL | {"deadlineSeconds": 30}, members="a")
    await scene.put(run_object())
    assert (await scene.settle()).timer == 30
    assert (await scene.turn(elapsed=29.0)).timer == 1
    assert (await scene.settle(elapsed=2.0)).phase is RunPhase.PAUSED


async def test_a_failure_whose_cause_may_end_does_not_end_a_run() -> None:
    scene = RunScene()
    await scene.arrange(ALL | {"onFailure": "Abort"}, members="a")
    await scene.put(run_object())
    await scene.settle()
    failure = {"available": False, "failed": True, "passing": True, "reason": "placed by cluster/other already"}
    await scene.answer(**failure)
    assert ((await scene.settle()).phase, (await scene.plan()).timer) == (RunPhase.RUNNING, FAILING_DEADLINE)
    await scene.store.delete(placement_keys.result(P, "a"))  # the agent looks again
    await scene.answer()
    assert (await scene.settle()).ends == "succeeded"


async def test_a_failure_whose_cause_does_not_end_ends_a_run_at_its_deadline() -> None:
    scene = RunScene()
    await scene.arrange(ALL | {"onFailure": "Abort"}, members="a")
    await scene.put(run_object())
    await scene.settle()
    await scene.answer(available=False, failed=True, passing=True, reason="no answer")
    await scene.settle()
    assert (await scene.turn(elapsed=FAILING_DEADLINE - 1)).timer == 1
    assert (await scene.settle(elapsed=1.0)).ends == "aborted"


async def test_what_cannot_be_tracked_is_ready_after_its_period() -> None:
    scene = RunScene()
    await scene.arrange(ALL, members="a")
    await scene.put(run_object())
    await scene.settle()
    await scene.answer(untrackable=True)
    planned = await scene.settle()
    assert (planned.action, planned.timer) == ("step", 60)
    scene.view.delivery.seen_seconds += 60
    assert (await scene.turn()).ends == "succeeded"
