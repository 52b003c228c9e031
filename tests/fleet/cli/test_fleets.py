"""The commands that read fleets, on a real etcd and without any Temporal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.cli.shell import Shell
from tests.conftest import free_port, start_etcd
from tests.fleet.fleet_records import Records, ago, remove, status
from tests.patience import patient
from wharfinger.fleet.model.rollout import Running


@pytest.fixture
def fleet(shell: Shell, url: str) -> Iterator[Records]:
    """Records of a tenant of the test's own; they are deleted afterwards."""
    records = Records(shell.namespace)
    yield records
    remove(url, *records.values)


def observed(records: Records, url: str, **fields: Any) -> None:
    """Write them, and then a status that has seen the object as it is."""
    found = Records(records.tenant).status(status(observed_generation=records.write(url), **fields))
    found.write(url)
    records.values |= found.values


def test_get_lists_fleets_one_line_each(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=2).actor().serving(0).serving(1, revision=1)
    other = Records(f"{fleet.tenant}-b").fleet(replicas=1)
    other.write(url)
    fleet.write(url)

    lines = [line.split() for line in shell("fleet", "get").out.splitlines()]
    one = shell("fleet", "get", fleet.tenant, "-o", "json").json
    remove(url, *other.values)

    assert lines[0] == ["TENANT", "WANTED", "READY", "UPDATED", "OUTDATED", "REVISION", "ROLLOUT", "AGE"]
    assert [fleet.tenant, "2", "2", "1", "1", "2", "Pending"] in [line[:-1] for line in lines]
    assert [f"{fleet.tenant}-b", "1", "0", "0", "0", "-", "Pending"] in [line[:-1] for line in lines]
    assert (one["kind"], one["spec"]["replicas"]) == ("SchedulerFleet", 2)
    assert (one["status"]["ready"], one["status"]["updated"], one["status"]["rollout"]) == (2, 1, "Pending")


def test_missing_fleet_is_reported(shell: Shell, fleet: Records) -> None:
    for command in (("get",), ("status",), ("history",), ("status", "-w")):
        answer = shell("fleet", *command, "nobody")
        assert (answer.code, answer.err) == (1, "error: there is no fleet nobody\n")


@pytest.mark.parametrize("name", ["", "a/b", "Gold_!"])
def test_a_name_that_no_fleet_can_have_is_wrong_usage(shell: Shell, name: str) -> None:
    for command in (("status",), ("history",), ("diff",), ("wait", "--for", "ready"), ("pause",)):
        answer = shell("fleet", *command, name)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"error: tenant {name!r} is no DNS label, or one of the reserved names ")


def test_the_status_of_one_fleet_has_nothing_of_one_whose_name_goes_on(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=1).serving(0).write(url)
    other = Records(f"{fleet.tenant}-b").fleet(replicas=5, deletionTimestamp=ago(1)).actor(9).serving(0).serving(1)
    other.write(url)

    found = shell("fleet", "status", fleet.tenant, "-o", "json").json
    remove(url, *other.values)

    assert (found["replicas"], found["revision"], len(found["slots"])) == (1, 0, 1)


def test_status_shows_slots_conditions_and_waits(shell: Shell, url: str, fleet: Records) -> None:
    step = Running("up", 1, 2, "slot 1: waits", seen=30.0, limit=300.0)
    fleet.fleet(replicas=2).actor().revision(2).host().serving(0).grant(1, 2)
    fleet.instance(1, 2, "starting", waiting_for="caches not synced")
    observed(fleet, url, running=(step,), rollout="running", generation=5)

    text = shell("fleet", "status", fleet.tenant).out

    assert "Instances:        2 wanted, 1 ready, 1 updated, 0 outdated\n" in text
    assert "Rollout:          Running (generation 5)\n" in text
    assert "  slot 1: /readyz says caches not synced, " in text
    found = shell("fleet", "status", fleet.tenant, "-o", "json").json
    assert [(life["slot"], life["phase"]) for life in found["slots"]] == [(0, "ready"), (1, "starting")]
    assert found["waiting"][0].startswith("slot 1: /readyz says caches not synced")
    assert shell("fleet", "status", fleet.tenant, "-w", "-o", "json").code == 2


