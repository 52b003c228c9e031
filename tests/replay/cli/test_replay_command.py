"""`wharfinger replay` as it is typed, on the archive that is checked in."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.shell import Answer, Shell, outside
from tests.patience import patient
from wharfinger.errors import UsageError
from wharfinger.replay.cli.replay import moment

__all__ = ["outside"]

FILE = Path(__file__).parents[1] / "demo.archive"
CONTENT = FILE.read_bytes()
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _log_level() -> Iterator[None]:
    """The command logs errors only, for as long as its process lives."""
    log = logging.getLogger("wharfinger")
    before = log.level
    yield
    log.setLevel(before)


def replayed(outside: Shell, *more: str) -> Answer:
    return outside("replay", "--archive", str(FILE), *more)


@pytest.mark.parametrize("mode", ["shadow", "rerun"])
def test_a_gate_does_not_pass_on_nothing(outside: Shell, mode: str) -> None:
    nothing = "--until", "2000-01-01", "--mode", mode, "-o", "json"

    judged = replayed(outside, *nothing, "--fail-on", "refused > 0")
    told = replayed(outside, *nothing)

    assert judged.code == 3
    assert judged.err.endswith("failed: nothing was replayed, so no condition can be judged\n")
    assert told.code == 0
    report = told.json
    assert (report["decisions"], report["until"]) == (0, "2000-01-01T00:00:00Z")
    assert report.get("sameShare") is None


def test_a_change_at_fault_is_refused_before_runs_are_read(outside: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wharfinger.replay.archive.spool.Spool.add", None)

    found = replayed(outside, "--set", "NodeResourcesFit.typo=1")

    assert found.code != 0
    assert "args.typo: unknown field" in found.err


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("1.5h", 5400),
        ("2026-03-01T11:00:00Z", 3600),
        ("2026-03-01T12:00:00+02:00", 7200),
        ("2026-03-01 11:59", 60),
        ("2026-03-01", 43_200),
    ],
)
def test_a_time_is_a_duration_or_rfc_3339_in_utc(text: str, seconds: int) -> None:
    found = moment(text, NOW)

    assert (NOW - found).total_seconds() == seconds
    assert found.tzinfo is UTC


@pytest.mark.parametrize("text", ["99999999999d", "20261126T160000", "2026-W10", "0001-01-01T00:00+09:00", "soon", ""])
def test_what_is_no_time_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="is no time: give a duration"):
        moment(text, NOW)


def test_a_span_that_is_still_to_come_is_refused(outside: Shell) -> None:
    found = replayed(outside, "--since", "2999-01-01")

    assert (found.code, found.out) == (2, "")
    assert "--since 2999-01-01 is still to come" in found.err


@pytest.mark.parametrize("mode", ["shadow", "rerun"])
def test_of_a_span_without_runs_is_told_what_there_is(outside: Shell, mode: str) -> None:
    found = replayed(outside, "--until", "2000-01-01", "--mode", mode)

    assert found.code == 0
    assert found.err == (
        f"{FILE}: no run in it began in this span; those that it has began from 2026-11-26T18:35:58Z to "
        "2026-11-26T18:36:41Z\n"
    )
    assert "PODS" not in found.out, "a table without a row"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("NoSuch.weight=3", "error: --set NoSuch.weight: there is no plugin NoSuch; known are SchedulingGates, "),
        ("NoSuch.some.argument=3", "error: --set NoSuch.some.argument: there is no plugin NoSuch; known are "),
        (
            "GpuMemory.weight=3",
            "error: --set GpuMemory.weight: profile default-scheduler does not enable GpuMemory, so it has no weight; "
            "it enables SchedulingGates, ",
        ),
    ],
)
def test_a_plugin_that_cannot_be_set_is_named_with_those_that_can(outside: Shell, setting: str, said: str) -> None:
    found = replayed(outside, "--set", setting)

    assert (found.code, found.out) == (2, "")
    assert found.err.startswith(said)
    assert found.err.count("\n") == 1


def test_a_file_that_cannot_be_written_is_told_before_the_replay(outside: Shell, tmp_path: Path) -> None:
    missing = replayed(outside, "--html", str(tmp_path / "none" / "report.html"), "--set", "NoSuch.weight=1")
    folder = replayed(outside, "--html", str(tmp_path))

    assert (missing.code, missing.err) == (
        2,
        f"error: --html {tmp_path}/none/report.html: there is no folder {tmp_path}/none\n",
    )
    assert (folder.code, folder.err) == (2, f"error: --html {tmp_path}: this is a folder; name a file\n")


def test_what_is_no_archive_is_one_line(outside: Shell, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nothing\n")
    (tmp_path / "damaged").write_bytes(bytes(255 - byte if at == 90_000 else byte for at, byte in enumerate(CONTENT)))
    (tmp_path / "torn").write_bytes(CONTENT[:1_000])
    said = {
        name: outside("replay", "--archive", str(tmp_path / name)) for name in ("none", "text", "damaged", "torn", ".")
    }

    assert {name: found.code for name, found in said.items()} == {
        "none": 2, "text": 1, "damaged": 1, "torn": 1, ".": 2,
    }  # fmt: skip
    assert all(found.out == "" and found.err.count("\n") == 1 for found in said.values())
    assert said["none"].err.endswith("none cannot be read: No such file or directory\n")
    assert said["text"].err.endswith("is no archive of replay\n")
    assert re.search(r"damaged at byte (\d+): .*; `truncate --size \1` keeps what is before it", said["damaged"].err)
    assert said["torn"].err.endswith("holds no complete pass: `wharfinger archive` writes it on\n")


def test_an_archive_of_another_cluster_is_not_written_on(outside: Shell, tmp_path: Path) -> None:
    file = tmp_path / "day.archive"
    file.write_bytes(CONTENT)

    found = outside("archive", str(file), "--cluster", "other")
    later = outside("archive", str(tmp_path / "new"), "--since", "2999-01-01")

    assert (found.code, found.out) == (2, "")
    assert found.err == (
        f"error: {file} is an archive of cluster wharfinger, not of other: name another file, or the cluster with "
        "--cluster\n"
    )
    assert file.read_bytes() == CONTENT
    assert (later.code, later.err) == (2, "error: --since 2999-01-01 is still to come\n")
    assert not (tmp_path / "new").exists()


STUCK = """
import sys, time

class Stuck:
    name = "Stuck"

    def filter_node(self, state, pod, node):
        print("deciding", file=sys.stderr, flush=True)
        time.sleep(600)
"""

INTERRUPTIBLE = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "runpy.run_module('wharfinger', run_name='__main__')"
)
"""As from a terminal, also where the tests run in the background."""


@pytest.mark.parametrize("mode", ["shadow", "rerun"])
def test_an_interrupt_ends_a_replay_wherever_it_is(tmp_path: Path, mode: str) -> None:
    """In the middle of a decision, where nothing is waited for."""
    (tmp_path / "stuck_plugin.py").write_text(STUCK)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    line = [sys.executable, "-c", INTERRUPTIBLE, "replay", "--archive", str(FILE), "--mode", mode]
    with subprocess.Popen(
        [*line, "--plugin", "stuck_plugin:Stuck"],
        env=os.environ | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        begun = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=patient(30))

    assert begun == "deciding\n"
    assert (process.returncode, output, error) == (130, "", "")
