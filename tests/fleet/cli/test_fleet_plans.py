"""`fleet plan`: what would happen, told without doing it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.fleet.fleet_records import Records, remove
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.model.fleet import HOST_LOST
from wharfinger.fleet.reading import fleet_plans
from wharfinger.fleet.reading.fleet_plans import waits
from wharfinger.framework.plugins import builtin
from wharfinger.settings import LeaseSettings
from wharfinger.testing.memory_store import MemoryStore


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


def test_plan_without_a_host_to_start_on_ends_with_the_reason(shell: Shell, etcd_server: Any, fleet: Records) -> None:
    fleet.write(etcd_server.url)

    out = shell("fleet", "plan", shell.namespace, "-f", manifest(shell, template={"version": "v9"})).out

    assert "bring up" not in out
    assert "v9" in out.splitlines()[-1]


def test_plan_that_cannot_be_made_gives_the_reason(shell: Shell, etcd_server: Any, fleet: Records) -> None:
    assert shell("fleet", "plan", shell.namespace).err == f"error: there is no fleet {shell.namespace}\n"
    invalid = shell("fleet", "plan", shell.namespace, "-f", manifest(shell, replicas=-1))
    assert (invalid.code, "spec.replicas" in invalid.err) == (2, True)
    fleet.fleet(deletionTimestamp="2026-01-01T00:00:00Z").write(etcd_server.url)
    assert "is being deleted" in shell("fleet", "plan", shell.namespace, "-f", manifest(shell)).err


def host_record(**fields: Any) -> HostRecord:
    return HostRecord(boot_id="b", pid=1, **fields)


def test_plan_waits_as_long_as_the_agents_that_look_after_fleets() -> None:
    """Any of them may plan next, so the longest counts; an agent without a control part never plans."""
    only_runs = host_record(control=False, lease_ttl=40.0, host_lost=3600.0)
    agents = [host_record(lease_ttl=4.0, host_lost=20.0), host_record(lease_ttl=6.0, host_lost=8.0), only_runs]
    assert waits(agents) == (6.0, 20.0)


def test_plan_takes_the_defaults_where_no_agent_recorded_its_waits() -> None:
    of_an_earlier_release = HostRecord.model_validate_json(b'{"boot_id": "b", "pid": 1}')
    assert waits([of_an_earlier_release]) == waits([]) == (LeaseSettings().ttl, HOST_LOST)


@pytest.mark.parametrize("host_lost", [20.0, 300.0])
async def test_plan_gives_hosts_up_after_the_seconds_of_their_agents(host_lost: float) -> None:
    """Two of three hosts went. One of them has an instance whose grant is deleted: its end is not confirmed."""
    records = Records("gold").fleet(template={"version": "v1"})
    records.actor(1).revision(1, "completed", {"version": "v1"}).put(keys.tenant("gold"), b"{}")
    records.host("host-c", installs=("v1", "v2"), host_lost=host_lost)
    store = MemoryStore()
    identity = await store.put(keys.fleet("gold"), records.values[keys.fleet("gold")])
    for slot, host in enumerate(("host-a", "host-b", "host-a")):
        records.slot(slot, revision=1).instance(slot, revision="1", host=host)
        if slot < 2:
            records.grant(slot, revision=1, host=host, identity=identity)
    for key, value in records.values.items():
        if key != keys.fleet("gold"):
            await store.put(key, value)

    wanted = {"replicas": 3, "paused": True, "minReadySeconds": 0, "template": {"version": "v2"}}
    manifest = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": {"name": "gold"}}
    found = await fleet_plans.plan(store, "gold", manifest | {"spec": wanted}, builtin.catalog())

    last = found.lines[-1]
    assert (last.at, "was lost with most others at once" in last.text) == (host_lost, True)
