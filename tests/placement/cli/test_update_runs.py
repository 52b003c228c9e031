"""`wharfinger update-run` on a store in memory: start, plan, status, approve, stop, resume, retry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.fleet.agent.hosts import until
from tests.patience import patient
from tests.placement.run_scene import APPROVAL, RUN, RunScene, run_object, stage, strategy_object
from wharfinger.cli import connect
from wharfinger.cli.files import Manifest
from wharfinger.cli.objects import writing
from wharfinger.cli.output import Output
from wharfinger.objects.documents.kinds import reference
from wharfinger.placement.cli.update_runs import watch_run
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import RETRIES, RunApprovalRecord, RunRetryRecord
from wharfinger.placement.reading.update_runs import state_changes
from wharfinger.testing.memory_store import MemoryStore

CANARY = stage("canary", {"name": "b"})
PROD = stage("prod", maxConcurrency=2, beforeStageTasks=[APPROVAL]) | {
    "labelSelector": {"matchExpressions": [{"key": "name", "operator": "NotIn", "values": ["b"]}]}
}
START = ("update-run", "start", RUN, "--placement", "web", "--strategy", "slowly")


class Desk:
    """Command lines and a scene on one store, on one event loop."""

    def __init__(self, shell: Shell, scene: RunScene, loop: asyncio.AbstractEventLoop) -> None:
        self.shell, self.scene, self._loop = shell, scene, loop

    def do(self, work: Coroutine[Any, Any, Any], *, watch: bool = False) -> Any:
        """Run it, as `connect.run` does."""
        return self._loop.run_until_complete(work)

    def __call__(self, *line: str, code: int = 0) -> str:
        """Run a command line; what it printed, or the error."""
        found = self.shell("update-run", *line)
        assert found.code == code, found.err
        return found.err if code else found.out


@pytest.fixture
def desk(outside: Shell, monkeypatch: pytest.MonkeyPatch) -> Desk:
    loop = asyncio.new_event_loop()
    desk = Desk(outside, RunScene(), loop)

    @asynccontextmanager
    async def opened(connection: object, *, within: float = 0.0) -> AsyncIterator[MemoryStore]:
        yield desk.scene.store

    monkeypatch.setattr(connect, "open_store", opened)
    monkeypatch.setattr(connect, "run", desk.do)
    desk.do(desk.scene.arrange(CANARY, PROD))
    return desk


def started(desk: Desk) -> None:
    desk.do(desk.scene.put(run_object()))
    desk.do(desk.scene.settle())


# --- start ---


def test_start_makes_the_object_of_a_run(desk: Desk) -> None:
    assert desk(*START[1:], "--snapshot", "1").startswith(f"update run {RUN} starts")
    kv = desk.do(desk.scene.store.get(placement_keys.update_run("", RUN))).kv
    obj = json.loads(kv.value)
    assert (obj["kind"], obj["spec"]["state"], obj["spec"]["resourceSnapshotIndex"]) == (
        "ClusterStagedUpdateRun",
        "Run",
        "1",
    )
    assert desk.do(desk.scene.settle()).approvals == ()
    assert desk.do(desk.scene.has()) == {"b": 1}


def test_start_can_plan_only_and_supersede(desk: Desk) -> None:
    desk(*START[1:], "--snapshot", "1", "--plan-only", "--supersede")
    desk.do(desk.scene.settle())
    assert desk.do(desk.scene.has()) == {}
    assert desk.scene.view.update_runs.runs[placement_keys.update_run("", RUN)].supersedes
    assert desk("resume", RUN) == f"update run {RUN} goes on\n"
    desk.do(desk.scene.settle())
    assert desk.do(desk.scene.has()) == {"b": 1}


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ((RUN, "--placement", "other", "--strategy", "slowly"), "there is no placement other"),
        ((RUN, "--placement", "web", "--strategy", "fast"), "there is no strategy fast"),
        ((RUN, "--placement", "web", "--strategy", "slowly", "-n", "team"), "there is no placement web"),
    ],
)
def test_start_needs_placement_and_strategy(desk: Desk, line: tuple[str, ...], told: str) -> None:
    assert told in desk("start", *line, code=1)


def test_a_run_of_that_name_is_not_started_twice(desk: Desk) -> None:
    desk(*START[1:])
    assert "exists already" in desk(*START[1:], code=1)


@pytest.mark.parametrize("name", ["No Name", "a/b", "x" * 300])
def test_a_name_that_no_run_can_have_is_refused(desk: Desk, name: str) -> None:
    assert "names no update run" in desk("status", name, code=2)


# --- plan ---


def test_plan_shows_what_a_run_would_do_and_writes_nothing(desk: Desk) -> None:
    before = desk.do(desk.scene.store.get("x")).revision
    told = desk("plan", "--placement", "web", "--strategy", "slowly")
    assert told.splitlines()[0] == "cluster/web, snapshot a new one"
    assert [line.split()[:2] for line in told.splitlines()[2:]] == [["canary", "b"], ["prod", "a"], ["c", "nothing"]]
    assert desk.do(desk.scene.store.get("x")).revision == before


def test_plan_shows_the_frozen_plan_of_a_run(desk: Desk) -> None:
    started(desk)
    desk.do(desk.scene.put(strategy_object(stage("all"))))
    found = json.loads(desk("plan", RUN, "-o", "json"))
    assert (found["frozen"], [one["stage"] for one in found["stages"]]) == (True, ["canary", "prod"])
    assert found["stages"][1]["before"] == ["Approval"]


def test_plan_tells_why_there_can_be_none(desk: Desk) -> None:
    desk.do(desk.scene.put(strategy_object(CANARY)))
    assert "no stage selects a, c" in desk("plan", "--placement", "web", "--strategy", "slowly", code=2)
    assert "give the name of a run, or" in desk("plan", code=2)


# --- status ---


def test_status_shows_stages_and_members(desk: Desk) -> None:
    started(desk)
    told = desk("status", RUN).splitlines()
    assert told[:2] == [f"{RUN} of cluster/web, snapshot 1", "running: waits for b"]
    assert [line.split() for line in told[3:]] == [
        ["canary", "started"],
        ["b", "updating"],
        ["prod", "not", "started"],
        ["a", "waiting"],
        ["c", "waiting"],
    ]


def test_status_shows_a_wait_and_an_approval_of_one_stage(desk: Desk) -> None:
    tasks = [{"type": "TimedWait", "waitTime": "30s"}, APPROVAL]
    desk.do(desk.scene.put(strategy_object(stage("all", maxConcurrency=3, afterStageTasks=tasks))))
    started(desk)
    desk.do(desk.scene.answer())
    desk.do(desk.scene.settle())
    told = desk("status", RUN)
    assert "at most 30 s of its wait are left; waits for approval all.after" in told


def test_status_is_there_before_a_hub_has_begun(desk: Desk) -> None:
    desk(*START[1:])
    found = json.loads(desk("status", RUN, "-o", "json"))
    assert (found["phase"], found["stages"], found["outcome"]) == ("planning", [], None)
    assert desk("status", "other", code=1) == "error: update run other does not exist\n"


async def test_a_watch_goes_on_until_the_run_ends(capsys: pytest.CaptureFixture[str]) -> None:
    scene = RunScene()
    await scene.arrange(stage("all", maxConcurrency=3))
    await scene.put(run_object())
    await scene.settle()
    watching = asyncio.create_task(watch_run(scene.store, (RUN, ""), Output.TABLE, apart=0.01, anyway=0.05))
    told = ""

    async def shown() -> bool:
        nonlocal told
        told += capsys.readouterr().out
        return "running" in told

    await until(shown)
    await scene.answer()
    await scene.settle()
    async with asyncio.timeout(patient(20)):
        await watching
    told += capsys.readouterr().out
    assert told.index("running") < told.index("succeeded")


# --- approve, stop, resume, retry ---


def test_approve_puts_the_approval_of_a_waiting_stage(desk: Desk) -> None:
    started(desk)
    assert "does not wait for approval prod.before: waits for b" in desk("approve", RUN, "prod", "before", code=2)
    desk.do(desk.scene.answer())
    desk.do(desk.scene.settle())
    told = desk("approve", RUN, "prod", "before", "--why", "looks well")
    assert told == f"update run {RUN}: prod.before is approved\n"
    identity = desk.do(desk.scene.identity())
    kv = desk.do(desk.scene.store.get(placement_keys.run_approval("cluster/web", RUN, identity, "prod.before"))).kv
    assert RunApprovalRecord.model_validate_json(kv.value).why == "looks well"
    assert "is approved already" in desk("approve", RUN, "prod", "before", code=2)
    (shown,) = json.loads(desk("status", RUN, "-o", "json"))["stages"][1]["approvals"]
    assert (shown["approval"], shown["why"]) == ("prod.before", "looks well")
    desk.do(desk.scene.settle())
    assert desk.do(desk.scene.has()) == {"a": 1, "b": 1, "c": 1}


def test_an_approval_is_refused_when_the_run_has_moved_on(desk: Desk) -> None:
    started(desk)
    desk.do(desk.scene.answer())
    desk.do(desk.scene.settle())

    async def hurry(compares: Any, operations: Any) -> None:
        desk.scene.store.before_txn = None
        await desk.scene.state("Stop")
        await desk.scene.turn()

    desk.scene.store.before_txn = hurry
    assert "the run has moved on" in desk("approve", RUN, "prod", "before", code=2)
    assert desk("approve", RUN, "prod", "before")  # given while stopped, it counts on resume
    desk("resume", RUN)
    desk.do(desk.scene.settle())
    assert desk.do(desk.scene.has()) == {"a": 1, "b": 1, "c": 1}


def test_stop_and_resume_change_the_state_once(desk: Desk) -> None:
    started(desk)
    assert desk("stop", RUN) == f"update run {RUN} is stopped\n"
    assert desk("stop", RUN) == f"update run {RUN} was stopped already\n"
    desk.do(desk.scene.answer())
    assert desk.do(desk.scene.settle()).phase == "stopped"
    assert json.loads(desk("status", RUN, "-o", "json"))["state"] == "Stop"
    assert desk("resume", RUN) == f"update run {RUN} goes on\n"
    assert desk.do(desk.scene.settle()).approvals == ("prod.before",)
    assert "does not exist" in desk("stop", "other", code=1)


def test_who_stops_and_resumes_a_run_is_noted_with_why(desk: Desk) -> None:
    started(desk)
    desk("stop", RUN, "--why", "the dashboards are red")
    desk("resume", RUN)

    kv = desk.do(desk.scene.store.get(placement_keys.update_run("", RUN))).kv
    resumed, stopped = state_changes(json.loads(kv.value))
    assert (stopped["state"], stopped["why"]) == ("Stop", "the dashboards are red")
    assert (resumed["state"], resumed["why"]) == ("Run", "")
    assert stopped["who"] == resumed["who"] != ""


def test_a_run_that_has_ended_is_neither_stopped_nor_resumed(desk: Desk) -> None:
    desk.do(desk.scene.put(strategy_object(stage("all", maxConcurrency=3))))
    started(desk)
    desk.do(desk.scene.answer())
    desk.do(desk.scene.settle())
    for line in ("stop", "resume"):
        told = f"error: run {RUN} has ended (succeeded): start another one\n"
        assert desk(line, RUN, code=2) == told
    assert json.loads(desk("status", RUN, "-o", "json"))["state"] == "Run"


def test_a_run_that_has_failed_is_resumed_only_after_a_retry(desk: Desk) -> None:
    desk.do(desk.scene.put(strategy_object(stage("all", maxConcurrency=3, onFailure="Abort"))))
    started(desk)
    desk("stop", RUN)
    desk.do(desk.scene.answer(available=False, failed=True))
    desk.do(desk.scene.settle())
    told = desk("resume", RUN, code=2)
    assert told.startswith(f"error: run {RUN} has ended (aborted: stage all: 3 of 3 failed (a, b, c)")
    assert told.endswith("): retry and resume it, or start another one\n")
    desk("retry", RUN)
    assert desk("resume", RUN) == f"update run {RUN} goes on\n"


def test_a_planned_run_cannot_be_stopped(desk: Desk) -> None:
    desk(*START[1:], "--plan-only")
    assert "may not change from Initialize to Stop" in desk("stop", RUN, code=2)
    assert "is not started: resume it" in desk("retry", RUN, code=2)


def test_retry_counts_in_the_records_of_the_run(desk: Desk) -> None:
    started(desk)
    desk.do(desk.scene.answer(available=False, failed=True))
    desk.do(desk.scene.settle())
    assert "a retry tries them again" in desk("status", RUN)
    assert desk("retry", RUN, "--why", "fixed") == f"update run {RUN} tries again (retry 1)\n"
    assert desk("retry", RUN) == f"update run {RUN} tries again (retry 2)\n"
    kv = desk.do(desk.scene.store.get(desk.do(desk.scene.key(RETRIES)))).kv
    assert RunRetryRecord.model_validate_json(kv.value).count == 2
    desk.do(desk.scene.settle())
    assert desk.scene.written == ["b", "b"]


# --- objects ---


def test_describe_shows_the_phase_of_a_run(desk: Desk) -> None:
    started(desk)
    found = desk.shell("describe", "csur", RUN)
    assert found.code == 0, found.err
    assert "running: waits for b" in found.out


def manifest(obj: dict[str, Any]) -> Manifest:
    return Manifest("m.yaml", reference(obj, "default"), obj)


async def test_apply_checks_strategies_and_runs() -> None:
    store = MemoryStore()
    wrong = await writing.write(store, manifest(strategy_object({"name": "No"})), uid="u", now="t")
    assert wrong.result == "refused"
    right = await writing.write(store, manifest(strategy_object(stage("all"))), uid="u", now="t")
    assert (right.result, right.notes) == ("created", ())
    assert (await writing.write(store, manifest(run_object()), uid="u", now="t")).result == "created"
    moved = await writing.write(store, manifest(run_object(snapshot="2")), uid="u", now="t")
    assert moved.problems == ("spec.resourceSnapshotIndex: may not change; it is 1",)
