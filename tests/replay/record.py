"""Makes the histories that `test_replay` replays: `python -m tests.replay.record [ENDING ...]`; at a release,
`python -m tests.replay.record --release VERSION` notes which ones it leaves behind.

Runs each ending of an attempt, of a cohort, of a gang, of a fleet, of its rollouts, of a node's eviction or of a
placement against a real Temporal server (the one of the set-up), with scripted activities (fleets: the real ones on a
store in memory), and writes the run's history to `histories/<ending>.json`. Record new endings from the code that is
released, never over old files to make a failing replay pass: those runs exist out there.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.exceptions import ApplicationError

from tests.conftest import start_temporal
from tests.replay.call_scenes import CALL_SCENES
from tests.replay.cohort_scenes import COHORT_SCENES, ended
from tests.replay.fleet_scenes import FLEET_SCENES
from tests.replay.node_scenes import NODE_SCENES
from tests.replay.placement_scenes import PLACEMENT_SCENES
from tests.replay.rollout_scenes import ROLLOUT_SCENES
from tests.replay.update_run_scenes import UPDATE_RUN_SCENES
from tests.workflows.conftest import (
    QUICK,
    ScriptedScheduling,
    Stage,
    asking,
    gone,
    placed,
    preempting,
    refused,
    worker_for,
)
from tests.workflows.fleet_world import fleet_world
from tests.workflows.node_stage import node_stage
from tests.workflows.placement_stage import placement_stage
from tests.workflows.rollout_stage import rollout_stage
from tests.workflows.update_run_stage import update_run_stage
from wharfinger.scheduling.contracts.attempts import PermitDecision, Wake
from wharfinger.scheduling.contracts.eviction import Evicted
from wharfinger.scheduling.contracts.extenders import ExtendersFailed
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, PermitWait, Recorded, Rejected

HISTORIES = Path(__file__).parent / "histories"
RELEASES = Path(__file__).parent / "releases.json"
"""Release -> history -> its digest: what runs may be open out there when the next release replaces it."""

RECORDER = "recorder"
"""The name that stands in histories instead of a machine's."""

Scene = Callable[[Stage], Awaitable[tuple[str, int]]]
"""Plays an ending; answers the workflow id, and which run of its chain is the one to keep."""

WAKE = Wake(revision=15, event="NodeAdd", object="node-1", plugin="NodeResourcesFit")


async def bound(stage: Stage) -> tuple[str, int]:
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def parked_and_woken(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [refused(), placed(revision=20)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=7))
    await handle.signal("wake", WAKE)
    await handle.result()
    return handle.id, 0


async def bound_after_waiting(stage: Stage) -> tuple[str, int]:
    workflow_id, _ = await parked_and_woken(stage)
    return workflow_id, 1


