"""Endings of attempts that call asynchronous plugins, for `tests.replay.record`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from temporalio.exceptions import ApplicationError

from tests.replay.cohort_scenes import ended
from tests.workflows.conftest import Stage, agreed, held, step
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.plugin_calls import PLUGIN_FAILED
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, Rejected

WAKE = Wake(revision=15, event="NodeAdd", object="node-1", plugin="Licences")


async def called_and_bound(stage: Stage) -> tuple[str, int]:
    """Volumes are awaited, then two plugins are called: one asks to wait, and raises once; the other one binds."""
    preparing = Bound(node="node-1", revision=11, preparing="claim data is being bound to volume v1")
    stage.activities.binds = [
        preparing,
        held(step("Licences"), step("Crane", "Bind")),
        Bound(node="node-1", revision=14),
    ]
    stage.activities.calls = [
        agreed(code="wait", message="the licence is being made"),
        ApplicationError("ConnectionError: refused", type=PLUGIN_FAILED),
        agreed(data={"licence": 7}),
        agreed("Crane", point="Bind"),
    ]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def called_and_refused(stage: Stage) -> tuple[str, int]:
    stage.activities.binds = [
        held(),
        Rejected(plugin="Licences", message="no licence is free"),
        Bound(node="node-1", revision=14),
    ]
    stage.activities.calls = [agreed(code="refused", message="no licence is free")]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", WAKE)
    await handle.result()
    return handle.id, 0


async def called_in_vain(stage: Stage) -> tuple[str, int]:
    """The plugin keeps raising: its room is given back, and the attempt fails."""
    error = ApplicationError("plugin Licences failed in PreBind: boom", type="SchedulerError", non_retryable=True)
    stage.activities.binds = [held(step(attempts=1)), error, Bound(node="node-1", revision=14)]
    stage.activities.calls = [ApplicationError("boom", type=PLUGIN_FAILED)]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def cancelled_while_calling(stage: Stage) -> tuple[str, int]:
    stage.activities.binds = [held(step(timeout=1.0, heartbeat=1.0)), Contended(message="given back")]

    async def cancel() -> None:
        await stage.client.get_workflow_handle(stage.workflow_id("web-1")).cancel()
        await asyncio.Event().wait()

    stage.activities.on_call = cancel
    return await ended(await stage.start(name="web-1"))


CALL_SCENES: dict[str, Callable[[Stage], Awaitable[tuple[str, int]]]] = {
    scene.__name__: scene for scene in (called_and_bound, called_and_refused, called_in_vain, cancelled_while_calling)
}
