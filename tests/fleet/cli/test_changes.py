"""The commands that write fleets and cordons, on a real etcd and without any Temporal."""

from __future__ import annotations

import asyncio
import getpass
import json
import socket
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.fleet.fleet_records import Records, remove, status
from tests.patience import patient
from wharfinger.etcd import keys
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.store import KeyValue
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.settings import EtcdSettings

ME = f"{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture
def fleet(shell: Shell, url: str) -> Iterator[Records]:
    """Records of a tenant of the test's own; all that lies of it is deleted afterwards."""
    records = Records(shell.namespace)
    yield records
    remove(url, *records.values, keys.fleet(records.tenant), keys.fleet(f"{records.tenant}-b"))


def stored(url: str, key: str) -> KeyValue | None:
    async def read() -> KeyValue | None:
        store = await EtcdStore.connect(EtcdSettings(endpoints=(url,)))
        try:
            return (await store.get(key)).kv
        finally:
            await store.close()

    return asyncio.run(read())


def fleet_object(url: str, tenant: str) -> dict[str, Any]:
    kv = stored(url, keys.fleet(tenant))
    assert kv is not None
    found: dict[str, Any] = json.loads(kv.value)
    return found


def spec(url: str, tenant: str) -> dict[str, Any]:
    found: dict[str, Any] = fleet_object(url, tenant)["spec"]
    return found


def manifest(tenant: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": tenant},
        "spec": {"template": {"version": "v1"}, **spec},
    }


def look(fleet: Records, url: str, **fields: Any) -> None:
    """Write the records, and then a status that has seen the object as it is."""
    seen = fleet.write(url)
    Records(fleet.tenant).status(status(observed_generation=seen, **fields)).write(url)
    fleet.values.setdefault(keys.fleet_status(fleet.tenant), b"{}")  # to be removed with the rest


def with_rollout(fleet: Records, url: str, **spec: Any) -> None:
    """A fleet whose actor has seen it, with the rollout 7 open."""
    fleet.put(keys.fleet(fleet.tenant), json.dumps(manifest(fleet.tenant, **spec)).encode())
    look(fleet, url, generation=7, rollout="running")


