"""Endings of `RollOutPlacement`, for `record`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from tests.workflows.rollout_stage import DONE, WAITING, RolloutStage, at, plan, steps
from wharfinger.placement.contracts.placement_rollouts import Awaited, TakenSnapshot, WrittenWorks

RolloutScene = Callable[[RolloutStage], Awaitable[None]]
"""Plays an ending: of the first run of the placement's rollout."""


async def delivery_done(stage: RolloutStage) -> None:
    stage.activities.plans = [
        plan(snapshot_in=0.0, selected="stamp"),
        plan(steps=steps("east")),
        WAITING,
        plan(steps=steps("west")),
        WAITING,
        DONE,
    ]
    await stage.run()


async def delivery_stalled(stage: RolloutStage) -> None:
    stage.activities.plans = [plan(steps=steps("east")), plan(failed=("east",), held=1)]
    await stage.run()


async def delivery_gone(stage: RolloutStage) -> None:
    stage.activities.plans = [plan(steps=steps("east")), plan(gone=True, forgets=True), plan(gone=True)]
    await stage.run()


async def delivery_contended(stage: RolloutStage) -> None:
    many = plan(steps=steps(*(f"m{number}" for number in range(70))))
    stage.activities.plans = [plan(snapshot_in=0.0), many, many, DONE]
    stage.activities.snapshots = [TakenSnapshot(outcome="contended", seen=at(30))]
    stage.activities.writes = [
        WrittenWorks(outcome="written", rollout=11, moved=("m1: its result",), seen=at(30)),
        WrittenWorks(outcome="contended", seen=at(40)),
    ]
    await stage.run()


async def delivery_waited(stage: RolloutStage) -> None:
    """By timers, until the time of each is up."""
    stage.activities.plans = [plan(timer=7.5, held=1), plan(snapshot_in=12.5), WAITING, DONE]
    stage.activities.waits = [Awaited(news=False, seen=at(15)), Awaited(news=True, seen=at(16))]
    await stage.run()


async def delivery_poked(stage: RolloutStage) -> None:
    stage.activities.plans = [WAITING, DONE]
    stage.activities.waits_for_ever = True
    handle = await stage.start()
    await stage.activities.is_waiting.wait()
    await handle.signal("poke")
    await handle.result()


async def delivery_cancelled(stage: RolloutStage) -> None:
    stage.activities.plans = [WAITING]
    stage.activities.waits_for_ever = True
    handle = await stage.start()
    await stage.activities.is_waiting.wait()
    await handle.cancel()
    with suppress(WorkflowFailureError):
        await handle.result()


async def delivery_failed(stage: RolloutStage) -> None:
    stage.activities.plans = [ApplicationError("wrong", type="WrongWorkflowId", non_retryable=True)]
    handle = await stage.start()
    with suppress(WorkflowFailureError):
        await handle.result()


ROLLOUT_SCENES: dict[str, RolloutScene] = {
    scene.__name__: scene
    for scene in (
        delivery_done,
        delivery_stalled,
        delivery_gone,
        delivery_contended,
        delivery_waited,
        delivery_poked,
        delivery_cancelled,
        delivery_failed,
    )
}
