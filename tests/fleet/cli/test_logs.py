"""`fleet logs`: the files of an agent's data folder, and where they are."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.cli.shell import Shell
from tests.fleet.fleet_records import Records, remove
from wharfinger.fleet.agent.processes import bound

NO_ETCD = "http://127.0.0.1:1"


@pytest.fixture
def fleet(shell: Shell, etcd_server: Any) -> Iterator[Records]:
    """Slot 7 has its third incarnation, on host-b."""
    records = Records(shell.namespace).fleet().grant(7, 3, host="host-b").grant(7, 2, host="host-a")
    records.write(etcd_server.url)
    yield records
    remove(etcd_server.url, *records.values)


def said(folder: Path, tenant: str, incarnation: int, text: str) -> Path:
    """Write a log as an agent's runtime does."""
    log = folder / "instances" / tenant / "7" / f"{incarnation}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(text)
    return log


def test_the_newest_incarnation_speaks_unless_another_is_named(shell: Shell, fleet: Records, tmp_path: Path) -> None:
    said(tmp_path, fleet.tenant, 2, "old\n")
    said(tmp_path, fleet.tenant, 3, "a\nb\nc\n")
    here = ("--data-dir", str(tmp_path))

    assert shell("fleet", "logs", fleet.tenant, "7", *here).out == "a\nb\nc\n"
    assert shell("fleet", "logs", fleet.tenant, "7", *here, "--tail", "2").out == "b\nc\n"
    assert shell("fleet", "logs", fleet.tenant, "7", *here, "--incarnation", "2").out == "old\n"


def test_logs_on_another_host_name_the_host_of_the_log(shell: Shell, fleet: Records, tmp_path: Path) -> None:
    said(tmp_path, fleet.tenant, 2, "old\n")

    answer = shell("fleet", "logs", fleet.tenant, "7", "-f", "--data-dir", str(tmp_path))

    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: the log of incarnation 3 of slot 7 is on host host-b: there, run `wharfinger fleet logs "
        f"{fleet.tenant} 7 --incarnation 3 -f --data-dir DIR`, DIR being its agent's\n"
    )
    assert "nothing is known of incarnation 9" in shell("fleet", "logs", fleet.tenant, "7", "--incarnation", "9").err
    assert "has no instance" in shell("fleet", "logs", fleet.tenant, "8").err
    assert "there is no fleet nobody" in shell("fleet", "logs", "nobody", "7").err
    assert shell("fleet", "logs", "../etc", "7").code == 2


def test_the_piece_that_was_set_aside_is_printed_before_the_last(outside: Shell, tmp_path: Path) -> None:
    log = said(tmp_path, "common", 4, "one\ntwo\n")
    bound(log, limit=1)
    said(tmp_path, "common", 4, "three\n")
    command = ("fleet", "logs", "common", "7", "--incarnation", "4", "--data-dir", str(tmp_path))

    assert outside(*command).out == "one\ntwo\nthree\n"
    assert outside(*command, "--tail", "2").out == "two\nthree\n"


@pytest.mark.usefixtures("hasty")
def test_the_folder_of_dev_has_the_agents_in_it_and_etcd_may_be_away(outside: Shell, tmp_path: Path) -> None:
    said(tmp_path / "agent", "common", 4, "hello\n")

    answer = outside("fleet", "logs", "common", "7", "--data-dir", str(tmp_path), "--etcd", NO_ETCD)

    assert (answer.code, answer.out) == (0, "hello\n")
    assert answer.err == "etcd does not answer: this is the newest log here\n"


def test_follow_goes_on_over_a_log_that_is_emptied(shell: Shell, fleet: Records, tmp_path: Path) -> None:
    log = said(tmp_path, fleet.tenant, 3, "one\n" * 100)
    command = [*forked.COMMAND, "fleet", "logs", fleet.tenant, "7", "-f", "--tail", "1", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, env=forked.variables(), stdout=subprocess.PIPE, text=True) as follow:
        assert follow.stdout is not None
        assert follow.stdout.readline() == "one\n"
        log.write_text("two\n")
        assert follow.stdout.readline() == "two\n"
        with log.open("a") as more:
            more.write("three\n")
        assert follow.stdout.readline() == "three\n"
        follow.send_signal(signal.SIGINT)

    assert follow.returncode == 130
