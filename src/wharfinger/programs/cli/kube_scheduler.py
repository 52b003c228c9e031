"""`wharfinger kube-scheduler`: one worker of a Kubernetes API, by kube-scheduler's command line and exit codes.

Order, as there: validate, write the configuration and exit if asked to, serve, import, hold the Lease, schedule. Exit
codes: 0 after the first SIGTERM or SIGINT, 1 after the second, when the Lease is lost, and for whatever is wrong.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from wharfinger.cli.help_drawing import WholeHelpCommand
from wharfinger.cli.options import ConnectionOptions, configured, plugins_option
from wharfinger.cli.processes.process_options import BindOptions, cohorts_option, max_txn_ops_option, state_dir
from wharfinger.errors import InvalidConfiguration, UsageError, WharfingerError
from wharfinger.options import nested
from wharfinger.process.names import COMMON
from wharfinger.programs.cli.flags import KubeFlags, WrittenFlags, spelt_out
from wharfinger.programs.cli.go_types import boolean
from wharfinger.settings import DispatchSettings, Events, WorkerSettings, allow_insecure_option, events_option

log = logging.getLogger(__name__)

RELEASE = "v1.36.2"
"""The release of Kubernetes whose scheduler this stands for."""
RAW = "raw"
_REPORTED = re.compile(r"v\d+\.\d+\.\d+([-+].*)?", re.ASCII)


def printed(wanted: str) -> str:
    """What `--version=...` prints; empty where it prints nothing. Raises `UsageError`."""
    from wharfinger.process.build import release

    if wanted == RAW:
        major, minor, _ = RELEASE.removeprefix("v").split(".")
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        fields = {
            "Major": major,
            "Minor": minor,
            "GitVersion": RELEASE,
            "Wharfinger": release(),
            "Python": platform.python_version(),
            "Platform": f"{platform.system().lower()}/{machine}",
        }
        return f"version.Info{{{', '.join(f'{name}:{json.dumps(value)}' for name, value in fields.items())}}}"
    if wanted.startswith("v"):
        return ""
    try:
        return f"Kubernetes {RELEASE} (wharfinger {release()})" if boolean(wanted) else ""
    except ValueError as error:
        raise _refused(wanted, str(error)) from None


def reported(wanted: str) -> str | None:
    """The release that pages report, as `--version=vX.Y.Z...` sets it; None = ours. Raises `UsageError`."""
    if not wanted.startswith("v"):
        return None
    if _REPORTED.fullmatch(wanted) is None or re.split("[-+]", wanted)[0] != RELEASE:
        why = f"version {json.dumps(wanted)} must match major/minor/patch of default version {json.dumps(RELEASE)}"
        raise _refused(wanted, why)
    return wanted


def _refused(wanted: str, why: str) -> UsageError:
    return UsageError(f'invalid argument {json.dumps(wanted)} for "--version" flag: {why}')


FAILED = 1
DEBUG_FROM = 4
"""Of `-v`: from here on everything is logged."""


class KubeSchedulerCommand(WholeHelpCommand):
    """Reads a command line as Go does, and fails with kube-scheduler's exit code."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read a command line; what is wrong with it ends the process with code 1."""
        ctx.allow_extra_args = True
        try:
            rest = super().parse_args(ctx, spelt_out(args))
        except Exception as error:  # whatever is wrong with the line, the exit code is 1
            raise _failed(error) from None
        if ctx.args:
            raise WharfingerError(f'"kube-scheduler" does not take any arguments, got {json.dumps(ctx.args)}')
        return rest

    def invoke(self, ctx: Any) -> Any:
        """Run it; whatever is wrong ends the process with code 1."""
        try:
            return super().invoke(ctx)
        except InvalidConfiguration as error:
            for problem in error.problems:
                typer.echo(f"error: {problem}", err=True)
            raise typer.Exit(FAILED) from None
        except UsageError as error:
            raise WharfingerError(str(error)) from error


def _failed(error: Exception) -> Exception:
    """The same error with exit code 1, where the other commands here end with 2."""
    if not hasattr(error, "format_message"):
        return WharfingerError(str(error)) if isinstance(error, UsageError) else error
    text = " ".join(error.format_message().split())
    unknown = getattr(error, "option_name", None)
    if unknown is not None and text.startswith("No such option"):
        text = f"unknown flag: {unknown}"
    return WharfingerError(f"{text} (see wharfinger kube-scheduler --help)")


def _version(wanted: str | None) -> str | None:
    """Print the version and leave, if asked to; else the release that is to be reported."""
    if not wanted:
        return None
    text = printed(wanted)
    if text:
        typer.echo(text)
        raise typer.Exit
    return reported(wanted)


