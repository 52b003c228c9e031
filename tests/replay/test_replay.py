"""Recorded histories replay on today's workflow code, in the sandbox.

A failure means: a worker with this code would break the runs that are open out there. Do not record the
file anew; put the change behind `workflow.patched`, and record a further history.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests import garbage
from tests.replay.fleet_scenes import FLEET_SCENES
from tests.replay.node_scenes import NODE_SCENES
from tests.replay.placement_scenes import PLACEMENT_SCENES
from tests.replay.record import HISTORIES, RELEASES, SCENES, digest
from tests.replay.rollout_scenes import ROLLOUT_SCENES
from tests.replay.update_run_scenes import UPDATE_RUN_SCENES
from tests.workflows.conftest import sandbox
from wharfinger.workflows.fleet import Fleet
from wharfinger.workflows.node_eviction import NodeEviction
from wharfinger.workflows.roll_out_placement import RollOutPlacement
from wharfinger.workflows.rolling_update import RollingUpdate
from wharfinger.workflows.schedule_attempt import ScheduleAttempt
from wharfinger.workflows.schedule_cohort import ScheduleCohort
from wharfinger.workflows.schedule_placement import SchedulePlacement
from wharfinger.workflows.staged_update_run import StagedUpdateRun

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


@pytest.fixture
def collected() -> Iterator[None]:
    yield
    garbage.collect()


@pytest.mark.usefixtures("collected")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
async def test_a_recorded_attempt_replays(file: Path) -> None:
    started = json.loads(file.read_text())["events"][0]["workflowExecutionStartedEventAttributes"]
    workflow = next(known for known in WORKFLOWS if known.__name__ == started["workflowType"]["name"])
    # What looks after a fleet reads the cluster from its id; under another id its replay would never end.
    history = WorkflowHistory.from_json(started.get("workflowId", f"replay/{file.stem}"), file.read_text())
    replayer = Replayer(
        workflows=[workflow],  # the sandbox imports the modules anew for each
        data_converter=pydantic_data_converter,
        workflow_runner=sandbox(),
    )

    await replayer.replay_workflow(history)


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
