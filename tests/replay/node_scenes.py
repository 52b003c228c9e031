"""Endings of `NodeEviction`, for `record`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tests.workflows.node_stage import ABSENT, DUE, EMPTY, GONE, NODE, THERE, NodeStage
from wharfinger.scheduling.contracts.node_eviction import Cleared, Looked

NodeScene = Callable[[NodeStage], Awaitable[str]]
"""Plays an ending; answers the workflow id."""

HELD = Cleared(held=0.2, notes=("10 nodes were cleared within 300 s, 10 may be: only reported",))
SOON = {"seconds": 0.2}


async def node_requeued(stage: NodeStage) -> str:
    stage.activities.looks = [ABSENT.model_copy(update=SOON), DUE, DUE, EMPTY]
    stage.activities.clears = [HELD, GONE]
    handle = await stage.start()
    await handle.result()
    return handle.id


async def node_returned(stage: NodeStage) -> str:
    stage.activities.looks = [ABSENT, ABSENT, THERE]
    handle = await stage.start()
    await stage.timers(1)
    await stage.starter.signal(NODE, "returned")
    await stage.timers(2)
    await stage.starter.signal(NODE, "poke")
    await handle.result()
    return handle.id


async def node_taint_tolerated(stage: NodeStage) -> str:
    seen = {"flaky=": "2026-03-01T12:00:00Z"}
    waits = Looked(action="wait", why="2 pods tolerate the taints of node n1", tainted_since=seen, **SOON)
    due = Looked(action="clear", why="evict pods that do not tolerate the taints of node n1", tainted_since=seen)
    stage.activities.looks = [waits, due, THERE]
    handle = await stage.start()
    await handle.result()
    return handle.id


async def node_not_cleared(stage: NodeStage) -> str:
    stage.activities.looks = [DUE]
    stage.activities.clears = [Cleared(notes=("default/a cannot be read",))]
    handle = await stage.start()
    await handle.result()
    return handle.id


NODE_SCENES: dict[str, NodeScene] = {
    scene.__name__: scene for scene in (node_requeued, node_returned, node_taint_tolerated, node_not_cleared)
}
