"""A process that ends with another one."""

from __future__ import annotations

import signal
import subprocess
import sys

from tests.patience import patient
from wharfinger.dev.supervisor import clean_environment

PROGRAM = """
import sys, time
from wharfinger.process.children.lives import end_with
end_with(int(sys.argv[1]))
print("on", flush=True)
time.sleep(600)
"""


def follower(pid: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(pid)], stdout=subprocess.PIPE, text=True, env=clean_environment()
    )


def test_it_is_killed_when_the_other_has_ended_and_not_before() -> None:
    other = subprocess.Popen(["sleep", "600"])
    process = follower(other.pid)
    assert process.stdout is not None
    assert process.stdout.readline() == "on\n"
    assert process.poll() is None

    other.kill()
    other.wait()

    assert process.wait(patient(20)) == -signal.SIGKILL


def test_it_does_not_begin_when_the_other_is_gone() -> None:
    other = subprocess.Popen(["true"])
    other.wait()

    assert follower(other.pid).wait(patient(30)) == -signal.SIGKILL