class TestApply:
    def test_creates_then_leaves_then_changes(self, shell: Shell, fleet: Records, url: str) -> None:
        about = f"schedulerfleet/{fleet.tenant}"
        file = shell.file([manifest(fleet.tenant, replicas=2)])

        assert shell("fleet", "apply", "-f", file, "--reason", "first").out == f"{about} created\n"
        first = fleet_object(url, fleet.tenant)
        assert first["metadata"]["annotations"] == {
            "wharfinger.dev/changed-by": ME,
            "wharfinger.dev/change-cause": "first",
        }
        assert len(first["metadata"]["uid"]) == 36
        assert shell("fleet", "apply", "-f", file, "--reason", "again").out == f"{about} unchanged\n"
        assert fleet_object(url, fleet.tenant) == first
        file = shell.file([manifest(fleet.tenant, replicas=3)])
        assert shell("fleet", "apply", "-f", file).out == f"{about} configured\n"
        assert spec(url, fleet.tenant)["replicas"] == 3

    def test_all_is_checked_before_anything_is_written(self, shell: Shell, fleet: Records, url: str) -> None:
        wrong = manifest(f"{fleet.tenant}-b", replicas=1000, oops=1)

        answer = shell("fleet", "apply", "-f", shell.file([manifest(fleet.tenant), wrong]))

        assert (answer.code, answer.out) == (2, "")
        assert answer.err.splitlines() == [
            f"error: fleet {fleet.tenant}-b: spec.replicas: Input should be less than or equal to 100, not 1000",
            f"error: fleet {fleet.tenant}-b: spec.oops: unknown field",
        ]
        assert stored(url, keys.fleet(fleet.tenant)) is None

    def test_a_name_that_no_fleet_can_have_hides_nothing_else(self, shell: Shell, fleet: Records, url: str) -> None:
        file = shell.file([manifest("Gold_!", replicas=1000), manifest(fleet.tenant, oops=1)])

        answer = shell("fleet", "apply", "-f", file)

        assert (answer.code, answer.out) == (2, "")
        assert answer.err.splitlines() == [
            f"error: {file}: metadata.name 'Gold_!' of a SchedulerFleet must be lower case letters, digits and "
            "dashes, at most 63, no dash at the ends",
            "error: fleet Gold_!: spec.replicas: Input should be less than or equal to 100, not 1000",
            f"error: fleet {fleet.tenant}: spec.oops: unknown field",
        ]
        assert stored(url, keys.fleet(fleet.tenant)) is None

    def test_a_wave_stops_where_it_does_not_complete(self, shell: Shell, fleet: Records, url: str) -> None:
        tenants = f"{fleet.tenant},{fleet.tenant}-b"
        file = shell.file([manifest("any")])

        answer = shell("fleet", "apply", "-f", file, "--tenants", tenants, "--timeout", "3s")

        assert (answer.code, answer.out) == (3, f"schedulerfleet/{fleet.tenant} created\n")
        assert f"fleet {fleet.tenant} is not complete after 3s" in answer.err
        assert answer.err.endswith(f"stopped: not applied to {fleet.tenant}-b\n")
        assert stored(url, keys.fleet(f"{fleet.tenant}-b")) is None

    def test_a_wave_goes_on_when_a_fleet_is_complete(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.revision(1, "completed", {"version": "v1"}).actor(1).serving(0, 1)
        fleet.put(keys.fleet(fleet.tenant), json.dumps(manifest(fleet.tenant)).encode())
        look(fleet, url, target=1, replicas=1, ready=1, updated=1, rollout="completed")
        tenants = f"{fleet.tenant},{fleet.tenant}-b"

        answer = shell("fleet", "apply", "-f", shell.file([manifest("any")]), "--tenants", tenants, "--timeout", "3s")

        assert answer.code == 3
        assert f"fleet {fleet.tenant} is complete" in answer.out
        assert answer.out.endswith(f"schedulerfleet/{fleet.tenant}-b created\n")

    @pytest.mark.parametrize(
        "line", [["--tenants", "a,a"], ["--tenants", "a,control"], ["--tenants", "a,"], ["--tenants", ""]]
    )
    def test_tenants_are_names_each_once(self, line: list[str], shell: Shell, fleet: Records) -> None:
        assert shell("fleet", "apply", "-f", shell.file([manifest(fleet.tenant)]), *line).code == 2

    def test_other_objects_are_refused(self, shell: Shell) -> None:
        answer = shell("fleet", "apply", "-f", shell.file([shell.pod("web")]))
        assert (answer.code, "use `wharfinger apply`" in answer.err) == (2, True)


class TestObjects:
    def test_a_fleet_is_an_object_like_others(self, shell: Shell, fleet: Records, url: str) -> None:
        about = f"schedulerfleet/{fleet.tenant}"
        file = shell.file([manifest(fleet.tenant, replicas=2)])

        assert shell("apply", "-f", file).out == f"{about} created\n"
        assert fleet_object(url, fleet.tenant)["metadata"]["annotations"] == {"wharfinger.dev/changed-by": ME}
        assert shell("apply", "-f", file).out == f"{about} unchanged\n"
        shown = shell("get", "fleet", fleet.tenant, "-o", "json").json
        assert shown["spec"] == {"template": {"version": "v1"}, "replicas": 2}
        assert shell("apply", "-f", shell.file(json.dumps(shown))).out == f"{about} unchanged\n"
        assert fleet.tenant in shell("get", "schedulerfleets").out
        assert "wharfinger fleet status" in shell("describe", "fleet", fleet.tenant).err
        assert shell("delete", "fleet", fleet.tenant).out == f"{about} deleted\n"
        assert shell("delete", "fleet", fleet.tenant).code == 1
        assert shell("delete", "fleet", fleet.tenant, "--ignore-not-found").code == 0

    def test_an_invalid_fleet_is_refused_and_the_rest_goes_on(self, shell: Shell, fleet: Records) -> None:
        bad = manifest(fleet.tenant, replicas=-1, minReadySeconds=-1)
        answer = shell("apply", "-f", shell.file([bad, shell.pod("web")]))
        assert answer.code == 1
        about = f"error: schedulerfleet/{fleet.tenant}: spec."
        told = [line.removeprefix(about).partition(":")[0] for line in answer.err.splitlines()]
        assert sorted(told) == ["minReadySeconds", "replicas"]
        assert "pod/" in answer.out


class TestScale:
    def test_sets_replicas_and_nothing_else(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.fleet(3, {"version": "v1"}).write(url)

        answer = shell("fleet", "scale", fleet.tenant, "5", "--reason", "rush hour")

        assert answer.out == f"schedulerfleet/{fleet.tenant} scaled to 5\n"
        found = fleet_object(url, fleet.tenant)
        assert found["spec"] == {"replicas": 5, "template": {"version": "v1"}}
        assert found["metadata"]["annotations"]["wharfinger.dev/change-cause"] == "rush hour"
        assert shell("fleet", "scale", fleet.tenant, "5").out == f"schedulerfleet/{fleet.tenant} unchanged\n"

    def test_more_instances_than_the_hosts_have_cpus_are_noted(self, shell: Shell, fleet: Records, url: str) -> None:
        record = HostRecord(boot_id="b", pid=1, cpus=2)
        fleet.fleet(1).record(keys.host(f"host-{fleet.tenant}"), record).write(url)

        answer = shell("fleet", "scale", fleet.tenant, "65")

        assert answer.code == 0
        assert answer.err.startswith("note: all fleets together want ")
        assert shell("fleet", "scale", fleet.tenant, "65").err == ""  # nothing was changed

    def test_missing_fleet_is_reported(self, shell: Shell) -> None:
        answer = shell("fleet", "scale", "nobody", "5")
        assert (answer.code, answer.err) == (1, "error: there is no fleet nobody\n")

    @pytest.mark.parametrize("replicas", ["-1", "101", "many"])
    def test_the_number_has_bounds(self, shell: Shell, replicas: str) -> None:
        assert shell("fleet", "scale", "nobody", "--", replicas).code == 2


class TestRollout:
    def test_pause_and_resume(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.fleet().write(url)
        about = f"schedulerfleet/{fleet.tenant}"

        assert shell("fleet", "pause", fleet.tenant).out == f"{about} paused\n"
        assert spec(url, fleet.tenant)["paused"] is True
        assert shell("fleet", "pause", fleet.tenant).out == f"{about} is paused already\n"
        assert shell("fleet", "resume", fleet.tenant).out == f"{about} resumed\n"
        assert "paused" not in spec(url, fleet.tenant)
        answer = shell("fleet", "resume", fleet.tenant)
        assert (answer.code, "nothing to resume" in answer.err) == (1, True)

    def test_requests_name_the_open_rollout(self, shell: Shell, fleet: Records, url: str) -> None:
        with_rollout(fleet, url, paused=True, strategy={"rollingUpdate": {"canary": 1}})

        assert shell("fleet", "resume", fleet.tenant).code == 0
        assert spec(url, fleet.tenant)["rollout"] == {"generation": 7, "action": "resume"}
        assert "paused" not in spec(url, fleet.tenant)
        answer = shell("fleet", "promote", fleet.tenant)
        assert (answer.code, "try again in a moment" in answer.err) == (1, True)
        assert shell("fleet", "abort", fleet.tenant).out == f"schedulerfleet/{fleet.tenant} aborted\n"
        assert spec(url, fleet.tenant)["rollout"] == {"generation": 7, "action": "abort"}

    def test_a_request_that_was_seen_makes_place_for_another(self, shell: Shell, fleet: Records, url: str) -> None:
        canary = {"rollingUpdate": {"canary": 1}}
        with_rollout(fleet, url, rollout={"generation": 7, "action": "resume"}, strategy=canary)

        assert shell("fleet", "promote", fleet.tenant).code == 0

        assert spec(url, fleet.tenant)["rollout"] == {"generation": 7, "action": "promote"}

    def test_a_request_that_was_followed_can_be_made_again(self, shell: Shell, fleet: Records, url: str) -> None:
        with_rollout(fleet, url)

        for _ in range(2):  # a rollout stands still at its deadline as long as the cause remains
            assert shell("fleet", "resume", fleet.tenant).out == f"schedulerfleet/{fleet.tenant} resumed\n"
            assert shell("fleet", "resume", fleet.tenant).out == f"schedulerfleet/{fleet.tenant} is resumed already\n"
            kv = stored(url, keys.fleet(fleet.tenant))
            assert kv is not None
            followed = status(observed_generation=kv.mod_revision, generation=7, rollout="running")
            Records(fleet.tenant).status(followed).write(url)
        assert spec(url, fleet.tenant)["rollout"] == {"generation": 7, "action": "resume"}

    @pytest.mark.parametrize("action", ["abort", "resume"])
    def test_request_is_refused_while_the_fleets_new_template_is_unseen(
        self, action: str, shell: Shell, fleet: Records, url: str
    ) -> None:
        with_rollout(fleet, url)
        assert shell("fleet", "scale", fleet.tenant, "4").code == 0
        assert shell("fleet", action, fleet.tenant).code == 0  # it is about the same template
        shell("fleet", "restart", fleet.tenant)

        answer = shell("fleet", action, fleet.tenant)

        assert (answer.code, "template was not looked at yet" in answer.err) == (1, True)
        assert "rollout" not in spec(url, fleet.tenant)
        assert shell("fleet", "pause", fleet.tenant).code == 0
        assert shell("fleet", "resume", fleet.tenant).code == 0

    def test_promote_needs_a_canary(self, shell: Shell, fleet: Records, url: str) -> None:
        with_rollout(fleet, url)
        assert "has no canary" in shell("fleet", "promote", fleet.tenant).err
        with_rollout(fleet, url, strategy={"rollingUpdate": {"canary": 1, "partition": 1}})
        assert "keeps all 1 slots by its partition" in shell("fleet", "promote", fleet.tenant).err
        with_rollout(fleet, url, strategy={"rollingUpdate": {"canary": 1}})
        assert shell("fleet", "promote", fleet.tenant).out == f"schedulerfleet/{fleet.tenant} promoted\n"
        assert spec(url, fleet.tenant)["rollout"] == {"generation": 7, "action": "promote"}

    @pytest.mark.parametrize("action", ["promote", "abort", "resume"])
    def test_without_an_open_rollout_they_are_refused(
        self, action: str, shell: Shell, fleet: Records, url: str
    ) -> None:
        fleet.fleet().write(url)
        before = spec(url, fleet.tenant)
        nothing = f"error: fleet {fleet.tenant} has no open rollout: there is nothing to {action}"

        answer = shell("fleet", action, fleet.tenant)
        assert answer.code == 1
        assert answer.err == f"{nothing} (its latest change was not looked at yet: try again in a moment)\n"
        look(fleet, url)
        assert shell("fleet", action, fleet.tenant).err == f"{nothing}\n"
        assert spec(url, fleet.tenant) == before

    def test_restart_changes_the_template(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.fleet(3, {"version": "v1"}).write(url)

        assert shell("fleet", "restart", fleet.tenant).out == f"schedulerfleet/{fleet.tenant} restarts\n"
        first = spec(url, fleet.tenant)["template"]
        assert (first["version"], first["restartedAt"].endswith("Z")) == ("v1", True)
        shell("fleet", "restart", fleet.tenant)
        assert spec(url, fleet.tenant)["template"]["restartedAt"] > first["restartedAt"]


class TestUndo:
    @pytest.fixture
    def history(self, fleet: Records, url: str) -> Records:
        fleet.fleet(3, {"version": "v4"})
        fleet.revision(1, "completed", {"version": "v1"}).revision(2, "completed", {"version": "v2"})
        fleet.revision(3, "failed", {"version": "v3"}).revision(4, "completed", {"version": "v4", "environment": {}})
        fleet.write(url)
        return fleet

    def test_goes_to_the_newest_completed_that_differs(self, shell: Shell, history: Records, url: str) -> None:
        answer = shell("fleet", "undo", history.tenant, "--reason", "slow")

        assert answer.out == f"schedulerfleet/{history.tenant} goes back to the template of revision 2\n"
        found = fleet_object(url, history.tenant)
        assert found["spec"] == {"replicas": 3, "template": {"version": "v2"}}
        assert found["metadata"]["annotations"]["wharfinger.dev/change-cause"] == "slow"

    def test_what_was_undone_before_is_not_gone_back_to(self, shell: Shell, fleet: Records, url: str) -> None:
        # 2 was completed and undone to 1, and then 3 failed: 2 is the newest, and 1 is what was completed last.
        fleet.fleet(3, {"version": "v3"}).actor(3).status(status(target=3, completed=1, rollout="failed"))
        fleet.revision(1, "completed", {"version": "v1"}).revision(2, "completed", {"version": "v2"})
        fleet.revision(3, "failed", {"version": "v3"}).write(url)
        about = f"schedulerfleet/{fleet.tenant} goes back to the template of revision"

        assert shell("fleet", "undo", fleet.tenant).out == f"{about} 1\n"
        assert shell("fleet", "undo", fleet.tenant).out == f"{about} 2\n"

    def test_goes_to_any_revision_that_is_named(self, shell: Shell, history: Records, url: str) -> None:
        assert shell("fleet", "undo", history.tenant, "--to-revision", "3").code == 0
        assert spec(url, history.tenant)["template"] == {"version": "v3"}

    def test_equal_to_what_is_wanted_is_nothing_to_do(self, shell: Shell, history: Records, url: str) -> None:
        answer = shell("fleet", "undo", history.tenant, "--to-revision", "4")
        assert (answer.code, answer.out) == (
            0,
            f"schedulerfleet/{history.tenant} unchanged: its template is that of revision 4\n",
        )
        assert spec(url, history.tenant)["template"] == {"version": "v4"}

    def test_revision_that_is_not_kept_is_reported(self, shell: Shell, history: Records) -> None:
        answer = shell("fleet", "undo", history.tenant, "--to-revision", "9")
        assert (answer.code, "has no revision 9 (known: 1, 2, 3, 4)" in answer.err) == (1, True)

    def test_nothing_to_go_back_to(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.fleet(3, {"version": "v1"}).revision(1, "completed", {"version": "v1"}).write(url)
        answer = shell("fleet", "undo", fleet.tenant)
        assert (answer.code, "no completed revision that differs" in answer.err) == (1, True)


class TestDelete:
    def test_a_fleet_is_marked_and_then_its_actors_affair(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.fleet().actor().write(url)
        about = f"schedulerfleet/{fleet.tenant}"

        assert shell("fleet", "delete", fleet.tenant, "--reason", "moved").out == f"{about} is being deleted\n"
        metadata = fleet_object(url, fleet.tenant)["metadata"]
        assert metadata["deletionTimestamp"].endswith("Z")
        assert metadata["annotations"]["wharfinger.dev/change-cause"] == "moved"
        assert shell("fleet", "delete", fleet.tenant).out == f"{about} is being deleted already\n"
        assert "is being deleted" in shell("fleet", "scale", fleet.tenant, "1").err
        answer = shell("apply", "-f", shell.file([manifest(fleet.tenant)]))
        assert (answer.code, "is being deleted" in answer.err) == (1, True)

    def test_deleting_the_common_fleet_warns_which_pods_wait_then(self, shell: Shell, url: str) -> None:
        pool = Records("common").fleet()
        pool.write(url)
        answer = shell("fleet", "delete", "common")

        remove(url, *pool.values)
        assert answer.out == "schedulerfleet/common deleted\n"
        assert answer.err.startswith("note: pods of no tenant, and of tenants without a fleet, wait")

    def test_fleet_without_an_actor_is_gone_at_once(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.fleet().write(url)
        assert shell("fleet", "delete", fleet.tenant).out == f"schedulerfleet/{fleet.tenant} deleted\n"
        assert stored(url, keys.fleet(fleet.tenant)) is None
        assert shell("fleet", "delete", fleet.tenant).err == f"error: there is no fleet {fleet.tenant}\n"

    def test_an_object_that_cannot_be_read_can_be_deleted(self, shell: Shell, fleet: Records, url: str) -> None:
        fleet.put(keys.fleet(fleet.tenant), b"\xff").actor().write(url)
        assert shell("fleet", "delete", fleet.tenant).code == 0
        assert fleet_object(url, fleet.tenant)["metadata"]["deletionTimestamp"]

    @pytest.mark.parametrize("command", [["delete"], ["apply", "-f", "-"]])
    def test_a_time_to_wait_that_is_none_changes_nothing(
        self, shell: Shell, fleet: Records, url: str, command: list[str]
    ) -> None:
        before = fleet.fleet().write(url)
        tenant = [] if "apply" in command else [fleet.tenant]
        answer = shell("fleet", *command, *tenant, "--wait", "--timeout", "soon")
        kv = stored(url, keys.fleet(fleet.tenant))
        assert (answer.code, kv is not None and kv.mod_revision) == (2, before)
        assert answer.err.startswith("error: 'soon' is no duration")

    @pytest.mark.parametrize("second", ["1s", "1"])
    def test_waiting_ends_with_the_last_key(self, shell: Shell, fleet: Records, url: str, second: str) -> None:
        fleet.fleet().actor().write(url)
        answer = shell("fleet", "delete", fleet.tenant, "--wait", "--timeout", second)
        assert (answer.code, "is not deleted after 1s" in answer.err) == (3, True)

        fleet.fleet().grant(0).write(url)
        actor = Thread(target=end_when_marked, args=(fleet, url))
        actor.start()
        answer = shell("fleet", "delete", fleet.tenant, "--wait", "--timeout", "90s")
        actor.join()

        assert (answer.code, "is deleted" in answer.out) == (0, True)


def end_when_marked(fleet: Records, url: str) -> None:
    """What an actor does in the end: all keys are removed."""
    deadline = time.monotonic() + patient(60)
    while time.monotonic() < deadline:
        if "deletionTimestamp" in fleet_object(url, fleet.tenant)["metadata"]:
            remove(url, *fleet.values)
            return


class TestHosts:
    @pytest.fixture
    def host(self, shell: Shell, url: str) -> Iterator[str]:
        name = f"host-{shell.namespace}"
        yield name
        remove(url, keys.cordon(name), keys.host(name), keys.lost_host(name))

    def test_cordon_drain_uncordon(self, shell: Shell, host: str, url: str) -> None:
        Records().host(host).write(url)

        answer = shell("host", "cordon", host, "--reason", "new disks")
        assert (answer.out, answer.err) == (f"host/{host} cordoned\n", "")
        kv = stored(url, keys.cordon(host))
        assert kv is not None
        record = json.loads(kv.value)
        assert (record["action"], record["who"], record["why"]) == ("cordon", ME, "new disks")
        assert shell("host", "cordon", host).out == f"host/{host} is cordoned already\n"
        assert shell("host", "drain", host).out == f"host/{host} is being drained\n"
        kv = stored(url, keys.cordon(host))
        assert kv is not None
        assert json.loads(kv.value)["action"] == "drain"
        assert shell("host", "uncordon", host).out == f"host/{host} uncordoned\n"
        assert stored(url, keys.cordon(host)) is None
        assert shell("host", "uncordon", host).out == f"host/{host} is not cordoned\n"

    def test_a_host_that_is_away_can_be_cordoned(self, shell: Shell, host: str) -> None:
        answer = shell("host", "cordon", host)
        assert (answer.code, answer.err) == (0, f"note: no live agent calls itself {host}\n")

    def test_a_host_without_an_agent_is_confirmed_to_be_lost(self, shell: Shell, host: str, url: str) -> None:
        answer = shell("host", "confirm-lost", host, "--reason", "the rack burnt")
        assert (answer.code, answer.out, answer.err) == (0, f"host/{host} is taken for lost\n", "")
        kv = stored(url, keys.lost_host(host))
        assert kv is not None
        record = json.loads(kv.value)
        assert (record["who"], record["why"]) == (ME, "the rack burnt")
        assert shell("host", "confirm-lost", host).out == f"host/{host} is taken for lost already\n"
        (row,) = [line for line in shell("host", "list").out.splitlines() if line.startswith(host)]
        assert row.split()[1] == "Lost"
        assert "the rack burnt" in row

    def test_a_host_with_an_agent_is_not_lost(self, shell: Shell, host: str, url: str) -> None:
        Records().host(host).write(url)
        answer = shell("host", "confirm-lost", host)
        assert (answer.code, answer.out) == (2, "")
        assert f"host {host} has a live agent" in answer.err
        assert stored(url, keys.lost_host(host)) is None

    def test_a_name_that_no_host_can_have_is_refused(self, shell: Shell) -> None:
        assert shell("host", "cordon", "A/B").code == 2
