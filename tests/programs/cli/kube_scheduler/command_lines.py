"""Command lines of `wharfinger kube-scheduler` without a run, and the real kube-scheduler beside it."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tests.patience import patient
from wharfinger.cli.main import command_line
from wharfinger.dev import binaries
from wharfinger.programs.cli.flags import FLAGS, KubeFlags, read_flags


@cache
def _command() -> Any:
    group: Any = typer.main.get_command(command_line(["kube-scheduler"]))
    return group.commands["kube-scheduler"]


def parsed(*arguments: str) -> KubeFlags:
    """The flags of a command line, as the command reads them."""
    parameters = _command().make_context("kube-scheduler", list(arguments)).params
    return read_flags(**{flag.parameter: parameters[flag.parameter] for flag in FLAGS})


def real_scheduler() -> Path:
    """The kube-scheduler of this release; the test is skipped where none was built."""
    found = binaries.at_hand(binaries.KUBE_SCHEDULER)
    if found is None:
        pytest.skip("no kube-scheduler: `make kubernetes-servers` builds it, where Go is installed")
    return found


def run_real(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run it to its end; it listens nowhere."""
    command = [real_scheduler(), "--secure-port=0", *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=patient(30))


def written_by_real(config: Path, target: Path) -> dict[str, Any]:
    """What kube-scheduler writes with `--write-config-to`."""
    done = run_real(f"--config={config}", f"--write-config-to={target}")
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = yaml.safe_load(target.read_text())
    return found
