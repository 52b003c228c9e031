"""The supervisor with small shell programs as children; real servers come in test_tree."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import patient
from wharfinger.dev.supervisor import BackOff, ChildSpec, Supervisor, clean_environment
from wharfinger.errors import ServerError
from wharfinger.process.children import lives

WITHIN = patient(30)
"""Seconds for a small program to be up."""
QUICK = BackOff(first=0.01, longest=0.05)


def spec(folder: Path, script: str, *, name: str = "child", stop_within: float = 5.0) -> ChildSpec:
    """A child that is up once it has made the file `<name>.up`."""
    up = folder / f"{name}.up"

    async def is_up() -> bool:
        return up.exists()

    return ChildSpec(
        name,
        lambda: ["/bin/sh", "-c", script.replace("UP", str(up))],
        clean_environment(),
        folder / f"{name}.log",
        is_up,
        stop_within,
    )


def supervisor(lines: list[str], changed: Callable[[], None] = lambda: None) -> Supervisor:
    return Supervisor(say=lines.append, changed=changed, back_off=QUICK, poll=0.01, steady=0.0)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(patient(30)):
        while not condition():
            await asyncio.sleep(0.01)


async def test_child_that_dies_is_restarted_and_reported(tmp_path: Path) -> None:
    lines: list[str] = []
    keeper = supervisor(lines)
    child = await keeper.start(spec(tmp_path, "touch UP; exec sleep 60"), within=WITHIN)
    first = child.pid

    os.kill(first, signal.SIGKILL)
    await until(lambda: child.up and child.pid != first)
    await keeper.stop([child])

    assert lines == [f"child ({first}) died: killed by SIGKILL", f"child started again as {child.pid}"]
    assert lives.life(child.pid) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the policy")
async def test_children_and_grandchildren_run_in_batch_but_not_the_supervisor(tmp_path: Path) -> None:
    before = os.sched_getscheduler(0)
    keeper = supervisor([])
    child = await keeper.start(spec(tmp_path, "sleep 60 & echo $! > UP.inner; touch UP; wait"), within=WITHIN)
    policies = [os.sched_getscheduler(pid) for pid in (child.pid, int((tmp_path / "child.up.inner").read_text()))]
    await keeper.stop([child])

    assert policies == [os.SCHED_BATCH] * 2
    assert os.sched_getscheduler(0) == before


async def test_a_child_that_ends_at_once_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    keeper = supervisor([])

    with pytest.raises(ServerError, match=r"child ended at once \(exit code 3\); its last line: no room"):
        await keeper.start(spec(tmp_path, "echo no room; exit 3"), within=WITHIN)


async def test_a_child_may_be_given_another_try_before_it_is_up(tmp_path: Path) -> None:
    """Its port was taken between the look and the start, say."""
    lines: list[str] = []
    keeper = supervisor(lines)
    script = f"test -e {tmp_path}/seen || {{ touch {tmp_path}/seen; echo taken; exit 1; }}; touch UP; exec sleep 60"
    child = await keeper.start(spec(tmp_path, script), within=WITHIN, tries=2)
    await keeper.stop([child])

    assert len(lines) == 1
    assert lines[0].startswith("child ended at once (exit code 1); its last line: taken")


async def test_a_child_that_is_stopped_while_it_starts_is_not_tried_again(tmp_path: Path) -> None:
    lines: list[str] = []
    keeper = supervisor(lines)
    starting = asyncio.create_task(keeper.start(spec(tmp_path, "exec sleep 60"), within=WITHIN, tries=3))
    await until(lambda: keeper.children and keeper.children[0].pid)
    pid = keeper.children[0].pid
    await keeper.stop(list(keeper.children))

    with pytest.raises(ServerError, match="child ended at once"):
        await starting
    assert (lines, keeper.children[0].pid) == ([], pid)


async def test_a_child_that_does_not_come_up_is_an_error(tmp_path: Path) -> None:
    keeper = supervisor([])

    with pytest.raises(ServerError, match="child is not up after"):
        await keeper.start(spec(tmp_path, "exec sleep 60"), within=0.2)
    await keeper.stop(list(keeper.children))


async def test_a_child_that_ignores_sigterm_is_killed_in_time(tmp_path: Path) -> None:
    lines: list[str] = []
    keeper = supervisor(lines)
    script = "trap '' TERM; touch UP; while :; do sleep 1; done"
    child = await keeper.start(spec(tmp_path, script, stop_within=0.2), within=WITHIN)

    await keeper.stop([child])

    assert lines == ["child does not stop: killed"]
    assert lives.life(child.pid) is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells whose children are whose")
async def test_what_a_dead_child_left_in_its_session_is_ended_too(tmp_path: Path) -> None:
    keeper = supervisor([])
    left = tmp_path / "left"
    child = await keeper.start(spec(tmp_path, f"sleep 60 & echo $! > {left}; touch UP; wait"), within=WITHIN)
    grandchild = lives.life(int(left.read_text()))
    assert grandchild is not None

    os.kill(child.pid, signal.SIGKILL)
    await until(lambda: not grandchild.alive)
    await keeper.stop([child])


async def test_change_is_reported_when_a_replacement_is_up(tmp_path: Path) -> None:
    states: list[tuple[int, bool]] = []
    keeper = supervisor([])
    child = await keeper.start(spec(tmp_path, "touch UP; exec sleep 60"), within=WITHIN)
    keeper.changed = lambda: states.append((child.pid, child.up))

    os.kill(child.pid, signal.SIGKILL)
    await until(lambda: (child.pid, True) in states)
    await keeper.stop([child])

    assert states == [(child.pid, False), (child.pid, True)]


def test_delays_double_up_to_the_longest() -> None:
    back_off = BackOff(first=0.2, longest=1.0)

    assert [back_off.delay(deaths) for deaths in (1, 2, 3, 4, 100)] == [0.2, 0.4, 0.8, 1.0, 1.0]


def test_children_do_not_inherit_where_other_servers_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHARFINGER_ETCD", "http://elsewhere")
    monkeypatch.setenv("TEMPORAL_API_KEY", "secret")
    monkeypatch.setenv("ETCD_DATA_DIR", "/elsewhere")

    inherited = set(clean_environment()) & {"WHARFINGER_ETCD", "TEMPORAL_API_KEY", "ETCD_DATA_DIR"}

    assert inherited == set()
