"""Passes of `wharfinger archive`: every run that decides is written once, whenever it decides and is listed."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from temporalio.client import Client
from temporalio.converter import DataConverter
from temporalio.service import RPCError, RPCStatusCode

from tests.replay.archive.test_archive import some_decisions
from tests.replay.replay_stage import Stage
from tests.scheduling.world import CLUSTER
from wharfinger.cli.options import ConnectionOptions
from wharfinger.errors import Unavailable, UsageError
from wharfinger.etcd.store import Store
from wharfinger.replay import histories
from wharfinger.replay.archive.archive_pass import BlockWriter, Passed
from wharfinger.replay.archive.archived import Archive
from wharfinger.replay.archive.archiving import ArchiveFile, ArchiveNotWritten
from wharfinger.replay.cli import archive as archive_command
from wharfinger.replay.cli.archive import _alone, _passed
from wharfinger.replay.histories import RunName, UnreadRun
from wharfinger.replay.memory_limit import UNLIMITED
from wharfinger.replay.recorded import DecidedRun


@dataclass
class Told:
    """Temporal, as far as passes ask it."""

    began: dict[str, float] = field(default_factory=dict)
    """Of the runs that it lists, seconds since 1970."""
    decided: dict[str, DecidedRun | UnreadRun] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Runs whose history it has."""
    fetched: list[str] = field(default_factory=list)
    data_converter = DataConverter.default

    def runs(self, run_id: str, began: float, decided: DecidedRun | None = None) -> None:
        """It lists this run from now on."""
        self.began[run_id] = began
        self.kept.add(run_id)
        if decided is not None:
            self.decided[run_id] = decided.model_copy(update={"run_id": run_id, "started": began})

    async def list_workflows(self, query: str, page_size: int) -> AsyncIterator[Any]:
        assert page_size
        since, until = (
            datetime.fromisoformat(found).timestamp()
            for found in re.findall(r"StartTime >?<?=? ?[\"']([^\"']+)", query)
        )
        for run_id, began in self.began.items():
            if since <= began < until:
                yield SimpleNamespace(
                    id=f"workflow/{run_id}", run_id=run_id, raw_info=SimpleNamespace(history_size_bytes=1)
                )

    def get_workflow_handle(self, workflow_id: str, *, run_id: str) -> Any:
        assert workflow_id == f"workflow/{run_id}"
        return SimpleNamespace(fetch_history=lambda: self._history(run_id))

    async def _history(self, run_id: str) -> Any:
        self.fetched.append(run_id)
        if run_id not in self.kept:
            raise RPCError("gone", RPCStatusCode.NOT_FOUND, b"")
        return SimpleNamespace(events=())


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    made = Told()
    monkeypatch.setattr(histories, "recorded_run", lambda name, _events: made.decided.get(name.run_id))
    return made


async def passed(stage: Stage, told: Told, out: ArchiveFile, now: float) -> Passed:
    told.fetched.clear()
    store = cast("Store", stage.world.store)
    return await _passed(out, store, (cast("Client", told), CLUSTER), datetime.fromtimestamp(now, UTC))


async def test_a_run_is_archived_whenever_it_decides_or_is_listed(stage: Stage, told: Told, tmp_path: Path) -> None:
    await some_decisions(stage, "one", "two", "three", "four")
    one, two, three, four = stage.runs
    out = ArchiveFile(tmp_path / "archive", CLUSTER, since=900.0)
    told.runs("before", 899.0, one)
    told.runs("prompt", 950.0, one)
    told.runs("slow", 960.0)

    await passed(stage, told, out, 1000.0)
    first = sorted(told.fetched)
    told.runs("slow", 960.0, two)
    told.runs("listed-late", 955.0, three)
    told.runs("next", 1001.0, four)
    out = ArchiveFile(tmp_path / "archive", CLUSTER)  # by another process
    second_pass = await passed(stage, told, out, 1060.0)
    second = sorted(told.fetched)
    third_pass = await passed(stage, told, out, 1120.0)

    assert first == ["prompt", "slow"]
    assert second == ["listed-late", "next", "slow"], "what is there already is not even read"
    assert (second_pass.runs, third_pass.runs, told.fetched) == (3, 0, [])
    written = [run.run_id for run in Archive.open(tmp_path / "archive").runs()]
    assert sorted(written) == ["listed-late", "next", "prompt", "slow"]


