"""One fleet at one revision: the contents of its records, and what unreadable records leave out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wharfinger.etcd import keys
from wharfinger.etcd.store import Read
from wharfinger.fleet.contracts.fleet_records import HostRecord, OutcomeRecord, RevisionRecord, stored
from wharfinger.fleet.model.fleet import Actor, Cordon, Decisions, Exit, Grant, Host, Instance, Observed, Revision, Slot
from wharfinger.fleet.state.fleets import FleetView
from wharfinger.framework.plugins import builtin
from wharfinger.process.records import InstanceRecord
from wharfinger.testing.memory_store import MemoryStore


def fleet_object(name: str = "blue", **spec: Any) -> bytes:
    written = {"apiVersion": "wharfinger.dev/v1", "kind": "SchedulerFleet", "metadata": {"name": name}}
    return json.dumps(written | {"spec": {"replicas": 2, "template": {}} | spec}).encode()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def view(store: MemoryStore) -> FleetView:
    return FleetView(store, builtin.catalog())


def grant(**more: Any) -> bytes:
    return stored(Grant(**{"revision": 1, "host": "a", "identity": 7} | more))


async def test_everything_of_a_fleet_is_read(store: MemoryStore, view: FleetView) -> None:
    await store.put(keys.fleet("blue"), fleet_object())
    await store.put(keys.revision("blue", 1), RevisionRecord(template={}).to_bytes())
    await store.put(keys.revision("blue", 10), RevisionRecord(template={"version": "v2"}).to_bytes())
    await store.put(keys.outcome("blue", 1), OutcomeRecord(outcome="completed").to_bytes())
    await store.put(keys.slot("blue", 0), stored(Slot(incarnation=3, revision=1, crashes=2)))
    granted = await store.put(keys.grant("blue", 0, 3), grant(settle=5.0))
    ready = InstanceRecord(state="ready", host="a", pid=1, revision="1")
    registered = await store.put(keys.instance("blue", "0", 3), ready.to_bytes())
    await store.put(keys.instance("blue", "hand-a-1", 1), ready.to_bytes())
    await store.put(keys.exited("blue", 0, 2), stored(Exit(how="code", detail="3", lived=4.0)))
    await store.put(keys.host("a"), HostRecord(boot_id="b", pid=2, installs=("v2",), capacity=3).to_bytes())
    await store.put(keys.cordon("b"), stored(Cordon(action="drain")))
    await store.put(keys.lost_host("c"), b"{}")
    decided = Decisions(3, 10, canary=(1,), halted="no progress")
    acting = Actor(epoch=4, workflow_id="w", run_id="r", target=10, decisions=decided)
    await store.put(keys.actor("blue"), stored(acting))
    await store.put(keys.tenant("blue"), b"{}")
    await store.put(keys.grant("blue-2", 0, 1), grant())
    last = await store.put(keys.slot("blue-2", 0), stored(Slot(incarnation=1, revision=1)))

    seen = await view.observe("blue")

    assert seen.read_at == last
    assert seen.desired is not None
    assert seen.desired.spec is not None
    assert seen.desired.spec.replicas == 2
    assert (seen.desired.identity, seen.desired.generation, seen.desired.deleting) == (2, 2, False)
    assert seen.actor is not None
    assert (seen.actor.epoch, seen.actor.target, seen.actor.decisions) == (4, 10, decided)
    first, second = seen.revisions
    assert first == Revision(1, seen.desired.template, "completed")
    assert (second.number, second.outcome, second.version) == (10, None, "v2")
    assert second.template != first.template
    assert seen.slots == (Slot(0, incarnation=3, revision=1, mod_revision=6, crashes=2),)
    assert seen.grants == (Grant(0, 3, revision=1, host="a", identity=7, mod_revision=granted, settle=5.0),)
    assert seen.instances == (Instance(0, 3, "ready", "a", 1, registered),)
    assert [one.detail for one in seen.exits] == ["3"]
    assert seen.hosts == (Host("a", ("v2",), 3, instances=2),)
    assert seen.cordons == (Cordon("b", action="drain"),)
    assert seen.lost == ("c",)
    assert seen.tenant_present
    assert (seen.unreadable, seen.blind, seen.status) == ((), False, "")


async def test_fleet_that_was_never_written_is_empty(view: FleetView) -> None:
    seen = await view.observe("blue")

    assert seen.desired is None
    assert not seen.grants


class Racing(MemoryStore):
    """Another client writes a grant right after the first read."""

    raced = False

    async def get(self, key: str, *, revision: int = 0) -> Read:
        answer = await super().get(key, revision=revision)
        if not self.raced:
            self.raced = True
            await self.put(keys.grant("blue", 0, 1), grant())
        return answer


async def test_all_of_it_is_of_one_revision() -> None:
    store = Racing()

    assert (await FleetView(store, builtin.catalog()).observe("blue")).grants == ()
    assert len((await FleetView(store, builtin.catalog()).observe("blue")).grants) == 1


@pytest.mark.parametrize(
    "key",
    [
        keys.grant("blue", 0, 1),
        keys.slot("blue", 0),
        keys.revision("blue", 1),
        keys.outcome("blue", 1),
        keys.actor("blue"),
    ],
)
async def test_view_without_a_readable_record_of_what_may_live_is_blind(
    store: MemoryStore, view: FleetView, key: str
) -> None:
    await store.put(key, b"{broken")

    seen = await view.observe("blue")

    assert seen.blind
    assert seen.unreadable[0].startswith(key)


@pytest.mark.parametrize("key", [keys.instance("blue", "0", 1), keys.exited("blue", 0, 1), keys.host("a")])
async def test_other_unreadable_records_are_only_left_out(store: MemoryStore, view: FleetView, key: str) -> None:
    await store.put(key, b'{"state": 3}')

    seen = await view.observe("blue")

    assert (seen.instances, seen.exits, seen.hosts) == ((), (), ())
    assert not seen.blind
    assert len(seen.unreadable) == 1


async def test_unreadable_cordon_keeps_instances_off_and_drains_none(store: MemoryStore, view: FleetView) -> None:
    await store.put(keys.cordon("a"), b"drain!")

    assert (await view.observe("blue")).cordons == (Cordon("a", action="cordon", why="its record cannot be read"),)


@pytest.mark.parametrize("name", ["01", "-1", "x", "9" * 5000])
async def test_a_grant_of_no_number_blinds(store: MemoryStore, view: FleetView, name: str) -> None:
    await store.put(f"{keys.GRANTS}blue/{name}/1", grant())

    assert (await view.observe("blue")).blind


async def test_wrong_object_has_a_reason_and_may_still_be_deleted(store: MemoryStore, view: FleetView) -> None:
    await store.put(keys.fleet("blue"), fleet_object(replicas=-1))
    wrong = (await view.observe("blue")).desired
    assert wrong is not None
    assert wrong.spec is None
    assert "replicas" in wrong.problems[0]

    written = json.loads(fleet_object(replicas=-1))
    written["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    await store.put(keys.fleet("blue"), json.dumps(written).encode())
    deleting = (await view.observe("blue")).desired

    assert deleting is not None
    assert deleting.deleting


async def test_an_object_that_is_no_json_has_no_spec(store: MemoryStore, view: FleetView) -> None:
    await store.put(keys.fleet("blue"), b"[1]")

    seen = (await view.observe("blue")).desired

    assert seen is not None
    assert seen.problems == ("is no object",)


async def test_a_revision_that_this_release_cannot_complete_equals_nothing(store: MemoryStore, view: FleetView) -> None:
    broken = RevisionRecord(template={"schedulerConfiguration": {"profiles": 3}})
    await store.put(keys.revision("blue", 1), broken.to_bytes())
    await store.put(keys.revision("blue", 2), broken.to_bytes())

    seen = await view.observe("blue")

    assert not seen.blind
    assert seen.revisions[0].template != seen.revisions[1].template


async def test_the_common_pool_has_no_tenant_key(store: MemoryStore, view: FleetView) -> None:
    await store.put(keys.tenant("common"), b"{}")

    assert not (await view.observe("common")).tenant_present


async def test_restored_etcd_that_repeats_revisions_is_read_anew(store: MemoryStore, view: FleetView) -> None:
    await store.put(keys.fleet("blue"), fleet_object(replicas=2))
    assert wanted(await view.observe("blue")) == 2

    restored = MemoryStore()
    await restored.put(keys.fleet("blue"), fleet_object(replicas=3))
    view._store = restored
    assert wanted(await view.observe("blue")) == 3


def wanted(observed: Observed) -> int:
    assert observed.desired is not None
    assert observed.desired.spec is not None
    return observed.desired.spec.replicas