@dataclass(frozen=True, slots=True)
class OwnOptions:
    """The options that kube-scheduler has not."""

    all_plugins: bool = plugins_option()
    cohorts: bool = cohorts_option()
    max_txn_ops: int = max_txn_ops_option()
    binding: BindOptions = nested(BindOptions)
    events: Events = events_option(panel=None)
    allow_insecure: bool = allow_insecure_option(panel=None, variable=False)


@configured
def kube_scheduler(
    *,
    own: OwnOptions,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="=raw|=vX.Y.Z",
            callback=_version,
            is_eager=True,
            help="Show the version; `=raw`: in full; `=v1.36.2-...`: report this one.",
        ),
    ] = None,
    flags: WrittenFlags,
    connection: ConnectionOptions,
) -> None:
    """Schedule a Kubernetes cluster in kube-scheduler's place: its flags, its configuration, its pages, its exit codes.

    Beside the API server it needs an etcd (--etcd), which holds copies and promises, and a Temporal (--temporal). Any
    number may run. All processes on one etcd are one installation, and bind while it holds the Lease.
    """
    code = _run(
        flags,
        own,
        version=version or RELEASE,
        settings=WorkerSettings(
            etcd=replace(connection.etcd, max_txn_ops=own.max_txn_ops),
            temporal=connection.temporal,
            cluster=connection.cluster,
            state_dir=state_dir(None, connection.etcd, connection.cluster, COMMON),
            binding=own.binding.settings(),
            dispatching=DispatchSettings(cohorts=own.cohorts, take_turns=not own.binding.compatible),
        ),
    )
    if code:
        raise typer.Exit(code)


def _run(flags: KubeFlags, own: OwnOptions, *, version: str, settings: WorkerSettings) -> int:
    import uvloop

    from wharfinger.apiserver.kubeconfig import read_access
    from wharfinger.framework.profiles import load_configuration, written_in
    from wharfinger.process.build import release
    from wharfinger.process.logs import quiet_sdk, write_lines
    from wharfinger.programs.cli.feature_gates import check_gates, warnings_of
    from wharfinger.programs.cli.settings import (
        kubernetes_settings,
        reviewing_kubeconfig,
        serving_options,
        with_flags,
        worker_settings,
    )
    from wharfinger.programs.cli.written_configuration import as_yaml, written_document
    from wharfinger.programs.kube_pages import KubePages
    from wharfinger.programs.worker_process import run_worker
    from wharfinger.serving.tls import TlsContexts

    gates = check_gates(flags["feature-gates"])
    write_lines("debug" if flags["v"] >= DEBUG_FROM else "info", flags["logging-format"])
    quiet_sdk()
    path = flags["config"]
    document = with_flags(written_in(Path(path)) if path else {}, flags)
    configured = load_configuration(document, all_plugins=own.all_plugins)
    kubernetes = kubernetes_settings(
        configured.configuration, flags, events=own.events, allow_insecure=own.allow_insecure
    )
    serving, reviewing = serving_options(flags), reviewing_kubeconfig(flags)
    # What is wrong is reported now, and not when the workers start.
    read_access(kubernetes.kubeconfig, master=kubernetes.master, allow_insecure=own.allow_insecure)
    if reviewing is not None:
        read_access(reviewing)
    for line in (*flags.warnings(), *warnings_of(gates)):
        log.warning("flag_without_effect what=%r", line)
    if flags["write-config-to"]:
        TlsContexts(serving, clock=time.monotonic)  # its files are validated before anything is written
        _write(as_yaml(written_document(configured)), Path(flags["write-config-to"]))
        return 0
    looks_up = not (flags["authentication-skip-lookup"] or flags["client-ca-file"])
    pages = KubePages(
        flags.shown(),
        {"Kubernetes": version, "wharfinger": release()},
        written_document(configured, secrets=False),
        reviewing,
        looks_up_client_ca=looks_up,
        needs_client_ca=looks_up and not flags["authentication-tolerate-lookup-failure"],
    )
    return uvloop.run(
        run_worker(worker_settings(settings, kubernetes, serving, flags), serving, configured=configured, pages=pages)
    )


def _write(text: str, path: Path) -> None:
    """Write a file that only its owner can read, also one that was there, because it may contain keys of extenders."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):  # not of /dev/stdout
                os.fchmod(file.fileno(), 0o600)
            file.write(text)
    except OSError as error:
        raise UsageError(f"--write-config-to: cannot write {path} ({error.strerror or error})") from error
