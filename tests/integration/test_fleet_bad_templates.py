"""Templates that nothing good comes of: they stop at the first step, say why, and leave what runs alone.

A second agent on the tree's servers has installs that are broken in different ways; the tree's own has none.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import free_port
from tests.integration.dev_tree import LEASE_TTL, DevTree, wait_until
from tests.integration.fleet_handle import FLEETS, FleetHandle, instances_of
from tests.integration.fleet_judge import Life

pytestmark = pytest.mark.timeout(400)

SECONDS = 120.0
QUICK = {"drainTimeoutSeconds": 5.0, "killTimeoutSeconds": 2.0}
IMPATIENT = {**QUICK, "instanceDeadlineSeconds": 6.0, "progressDeadlineSeconds": 12.0}
"""Only where nothing good is to start: that takes longer on a busy machine."""
ENDS_AT_ONCE = "#!/bin/sh\necho 'the disk is on fire'\nexit 7\n"
NEVER_READY = f"""#!/bin/sh
PYTHONPATH='{os.environ.get("PYTHONPATH", "")}' exec {sys.executable} -m wharfinger "$@" --temporal=127.0.0.1:9
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    folder = tmp_path_factory.mktemp("bad")
    tree = DevTree(folder, workers=2)
    tree.start()
    other = _agent(tree, folder)
    try:
        wait_until(lambda: "other" in tree.cli("host", "list").stdout, 60, "the second agent is there")
        yield tree
    finally:
        other.terminate()
        assert other.wait(30) == 0
        assert tree.stop() == 0
    assert instances_of(folder) == {}


def _agent(tree: DevTree, folder: Path) -> subprocess.Popen[bytes]:
    installs = []
    for name, script in (("ends", ENDS_AT_ONCE), ("hangs", NEVER_READY)):
        path = folder / name
        path.write_text(script)
        path.chmod(0o755)
        installs.append(f"--install={name}={path}")
    with (folder / "other.log").open("wb") as log:
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "wharfinger", "agent", "--host=other", "--no-control"),
                f"--data-dir={folder / 'other'}",
                f"--health-port={free_port()}",
                f"--lease-ttl={LEASE_TTL}",
                "--stop-instances=5",
                *installs,
            ],
            env=tree.environment, stdout=log, stderr=log,
        )  # fmt: skip


@pytest.fixture
def fleet(tree: DevTree) -> Iterator[FleetHandle]:
    fleet = FleetHandle(tree)
    fleet.apply(replicas=2, **QUICK)
    fleet.complete(SECONDS)
    yield fleet
    assert fleet.verdict().wrong == []


def pids(fleet: FleetHandle) -> dict[Life, int]:
    """Of what is ready."""
    return {life: record["pid"] for life, record in fleet.ready.items()}


def test_a_version_that_nobody_has_is_waited_for_and_nothing_is_touched(fleet: FleetHandle) -> None:
    before, first = pids(fleet), fleet.tree.etcd.revision()

    fleet.apply(template={"version": "v9"}, **QUICK)
    fleet.until_state("NoHost", SECONDS)

    assert "no host has version v9" in fleet.cli("status", "common")
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    assert pids(fleet) == before
    verdict = fleet.verdict()
    assert (verdict.made(first), verdict.least_ready(first)) == ({}, 2)


def test_a_version_that_ends_at_once_stops_at_the_first_slot_and_undo_ends_nothing_else(fleet: FleetHandle) -> None:
    before, first = pids(fleet), fleet.tree.etcd.revision()
    new = fleet.revisions + 1

    fleet.apply(template={"version": "ends"}, **QUICK)
    wait_until(lambda: any(slot["crashes"] >= 2 for slot in fleet.status["slots"]), SECONDS, "it crashed twice")

    told = fleet.cli("status", "common")
    assert "CrashLoop" in told
    assert "the disk is on fire" in told
    assert pids(fleet) == before
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    assert pids(fleet) == before
    verdict = fleet.verdict()
    assert verdict.made(first).keys() == {1}
    assert set(verdict.made(first)[1]) == {new}
    assert (verdict.drains, verdict.least_ready(first)) == ([], 2)
    assert verdict.most_living(first) == 3


def test_a_version_that_never_gets_ready_is_rolled_back_and_is_not_tried_again(fleet: FleetHandle) -> None:
    before, first = pids(fleet), fleet.tree.etcd.revision()
    new = fleet.revisions + 1

    fleet.apply(template={"version": "hangs"}, progressDeadlineAction="Revert", **IMPATIENT)
    wait_until(lambda: fleet.outcomes.get(new) == "failed", SECONDS, "it is given up")
    assert fleet.wait(30) == 1
    wait_until(lambda: fleet.grants.keys() == before.keys(), SECONDS, "the newcomer is gone")
    assert pids(fleet) == before
    given = fleet.tree.etcd.revision()
    # A write of the spec, whose template is the bad one still.
    fleet.apply(replicas=3, template={"version": "hangs"}, progressDeadlineAction="Revert", **QUICK)
    wait_until(lambda: len(fleet.ready) == 3, SECONDS, "a third one")

    verdict = fleet.verdict()
    assert pids(fleet).items() >= before.items()
    assert {int(record["revision"]) for record in fleet.ready.values()} == {1}
    assert verdict.made(given) == {2: [1]}
    assert verdict.made(first).keys() == {1, 2}
    assert (verdict.drains, verdict.least_ready(first)) == ([], 2)
    fleet.cli("scale", "common", "2")
    wait_until(lambda: len(fleet.ready) == 2, SECONDS, "two again")
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    assert pids(fleet) == before


def test_a_configuration_that_cannot_be_followed_leaves_everything_as_it_is(fleet: FleetHandle) -> None:
    """Refused by the console; somebody wrote it all the same."""
    etcd, before, first = fleet.tree.etcd, pids(fleet), fleet.tree.etcd.revision()
    plugins = {"filter": {"enabled": [{"name": "NoSuchPlugin"}]}}
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
    template = {"schedulerConfiguration": configuration}
    with pytest.raises(AssertionError, match="NoSuchPlugin"):
        fleet.apply(template=template)
    written = json.loads(etcd.values(FLEETS + "common")[FLEETS + "common"])
    good = json.loads(json.dumps(written))

    written["spec"]["template"] = template
    etcd.put(FLEETS + "common", written)
    fleet.until_state("SpecInvalid", SECONDS)

    assert "NoSuchPlugin" in fleet.condition("SpecInvalid")["message"]
    assert fleet.wait(30) == 1
    etcd.put(FLEETS + "common", good)
    fleet.complete(SECONDS)
    assert pids(fleet) == before
    assert fleet.verdict().made(first) == {}
