"""The entry: exit codes, one line for an error, options and their variables."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

import wharfinger
from tests.cli.shell import Shell
from tests.patience import patient
from wharfinger.cli import entry, main
from wharfinger.cli.connect import open_temporal
from wharfinger.cli.help_drawing import flowing
from wharfinger.cli.options import ConnectionOptions, settings_from
from wharfinger.errors import ServerError, UsageError


def test_help_lists_every_command(outside: Shell) -> None:
    answer = outside("--help")

    assert answer.code == 0
    for command in main.COMMANDS:
        assert command in answer.out


INTERRUPTED_WHILE_LOADING = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "wharfinger.fleet.cli.changes":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
from wharfinger.cli.main import main

main(["fleet", "get"])
"""


def test_ctrl_c_while_commands_are_loaded_ends_quietly() -> None:
    line = [sys.executable, "-c", INTERRUPTED_WHILE_LOADING]
    ended = subprocess.run(line, check=False, capture_output=True, timeout=patient(60))

    assert (ended.returncode, ended.stderr) == (main.INTERRUPTED, b"")


INTERRUPTED_WHILE_IMPORTING = """
import os, signal, sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == MODULE:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
from wharfinger.cli.entry import main

main(["config", "show", "--defaults"])
"""


@pytest.mark.parametrize("module", ["wharfinger.cli.main", "typer", "typer.main"])
def test_ctrl_c_while_the_command_is_imported_ends_quietly(module: str) -> None:
    line = [sys.executable, "-c", f"MODULE = {module!r}\n{INTERRUPTED_WHILE_IMPORTING}"]
    ended = subprocess.run(line, check=False, capture_output=True, timeout=patient(60))

    assert (ended.returncode, ended.stdout, ended.stderr) == (main.INTERRUPTED, b"", b"")


def test_the_console_command_begins_where_ctrl_c_is_quiet() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert project["project"]["scripts"] == {"wharfinger": f"{entry.main.__module__}:main"}
    assert entry.INTERRUPTED == main.INTERRUPTED


ROOT = Path(__file__).parents[2]
WITHOUT_PACKAGES = [sys.executable, "-S"]
"""As an interpreter outside the environment: it finds the standard library only."""


