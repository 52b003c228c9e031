"""`wharfinger dev` begins again on its folder: after a stop, as another release, after its death in a rollout."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import wharfinger
from tests.integration.dev_tree import DevTree, end_all, processes_of, wait_until
from tests.integration.fleet_handle import FleetHandle
from tests.integration.gateway import NODES, PODS, audit, bound_pods, node, pod
from wharfinger.dev import binaries

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

SECONDS = 120.0
"""Beyond a lease and the ten seconds for which an actor only looks after a gap."""
NAMED = '"restartedAt": template.restarted_at,'


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A folder of which nothing runs in the end, though the test has failed."""
    yield tmp_path
    assert end_all(tmp_path) == {}


UNFINISHED = shutil.ignore_patterns("*.pyc.*")
"""What Python is compiling at the moment; what it has compiled is copied too."""


def next_release(folder: Path) -> dict[str, str]:
    """A checkout of its own that names every completed template otherwise; the variables under which it runs."""
    (package,) = wharfinger.__path__
    root = folder / "next"
    copy = Path(shutil.copytree(package, root / "src" / "wharfinger", ignore=UNFINISHED))
    module = copy / "fleet" / "spec" / "fleet.py"
    text = module.read_text()
    assert text.count(NAMED) == 1
    module.write_text(text.replace(NAMED, NAMED + ' "newDefault": True,'))
    (root / "pyproject.toml").touch()
    (root / "tools").symlink_to(copy / "tools")
    (root / ".tools").mkdir()
    for program in binaries.PROGRAMS:
        (root / ".tools" / program.name).symlink_to(binaries.locate(program))
    return {"PYTHONPATH": str(root / "src")}


def test_another_release_alone_rolls_nothing(data: Path) -> None:
    tree = DevTree(data, workers=2)
    tree.start()
    fleet = FleetHandle(tree)
    fleet.apply(template={"environment": {"NOTE": "as it was"}})
    fleet.complete(SECONDS)
    revisions, outcomes, before = fleet.revisions, fleet.outcomes, fleet.grants
    assert tree.stop() == 0

    upgraded = DevTree(data, workers=2, env=next_release(data))
    upgraded.start()
    fleet.complete(SECONDS)  # by the former release's command, which need not import anew

    code = Path(f"/proc/{upgraded.ready['pids']['workers'][0]}/environ").read_bytes()
    assert f"PYTHONPATH={data / 'next' / 'src'}".encode() in code
    assert (fleet.revisions, fleet.outcomes) == (revisions, outcomes)
    assert fleet.grants.keys() == {(slot, number + 1) for slot, number in before}
    assert {int(record["revision"]) for record in fleet.ready.values()} == {revisions}
    first = fleet.tree.etcd.revision()
    # The former release named its revision.
    FleetHandle(upgraded).apply(template={"environment": {"NOTE": "as it was"}})
    fleet.complete(SECONDS)
    verdict = fleet.verdict()
    assert (verdict.made(first), verdict.wrong) == ({}, [])
    assert upgraded.stop() == 0


def test_tree_killed_during_a_rollout_continues_without_leftovers(data: Path) -> None:
    tree = DevTree(data, workers=3)
    tree.start()
    fleet, etcd = FleetHandle(tree), tree.etcd
    first = etcd.revision()
    for number in range(5):
        etcd.put(f"{NODES}n{number}", node(f"n{number}"))
    fleet.complete(SECONDS)  # the first rollout; all being ready is not yet its end
    fleet.restart()
    wait_until(lambda: fleet.grants.keys() >= {(2, 2)} and (2, 1) not in fleet.grants, SECONDS, "one slot is done")
    known = processes_of(data)
    assert tree.process is not None
    os.kill(tree.process.pid, signal.SIGKILL)
    tree.process.wait()

    tree.start()
    for number in range(50):
        tree.etcd.put(f"{PODS}default/p{number}", pod(f"p{number}"))
    fleet.complete(SECONDS)

    assert not known.keys() & processes_of(data).keys()
    assert {int(record["revision"]) for record in fleet.ready.values()} == {2}
    assert fleet.outcomes == {1: "completed", 2: "completed"}
    verdict = fleet.verdict()
    assert verdict.wrong == []
    assert verdict.made(first)[2][:1] == [2]
    assert verdict.taken(first) == []
    wait_until(lambda: len(bound_pods(tree.etcd)) == 50, 90, "all bound")
    bound = audit(tree.etcd, first)
    assert (bound.pending, bound.doubled, bound.overcommitted) == (set(), [], [])
    assert tree.stop() == 0