def test_status_watch_prints_again_what_changed(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=1).grant(0).instance(0, state="starting").write(url)
    with subprocess.Popen(
        [*forked.COMMAND, "fleet", "status", "-w", fleet.tenant],
        env=forked.variables(),
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as watch:
        assert watch.stdout is not None
        assert any("0 ready" in line for line in iter(watch.stdout.readline, ""))
        Records(fleet.tenant).instance(0).write(url)
        assert any("1 ready" in line for line in iter(watch.stdout.readline, ""))
        remove(url, *fleet.values)
        assert any("there is no fleet" in line for line in iter(watch.stdout.readline, ""))
        watch.send_signal(signal.SIGINT)

    assert watch.returncode == 130


def test_status_watch_redraws_on_a_terminal_until_interrupted(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=1).grant(0).instance(0, state="starting", waiting_for="caches not synced").write(url)
    with on_a_terminal(fleet, lines=40) as (watch, ours):
        shown = _until(ours, b"caches not synced")
        Records(fleet.tenant).instance(0).write(url)
        shown = _until(ours, b"1 ready")
        shown += _interrupted(watch, ours)

    assert watch.returncode == 130
    assert b"\x1b[" in shown  # moved the cursor up, and showed it again


def test_status_watch_shows_that_a_low_terminal_hides_some(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=9).write(url)
    with on_a_terminal(fleet, lines=4) as (watch, ours):
        shown = _until(ours, b"Revision:")
        shown += _interrupted(watch, ours)

    assert b"..." in shown


@contextmanager
def on_a_terminal(fleet: Records, lines: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """`fleet status -w` on a terminal of so many lines, and the end of it that shows what it writes."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [*forked.COMMAND, "fleet", "status", "-w", fleet.tenant],
        stdout=theirs,
        stderr=theirs,
        env=forked.variables({**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": str(lines)}),
    ) as watch:
        os.close(theirs)
        yield watch, ours
    os.close(ours)


def _interrupted(watch: subprocess.Popen[bytes], terminal: int) -> bytes:
    """What it writes from Ctrl-C to its end."""
    watch.send_signal(signal.SIGINT)
    shown = _until(terminal, b"\x1b[?25h")  # before its end: output that is not read would delay that
    watch.wait(patient(30))
    return shown


def _until(terminal: int, wanted: bytes) -> bytes:
    """What a program writes until it has written this; ends when it has ended."""
    shown = b""
    while wanted not in shown:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # EIO: the other end is closed
            pytest.fail(f"ended without {wanted!r}: {shown!r}")
    return shown


def test_history_lists_revisions_and_their_templates(shell: Shell, url: str, fleet: Records) -> None:
    assert shell("fleet", "history", fleet.tenant).code == 1
    fleet.fleet().actor().write(url)
    assert "no revision yet" in shell("fleet", "history", fleet.tenant).err
    fleet.revision(1, "completed", {"version": "v1"}).revision(2, template={"version": "v2"}).write(url)

    lines = [line.split() for line in shell("fleet", "history", fleet.tenant).out.splitlines()]
    found = shell("fleet", "history", fleet.tenant, "-o", "json").json

    assert [line[:2] for line in lines] == [["REVISION", "OUTCOME"], ["1", "completed"], ["2", "*"]]
    assert [(entry["revision"], entry["outcome"], entry["template"]) for entry in found] == [
        (1, "completed", {"version": "v1"}),
        (2, None, {"version": "v2"}),
    ]


def test_host_list_shows_agents_and_cordons(shell: Shell, url: str, fleet: Records) -> None:
    name = f"host-{fleet.tenant}"
    fleet.fleet().host(name, capacity=4).cordon(name).grant(0, host=name).write(url)

    lines = [line.split() for line in shell("host", "list").out.splitlines()]
    found = shell("host", "list", "-o", "json").json

    assert [name, "Ready,Cordoned", "1", "4", "(own)", "yes"] in [line[:6] for line in lines]
    (one,) = [entry for entry in found if entry["name"] == name]
    assert (one["agent"]["bootId"], one["cordon"]["who"], one["instances"]) == ("b", "ann", 1)
    assert json.dumps(found)


def waiting_for(fleet: Records, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*forked.COMMAND, "fleet", "wait", fleet.tenant, *options],
        env=forked.variables(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        bufsize=1,
    )


def test_wait_ends_when_it_is_so(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=1).revision(2).actor().grant(0).instance(0, state="starting")
    observed(fleet, url, replicas=1, ready=0, updated=0, rollout="running", phase="brings slot 0 up")
    with waiting_for(fleet) as wait:
        assert wait.stderr is not None
        assert wait.stderr.readline() == "waits: brings slot 0 up\n"
        fleet.instance(0).revision(2, "completed")
        observed(fleet, url, replicas=1, ready=1, updated=1, rollout="completed")
        out, _ = wait.communicate(timeout=patient(30))

    assert (wait.returncode, out) == (
        0,
        f"fleet {fleet.tenant} is complete: 1 of 1 instances are ready on revision 2\n",
    )


def test_exit_code_of_wait_shows_why_it_ended(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=2).actor().revision(2, "failed").serving(0)
    observed(fleet, url, rollout="failed")

    failed = shell("fleet", "wait", fleet.tenant)
    late = shell("fleet", "wait", fleet.tenant, "--for", "ready", "--timeout", "3s")

    assert (failed.code, late.code) == (1, 3)
    assert failed.err.endswith("will not be complete: the rollout of revision 2 failed: since-2\n")
    assert late.err.endswith("is not ready after 3s: 1 of 2 instances are ready\n")
    assert shell("fleet", "wait", "nobody", "--for", "deleted").code == 0
    assert shell("fleet", "wait", "nobody").code == 1
    assert shell("fleet", "wait", fleet.tenant, "--for", "luck").code == 2
    assert shell("fleet", "wait", fleet.tenant, "--timeout", "soon").code == 2


@pytest.mark.servers
def test_wait_retries_while_etcd_cannot_be_reached_and_reports_it_once(tmp_path: Path) -> None:
    port = free_port()
    with waiting_for(Records("nobody"), "--for", "deleted", "--etcd", f"http://127.0.0.1:{port}") as wait:
        assert wait.stderr is not None
        assert wait.stderr.readline().startswith(f"waits: cannot reach etcd at http://127.0.0.1:{port} (")
        with start_etcd(tmp_path, port):
            out, err = wait.communicate(timeout=patient(40))

    assert (wait.returncode, out, err) == (0, "fleet nobody is deleted: there is no such fleet\n", "")


def test_wait_without_etcd_ends_as_when_the_time_is_over(shell: Shell) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    late = shell("fleet", "wait", "nobody", "--timeout", "2s", "--etcd", address)

    waits, error = late.err.splitlines()
    assert (late.code, late.out) == (3, "")
    assert waits.startswith(f"waits: cannot reach etcd at {address}")
    assert error.startswith(f"error: fleet nobody is not complete after 2s: cannot reach etcd at {address}")


def test_wait_for_the_end_of_a_fleet_sees_its_last_key_go(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=1, deletionTimestamp=ago(1)).serving(0).write(url)
    with waiting_for(fleet, "--for", "deleted") as wait:
        assert wait.stderr is not None
        assert wait.stderr.readline() == "waits: 1 instance is left\n"
        remove(url, *fleet.values)
        out, _ = wait.communicate(timeout=patient(30))

    assert (wait.returncode, out) == (0, f"fleet {fleet.tenant} is deleted: there is no such fleet\n")


def test_diff_finds_the_fleet_among_other_objects_of_a_file(shell: Shell, url: str, fleet: Records) -> None:
    fleet.fleet(replicas=2, template={"version": "v1"}).revision(1, "completed", {"version": "v1"}).write(url)
    wanted = {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": fleet.tenant},
        "spec": {"template": {"version": "v2"}},
    }
    file = shell.file([shell.node(), wanted])

    shown = shell("fleet", "diff", fleet.tenant, "-f", file)

    assert [line for line in shown.out.splitlines()[2:] if line[0] in "+-"] == ["-  version: v1", "+  version: v2"]
    assert shell("fleet", "diff", fleet.tenant).err == "no difference\n"
    assert shell("fleet", "diff", fleet.tenant, "--revision", "1").err == "no difference\n"
    other = shell("fleet", "diff", f"{fleet.tenant}-b", "-f", file)
    assert (other.code, f"only schedulerfleet/{fleet.tenant}" in other.err) == (2, True)
    assert shell("fleet", "diff", fleet.tenant, "-f", file, "--revision", "1").code == 2
