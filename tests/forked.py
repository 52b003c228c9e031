"""`wharfinger` commands as processes of their own that need not import the package again.

The imports of a worker take a second of CPU, and tests start hundreds of workers. One process a session, the fork
server (tests/fork_server.py), imports the package once, and each command is a fork of it. A fork has its own pid,
environment, output, signals and exit code, and ends with the session.

Functions here replace the one of `subprocess` that forks and runs a program. For a command line of this program they
send a request to the fork server; everything else stays as it is, so asyncio's processes work as well. In a test
process, only commands with the variable `WANTED` are forks. In a `wharfinger dev`, demo or agent that is a fork, all
are. Some tests of `wharfinger` as a program still start a new interpreter: its door, one `dev` and all that it starts,
the demo, an installed wheel.
"""

from __future__ import annotations

import functools
import os
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tests import fork_server
from tests.fork_server import Request
from wharfinger.dev import processes

WANTED = "TESTS_FORKED"
"""Variable by which tests ask for a fork. The command does not get it."""
COMMAND = (sys.executable, "-m", "wharfinger")
_ROOT = Path(__file__).parents[1]
_PREPARED: Mapping[str, Callable[[int], None]] = {
    "die_with_parent.<locals>.bind": fork_server.end_with,
    "supervised.<locals>.prepare": fork_server.supervised_by,
}
"""What `dev.processes` gives to `preexec_fn`, and how a fork does the same."""


def may_fork(env: Mapping[str, str]) -> bool:
    """Whether a command in this environment would import what was imported already.

    With another PYTHONPATH it may be another release, or have packages more: a fork would run the present code instead.
    """
    return fork_server.supported() and env.get("PYTHONPATH") == os.environ.get("PYTHONPATH")


