"""Templates that nothing good comes of: they stop at the first step, say why, and leave what runs alone.

A second agent on the tree's servers has installs that are broken in different ways; the tree's own has none.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

import pytest

from tests.integration.dev_tree import USUAL_TTL, DevTree, running_tree, wait_until
from tests.integration.fleet_handle import FLEETS, FleetHandle

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

SECONDS = 120.0
QUICK = {"drainTimeoutSeconds": 5.0, "killTimeoutSeconds": 2.0}
IMPATIENT = {**QUICK, "instanceDeadlineSeconds": 6.0, "progressDeadlineSeconds": 12.0}
"""Only where nothing good is to start: that takes longer on a busy machine."""
LIVED = 6.0
"""Seconds for which an instance of the version that dies is ready."""
SOAK = 20.0
DIES = f"""#!{sys.executable}
import os, socket, sys, threading, time, urllib.request

def die_once_ready(port):
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{{port}}/readyz", timeout=1):
                break
        except OSError:
            time.sleep(0.2)
    time.sleep({LIVED})
    print("the disk is on fire", flush=True)
    os._exit(7)

sys.path[:0] = {[path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]!r}
for place, argument in enumerate(sys.argv):
    if argument.startswith("--health-port="):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        sys.argv[place] = f"--health-port={{port}}"
        threading.Thread(target=die_once_ready, args=(port,), daemon=True).start()
from wharfinger.cli.main import main
main()
"""
ENDS_AT_ONCE = "#!/bin/sh\necho 'the disk is on fire'\nexit 7\n"
NEVER_READY = f"""#!/bin/sh
PYTHONPATH='{os.environ.get("PYTHONPATH", "")}' exec {sys.executable} -m wharfinger "$@" --temporal=127.0.0.1:9
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevTree]:
    folder = tmp_path_factory.mktemp("bad")
    installs = []
    for name, script in (("ends", ENDS_AT_ONCE), ("hangs", NEVER_READY), ("dies", DIES)):
        path = folder / name
        path.write_text(script)
        path.chmod(0o755)
        installs.append(f"--install={name}={path}")
    with running_tree(folder, workers=2, lease_ttl=USUAL_TTL) as tree, tree.agent("other", *installs):
        yield tree


@pytest.fixture
def fleet(tree: DevTree) -> Iterator[FleetHandle]:
    fleet = FleetHandle(tree)
    fleet.apply(replicas=2, **QUICK)
    fleet.complete(SECONDS)
    yield fleet
    assert fleet.verdict().wrong == []


def test_version_that_no_host_has_is_waited_for_and_changes_nothing(fleet: FleetHandle) -> None:
    before, first = fleet.serving(2, SECONDS), fleet.tree.etcd.revision()

    fleet.apply(template={"version": "v9"}, **QUICK)
    fleet.until_state("NoHost", SECONDS)

    assert "no host has version v9" in fleet.cli("status", "common")
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    fleet.until_serving(before, SECONDS)
    verdict = fleet.verdict()
    assert (verdict.made(first), verdict.least_ready(first)) == ({}, 2)


def test_version_that_exits_at_once_stops_at_the_first_slot_until_undo(fleet: FleetHandle) -> None:
    before, first = fleet.serving(2, SECONDS), fleet.tree.etcd.revision()
    new = fleet.revisions + 1

    patient = {"rollingUpdate": {"failureThreshold": 2}}  # one slot that fails leaves the rollout open
    fleet.apply(template={"version": "ends"}, strategy=patient, **QUICK)
    wait_until(lambda: any(slot["crashes"] >= 2 for slot in fleet.status["slots"]), SECONDS, "it crashed twice")

    def told() -> bool:
        """While it waits to try again; a look may fall into a try, but the waits get longer and longer."""
        status = fleet.cli("status", "common")
        return "CrashLoop" in status and "the disk is on fire" in status

    wait_until(told, SECONDS, "it is told why")
    fleet.until_serving(before, SECONDS)
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    fleet.until_serving(before, SECONDS)
    verdict = fleet.verdict()
    assert verdict.made(first).keys() == {1}
    assert set(verdict.made(first)[1]) == {new}
    assert (verdict.asked(first), verdict.least_ready(first)) == ([], 2)
    assert verdict.most_living(first) == 3


