"""Endings of `SchedulePlacement`, for `record`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.workflows.placement_stage import (
    CHOSEN,
    COMMITTED,
    CONTENDED,
    NOTHING,
    REMOVE,
    P,
    PlacementStage,
)
from wharfinger.process.names import SCHEDULE_PLACEMENT, placement_queue

PlacementScene = Callable[[PlacementStage], Awaitable[tuple[str, int]]]
"""Plays an ending; answers the workflow id, and which run of its chain is the one to keep."""


async def placement_fulfilled(stage: PlacementStage) -> tuple[str, int]:
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def placement_unchanged(stage: PlacementStage) -> tuple[str, int]:
    stage.activities.decisions = [NOTHING]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def placement_gone(stage: PlacementStage) -> tuple[str, int]:
    stage.activities.decisions = [REMOVE]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def placement_contended(stage: PlacementStage) -> tuple[str, int]:
    stage.activities.commits = [CONTENDED, COMMITTED]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def placement_after_contention(stage: PlacementStage) -> tuple[str, int]:
    workflow_id, _ = await placement_contended(stage)
    return workflow_id, 1


async def placement_decision_failed(stage: PlacementStage) -> tuple[str, int]:
    stage.activities.decisions = [RuntimeError("division by zero"), CHOSEN]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def placement_continued_with_policy(stage: PlacementStage) -> tuple[str, int]:
    handle = await stage.client.start_workflow(
        SCHEDULE_PLACEMENT, {"placement": P}, id=stage.workflow_id, task_queue=placement_queue(stage.cluster)
    )
    await handle.result()
    return stage.workflow_id, 0


PLACEMENT_SCENES: dict[str, PlacementScene] = {
    scene.__name__: scene
    for scene in (
        placement_fulfilled,
        placement_unchanged,
        placement_gone,
        placement_contended,
        placement_after_contention,
        placement_decision_failed,
        placement_continued_with_policy,
    )
}