def variables(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """`env` (default: ours) for a `COMMAND` that is to be a fork, where it can be one."""
    chosen = os.environ if env is None else env
    return {**chosen, WANTED: "1"} if may_fork(chosen) else dict(chosen)


class Forked(subprocess.Popen[bytes]):
    """A running command that ends with this process; a fork unless it needs an interpreter of its own."""

    def __init__(
        self,
        arguments: Sequence[str],
        env: Mapping[str, str],
        output: Path,
        errors: Path,
        stdin: str = os.devnull,
        *,
        folder: Path | None = None,
    ) -> None:
        """`output`, `errors`: files that are made or written on; they may be the same. `folder`: where it starts."""
        with ExitStack() as opened:
            files = [
                opened.enter_context(open(path, mode)) for path, mode in ((stdin, "rb"), (output, "ab"), (errors, "ab"))
            ]
            super().__init__(
                [*COMMAND, *arguments],
                env=variables(env),
                cwd=folder,
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                preexec_fn=processes.die_with_parent(),
            )


def run(
    *arguments: str, env: Mapping[str, str], stdin: str = "", timeout: float, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, as `subprocess.run` with captured text; `timeout` in seconds, `folder`: where."""
    return subprocess.run(
        [*COMMAND, *arguments],
        env=variables(env),
        cwd=folder,
        input=stdin,
        timeout=timeout,
        capture_output=True,
        text=True,
        check=False,
    )


class Server:
    """A fork server, at the other end of a socket."""

    def __init__(self, requests: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        """`process`: the server's, if this process has started it; a `Popen` that is let go warns of its process."""
        self._requests = requests
        self._process = process
        self._one_at_a_time = threading.Lock()

    def start(self, request: Request, descriptors: Sequence[int]) -> int:
        """The pid of the command, which is a child of this process. `descriptors`: for the targets of the request."""
        body = pickle.dumps(request)
        with self._one_at_a_time:
            socket.send_fds(self._requests, [len(body).to_bytes(8, "big")], descriptors)
            self._requests.sendall(body)
            answer = self._requests.recv(8, socket.MSG_WAITALL)
        if len(answer) < 8:
            raise OSError("the fork server has ended")
        return int.from_bytes(answer, "big")


@functools.cache
def _of_this_session() -> Server:
    """The server of a test process, started when it is first needed. It ends when its socket is closed."""
    ours, its = socket.socketpair()
    program = (
        f"import sys; sys.path.insert(1, {str(_ROOT)!r}); from tests.fork_server import main; main({its.fileno()})"
    )
    padding = "-" * fork_server.ARGUMENTS_ROOM
    environment = {**os.environ, fork_server.PADDING: "-" * fork_server.ENVIRONMENT_ROOM}
    process = subprocess.Popen([sys.executable, "-c", program, padding], env=environment, pass_fds=(its.fileno(),))
    its.close()
    return Server(ours, process)


def start_wanted() -> None:
    """From now on, fork the commands of this process that have the variable `WANTED`."""
    _replace(lambda variables: _of_this_session() if WANTED.encode() in variables and _may_ask() else None)


def _may_ask() -> bool:
    """Whether the server runs or may be started. What it forks ends with the thread that starts it: the main one."""
    return bool(_of_this_session.cache_info().currsize) or threading.current_thread() is threading.main_thread()


def start_all_by(server: Server) -> None:
    """From now on, let the server fork every `wharfinger` command that this process starts."""
    _replace(lambda _: server)


def _replace(server_for: Callable[[Mapping[bytes, bytes]], Server | None]) -> None:
    """Put forks in the place of what `subprocess` does for such a command; it does the rest, for asyncio as well."""
    execute: Callable[..., int] = vars(subprocess)["_fork_exec"]

    def start(*given: Any) -> int:
        asked = _Asked(*given[:_FIELDS])
        variables = asked.variables
        if (server := server_for(variables)) is None or not asked.forkable:
            return execute(*given)
        variables.pop(WANTED.encode(), None)
        request = Request(
            arguments=tuple(map(os.fsdecode, asked.arguments)),
            environment=tuple(variables.items()),
            folder=os.fsdecode(asked.folder or os.getcwd()),
            targets=(0, 1, 2, *asked.kept),
            new_session=bool(asked.new_session),
            group=asked.group,
            prepare=_PREPARED[asked.prepare.__qualname__] if asked.prepare is not None else None,
            parent=os.getpid(),
        )
        return server.start(request, (*asked.streams, *asked.kept)) if request.fits else execute(*given)

    vars(subprocess)["_fork_exec"] = start


class _Asked(NamedTuple):
    """What `subprocess` gives to the function that makes the process and runs the program."""

    arguments: Sequence[Any]
    executables: Sequence[bytes]
    close: bool
    kept_and_errors: tuple[int, ...]
    folder: Any
    environment: Sequence[bytes] | None
    stdin: int
    stdin_end: int
    stdout_end: int
    stdout: int
    stderr_end: int
    stderr: int
    errors_end: int
    errors: int
    """Where it would say that the program cannot be run."""
    restore_signals: bool
    new_session: bool
    group: int
    user_group: Any
    user_groups: Any
    user: Any
    mask: int
    prepare: Callable[[], None] | None

    @property
    def variables(self) -> dict[bytes, bytes]:
        """All of the command's."""
        if self.environment is None:
            return dict(os.environb)
        return dict(variable.split(b"=", 1) for variable in self.environment)  # type: ignore[misc]

    @property
    def kept(self) -> tuple[int, ...]:
        """Descriptors that the command has beside its streams, under the same numbers."""
        return tuple(number for number in self.kept_and_errors if number != self.errors)

    @property
    def streams(self) -> tuple[int, int, int]:
        """Its standard streams; those that are not named are ours."""
        given = (self.stdin, self.stdout, self.stderr)
        return tuple(number if number >= 0 else own for own, number in enumerate(given))  # type: ignore[return-value]

    @property
    def forkable(self) -> bool:
        """Whether it is our command, and a fork can be all that it is to be."""
        ours = tuple(map(os.fsdecode, self.arguments[: len(COMMAND)])) == COMMAND
        owner = (self.user_group, self.user_groups, self.user, self.mask)
        same_code = self.variables.get(b"PYTHONPATH") == os.environb.get(b"PYTHONPATH")
        prepared = self.prepare is None or self.prepare.__qualname__ in _PREPARED
        return ours and self.close and owner == (None, None, None, -1) and same_code and prepared


_FIELDS = len(_Asked._fields)
