"""What lies in etcd or travels through Temporal is read by the previous release, and what that one wrote by this one.

Two processes, one of each release, fill every contract that they have and read the other's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.previous_release import contracts, package

pytestmark = pytest.mark.long  # seconds, in which processes import both releases

KEPT = {"AttemptRecord", "InstanceRecord", "InstallationRecord"}
SENT = {"AttemptInput", "AttemptResult", "Wake", "PlaceInput", "Placed", "Refused", "Gone", "BindInput", "Bound"}


@pytest.fixture(scope="module")
def previous() -> dict[str, str]:
    return package.environment()


def run(mode: str, env: Mapping[str, str], lines: str = "") -> str:
    command = [sys.executable, contracts.__file__, mode]
    return subprocess.run(command, input=lines, capture_output=True, text=True, env=env, check=True).stdout


def lost(read: Any, wrote: Any, path: str) -> Iterator[str]:
    """Where what was read differs from what was written; fields that the reader does not know are left out."""
    if isinstance(read, dict) and isinstance(wrote, dict):
        for name in sorted(read.keys() & wrote.keys()):
            yield from lost(read[name], wrote[name], f"{path}.{name}")
    elif isinstance(read, list) and isinstance(wrote, list) and len(read) == len(wrote):
        for one, other in zip(read, wrote, strict=True):
            yield from lost(one, other, path)
    elif read != wrote:
        yield f"{path}: {wrote!r} is read as {read!r}"


def judged(answers: str) -> tuple[set[str], list[str]]:
    """The contracts that were read, and what is wrong."""
    read, wrong = set(), []
    for line in answers.splitlines():
        said = json.loads(line)
        read.add(said["model"])
        wrong += [said["refused"]] if "refused" in said else lost(said["value"], said["wrote"], said["model"])
    return read, wrong


def test_the_package_is_the_previous_releases(previous: dict[str, str]) -> None:
    code = "import wharfinger.contracts as c; print(c.__file__); import wharfinger.contracts.fleets"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=previous, check=False)

    assert done.stdout.startswith(previous["PYTHONPATH"])
    assert "No module named 'wharfinger.contracts.fleets'" in done.stderr  # fleets came later


def test_the_previous_release_reads_what_this_one_writes(previous: dict[str, str]) -> None:
    answers = run("read", previous, run("write", os.environ))

    read, wrong = judged(answers)

    assert wrong == []
    assert read >= KEPT | SENT
    assert list(missing(answers)) == []


def missing(answers: str) -> Iterator[str]:
    """Fields that the reader knows and the writer has given up, or another name."""
    for line in answers.splitlines():
        said = json.loads(line)
        yield from (f"{said['model']}.{name}" for name in said["value"].keys() - said["wrote"].keys())


def test_this_release_reads_what_the_previous_one_wrote(previous: dict[str, str]) -> None:
    read, wrong = judged(run("read", os.environ, run("write", previous)))

    assert wrong == []
    assert read >= KEPT | SENT