async def safety_timer(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [refused(), placed()]
    handle = await stage.start(timings=QUICK.model_copy(update={"park": 0.2}))
    await handle.result()
    return handle.id, 0


async def refused_by_assumed_only(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [refused(only_assumed=True), placed()]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def rejected(stage: Stage) -> tuple[str, int]:
    stage.activities.binds = [Rejected(plugin="DefaultBinder", message="too large"), Bound(node="node-1", revision=9)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake())
    await handle.result()
    return handle.id, 0


async def held_and_permitted(stage: Stage) -> tuple[str, int]:
    hold = PermitWait(plugin="Quota", seconds=60)
    stage.activities.places = [placed().model_copy(update={"permit": hold})]
    handle = await stage.start()
    await handle.signal("permit")
    await handle.result()
    return handle.id, 0


async def held_and_refused(stage: Stage) -> tuple[str, int]:
    """A Permit plugin holds the pod, and a signal refuses it: the run records the refusal and parks."""
    hold = PermitWait(plugin="Quota", seconds=60)
    stage.activities.places = [placed().model_copy(update={"permit": hold}), placed(revision=20)]
    handle = await stage.start()
    await handle.signal("permit", PermitDecision(allowed=False, reason="over quota"))
    await stage.parked(handle.id, timers=2)
    await handle.signal("wake", WAKE)
    await handle.result()
    return handle.id, 0


async def held_without_an_answer(stage: Stage) -> tuple[str, int]:
    """A Permit plugin holds the pod, and no signal comes in time."""
    hold = PermitWait(plugin="Quota", seconds=0.2)
    stage.activities.places = [placed().model_copy(update={"permit": hold}), placed(revision=20)]
    handle = await stage.start()
    await stage.parked(handle.id, timers=2)
    await handle.signal("wake", WAKE)
    await handle.result()
    return handle.id, 0


async def preempted(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [preempting("low", "lower"), placed(revision=20)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", Wake(revision=15, event="AssignedPodDelete", object="default/low"))
    await handle.result()
    return handle.id, 0


async def victims_overdue(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [preempting(), placed()]
    stage.activities.evictions = [Evicted(evicted=("default/low",), leaving=0.2)]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def nominated_too_late(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [preempting(), placed()]
    stage.activities.records = [Recorded(revision=12, nominated=False)]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def gone_while_evicting(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [preempting()]
    stage.activities.evictions = [gone("deleted")]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def contended(stage: Stage) -> tuple[str, int]:
    stage.activities.binds = [Contended(message="node-1 was taken"), Bound(node="node-2", revision=14)]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def gone_before_placing(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [gone("bound", "node-9")]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def bound_by_a_cohort_before_placing(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [gone("bound", "node-9", bound_by="recorder/cohort/7@run")]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def replaced_while_binding(stage: Stage) -> tuple[str, int]:
    stage.activities.binds = [gone("deleted", cause="replaced", detail="another pod has the name now")]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def gone_while_binding(stage: Stage) -> tuple[str, int]:
    stage.activities.binds = [gone("deleted")]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def cancelled_while_parked(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [refused()]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.cancel()
    return await ended(handle)


async def cancelled_while_binding(stage: Stage) -> tuple[str, int]:
    stage.activities.binds = [Contended(message="taken")]

    async def cancel() -> None:
        await stage.client.get_workflow_handle(stage.workflow_id("web-1")).cancel()

    stage.activities.on_bind = cancel
    return await ended(await stage.start(name="web-1"))


async def error_recorded(stage: Stage) -> tuple[str, int]:
    error = ApplicationError("plugin Fussy failed in Filter: boom", type="SchedulerError", non_retryable=True)
    stage.activities.places = [error, placed()]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def behind(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [ApplicationError("this worker is behind", type="Behind"), placed()]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def wrong_id(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [ApplicationError("the right id is ...", type="WrongWorkflowId", non_retryable=True)]
    return await ended(await stage.start())


async def asked_and_bound(stage: Stage) -> tuple[str, int]:
    """An extender is asked twice about nodes, as all that it had left changed meanwhile."""
    stage.activities.places = [asking(), asking(question="which now?"), placed()]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def asked_and_preempted(stage: Stage) -> tuple[str, int]:
    """Extenders leave no node and then name the victims."""
    stage.activities.places = [asking(), asking("victims"), preempting(), placed(revision=20)]
    handle = await stage.start()
    await stage.parked(handle.id)
    await handle.signal("wake", WAKE)
    await handle.result()
    return handle.id, 0


async def extender_failed(stage: Stage) -> tuple[str, int]:
    stage.activities.places = [asking(), placed()]
    failed = ExtendersFailed(extender="http://extender", verb="filter", message="no answer within 5 s")
    stage.activities.answers = [failed]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def gone_while_asking(stage: Stage) -> tuple[str, int]:
    stage.activities.places, stage.activities.answers = [asking()], [gone("deleted")]
    handle = await stage.start()
    await handle.result()
    return handle.id, 0


async def invalid_input(stage: Stage) -> tuple[str, int]:
    return await ended(
        await stage.client.start_workflow(
            "ScheduleAttempt", {"namespace": "default"}, id=stage.workflow_id("bad"), task_queue=stage.queue
        )
    )


async def continued_with_policy(stage: Stage) -> tuple[str, int]:
    handle = await stage.client.start_workflow(
        "ScheduleAttempt",
        {"namespace": "default", "name": "web-1"},
        id=stage.workflow_id("web-1"),
        task_queue=stage.queue,
    )
    await handle.result()
    return handle.id, 0


SCENES: dict[str, Scene] = {
    scene.__name__: scene
    for scene in (
        bound,
        parked_and_woken,
        bound_after_waiting,
        safety_timer,
        refused_by_assumed_only,
        rejected,
        held_and_permitted,
        held_and_refused,
        held_without_an_answer,
        preempted,
        victims_overdue,
        nominated_too_late,
        gone_while_evicting,
        contended,
        gone_before_placing,
        bound_by_a_cohort_before_placing,
        replaced_while_binding,
        gone_while_binding,
        cancelled_while_parked,
        cancelled_while_binding,
        error_recorded,
        behind,
        wrong_id,
        asked_and_bound,
        asked_and_preempted,
        extender_failed,
        gone_while_asking,
        invalid_input,
        continued_with_policy,
    )
} | COHORT_SCENES
SCENES.update(CALL_SCENES)


def without_traces(value: Any) -> Any:
    """The history without stack traces: they name the paths of the machine that recorded it."""
    if isinstance(value, dict):
        return {key: without_traces(child) for key, child in value.items() if key != "stackTrace"}
    return [without_traces(child) for child in value] if isinstance(value, list) else value


async def record(address: str, endings: list[str]) -> None:
    client = await Client.connect(address, data_converter=pydantic_data_converter, identity=RECORDER)
    for ending in endings:
        if ending in FLEET_SCENES:
            await record_fleet(address, ending)
            continue
        if ending in NODE_SCENES:
            await record_node(client, ending)
            continue
        if ending in PLACEMENT_SCENES:
            await record_placement(client, ending)
            continue
        if ending in ROLLOUT_SCENES:
            await record_delivery(client, ending)
            continue
        if ending in UPDATE_RUN_SCENES:
            await record_update_run(client, ending)
            continue
        stage = Stage(client, ScriptedScheduling(), cluster=f"record-{ending.replace('_', '-')}")
        async with worker_for(stage):
            workflow_id, run = await SCENES[ending](stage)
            run_id = (await stage.runs(workflow_id))[run]
            history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
        write(ending, history)


async def record_fleet(address: str, ending: str) -> None:
    async with fleet_world(address, cluster=f"record-{ending.replace('_', '-')}", identity=RECORDER) as world:
        workflow_id, run = await FLEET_SCENES[ending](world)
        run_id = (await world.runs(workflow_id))[run]
        history = await world.client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    write(ending, history)


async def record_node(client: Client, ending: str) -> None:
    async with node_stage(client, f"record-{ending.replace('_', '-')}") as stage:
        history = await client.get_workflow_handle(await NODE_SCENES[ending](stage)).fetch_history()
    write(ending, history)


async def record_placement(client: Client, ending: str) -> None:
    async with placement_stage(client, f"record-{ending.replace('_', '-')}") as stage:
        workflow_id, run = await PLACEMENT_SCENES[ending](stage)
        run_id = (await stage.runs())[run]
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    write(ending, history)


async def record_delivery(client: Client, ending: str) -> None:
    async with rollout_stage(client, f"record-{ending.replace('_', '-')}") as stage:
        await ROLLOUT_SCENES[ending](stage)
        history = await stage.handle.fetch_history()
    write(ending, history)


async def record_update_run(client: Client, ending: str) -> None:
    async with update_run_stage(client, f"record-{ending.replace('_', '-')}") as stage:
        workflow_id, run = await UPDATE_RUN_SCENES[ending](stage)
        run_id = (await stage.runs())[run]
        history = await client.get_workflow_handle(workflow_id, run_id=run_id).fetch_history()
    write(ending, history)


def write(ending: str, history: WorkflowHistory) -> None:
    text = json.dumps(without_traces(history.to_json_dict()), indent=1)
    (HISTORIES / f"{ending}.json").write_text(text + "\n")
    print(f"{ending}: {len(history.events)} events")


def digest(history: Path) -> str:
    """What a recorded history is known by."""
    return hashlib.sha256(history.read_bytes()).hexdigest()


def release(version: str) -> None:
    """Note every history as one of that release."""
    releases = json.loads(RELEASES.read_text())
    releases[version] = {file.stem: digest(file) for file in sorted(HISTORIES.glob("*.json"))}
    RELEASES.write_text(json.dumps(releases, indent=1) + "\n")


def main() -> None:
    if sys.argv[1:2] == ["--release"]:
        release(sys.argv[2])
        return
    HISTORIES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, start_temporal(Path(folder)) as server:
        every = [*SCENES, *FLEET_SCENES, *NODE_SCENES, *PLACEMENT_SCENES, *ROLLOUT_SCENES, *UPDATE_RUN_SCENES]
        asyncio.run(record(server.address, sys.argv[1:] or every))


if __name__ == "__main__":
    main()
