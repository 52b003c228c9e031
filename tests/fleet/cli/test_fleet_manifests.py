"""Variables of a template that hosts keep back are told where the template is written."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.fleet.fleet_records import Records, remove
from wharfinger.errors import AccessDenied
from wharfinger.etcd import keys
from wharfinger.etcd.store import Page
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.reading.fleet_manifests import note, note_on
from wharfinger.testing.memory_store import MemoryStore

TEMPLATE = {"environment": {"TZ": "UTC"}}
ONE = "note: host {} does not pass TZ to instances: start its agent with --allow-env TZ"


def host(*allow_env: str, **fields: Any) -> HostRecord:
    return HostRecord(boot_id="b", pid=1, allow_env=allow_env, **fields)


OLDER = HostRecord.model_validate_json(b'{"boot_id":"b","pid":1,"installs":["v1"],"capacity":3}')


def test_variable_that_all_hosts_pass_has_no_note() -> None:
    assert note(TEMPLATE, {"a": host("TZ"), "b": host("TZ", "PROXY")}) == ""
    assert note({}, {"a": host()}) == ""
    assert note(TEMPLATE, {}) == ""


def test_variable_that_the_only_host_withholds_is_noted_with_the_option() -> None:
    assert note(TEMPLATE, {"dev": host("PROXY")}) == ONE.format("dev")
    both = {"environment": {"TZ": "UTC", "REGION": "north"}}
    assert note(both, {"dev": host()}) == (
        "note: host dev does not pass REGION, TZ to instances: start its agent with --allow-env REGION --allow-env TZ"
    )


def test_variable_that_some_hosts_pass_is_noted_for_the_others() -> None:
    assert note(TEMPLATE, {"a": host("TZ"), "b": host(), "c": host("TZ")}) == ONE.format("b (1 of 3)")
    assert note(TEMPLATE, {"a": host(), "b": host(), "c": host("TZ")}) == (
        "note: hosts a, b (2 of 3) do not pass TZ to instances: start their agents with --allow-env TZ"
    )


def test_hosts_that_withhold_different_variables_share_one_line() -> None:
    both = {"environment": {"TZ": "UTC", "REGION": "north"}}
    assert note(both, {"a": host("TZ"), "b": host("REGION")}) == (
        "note: hosts a, b do not pass all of REGION, TZ to instances: "
        "start their agents with --allow-env REGION --allow-env TZ"
    )


def test_many_hosts_are_counted() -> None:
    assert "hosts h0, h1, h2, h3, h4 and 4 more do not" in note(TEMPLATE, {f"h{n}": host() for n in range(9)})


def test_unsuitable_host_and_one_without_a_report_are_left_out() -> None:
    hosts = {"older": OLDER, "cordoned": host(), "other": host(installs=("v2",)), "good": host("TZ", installs=("v1",))}

    assert OLDER.allow_env is None
    assert note({**TEMPLATE, "version": "v1"}, hosts, ["cordoned"]) == ""
    assert note({**TEMPLATE, "version": "v1"}, {**hosts, "bad": host(installs=("v1",))}, ["cordoned"]) == ONE.format(
        "bad (1 of 3)"
    )


def test_host_that_passes_no_variable_is_noted() -> None:
    assert HostRecord.model_validate_json(host().to_bytes()).allow_env == ()


async def test_hosts_are_those_in_etcd_and_one_that_cannot_be_read_hides_none() -> None:
    store = MemoryStore()
    for name, value in {"a": host(), "b": host("TZ"), "c": host()}.items():
        await store.put(keys.host(name), value.to_bytes())
    await store.put(keys.host("broken"), b"\xff")
    await store.put(keys.cordon("c"), b"{}")

    assert await note_on(store, {"spec": {"template": TEMPLATE}}) == ONE.format("a (1 of 2)")
    assert await note_on(store, {"spec": {"template": {"environment": {}}}}) == ""
    assert await note_on(store, {}) == ""


class Guarded(MemoryStore):
    """For a user who may read and write fleets alone."""

    async def list(self, prefix: str, *, revision: int = 0, page_size: int = 500) -> AsyncIterator[Page]:
        raise AccessDenied("etcd refuses: permission denied")
        yield


async def test_user_without_permission_to_read_hosts_gets_no_note() -> None:
    assert await note_on(Guarded(), {"spec": {"template": TEMPLATE}}) == ""


@pytest.fixture
def fleet(shell: Shell, etcd_server: Any) -> Iterator[Records]:
    """A host of the test's own: the only one with this version, whatever other tests left."""
    records = Records(shell.namespace).host(f"host-{shell.namespace}", installs=("only-here",), allow_env=())
    records.write(etcd_server.url)
    yield records
    remove(etcd_server.url, *records.values, keys.fleet(records.tenant), keys.fleet(f"{records.tenant}-b"))


def manifest(tenant: str) -> dict[str, Any]:
    return {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": tenant},
        "spec": {"template": {**TEMPLATE, "version": "only-here"}},
    }


def test_plan_and_apply_print_the_note_beside_their_answer(shell: Shell, fleet: Records) -> None:
    said = ONE.format(f"host-{fleet.tenant}") + "\n"
    file = shell.file([manifest(fleet.tenant), manifest(f"{fleet.tenant}-b")])

    planned = shell("fleet", "plan", fleet.tenant, "-f", file, "-o", "json")
    applied = shell("fleet", "apply", "-f", file)
    again = shell("fleet", "plan", fleet.tenant, "-o", "json")

    for answer in (planned, again):
        assert (answer.code, answer.err) == (0, said)
        assert answer.json[0]["step"] == "revision 1 is wanted, a new one"
    assert (applied.code, applied.err) == (0, said)  # once, though two fleets have that template
    assert applied.out == f"schedulerfleet/{fleet.tenant} created\nschedulerfleet/{fleet.tenant}-b created\n"


def test_host_json_lists_the_variables_it_passes(shell: Shell, fleet: Records) -> None:
    listed = {found["name"]: found["agent"] for found in shell("host", "list", "-o", "json").json}
    assert listed[f"host-{fleet.tenant}"]["allowEnv"] == []
