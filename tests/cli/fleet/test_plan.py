"""`fleet plan`: what would happen, told without doing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import Shell
from tests.cli.fleet.fleet_records import Records, remove
from wharfinger.registry import keys


@pytest.fixture
def fleet(shell: Shell, etcd_server: Any) -> Iterator[Records]:
    """Records of a tenant of the test's own, and a host that no other test uses."""
    records = Records(shell.namespace).host(f"host-{shell.namespace}", installs=("v1", "v2"))
    yield records
    remove(etcd_server.url, *records.values)


def manifest(shell: Shell, **spec: Any) -> str:
    return shell.file(
        [
            {
                "apiVersion": "wharfinger.dev/v1",
                "kind": "SchedulerFleet",
                "metadata": {"name": shell.namespace},
                "spec": spec,
            }
        ]
    )


def test_a_new_fleet_is_planned_from_its_file_and_nothing_is_written(
    shell: Shell, etcd_server: Any, fleet: Records
) -> None:
    fleet.write(etcd_server.url)
    file = manifest(shell, replicas=2, template={"version": "v1"})

    steps = [entry["step"] for entry in shell("fleet", "plan", shell.namespace, "-f", file, "-o", "json").json]

    up = f"bring up an instance of revision 1 on host-{shell.namespace}"
    assert steps[0] == "revision 1 is wanted, a new one"
    assert sorted(step.split(" (")[0] for step in steps if "bring up" in step) == [f"slot 0: {up}", f"slot 1: {up}"]
    assert "the rollout is over: completed" in steps
    assert shell("fleet", "get", shell.namespace).code == 1


def test_an_update_brings_the_new_one_up_before_the_old_one_is_drained(
    shell: Shell, etcd_server: Any, fleet: Records
) -> None:
    name = f"host-{shell.namespace}"
    fleet.fleet(replicas=1, template={"version": "v1"}).actor(1).revision(1, "completed", {"version": "v1"})
    identity = fleet.write(etcd_server.url)
    fleet.slot(0, revision=1).grant(0, revision=1, host=name, identity=identity)
    fleet.instance(0, revision="1", host=name).put(keys.tenant(fleet.tenant), b"{}")
    fleet.write(etcd_server.url)

    lines = shell("fleet", "plan", shell.namespace, "-f", manifest(shell, template={"version": "v2"})).out.splitlines()

    texts = [line.split(" s  ", 1)[1].split(" (")[0] for line in lines]
    up = texts.index(f"slot 0: bring up an instance of revision 2 on {name}")
    assert up < texts.index(f"slot 0: drain incarnation 1 on {name}")
    assert shell("fleet", "get", shell.namespace, "-o", "json").json["spec"]["template"] == {"version": "v1"}
    nothing = shell("fleet", "plan", shell.namespace, "-f", manifest(shell, template={"version": "v1"}))
    assert (nothing.code, nothing.err) == (0, "nothing would happen\n")


def test_where_nobody_can_start_it_the_plan_says_why_it_ends(shell: Shell, etcd_server: Any, fleet: Records) -> None:
    fleet.write(etcd_server.url)

    out = shell("fleet", "plan", shell.namespace, "-f", manifest(shell, template={"version": "v9"})).out

    assert "bring up" not in out
    assert "v9" in out.splitlines()[-1]


def test_what_cannot_be_planned_is_told(shell: Shell, etcd_server: Any, fleet: Records) -> None:
    assert shell("fleet", "plan", shell.namespace).err == f"error: there is no fleet {shell.namespace}\n"
    invalid = shell("fleet", "plan", shell.namespace, "-f", manifest(shell, replicas=-1))
    assert (invalid.code, "spec.replicas" in invalid.err) == (2, True)
    fleet.fleet(deletionTimestamp="2026-01-01T00:00:00Z").write(etcd_server.url)
    assert "is being deleted" in shell("fleet", "plan", shell.namespace, "-f", manifest(shell)).err