async def test_a_run_that_retention_takes_undecided_is_lost(stage: Stage, told: Told, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    told.runs("stuck", 950.0)
    out = ArchiveFile(file, CLUSTER)
    first = await passed(stage, told, out, 1000.0)
    for hour in range(2, 5):
        await passed(stage, told, out, hour * 3600.0)
    waited = out.reached.undecided
    told.kept.clear()

    last = await passed(stage, told, ArchiveFile(file, CLUSTER), 20_000.0)

    assert first.reached.undecided == waited == (("workflow/stuck", "stuck"),)
    assert (last.lost, last.reached.undecided) == (1, ())
    assert Archive.open(file).lost == 1


async def test_a_run_that_is_not_understood_is_lost_once(
    stage: Stage, told: Told, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "archive"
    told.runs("newer", 950.0)
    told.decided["newer"] = UnreadRun(
        RunName("workflow/newer", "newer"), "unreadable", "its decision is no JSON object"
    )
    out = ArchiveFile(file, CLUSTER)

    first = await passed(stage, told, out, 1000.0)
    second = await passed(stage, told, out, 1060.0)  # finds it again

    assert (first.lost, second.lost, Archive.open(file).lost) == (1, 0, 1)
    assert "archive_run_unreadable workflow=workflow/newer run=newer" in caplog.text


async def test_a_pass_that_fails_counts_no_run_as_lost(
    stage: Stage, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told.runs("newer", 950.0)
    told.decided["newer"] = UnreadRun(
        RunName("workflow/newer", "newer"), "unreadable", "its decision is no JSON object"
    )
    out = ArchiveFile(tmp_path / "archive", CLUSTER)

    def full(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as during:
        during.setattr(BlockWriter, "write", full)
        with pytest.raises(ArchiveNotWritten):
            await passed(stage, told, out, 1000.0)

    assert (await passed(stage, told, out, 1000.0)).lost == 1


async def test_one_process_at_a_time_writes_a_file_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "archive"
    with _alone(file):
        with pytest.raises(UsageError, match="by another process"), _alone(file):
            raise AssertionError
        file.write_bytes(b"kept")
    with _alone(file):
        pass

    mode = await asyncio.to_thread(os.stat, file)
    assert mode.st_mode & 0o777 == 0o600
    assert file.read_bytes() == b"kept"


async def test_a_pass_that_cannot_be_written_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = iter((ArchiveNotWritten("the disk is full"), Unavailable("no etcd"), KeyboardInterrupt()))

    @asynccontextmanager
    async def nothing(_connection: object) -> AsyncIterator[None]:
        yield

    async def fails(*_given: object) -> Passed:
        raise next(ends)

    monkeypatch.setattr("wharfinger.cli.connect.open_store", nothing)
    monkeypatch.setattr("wharfinger.cli.connect.open_temporal", AsyncMock())
    monkeypatch.setattr(archive_command, "_passed", fails)
    monkeypatch.setattr(archive_command, "EVERY", 0.0)
    connection = ConnectionOptions(cluster=CLUSTER)

    with pytest.raises(KeyboardInterrupt):
        await archive_command._followed(tmp_path / "archive", connection, datetime.now(UTC), UNLIMITED, None)

    assert [one.getMessage().split()[0] for one in caplog.records] == ["archive_pass_failed"] * 2
    assert not issubclass(ArchiveNotWritten, UsageError), "it ends with exit code 1: nothing is wrong with the command"
