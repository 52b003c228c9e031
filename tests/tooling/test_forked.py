"""Commands that are forks of one process are to tests what commands with interpreters of their own are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import fork_server, forked
from tests.forked import COMMAND, WANTED, Forked
from tests.integration.dev_tree import wait_until
from wharfinger.dev import processes
from wharfinger.process.children import lives
from wharfinger.testing import node_manifest, pod_manifest

pytestmark = [
    pytest.mark.long,  # commands are forks in tests with servers only, and those are left out of `make check` as well
    pytest.mark.skipif(not fork_server.supported(), reason="only Linux makes a process another one's child"),
]

Follow = Callable[..., Forked]


def followed(folder: Path) -> tuple[str, ...]:
    """A command that needs no server and runs until it is ended: it follows a log, whose first line is `one`."""
    log = folder / "instances" / "common" / "3" / "7.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\n")
    return ("fleet", "logs", "common", "3", "-f", "--data-dir", str(folder), "--etcd", "http://127.0.0.1:9")


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """Starts such a command, with more variables than ours."""
    words = followed(tmp_path)
    started: list[Forked] = []

    def start(**more: str) -> Forked:
        started.append(Forked(words, {**os.environ, **more}, tmp_path / "out", tmp_path / "err"))
        wait_until(lambda: "one" in (tmp_path / "out").read_text(), 30, "the command runs")
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def shown(pid: int, what: str) -> list[str]:
    """What /proc shows of a process."""
    return [part for part in Path(f"/proc/{pid}/{what}").read_text().split("\0") if part]


def test_a_fork_imports_nothing_anew_and_answers_as_a_command() -> None:
    told = forked.run("--version", env=os.environ, timeout=60)
    wrong = forked.run("worker", "--no-such-option", env=os.environ, timeout=60)

    plain = subprocess.run([*COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert (told.returncode, told.stdout, told.stderr) == (0, plain.stdout, "")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "--no-such-option" in wrong.stderr


def test_standard_input_reaches_a_fork() -> None:
    given = "\n---\n".join(map(json.dumps, (node_manifest("n"), pod_manifest("a"))))

    told = forked.run("simulate", "-f", "-", "-o", "json", env=os.environ, stdin=given, timeout=60)

    assert told.stderr == ""
    assert [one["node"] for one in json.loads(told.stdout)["pods"]] == ["n"]


def test_a_fork_is_our_child_and_shows_its_own_line_and_variables(follow: Follow) -> None:
    process = follow(ONLY_HERE="yes")

    assert process.pid in processes.children(os.getpid())
    assert shown(process.pid, "cmdline")[:5] == [*COMMAND, "fleet", "logs"]
    variables = shown(process.pid, "environ")
    assert "ONLY_HERE=yes" in variables
    assert not any(variable.startswith((WANTED, fork_server.PADDING)) for variable in variables)
    assert lives.life(process.pid) not in (None, lives.life(os.getpid()))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)],
)
def test_a_signal_ends_a_fork_as_it_ends_any_command(number: signal.Signals, code: int, follow: Follow) -> None:
    process = follow()
    os.kill(process.pid, signal.SIGSTOP)
    assert os.waitid(os.P_PID, process.pid, os.WSTOPPED) is not None
    os.kill(process.pid, signal.SIGCONT)
    os.kill(process.pid, number)

    assert process.wait(60) == code


def test_fork_has_a_session_a_folder_and_kept_descriptors(tmp_path: Path) -> None:
    """As an agent starts an instance: its lock stays with it, and its session is its own."""
    folder = tmp_path / "here"
    folder.mkdir()
    with (
        (tmp_path / "lock").open("wb") as lock,
        subprocess.Popen(
            [*COMMAND, *followed(tmp_path)],
            cwd=folder,
            env=forked.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(lock.fileno(),),
        ) as process,
    ):
        assert process.stdout is not None
        assert any(said == b"one\n" for said in process.stdout)
        state = Path(f"/proc/{process.pid}")
        kept = {int(entry.name): entry.readlink() for entry in (state / "fd").iterdir()}
        sessions = (os.getsid(process.pid), os.getpgid(process.pid))
        at, locked = (state / "cwd").readlink(), kept[lock.fileno()]
        process.kill()

    assert sessions == (process.pid, process.pid)
    assert at == folder
    assert locked == tmp_path / "lock"
    assert kept[0] == Path(os.devnull)


PARENT = """
import os, sys
from pathlib import Path
from tests import forked
forked.start_wanted()
out = Path(sys.argv[1])
print(forked.Forked(sys.argv[2:], os.environ, out, out).pid, flush=True)
sys.stdin.read()
"""


def test_a_fork_and_its_server_end_with_the_process_that_asked(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "out"), *followed(tmp_path)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        known = [life for each in processes.children(parent.pid) if (life := lives.life(each)) is not None]
        parent.kill()

    assert pid in [life.pid for life in known]
    assert len(known) == 2
    wait_until(lambda: not any(life.alive for life in known), 30, "both have ended")
