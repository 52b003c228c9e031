"""Tests that forks of pytest run are reported as if pytest itself had run them (tests/forked_session.py)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patience import PROCESS, patient

pytestmark = pytest.mark.long  # whole sessions of pytest

ROOT = Path(__file__).parents[2]
CONFTEST = """
from tests.forked_session import ForkedSession

def pytest_configure(config):
    config.pluginmanager.register(ForkedSession())
"""
OUTCOMES = """
import warnings, pytest

@pytest.fixture(scope="module")
def broken_at_the_end():
    yield
    raise OSError("cannot be torn down")

@pytest.mark.parametrize("number", range(20))
def test_passes(number, tmp_path):
    (tmp_path / "file").write_text("")

def test_fails():
    print("what it printed")
    assert 1 + 1 == 3

@pytest.mark.skip(reason="not here")
def test_is_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_fails_as_known():
    raise ValueError

def test_warns():
    warnings.warn("something is old", DeprecationWarning, stacklevel=1)

async def never_awaited():
    pass

def test_warns_of_a_coroutine():
    never_awaited()

def test_last(broken_at_the_end):
    pass
"""
PIDS = """
import os, pytest

@pytest.mark.parametrize("number", range(16))
def test_number_and_folder(number, tmp_path):
    assert f"process{os.environ['TESTS_PROCESS']}" in tmp_path.parts
"""
FOLDER = """
import os, pytest

@pytest.fixture(scope="package")
def shared():
    with open(os.environ["STARTS"], "a") as starts:
        starts.write("x")
    yield
    raise OSError("the shared one cannot be torn down")
"""
IN_FOLDER = """
import pytest

@pytest.mark.parametrize("number", range(32))
def test_shares(number, shared):
    pass
"""
DIES = """
import os, signal

def test_dies():
    os.kill(os.getpid(), signal.SIGKILL)
"""


def forked(folder: Path, files: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    """Pytest on these files, in two forks."""
    for name, text in {"conftest.py": CONFTEST, **files}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    environment = {name: value for name, value in os.environ.items() if name != PROCESS}
    environment |= {"TESTS_PROCESSES": "2", "PYTHONPATH": str(ROOT), "STARTS": str(folder / "starts")}
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", str(folder), *options, str(folder)]
    return subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, timeout=patient(60), check=False
    )


def test_outcomes_are_those_of_one_process(tmp_path: Path) -> None:
    done = forked(tmp_path, {"test_outcomes.py": OUTCOMES, "test_pids.py": PIDS})

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    (summary,) = re.findall(r"^\d+ failed.*$", done.stdout, flags=re.M)
    assert summary.partition(" in ")[0] == "1 failed, 39 passed, 1 skipped, 1 xfailed, 2 warnings, 1 error"
    assert "assert (1 + 1) == 3" in done.stdout
    assert "what it printed" in done.stdout
    assert "DeprecationWarning: something is old" in done.stdout
    assert "'never_awaited' was never awaited" in done.stdout
    assert "OSError: cannot be torn down" in done.stdout


def test_fixture_of_a_folder_is_kept_and_may_fail_its_last_test(tmp_path: Path) -> None:
    folder = {"room/__init__.py": "", "room/conftest.py": FOLDER, "room/test_one.py": IN_FOLDER}
    done = forked(tmp_path, folder | {"test_pids.py": PIDS})

    processes = len((tmp_path / "starts").read_text())
    assert processes <= 2
    (summary,) = re.findall(r"^\d+ passed.*$", done.stdout, flags=re.M)
    assert summary.partition(" in ")[0] == f"48 passed, {processes} error" + "s" * (processes > 1)
    assert "OSError: the shared one cannot be torn down" in done.stdout


def test_tests_of_a_process_that_dies_have_failed(tmp_path: Path) -> None:
    done = forked(tmp_path, {"test_pids.py": PIDS, "test_z.py": DIES})

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "no process ran this test to its end: one ended by signal 9" in done.stdout
    assert re.search(r"^FAILED test_z\.py::test_dies", done.stdout, flags=re.M)
    assert "1 failed, 16 passed" in done.stdout


def test_first_failure_ends_the_session_where_it_is_asked_to(tmp_path: Path) -> None:
    slow = "import time\n\ndef test_waits():\n    time.sleep(600)\n"
    done = forked(tmp_path, {"test_fails.py": "def test_fails():\n    assert False\n", "test_waits.py": slow}, "-x")

    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout
    assert "stopping after 1 failures" in done.stdout
