"""Recorded histories replay on today's workflow code, in the sandbox.

A failure means: a worker with this code would break the runs that are open out there. Do not record the
file anew; put the change behind `workflow.patched`, and record a further history.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from tests import garbage
from tests.patience import patient
from tests.replay.fleet_scenes import FLEET_SCENES
from tests.replay.node_scenes import NODE_SCENES
from tests.replay.placement_scenes import PLACEMENT_SCENES
from tests.replay.record import HISTORIES, RELEASES, SCENES, digest
from tests.replay.rollout_scenes import ROLLOUT_SCENES
from tests.replay.update_run_scenes import UPDATE_RUN_SCENES
from tests.workflows.conftest import sandbox
from tests.workflows.incompatible_release import SleepsFirst
from wharfinger.workflows.bugs import BUGS
from wharfinger.workflows.fleet import Fleet
from wharfinger.workflows.node_eviction import NodeEviction
from wharfinger.workflows.roll_out_placement import RollOutPlacement
from wharfinger.workflows.rolling_update import RollingUpdate
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort
from wharfinger.workflows.schedule_placement import SchedulePlacement
from wharfinger.workflows.staged_update_run import StagedUpdateRun

definition = workflow._Definition.must_from_class
RELEASED: dict[str, dict[str, str]] = json.loads(RELEASES.read_text())
WORKFLOWS = (
    ScheduleAttempt,
    ScheduleCohort,
    Fleet,
    RollingUpdate,
    NodeEviction,
    SchedulePlacement,
    RollOutPlacement,
    StagedUpdateRun,
)
FILES = sorted(HISTORIES.glob("*.json"))
OF_3_11 = {"rollout_cancelled"}
"""Recorded by Python 3.11 before waits beside other tasks took the same turns on every Python."""
ON_ANY_PYTHON = [file for file in FILES if file.stem not in OF_3_11]
ON_THIS, ON_OTHERS = (ON_ANY_PYTHON, FILES) if sys.version_info >= (3, 12) else (FILES, ON_ANY_PYTHON)


async def wait_for_of_3_12(what: Awaitable[Any], timeout: float | None) -> Any:
    """As `asyncio.wait_for` is since Python 3.12."""
    async with asyncio.timeout(timeout):
        return await what


async def wait_for_of_3_11(what: Awaitable[Any], timeout: float | None) -> Any:
    """As `asyncio.wait_for` was until Python 3.11."""
    if timeout is None:
        return await what
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()
    over = loop.call_later(timeout, released, waiter)
    future = asyncio.ensure_future(what)
    tell = partial(released, waiter)
    future.add_done_callback(tell)
    try:
        try:
            await waiter
        except asyncio.CancelledError:
            if future.done():
                return future.result()
            future.remove_done_callback(tell)
            await ended(future)
            raise
        if future.done():
            return future.result()
        future.remove_done_callback(tell)
        await ended(future)
        raise TimeoutError
    finally:
        over.cancel()


def released(waiter: asyncio.Future[None], *_: object) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def ended(future: asyncio.Future[Any]) -> None:
    """Cancel it, and wait for its end."""
    waiter = asyncio.get_running_loop().create_future()
    future.add_done_callback(partial(released, waiter))
    future.cancel()
    await waiter


@pytest.fixture
def collected() -> Iterator[None]:
    yield
    garbage.collect()


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("file", ON_THIS, ids=lambda file: file.stem)
async def test_a_recorded_attempt_replays(file: Path) -> None:
    await replayed(file)


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("file", ON_OTHERS, ids=lambda file: file.stem)
async def test_a_history_replays_with_the_turns_of_other_pythons(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's waits with a time-out are `asyncio.wait_for`, whose turns of the loop are others since Python 3.12."""
    monkeypatch.setattr("asyncio.wait_for", wait_for_of_3_11 if sys.version_info >= (3, 12) else wait_for_of_3_12)

    await replayed(file)


async def replayed(file: Path, workflows: Sequence[type] = WORKFLOWS) -> None:
    """Replay the history on the one of these workflows that is of its type."""
    started = json.loads(file.read_text())["events"][0]["workflowExecutionStartedEventAttributes"]
    kind = started["workflowType"]["name"]
    # What looks after a fleet reads the cluster from its id; under another id its replay would never end.
    history = WorkflowHistory.from_json(started.get("workflowId", f"replay/{file.stem}"), file.read_text())
    replayer = Replayer(
        workflows=[one for one in workflows if definition(one).name == kind],  # the sandbox imports modules for each
        data_converter=pydantic_data_converter,
        workflow_runner=sandbox(),
    )

    async with asyncio.timeout(patient(5)):
        await replayer.replay_workflow(history)


@pytest.mark.parametrize("ending", ["bound", "parked_and_woken", "gone_before_placing"])
async def test_a_history_that_does_not_replay_fails_at_once(ending: str) -> None:
    with pytest.raises(NondeterminismError):
        await replayed(HISTORIES / f"{ending}.json", [SleepsFirst])


@pytest.mark.parametrize("one", WORKFLOWS, ids=lambda one: one.__name__)
def test_bugs_fail_a_run_and_code_that_does_not_fit_its_history_does_not(one: type) -> None:
    assert definition(one).failure_exception_types == BUGS
    assert not issubclass(NondeterminismError, BUGS)


def test_every_ending_has_its_history() -> None:
    assert {file.stem for file in FILES} >= {
        *SCENES,
        *FLEET_SCENES,
        *NODE_SCENES,
        *PLACEMENT_SCENES,
        *ROLLOUT_SCENES,
        *UPDATE_RUN_SCENES,
    }


def test_the_last_release_has_its_histories() -> None:
    changelog = (HISTORIES.parents[2] / "CHANGELOG.md").read_text()
    last = re.findall(r"^## \[([0-9][^\]]*)\]", changelog, re.MULTILINE)[0]

    assert last in RELEASED, f"python -m tests.replay.record --release {last}"


@pytest.mark.parametrize("version", RELEASED)
def test_the_histories_of_a_release_are_kept_as_they_were(version: str) -> None:
    kept = {file.stem: digest(file) for file in FILES}

    assert RELEASED[version].items() <= kept.items()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_history_names_no_machine(file: Path) -> None:
    text = file.read_text()

    assert "stackTrace" not in text
    assert '"identity": "recorder"' in text
    assert "@" not in text
