"""Descriptors of processes, by Python's own calls and by libc; a process that ends with another one."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.patience import patient
from wharfinger.dev.supervisor import clean_environment
from wharfinger.process.children import lives
from wharfinger.process.children.lives import Handle

pytestmark = pytest.mark.skipif(not lives.THERE, reason="only Linux has pidfds")


@pytest.fixture(params=["Python", "libc"])
def calls(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "libc":
        monkeypatch.delattr("os.pidfd_open", raising=False)
        monkeypatch.delattr("signal.pidfd_send_signal", raising=False)


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


@pytest.mark.usefixtures("calls")
def test_a_signal_reaches_the_process_and_its_end_is_seen(sleeper: subprocess.Popen[bytes]) -> None:
    descriptor = lives.open_pidfd(sleeper.pid)
    ended = select.poll()
    ended.register(descriptor, select.POLLIN)
    assert ended.poll(0) == []

    lives.send_signal(descriptor, signal.SIGTERM)

    assert ended.poll(patient(20) * 1000)
    assert sleeper.wait() == -signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        lives.send_signal(descriptor, signal.SIGTERM)
    os.close(descriptor)


@pytest.mark.usefixtures("calls")
def test_a_process_that_is_gone_has_no_descriptor() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()

    with pytest.raises(ProcessLookupError):
        lives.open_pidfd(gone.pid)


@pytest.mark.usefixtures("calls")
def test_flags_that_the_kernel_does_not_know_are_refused(sleeper: subprocess.Popen[bytes]) -> None:
    descriptor = lives.open_pidfd(sleeper.pid)

    with pytest.raises(OSError, match="Invalid argument"):
        lives.send_signal(descriptor, signal.SIGTERM, 1 << 20)

    assert sleeper.poll() is None
    os.close(descriptor)


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("why", [errno.ENOSYS, errno.EPERM])
def test_without_a_descriptor_the_life_of_a_process_is_compared(
    sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, why: int
) -> None:
    """A kernel before 5.3, or a sandbox that filters the call."""

    def refused(*_: object) -> int:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr("os.pidfd_open", refused, raising=False)
    handle = Handle.of_child(sleeper.pid)

    handle.signal(signal.SIGTERM)

    assert sleeper.wait(patient(20)) == -signal.SIGTERM
    handle.signal(signal.SIGTERM)


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
