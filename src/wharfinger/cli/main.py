"""The command `wharfinger`: gathers the commands, and turns errors into one line and an exit code.

A command's module imports lightly and defers what is heavy into its functions; and of a command line only the module
of its command is imported, so that an agent can start many workers. `cli.options` describes how to write a command.

Exit codes: 0 done, 1 failed, 2 used wrongly, 130 interrupted.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from pkgutil import resolve_name
from typing import Annotated, TextIO

import typer
from typer.main import get_command

from wharfinger.cli.help_drawing import WholeHelpCommand
from wharfinger.cli.options import OBJECTS, RUN, UNDERSTAND, add_command
from wharfinger.cli.output import discard, duplicates, plain, reader_left, say
from wharfinger.errors import InvalidConfiguration, UsageError, WharfingerError

FAILED = 1
USAGE = 2
INTERRUPTED = 130

YOUNG = 300_000
"""New objects between two garbage collections. The imports of a worker make 210,000, of which none is garbage. Servers
change it after their imports (`process.running`)."""

QUIET_GRPC = ("GRPC_VERBOSITY", "NONE")
"""A variable of grpcio's: else it writes to standard error what its exceptions say too."""

DEBUG = "WHARFINGER_DEBUG"
"""Set to anything, it shows tracebacks."""

COMMANDS = {
    "worker": (RUN, "wharfinger.programs.cli.worker:worker"),
    "kube-scheduler": (RUN, "wharfinger.programs.cli.kube_scheduler:kube_scheduler"),
    "agent": (RUN, "wharfinger.programs.cli.agent:agent"),
    "hub": (RUN, "wharfinger.programs.cli.hub:hub"),
    "member": (RUN, "wharfinger.programs.cli.member:member"),
    "ui": (RUN, "wharfinger.programs.cli.ui:ui"),
    "dev": (RUN, "wharfinger.dev.cli.dev:dev"),
    "demo": (RUN, "wharfinger.dev.cli.demo:demo"),
    "apply": (OBJECTS, "wharfinger.cli.objects.apply:apply"),
    "get": (OBJECTS, "wharfinger.cli.objects.get:get"),
    "delete": (OBJECTS, "wharfinger.cli.objects.delete:delete"),
    "describe": (OBJECTS, "wharfinger.cli.objects.describe:describe"),
    "pending": (UNDERSTAND, "wharfinger.scheduling.cli.pending:pending"),
    "explain": (UNDERSTAND, "wharfinger.scheduling.cli.explain:explain"),
    "simulate": (UNDERSTAND, "wharfinger.whatif.cli.simulate:simulate"),
    "capacity": (UNDERSTAND, "wharfinger.whatif.cli.capacity:capacity"),
    "replay": (UNDERSTAND, "wharfinger.replay.cli.replay:replay"),
    "archive": (UNDERSTAND, "wharfinger.replay.cli.archive:archive"),
    "backup": (RUN, "wharfinger.programs.cli.backup:backup"),
    "workflow-id": (UNDERSTAND, "wharfinger.scheduling.cli.workflow_id:workflow_id"),
}
"""By name, in the order of help: its panel there, and the function that is the command."""
GROUPS = {
    "kubernetes": (RUN, "wharfinger.kubernetes.cli.commands:commands"),
    "etcd": (RUN, "wharfinger.programs.cli.etcd_commands:commands"),
    "fleet": (RUN, "wharfinger.fleet.cli.fleets:commands"),
    "host": (RUN, "wharfinger.fleet.cli.hosts:commands"),
    "config": (RUN, "wharfinger.configuration.cli.commands:commands"),
    "placement": (UNDERSTAND, "wharfinger.placement.cli.placements:commands"),
    "update-run": (OBJECTS, "wharfinger.placement.cli.update_runs:commands"),
    "cluster": (OBJECTS, "wharfinger.placement.cli.clusters:commands"),
}
"""Of commands: the function makes the group. Help lists them behind the commands."""
PARSED_OTHERWISE = {"kube-scheduler": "wharfinger.programs.cli.kube_scheduler:KubeSchedulerCommand"}
"""Commands that read their command line in a way of their own: their class."""

VERSION = "--version"
"""An option of no command, so it needs none of their modules."""

_CommandLineError: type[Exception] = typer.BadParameter.__mro__[2]
"""Base of what typer raises about a command line; it moved between typer's releases."""


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            typer.echo(f"wharfinger {version('wharfinger')}")
        except PackageNotFoundError:
            typer.echo("wharfinger (not installed: run from a checkout)")
        raise typer.Exit


def _root(
    _: Annotated[bool, typer.Option(VERSION, callback=_version, is_eager=True, help="Show the version.")] = False,
) -> None:
    """A durable pod scheduler: cluster state in etcd, every scheduling attempt a Temporal workflow."""


