"""Memory is bounded by what is allowed, and what does not fit ends with one line."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.replay.archive.test_archive import a_pass, some_decisions
from tests.replay.replay_stage import Stage
from tests.scheduling.world import pod_object
from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.replay.histories import BytesAtOnce
from wharfinger.replay.memory_limit import LEAST, MIB, MemoryLimit, MemoryLimitReached, resident

MEASURED = (
    "import resource, subprocess, sys; code = subprocess.call(sys.argv[1:]); "
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr); sys.exit(code)"
)
"""A small process between: a child's peak begins with what its parent held when it was forked."""


class Ran(NamedTuple):
    code: int
    output: str
    error: str
    mib: float


def measured(*arguments: str) -> Ran:
    """Run `wharfinger`, and see how much memory it held at most."""
    line = [sys.executable, "-c", MEASURED, sys.executable, "-m", "wharfinger", *arguments]
    found = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    error, _, kib = found.stderr.rstrip().rpartition("\n")
    return Ran(found.returncode, found.stdout, error, int(kib) / 1024)


@pytest.mark.parametrize(
    ("text", "most"), [("512Mi", 512 * MIB), ("2Gi", 2048 * MIB), ("1G", 10**9), (" 192Mi ", LEAST)]
)
def test_a_limit_is_a_quantity(text: str, most: int) -> None:
    assert MemoryLimit.parse(text).most == most


@pytest.mark.parametrize("text", ["", "much", "-1Gi", "100Mi", "0", "Gi"])
def test_what_is_no_limit_or_too_little_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--memory-limit"):
        MemoryLimit.parse(text)


def test_what_is_not_used_any_more_is_given_back_before_it_counts() -> None:
    held = [990]
    limit = MemoryLimit(1000, lambda: held[0], lambda: held.__setitem__(0, 500))

    limit.check(lambda: "for this")

    assert held == [500]


def test_what_stays_ends_with_one_line_that_says_what_to_do() -> None:
    limit = MemoryLimit(256 * MIB, lambda: 250 * MIB, lambda: None)

    with pytest.raises(MemoryLimitReached) as caught:
        limit.check(lambda: "for the state with 5 pods")

    assert str(caught.value).startswith("250Mi of memory are in use for the state with 5 pods, and --memory-limit")
    assert "allows 256Mi: give it more" in str(caught.value)


def test_memory_is_what_the_kernel_counts() -> None:
    before = resident()
    ballast = bytearray(64 * MIB)

    assert 48 * MIB < resident() - before < 128 * MIB
    assert len(ballast) == 64 * MIB


async def test_histories_have_room_for_so_many_bytes_in_turn() -> None:
    room, done = BytesAtOnce(100), list[str]()

    async def fetched(name: str, size: int) -> None:
        await room.enter(size)
        done.append(name)

    tasks = [asyncio.create_task(fetched(name, size)) for name, size in (("a", 60), ("b", 50), ("c", 10), ("d", 900))]
    await asyncio.sleep(0)
    first = list(done)
    room.leave(60)
    await asyncio.sleep(0)
    second = list(done)
    room.leave(50)
    room.leave(10)
    await asyncio.gather(*tasks)

    assert first == ["a"], "c waits behind b, or b might never have its turn"
    assert second == ["a", "b", "c"]
    assert done == ["a", "b", "c", "d"], "what is larger than all of it enters alone"


async def large(stage: Stage, file: Path, pods: int) -> None:
    """An archive of two decisions in a cluster with so many pods."""
    await some_decisions(stage, "first")
    for begin in range(0, pods, 100):
        names = [f"pod-{number}" for number in range(begin, min(begin + 100, pods))]
        await stage.world.store.txn(
            (), [Put(keys.pod("default", name), json.dumps(big(name)).encode()) for name in names]
        )
    await stage.world.seen()
    await some_decisions(stage, "last")
    await a_pass(stage, file, stage.runs, block=1 << 20)


def big(name: str) -> dict[str, Any]:
    """A pod with much that scheduling reads, as large ones have."""
    labels = {f"example.com/label-{number}": f"{name}-{number}" for number in range(60)}
    return pod_object(name, labels=labels)


def replayed(file: Path, limit: str, more: Sequence[str] = ()) -> Ran:
    return measured("replay", "--archive", str(file), "--memory-limit", limit, "-o", "json", *more)


@pytest.mark.long
async def test_a_state_that_does_not_fit_ends_in_time(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "archive"
    await large(stage, file, 14_000)

    least, enough = replayed(file, "192Mi"), replayed(file, "1Gi")
    rerun = replayed(file, "192Mi", ("--mode", "rerun"))

    for ran in (least, rerun):
        assert (ran.code, ran.output) == (1, "")
        assert "--memory-limit allows 192Mi: give it more" in ran.error
        assert ran.error.count("\n") == 0
        assert ran.mib <= 192
    assert json.loads(enough.output)["summary"]["same"] == 2
    assert 192 < enough.mib < 1024


@pytest.mark.long
@pytest.mark.parametrize("mode", ["shadow", "rerun"])
def test_the_least_limit_suffices_for_the_archive_that_is_checked_in(mode: str) -> None:
    ran = replayed(Path(__file__).with_name("demo.archive"), "192Mi", ("--mode", mode))

    report = json.loads(ran.output)
    assert report["decisions"] > 1200
    assert mode == "rerun" or report["summary"]["same"] == report["decisions"]
    assert ran.mib <= 192


def test_a_block_that_is_too_large_for_the_limit_is_not_read(tmp_path: Path) -> None:
    from wharfinger.replay.archive import archive_format
    from wharfinger.replay.archive.archived import Archive

    file = tmp_path / "archive"
    block = archive_format.packed(archive_format.META, {"cluster": "x" * (8 * MIB)})
    file.write_bytes(archive_format.HEADER + block)

    with pytest.raises(Exception, match="has a block of 8 MiB at byte 28, for which --memory-limit is too little"):
        Archive.open(file, MemoryLimit(LEAST))
