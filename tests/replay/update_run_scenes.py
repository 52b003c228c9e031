"""Endings of `StagedUpdateRun`, for `record`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from tests.workflows.update_run_stage import (
    ASKS,
    BEGIN,
    DONE,
    IDENTITY,
    RUN,
    STAGE_OVER,
    STEP,
    WAITS,
    WRITES,
    P,
    UpdateRunStage,
    ending,
)
from wharfinger.placement.contracts.placement_rollouts import TakenSnapshot, TakeSnapshotInput
from wharfinger.placement.contracts.update_runs import AwaitRunInput, RecordedRun, WrittenRunWorks
from wharfinger.process.names import STAGED_UPDATE_RUN, placement_queue

UpdateRunScene = Callable[[UpdateRunStage], Awaitable[tuple[str, int]]]
"""Plays an ending; answers the workflow id, and which run of its chain is the one to keep."""


async def _ended(stage: UpdateRunStage, *plans: Any) -> tuple[str, int]:
    stage.activities.plans = list(plans)
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def update_run_succeeded(stage: UpdateRunStage) -> tuple[str, int]:
    begin = BEGIN.model_copy(update={"named": None, "selected": "s"})
    return await _ended(stage, begin, WRITES, WAITS, DONE)


async def update_run_rolled_back(stage: UpdateRunStage) -> tuple[str, int]:
    return await _ended(stage, STEP.model_copy(update={"timer": 0.0}), WRITES, ending("failed", "stage prod failed"))


async def update_run_aborted(stage: UpdateRunStage) -> tuple[str, int]:
    return await _ended(stage, WRITES, ending("aborted", "stage prod failed"))


async def update_run_stopped(stage: UpdateRunStage) -> tuple[str, int]:
    return await _ended(stage, WRITES, WAITS, ending("stopped"))


async def update_run_planned(stage: UpdateRunStage) -> tuple[str, int]:
    return await _ended(stage, BEGIN, ending("planned"))


async def update_run_superseded(stage: UpdateRunStage) -> tuple[str, int]:
    return await _ended(stage, WRITES, ending("superseded", "run hurry has taken over"))


async def update_run_gone(stage: UpdateRunStage) -> tuple[str, int]:
    return await _ended(stage, WAITS, ending("gone", "its object is deleted"))


async def update_run_contended(stage: UpdateRunStage) -> tuple[str, int]:
    stage.activities.records = [RecordedRun(outcome="contended"), RecordedRun(outcome="recorded", rollout=2)]
    stage.activities.writes = [WrittenRunWorks(moved=("a: its work",)), WrittenRunWorks(written=("a",))]
    return await _ended(stage, WRITES, WRITES, WRITES, DONE)


async def update_run_in_trouble(stage: UpdateRunStage) -> tuple[str, int]:
    """It rests until a message."""
    begin = BEGIN.model_copy(update={"named": None, "selected": "s"})
    stage.activities.snapshots = [TakenSnapshot(outcome="trouble", why="a selector cannot be read")]
    stage.activities.plans = [begin, BEGIN, DONE]
    handle = await stage.start()
    await stage.until_asked(TakeSnapshotInput)
    await handle.signal("poke")
    await handle.result()
    return handle.id, 0


async def update_run_approved(stage: UpdateRunStage) -> tuple[str, int]:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [ASKS, DONE]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    await handle.execute_update("approve", {"stage": "prod", "when": "before", "who": "ann"})
    await handle.result()
    return handle.id, 0


async def update_run_poked(stage: UpdateRunStage) -> tuple[str, int]:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [WAITS, WAITS, DONE]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    await handle.signal("poke")
    await asyncio.sleep(0.5)
    stage.activities.holds.set()
    await handle.result()
    return handle.id, 0


async def update_run_after_a_stage(stage: UpdateRunStage) -> tuple[str, int]:
    await _ended(stage, WAITS, STAGE_OVER, STAGE_OVER.model_copy(update={"progress": ""}), DONE)
    return stage.workflow_id, 0


async def update_run_next_stage(stage: UpdateRunStage) -> tuple[str, int]:
    await update_run_after_a_stage(stage)
    return stage.workflow_id, 1


async def update_run_continued_with_policy(stage: UpdateRunStage) -> tuple[str, int]:
    handle = await stage.client.start_workflow(
        STAGED_UPDATE_RUN,
        {"placement": P, "run": RUN, "identity": IDENTITY},
        id=stage.workflow_id,
        task_queue=placement_queue(stage.cluster),
    )
    await handle.result()
    return stage.workflow_id, 0


async def update_run_under_a_wrong_id(stage: UpdateRunStage) -> tuple[str, int]:
    error = ApplicationError("the right id is ...", type="WrongWorkflowId", non_retryable=True)
    stage.activities.plans = [error]
    handle = await stage.start()
    with suppress(WorkflowFailureError):
        await handle.result()
    return handle.id, 0


async def update_run_cancelled(stage: UpdateRunStage) -> tuple[str, int]:
    stage.activities.holds = asyncio.Event()
    stage.activities.plans = [WAITS]
    handle = await stage.start()
    await stage.until_asked(AwaitRunInput)
    await handle.cancel()
    with suppress(WorkflowFailureError):
        await handle.result()
    return handle.id, 0


UPDATE_RUN_SCENES: dict[str, UpdateRunScene] = {
    scene.__name__: scene
    for scene in (
        update_run_succeeded,
        update_run_rolled_back,
        update_run_aborted,
        update_run_stopped,
        update_run_planned,
        update_run_superseded,
        update_run_gone,
        update_run_contended,
        update_run_in_trouble,
        update_run_approved,
        update_run_poked,
        update_run_after_a_stage,
        update_run_next_stage,
        update_run_continued_with_policy,
        update_run_under_a_wrong_id,
        update_run_cancelled,
    )
}