def test_worker_outside_the_environment_is_one_line_on_what_to_do() -> None:
    ended = subprocess.run([*WITHOUT_PACKAGES, "worker.py"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert ended.returncode == main.FAILED
    assert ended.stderr == (
        f"error: wharfinger is not installed for {sys.executable}: run `make setup` in the checkout, then "
        "`.venv/bin/python worker.py`\n"
    )


def test_a_command_without_its_dependencies_is_one_line_on_what_to_do() -> None:
    line = [*WITHOUT_PACKAGES, "-m", "wharfinger", "get", "pods"]
    environment = os.environ | {"PYTHONPATH": str(Path(wharfinger.__file__).parents[1])}
    ended = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)

    assert ended.returncode == main.FAILED
    assert ended.stderr == (
        f"error: module typer is not installed for {sys.executable}: run `make setup` in a checkout, or install "
        "wharfinger with pip\n"
    )


def without_reader(line: list[str], *, stderr: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run a command line whose output (with `stderr`, its error output too) goes to a pipe without a reader."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        errors = closed if stderr else subprocess.PIPE
        return subprocess.run(line, check=False, stdout=closed, stderr=errors, timeout=patient(60))


@pytest.mark.parametrize("line", ["config show --defaults", "--version", "--help", "worker -h", "kube-scheduler -h"])
def test_a_reader_that_has_left_is_nothing_wrong(line: str) -> None:
    """typer prints help by rich, which redirects the output before it leaves."""
    ended = without_reader([sys.executable, "-m", "wharfinger", *line.split()])

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_exit_code_reports_wrong_use_where_no_output_has_a_reader() -> None:
    assert without_reader([sys.executable, "-m", "wharfinger", "get", "x"], stderr=True).returncode == main.USAGE


OWN_COMMAND = """
import asyncio, sys
import wharfinger.scheduling.cli.pending as module
from wharfinger.cli.main import main

def pending():
"""
AT_THE_END = """
    sys.stdout.write("held back until the process ends")
"""
BESIDE_OTHERS = """
    async def prints():
        print("x", flush=True)

    async def both():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(prints())
            tasks.create_task(asyncio.sleep(60))

    asyncio.run(both())
"""
WATCHES_AND_PRINTS_NOTHING = """
    from wharfinger.cli import connect

    connect.run(asyncio.Event().wait(), watch=True)
"""
ANOTHER_PIPE = """
    raise BrokenPipeError(32, "Broken pipe")
"""


def own_command(body: str) -> list[str]:
    """The command line of a process whose command `pending` is this one."""
    return [sys.executable, "-c", f'{OWN_COMMAND}{body}\nmodule.pending = pending\nmain(["pending"])']


@pytest.mark.parametrize(
    "body",
    [AT_THE_END, BESIDE_OTHERS, WATCHES_AND_PRINTS_NOTHING],
    ids=["at the end", "in a task beside others", "by a watch that prints nothing"],
)
def test_a_reader_that_has_left_is_nothing_wrong_wherever_it_is_noticed(body: str) -> None:
    ended = without_reader(own_command(body))

    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_cannot_be_written_is_an_error() -> None:
    with open("/dev/full", "wb") as full:
        line = own_command(AT_THE_END)
        ended = subprocess.run(line, check=False, stdout=full, stderr=subprocess.PIPE, timeout=patient(60))

    assert (ended.returncode, ended.stderr) == (main.FAILED, b"error: [Errno 28] No space left on device\n")


def test_another_broken_pipe_is_an_error() -> None:
    line = own_command(ANOTHER_PIPE)
    ended = subprocess.run(line, check=False, capture_output=True, text=True, timeout=patient(60))

    assert (ended.returncode, ended.stderr) == (main.FAILED, "error: [Errno 32] Broken pipe\n")


@pytest.mark.parametrize("closed", [1, 2])
def test_a_command_without_an_output_ends_as_with_it(closed: int) -> None:
    line = f'"{sys.executable}" -m wharfinger config show --defaults {closed}>&-'
    ended = subprocess.run(line, shell=True, check=False, capture_output=True, timeout=patient(60))

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_help_is_wrapped_to_the_terminal_and_lists_keep_their_lines() -> None:
    text = """What it does.

    A paragraph of
    two lines.

    - one thing
    - another that
      goes on
    """
    assert flowing(text) == "What it does.\n\nA paragraph of two lines.\n\n- one thing\n- another that goes on"


def command_lines() -> list[str]:
    """Every command, those of groups too: `fleet scale`."""
    commands = get_command(main.command_line()).commands  # type: ignore[attr-defined]
    groups = {name: group.commands for name, group in commands.items() if is_group(group)}
    single = [command for command in main.COMMANDS if command not in groups]
    return single + [f"{group} {command}" for group, members in groups.items() for command in members]


LOADED = """
import sys
from wharfinger.cli.kinds import part
from wharfinger.cli.main import command_line, main
from wharfinger.objects.documents.kinds import NODE, POD
command_line(["get", "pending", "explain", "workflow-id"])
for kind in (POD, NODE):
    part(kind, "stored"), part(kind, "table")
assert not {"numpy", "temporalio"} & sys.modules.keys()
main(["--version"])
"""


def test_commands_about_pods_load_neither_the_engine_nor_temporal() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("wharfinger ")


def test_command_lines_share_no_state() -> None:
    first, second = main.command_line(), main.command_line()

    def registered(app: typer.Typer) -> int:
        groups = [group.typer_instance for group in app.registered_groups if group.typer_instance is not None]
        return len(app.registered_commands) + sum(map(registered, groups))

    assert registered(first) == registered(second) == len(command_lines())


def is_group(command: object) -> bool:
    return hasattr(command, "commands")


@pytest.mark.parametrize("line", command_lines())
def test_a_command_that_asks_etcd_takes_all_connection_options(line: str, outside: Shell) -> None:
    answer = outside(*line.split(), "--help")

    assert answer.code == 0
    if "--etcd " in answer.out and line.split(maxsplit=1)[0] not in ("dev", "demo"):
        options = ("--etcd-password-file", "--temporal ", "--temporal-namespace", "--temporal-plugin", "--cluster")
        assert [option for option in options if option not in answer.out] == []
    assert ("--tenant " in answer.out) == (line == "worker")


@pytest.mark.parametrize(
    "line",
    [
        ["no-such-command"],
        ["get"],
        ["get", "--no-such-option"],
        ["get", "unicorns"],
        ["get", "pods", "--etcd", "ftp://x"],
        ["get", "pods", "--temporal", "nowhere"],
        ["get", "pods", "--cluster", "Not A Label"],
        ["get", "pods", "--etcd-ca", "/no/such/file"],
        ["get", "pods", "--etcd-protocol", "xml"],
        ["get", "pods", "-o", "xml"],
        ["apply", "-f", "/no/such/file"],
        ["worker", "--lease-ttl", "1"],
        ["worker", "--tenant", "Not A Label"],
        ["fleet", "get", "--tenant", "common"],
        ["worker", "--own-node-margin", "-1"],
        ["worker", "--config", "/no/such/file"],
        ["agent", "--instance-etcd-user", "worker"],
        ["agent", "--instance-etcd-user", "worker", "--instance-etcd-password-file", "/no/such/file"],
        ["dev", "--config", "/no/such/file"],
        ["dev", "--allow-env", "A=b"],
        ["dev", "--install", "v2=/no/such/file"],
        ["dev", "--secrets-dir", "/no/such/folder"],
        ["config", "validate", "/no/such/file"],
        ["config", "show", "/no/such/file"],
        ["config", "show", "x.yaml", "--defaults"],
        ["config", "show", "-o", "table"],
        ["dev", "--lease-ttl", "61"],
        ["workflow-id", "node", "n1"],
        ["workflow-id", "pod", "a/b/c"],
        ["delete"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_one_line_and_exit_code_2(line: list[str], outside: Shell) -> None:
    answer = outside(*line)

    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1


def test_a_wrong_choice_is_answered_with_those_there_are(outside: Shell) -> None:
    error = outside("worker", "--cohorts", "maybe").err

    assert error.startswith("error: Invalid value for '--cohorts': 'maybe' is not one of 'auto', 'off'.")


@pytest.mark.usefixtures("hasty")
def test_an_etcd_that_is_not_there_is_one_line_and_exit_code_1(outside: Shell) -> None:
    answer = outside("get", "pods", "--etcd", "http://127.0.0.1:1")

    assert answer.code == 1
    assert answer.err.startswith("error: cannot reach etcd at http://127.0.0.1:1 (Connection refused): is it running?")
    assert answer.err.count("\n") == 1


def connection_from(**given: Any) -> ConnectionOptions:
    return settings_from(ConnectionOptions, given)


def test_connection_follows_the_options(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.touch()

    connection = connection_from(
        etcd=["http://a:1,https://b:2/", "c:3 c:3"],
        etcd_protocol="grpc",
        etcd_user="u",
        etcd_password_file=secret,
        temporal="t:7233",
        cluster="c",
    )

    assert connection.etcd.endpoints == ("http://a:1", "https://b:2", "http://c:3")
    assert (connection.etcd.user, connection.etcd.password_file) == ("u", secret)
    assert connection.etcd.protocol == "grpc"
    assert (connection.temporal.address, connection.temporal.namespace) == ("t:7233", None)
    assert connection.cluster == "c"


def test_without_options_a_connection_has_the_defaults_of_the_settings() -> None:
    assert connection_from() == ConnectionOptions()


@pytest.mark.parametrize("url", ["", "http://", "a:b:c", "http://a:99999", "http://a/path", "http://[::1"])
def test_what_is_no_address_of_an_etcd_is_refused(url: str) -> None:
    if not url:
        assert connection_from(etcd=[url]) == ConnectionOptions()
        return
    with pytest.raises(UsageError, match="--etcd"):
        connection_from(etcd=[url])


async def test_command_gives_up_on_a_temporal_that_accepts_but_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        temporal = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerError, match=f"cannot reach Temporal at {temporal}"):
            await asyncio.wait_for(open_temporal(connection_from(temporal=temporal), within=0.2), patient(20))