def test_version_that_dies_after_ready_stops_at_the_first_slot_until_undo(fleet: FleetHandle) -> None:
    before, first = fleet.serving(2, SECONDS), fleet.tree.etcd.revision()
    new = fleet.revisions + 1

    fleet.apply(template={"version": "dies"}, strategy={"rollingUpdate": {"soakSeconds": SOAK}}, **QUICK)
    fleet.until_state("Paused", SECONDS)

    stopped = fleet.condition("Paused")
    assert stopped["reason"] == "FailureThresholdExceeded"
    assert "ended unasked 2 times" in stopped["message"]
    assert "the disk is on fire" in stopped["message"]
    assert fleet.wait(SECONDS) == 1
    assert new not in fleet.outcomes
    kept = {life: pid for life, pid in before.items() if life[0] == 0}
    assert kept.items() <= fleet.pids.items()
    verdict = fleet.verdict()
    assert verdict.made(first)[1][:2] == [new, new]
    assert [life[0] for life in verdict.asked(first)] == [1]
    assert verdict.least_ready(first) >= 1

    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    assert fleet.serving(2, SECONDS).items() >= kept.items()
    assert {record["revision"] for record in fleet.grants.values()} == {1}
    assert fleet.outcomes.get(new) != "completed"


def test_version_that_dies_after_ready_is_reverted_to_the_proven_one(fleet: FleetHandle) -> None:
    before, new = fleet.serving(2, SECONDS), fleet.revisions + 1
    strategy = {"rollingUpdate": {"soakSeconds": SOAK}}

    fleet.apply(template={"version": "dies"}, strategy=strategy, progressDeadlineAction="Revert", **QUICK)
    wait_until(lambda: fleet.outcomes.get(new) == "failed", SECONDS, "it is given up")

    assert fleet.wait(SECONDS) == 1
    wait_until(lambda: {record["revision"] for record in fleet.grants.values()} == {1}, SECONDS, "it is back")
    now = fleet.serving(2, SECONDS)
    assert {life: pid for life, pid in before.items() if life[0] == 0}.items() <= now.items()
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    fleet.until_serving(now, SECONDS)


def test_version_that_never_gets_ready_is_rolled_back_without_retry(fleet: FleetHandle) -> None:
    before, first = fleet.serving(2, SECONDS), fleet.tree.etcd.revision()
    new = fleet.revisions + 1

    fleet.apply(template={"version": "hangs"}, progressDeadlineAction="Revert", **IMPATIENT)
    wait_until(lambda: fleet.outcomes.get(new) == "failed", SECONDS, "it is given up")
    assert fleet.wait(SECONDS) == 1
    wait_until(lambda: fleet.grants.keys() == before.keys(), SECONDS, "the newcomer is gone")
    fleet.until_serving(before, SECONDS)
    given = fleet.tree.etcd.revision()
    # A write of the spec, whose template is the bad one still.
    fleet.apply(replicas=3, template={"version": "hangs"}, progressDeadlineAction="Revert", **QUICK)

    assert fleet.serving(3, SECONDS).items() >= before.items()
    assert {record["revision"] for record in fleet.grants.values()} == {1}
    verdict = fleet.verdict()
    assert verdict.made(given) == {2: [1]}
    assert verdict.made(first).keys() == {1, 2}
    assert (verdict.asked(first), verdict.least_ready(first)) == ([], 2)
    fleet.cli("scale", "common", "2")
    wait_until(lambda: len(fleet.grants) == 2, SECONDS, "two again")
    fleet.cli("undo", "common")
    fleet.complete(SECONDS)
    fleet.until_serving(before, SECONDS)


def test_configuration_that_cannot_be_followed_changes_nothing(fleet: FleetHandle) -> None:
    """The command refuses it; another client wrote it all the same."""
    etcd, before, first = fleet.tree.etcd, fleet.serving(2, SECONDS), fleet.tree.etcd.revision()
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
    assert fleet.wait(SECONDS) == 1
    etcd.put(FLEETS + "common", good)
    fleet.complete(SECONDS)
    fleet.until_serving(before, SECONDS)
    assert fleet.verdict().made(first) == {}
