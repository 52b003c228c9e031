"""A host that does not reach etcd for longer than a lease is not replaced for that, and can be fenced off.

Two agents beside that of the tree: what is between `far` and etcd can be cut.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator

import pytest

from tests.faults.proxy import Mode, Network, Proxy
from tests.integration.dev_tree import DevTree, instances_of, running_tree, wait_until
from tests.integration.fleet_handle import FleetHandle
from tests.integration.fleet_judge import EXITS, GRANTS
from wharfinger.process.children import lives

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

SECONDS = 120.0
NUMBERS = itertools.count()
SCRIPT = f"""#!/bin/sh
PYTHONPATH='{os.environ.get("PYTHONPATH", "")}' exec {sys.executable} -m wharfinger "$@"
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    with running_tree(tmp_path_factory.mktemp("partition"), workers=0) as tree:
        yield tree


@pytest.fixture(scope="module")
def far(tree: DevTree) -> Iterator[Proxy]:
    """The way from the agent `far` to etcd; there is `near` too, whose way is always open."""
    network = Network()
    way = network.proxy(int(tree.ready["etcd"].rsplit(":", 1)[1]))
    install = tree.folder / "install"
    install.write_text(SCRIPT)
    install.chmod(0o755)
    own = f"--install=own={install}"
    with tree.agent("far", own, etcd=f"http://127.0.0.1:{way.port}"), tree.agent("near", own):
        yield way
        way.set(Mode.OPEN)
    network.close()


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


def test_instance_that_only_went_unseen_is_not_replaced(fleet: FleetHandle, far: Proxy) -> None:
    before = fleet.serving(1, SECONDS)

    far.set(Mode.CUT)
    wait_until(lambda: not fleet.instances, SECONDS, "its lease is over")
    assert "unknown" in fleet.cli("status", fleet.tenant)
    wait_until(lambda: "far" not in fleet.tree.hosts, SECONDS, "so is its host's")
    far.set(Mode.OPEN)

    fleet.until_serving(before, SECONDS)
    fleet.complete(SECONDS)
    verdict = fleet.verdict()
    assert verdict.given[-1] == max(before)
    assert (verdict.drains, verdict.ended) == ([], [])


def test_unreachable_fenced_instance_ends_and_never_registers_again(fleet: FleetHandle, far: Proxy) -> None:
    """As when its host is given up: its grant is deleted, and the slot lives elsewhere beside what still runs there."""
    ((life, pid),) = fleet.serving(1, SECONDS).items()
    process = lives.life(pid)
    assert process is not None

    far.set(Mode.CUT)
    wait_until(lambda: not fleet.instances and "far" not in fleet.tree.hosts, SECONDS, "their leases are over")
    fleet.tree.etcd.delete(f"{GRANTS}{fleet.tenant}/{life[0]}/{life[1]}")
    wait_until(lambda: fleet.ready.keys() == {(life[0], life[1] + 1)}, SECONDS, "its successor is ready elsewhere")
    assert {one["host"] for one in fleet.grants.values()} == {"near"}
    assert process.alive
    assert len(instances_of(fleet.tree.folder)) == 2
    far.set(Mode.OPEN)

    wait_until(lambda: not process.alive, 60, "the one that was fenced off ends")
    assert list(instances_of(fleet.tree.folder).values()) == [f"{fleet.tenant}/{life[0]}/{life[1] + 1}"]
    fleet.complete(SECONDS)
    assert not [key for key in fleet.tree.etcd.values(EXITS) if key.startswith(f"{EXITS}{fleet.tenant}/")]
