from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from wharfinger.errors import ServerError
from wharfinger.process.children import locks
from wharfinger.process.children.lives import ProcessLife, life

HOLDER = textwrap.dedent(
    """
    import sys, pathlib
    from wharfinger.process.children import locks
    lock = locks.hold(pathlib.Path(sys.argv[1]))
    print("held", flush=True)
    sys.stdin.read()
    """
)


def start(path: Path, *, descriptors: tuple[int, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=descriptors,
    )


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_file_is_locked_as_long_as_its_process_lives(tmp_path: Path) -> None:
    path = tmp_path / "common" / "0" / "1.lock"
    with start(path) as process:
        assert said(process) == "held"
        assert locks.locked(path)
        assert locks.signer(path) == life(process.pid) == locks.holder(path)
        process.kill()

    assert not locks.locked(path)
    signed = locks.signer(path)
    assert signed is not None
    assert not signed.alive


def test_lock_held_by_another_process_cannot_be_taken(tmp_path: Path) -> None:
    path = tmp_path / "1.lock"
    with start(path) as process:
        assert said(process) == "held"

        assert locks.take(path) is None
        with pytest.raises(ServerError, match="another process is this instance"):
            locks.hold(path)
        process.kill()


def test_a_child_is_born_with_the_lock_and_its_parent_may_go(tmp_path: Path) -> None:
    path = tmp_path / "1.lock"
    lock = locks.take(path)
    assert lock is not None
    with start(path, descriptors=(lock.descriptor,)) as process:
        lock.close()
        assert locks.locked(path)  # before the child has run a line of its own
        assert locks.holder(path) == life(process.pid)
        assert said(process) == "held"
        assert locks.signer(path) == life(process.pid)
        process.kill()

    assert not locks.locked(path)


def test_reader_of_an_unsigned_file_is_not_its_holder(tmp_path: Path) -> None:
    """A backup, or any reader: it must never be ended in an instance's place."""
    path = tmp_path / "1.lock"
    lock = locks.take(path)
    assert lock is not None
    with path.open() as opened, subprocess.Popen(["/bin/sleep", "60"], pass_fds=(opened.fileno(),)) as reader:
        assert os.path.samestat(os.stat(f"/proc/{reader.pid}/fd/{opened.fileno()}"), path.stat())
        assert locks.locked(path)
        assert locks.holder(path) is None  # we are never our own instance
        reader.kill()
    lock.close()


def test_what_is_locked_is_the_file_that_has_the_name(tmp_path: Path) -> None:
    """Two take and remove it in turn: a process that opened it before it was removed must not take it for its own."""
    path = tmp_path / "1.lock"
    strangers: list[int] = []

    def take_and_remove() -> None:
        for number in range(2000):
            lock = locks.take(path)
            if lock is not None:
                try:
                    if os.fstat(lock.descriptor).st_ino != path.stat().st_ino:
                        strangers.append(number)
                except FileNotFoundError:
                    strangers.append(number)
                lock.remove()

    threads = [threading.Thread(target=take_and_remove) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert strangers == []


def test_signature_of_another_boot_names_no_process(tmp_path: Path) -> None:
    path = tmp_path / "1.lock"
    lock = locks.take(path)
    own = life(os.getpid())
    assert lock is not None
    assert own is not None
    lock.sign(ProcessLife(own.pid, "another-boot:" + own.started.partition(":")[2]))
    lock.close()

    signed = locks.signer(path)

    assert signed is not None
    assert not signed.alive
    assert locks.holder(path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"pid": "x", "started": "y"}'])
def test_damaged_file_names_no_process(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "1.lock"
    path.write_bytes(content)

    assert locks.signer(path) is None
    assert not locks.locked(path)


def test_looking_at_a_lock_makes_no_file(tmp_path: Path) -> None:
    assert not locks.locked(tmp_path / "1.lock")
    assert not list(tmp_path.iterdir())
