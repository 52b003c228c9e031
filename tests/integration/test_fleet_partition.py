"""A host that does not reach etcd for longer than a lease is not replaced for that, and can be fenced off.

Two agents beside that of the tree: what is between `far` and etcd can be cut.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import free_port
from tests.faults.proxy import Mode, Network, Proxy
from tests.integration.dev_tree import LEASE_TTL, DevTree, wait_until
from tests.integration.fleet_handle import FleetHandle, instances_of
from tests.integration.fleet_judge import EXITS, GRANTS
from wharfinger.dev import processes

pytestmark = pytest.mark.timeout(400)

SECONDS = 120.0
NUMBERS = itertools.count()
SCRIPT = f"""#!/bin/sh
PYTHONPATH='{os.environ.get("PYTHONPATH", "")}' exec {sys.executable} -m wharfinger "$@"
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    folder = tmp_path_factory.mktemp("partition")
    tree = DevTree(folder, workers=0)
    tree.start()
    yield tree
    assert tree.stop() == 0
    assert instances_of(folder) == {}


@pytest.fixture(scope="module")
def far(tree: DevTree) -> Iterator[Proxy]:
    """The way from the agent `far` to etcd; there is `near` too, whose way is always open."""
    network = Network()
    way = network.proxy(int(tree.ready["etcd"].rsplit(":", 1)[1]))
    with ExitStack() as agents:
        for host, etcd in (("far", f"http://127.0.0.1:{way.port}"), ("near", tree.ready["etcd"])):
            agents.callback(_agent(tree, host, etcd))
        wait_until(lambda: {"far", "near"} <= hosts(tree), 60, "both are there")
        yield way
        way.set(Mode.OPEN)
    network.close()


def _agent(tree: DevTree, host: str, etcd: str) -> Callable[[], None]:
    """Start an agent; what ends it, and its instances."""
    install = tree.folder / "install"
    install.write_text(SCRIPT)
    install.chmod(0o755)
    with (tree.folder / f"{host}.log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "wharfinger", "agent", f"--host={host}", "--no-control"),
                f"--data-dir={tree.folder / host}",
                f"--health-port={free_port()}",
                f"--lease-ttl={LEASE_TTL}",
                f"--install=own={install}",
                "--stop-instances=5",
            ],
            env={**tree.environment, "WHARFINGER_ETCD": etcd}, stdout=log, stderr=log,
        )  # fmt: skip

    def end() -> None:
        process.terminate()
        assert process.wait(30) == 0

    return end


def hosts(tree: DevTree) -> set[str]:
    return {line.split()[0] for line in tree.cli("host", "list").stdout.splitlines()[1:]}


@pytest.fixture
def fleet(tree: DevTree, far: Proxy) -> Iterator[FleetHandle]:
    """One instance on `far`, complete; a fleet that is made anew under its name would count from 1 again."""
    tree.cli("host", "cordon", "near")
    fleet = FleetHandle(tree, f"tenant{next(NUMBERS)}")
    fleet.apply(replicas=1, template={"version": "own"})
    fleet.complete(SECONDS)
    assert {record["host"] for record in fleet.grants.values()} == {"far"}
    tree.cli("host", "uncordon", "near")
    yield fleet
    far.set(Mode.OPEN)
    assert fleet.verdict().wrong == []
    tree.cli("fleet", "delete", fleet.tenant)
    assert fleet.wait(SECONDS, "deleted") == 0
    wait_until(lambda: instances_of(tree.folder) == {}, 20, "no process is left")


def test_who_only_went_unseen_is_not_replaced(fleet: FleetHandle, far: Proxy) -> None:
    before = fleet.ready

    far.set(Mode.CUT)
    wait_until(lambda: not fleet.instances, 20, "its lease is over")
    assert "unknown" in fleet.cli("status", fleet.tenant)
    wait_until(lambda: not _registered(fleet.tree, "far"), 20, "so is its host's")
    far.set(Mode.OPEN)

    wait_until(lambda: fleet.ready.keys() == before.keys(), SECONDS, "it is back")
    assert {life: one["pid"] for life, one in fleet.ready.items()} == {life: one["pid"] for life, one in before.items()}
    fleet.complete(SECONDS)
    verdict = fleet.verdict()
    assert verdict.given[-1] == max(before)
    assert (verdict.drains, verdict.ended) == ([], [])


def _registered(tree: DevTree, host: str) -> bool:
    return tree.etcd.get(f"/registry/wharfinger.dev/hosts/{host}") is not None


def test_who_is_fenced_off_while_nobody_reaches_it_ends_and_never_registers_again(
    fleet: FleetHandle, far: Proxy
) -> None:
    """As when its host is given up: its grant is deleted, and the slot lives elsewhere beside what still runs there."""
    ((life, record),) = fleet.ready.items()
    process = processes.life(record["pid"])
    assert process is not None

    far.set(Mode.CUT)
    wait_until(lambda: not fleet.instances and not _registered(fleet.tree, "far"), 20, "their leases are over")
    fleet.tree.etcd.delete(f"{GRANTS}{fleet.tenant}/{life[0]}/{life[1]}")
    wait_until(lambda: fleet.ready.keys() == {(life[0], life[1] + 1)}, SECONDS, "its successor is ready elsewhere")
    assert {one["host"] for one in fleet.ready.values()} == {"near"}
    assert process.alive
    assert len(instances_of(fleet.tree.folder)) == 2
    far.set(Mode.OPEN)

    wait_until(lambda: not process.alive, 60, "the one that was fenced off ends")
    assert list(instances_of(fleet.tree.folder).values()) == [f"{fleet.tenant}/{life[0]}/{life[1] + 1}"]
    fleet.complete(SECONDS)
    assert not [key for key in fleet.tree.etcd.values(EXITS) if key.startswith(f"{EXITS}{fleet.tenant}/")]
