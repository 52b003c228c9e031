"""Commands that write several objects go on when the reader of their output has left (`| head`)."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.cli.shell import Shell
from tests.patience import patient

pytestmark = pytest.mark.servers


def without_reader(*arguments: str) -> tuple[int, bytes]:
    """Exit code and standard error of a command line whose standard output is closed by its reader."""
    reader, writer = os.pipe()
    os.close(reader)
    line = [sys.executable, "-m", "wharfinger", *arguments]
    with os.fdopen(writer, "wb") as closed:
        ended = subprocess.run(line, check=False, stdout=closed, stderr=subprocess.PIPE, timeout=patient(60))
    return ended.returncode, ended.stderr


def test_apply_and_delete_go_on_without_a_reader(shell: Shell) -> None:
    names = [f"p-{number:02d}" for number in range(40)]
    path = shell.file([shell.pod(name) for name in names])
    assert without_reader("apply", "-f", path) == (0, b"")
    stored = shell("get", "pods", "-n", shell.namespace, "-o", "json").json["items"]
    assert [pod["metadata"]["name"] for pod in stored] == names
    assert without_reader("delete", "-f", path) == (0, b"")
    assert shell("get", "pods", "-n", shell.namespace, "-o", "json").json["items"] == []


def test_exit_code_of_apply_shows_a_refusal_without_a_reader(shell: Shell) -> None:
    wrong = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A B"}}
    path = shell.file([wrong, shell.pod("right")])
    code, err = without_reader("apply", "-f", path, "-o", "json")
    assert (code, err) == (1, b"")
    assert shell("get", "pod", "right", "-n", shell.namespace).code == 0