def command_line(names: Container[str] = (*COMMANDS, *GROUPS)) -> typer.Typer:
    """The command `wharfinger`, with the commands of these names."""
    app = typer.Typer(
        name="wharfinger",
        help="A durable pod scheduler: cluster state in etcd, every scheduling attempt a Temporal workflow.",
        epilog="Begin with `wharfinger dev` in one terminal, and `wharfinger apply -f FILE` in another. Options of the "
        "connection, and most of worker and agent, are environment variables too: --etcd-user is WHARFINGER_ETCD_USER.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    for name, (panel, command) in COMMANDS.items():
        if name in names:
            kind = PARSED_OTHERWISE.get(name)
            add_command(app, name, resolve_name(command), panel, resolve_name(kind) if kind else WholeHelpCommand)
    for name, (panel, group) in GROUPS.items():
        if name in names:
            app.add_typer(resolve_name(group)(), name=name, rich_help_panel=panel)
    return app


@functools.cache
def _parser(command: str | None) -> Callable[..., object]:
    """What parses and runs command lines of the command; None = of all. Typer takes up to 10 ms to make it."""
    return get_command(command_line() if command is None else command_line([command]))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (default: the process's) and answer its exit code."""
    line = sys.argv[1:] if arguments is None else list(arguments)
    with duplicates() as pipes:
        return _run(line, pipes)


def _run(line: list[str], pipes: Mapping[TextIO, int]) -> int:
    try:
        known = line[0] if line and line[0] in (*COMMANDS, *GROUPS, VERSION) else None
        return _code(_parser(known)(args=line, prog_name="wharfinger", standalone_mode=False))
    except SystemExit as leaving:
        # typer and rich leave with 1 and without a word, whatever broken pipe it was
        error = leaving.__context__
        return _pipe_closed(error, pipes) if isinstance(error, OSError) else _code(leaving.code)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except _CommandLineError as error:
        return _used_wrongly(error)
    except Exception as error:  # the user sees one line, whatever it is
        first = error
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, BrokenPipeError):  # of a task that prints beside others
            return _pipe_closed(first, pipes)
        if os.environ.get(DEBUG):
            raise
        _tell(error)
        return USAGE if isinstance(error, UsageError | InvalidConfiguration) else FAILED


def main(arguments: Sequence[str] | None = None) -> None:
    """The console command: run, then leave the process with the exit code."""
    gc.set_threshold(YOUNG)
    # Where it is installed, the Temporal SDK imports grpcio too; from then on grpcio no longer reads this.
    os.environ.setdefault(*QUIET_GRPC)
    # NumPy's linear algebra starts a thread for each core as NumPy is imported. No decision uses linear algebra.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run(arguments)
    for stream in (sys.stdout, sys.stderr):
        if stream is None:  # the process was started without it
            continue
        try:
            stream.flush()
        except BrokenPipeError:  # the reader has left
            pass
        except OSError as error:
            code = code or FAILED
            if stream is sys.stdout:
                _tell(error)
    # Without tearing the interpreter down: it costs a third of a short command, and the Temporal SDK's Rust threads
    # can abort it meanwhile (exit code 134, temporalio/sdk-python#300).
    os._exit(code)


def _used_wrongly(error: Exception) -> int:
    _complete_option(error)
    text = " ".join(error.format_message().split())  # type: ignore[attr-defined]  # of a base that typer does not export
    if text:  # without any, help was printed already
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "wharfinger"
        text = text.replace("Value error, ", "")  # pydantic's, by which newer releases of typer check values
        say(f"error: {text} (see {where} --help)", err=True)
    return USAGE


def _complete_option(error: Exception) -> None:
    """Of an option that does not exist: name those that begin as it does, before those that look alike."""
    given, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if not isinstance(given, str) or context is None or not hasattr(error, "possibilities"):
        return
    options = {option for parameter in context.command.params for option in parameter.opts}
    if longer := sorted(option for option in options if option.startswith(given)):
        error.possibilities = longer


def _tell(error: Exception) -> None:
    text = " ".join(str(error).split()) or type(error).__name__
    if not isinstance(error, WharfingerError | OSError):
        text = f"{type(error).__name__}: {text} (set {DEBUG}=1 to see where)"
    for line in error.problems if isinstance(error, InvalidConfiguration) else (text,):
        say(f"error: {plain(line)}", err=True)


def _code(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else FAILED


def _pipe_closed(error: Exception, pipes: Mapping[TextIO, int]) -> int:
    """The exit code: 0 where the reader of our output has left (`| head`), which is nothing wrong."""
    left = [stream for stream, pipe in pipes.items() if reader_left(pipe)]
    for stream in left:
        discard(stream)
    if not left:  # the pipe to another process, or a connection
        _tell(error)
    return 0 if left else FAILED


if __name__ == "__main__":
    main()
