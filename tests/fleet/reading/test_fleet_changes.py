"""Changes of a fleet's object under contention, and what becomes of requests, against the shipped store in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fleet.fleet_records import status
from wharfinger.errors import InvalidConfiguration, InvalidObject, NotFound
from wharfinger.etcd import keys
from wharfinger.fleet.contracts.fleet_records import FleetStatusRecord
from wharfinger.fleet.reading.fleet_changes import StatusAndObject, apply, change
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.process.committing import Author, author
from wharfinger.testing.memory_store import MemoryStore

KEY = keys.fleet("gold")
ANN, BOB = Author("ann@desk", "more room"), Author("bob@desk")
KNOWN = catalog()


def fleet(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {"name": "gold", **metadata},
        "spec": spec if spec is not None else {"replicas": 2, "template": {"version": "v1"}},
    }


async def stored(store: MemoryStore) -> dict[str, Any]:
    kv = (await store.get(KEY)).kv
    assert kv is not None
    found: dict[str, Any] = json.loads(kv.value)
    return found


async def store_with(obj: dict[str, Any]) -> MemoryStore:
    store = MemoryStore()
    await store.put(KEY, json.dumps(obj).encode())
    return store


async def saw(store: MemoryStore, **fields: Any) -> None:
    """The actor looks at the object as it is."""
    kv = (await store.get(KEY)).kv
    assert kv is not None
    record = FleetStatusRecord(status=status(observed_generation=kv.mod_revision, **fields))
    await store.put(keys.fleet_status("gold"), record.to_bytes())


def scaled(replicas: int) -> Any:
    def edit(spec: dict[str, Any], _: StatusAndObject) -> None:
        spec["replicas"] = replicas

    return edit


def asked(action: str, generation: int = 7) -> Any:
    def edit(spec: dict[str, Any], _: StatusAndObject) -> None:
        spec["rollout"] = {"generation": generation, "action": action}

    return edit


async def test_a_change_that_was_overtaken_is_made_to_what_is_there_now() -> None:
    store = await store_with(fleet())

    async def overtake(*_: object) -> None:
        store.before_txn = None
        await store.put(KEY, json.dumps(fleet({"paused": True, "template": {"version": "v1"}})).encode())

    store.before_txn = overtake

    changed = await change(store, "gold", scaled(5), ANN, catalog=KNOWN)

    kv = (await store.get(KEY)).kv
    assert kv is not None
    assert (changed.result, changed.mod_revision) == ("configured", kv.mod_revision)
    assert (await stored(store))["spec"] == {"paused": True, "template": {"version": "v1"}, "replicas": 5}


async def test_author_and_cause_are_those_of_the_last_write() -> None:
    store = await store_with(fleet(annotations={"team": "blue"}))

    await change(store, "gold", scaled(5), ANN, catalog=KNOWN)
    assert (await stored(store))["metadata"]["annotations"] == {
        "team": "blue",
        "wharfinger.dev/changed-by": "ann@desk",
        "wharfinger.dev/change-cause": "more room",
    }
    await change(store, "gold", scaled(6), BOB, catalog=KNOWN)
    assert (await stored(store))["metadata"]["annotations"] == {"team": "blue", "wharfinger.dev/changed-by": "bob@desk"}


async def test_what_changes_nothing_is_not_written_and_signs_nothing() -> None:
    store = await store_with(fleet())
    first = await change(store, "gold", scaled(5), ANN, catalog=KNOWN)

    again = await change(store, "gold", scaled(5), BOB, catalog=KNOWN)

    assert (again.result, again.mod_revision, again.written) == ("unchanged", first.mod_revision, False)
    assert (await stored(store))["metadata"]["annotations"]["wharfinger.dev/changed-by"] == "ann@desk"


async def test_nothing_invalid_is_written() -> None:
    store = await store_with(fleet())
    with pytest.raises(InvalidConfiguration, match=r"spec\.replicas"):
        await change(store, "gold", scaled(101), ANN, catalog=KNOWN)
    assert await stored(store) == fleet()


async def test_a_fleet_that_is_deleted_or_absent_is_not_changed() -> None:
    with pytest.raises(NotFound):
        await change(MemoryStore(), "gold", scaled(3), ANN, catalog=KNOWN)
    store = await store_with(fleet(deletionTimestamp="2026-01-01T00:00:00Z"))
    with pytest.raises(InvalidObject, match="being deleted"):
        await change(store, "gold", scaled(3), ANN, catalog=KNOWN)
    with pytest.raises(InvalidObject, match="being deleted"):
        await apply(store, "gold", fleet(), ANN, catalog=KNOWN)


class TestRequests:
    async def test_a_request_that_was_seen_is_left_out_by_the_next_write(self) -> None:
        store = await store_with(fleet())
        await change(store, "gold", asked("resume"), ANN, catalog=KNOWN)
        await saw(store, generation=7)

        await change(store, "gold", scaled(5), ANN, catalog=KNOWN)

        assert "rollout" not in (await stored(store))["spec"]

    async def test_unseen_request_outlives_a_write_beside_it(self) -> None:
        store = await store_with(fleet())
        await saw(store, generation=7)
        await change(store, "gold", asked("promote"), ANN, catalog=KNOWN)

        await change(store, "gold", scaled(5), ANN, catalog=KNOWN)

        assert (await stored(store))["spec"]["rollout"] == {"generation": 7, "action": "promote"}

    async def test_a_request_never_outlives_its_template(self) -> None:
        store = await store_with(fleet())
        await change(store, "gold", asked("promote"), ANN, catalog=KNOWN)

        def newer(spec: dict[str, Any], _: StatusAndObject) -> None:
            spec["template"] = {"version": "v2"}

        await change(store, "gold", newer, ANN, catalog=KNOWN)

        assert "rollout" not in (await stored(store))["spec"]

    async def test_a_manifest_asks_nothing_of_a_rollout(self) -> None:
        store = MemoryStore()
        manifest = fleet({"rollout": {"generation": 7, "action": "abort"}})
        await apply(store, "gold", manifest, ANN, catalog=KNOWN)
        assert "rollout" not in (await stored(store))["spec"]
        assert (await apply(store, "gold", manifest, ANN, catalog=KNOWN)).result == "unchanged"


class TestManifests:
    async def test_what_commands_set_stays_when_the_manifest_leaves_it_out(self) -> None:
        commanded = {
            "replicas": 5,
            "paused": True,
            "template": {"version": "v1", "restartedAt": "2026-01-01T00:00:00Z"},
        }
        store = await store_with(fleet(commanded))

        await apply(store, "gold", fleet({"template": {"version": "v2"}}), ANN, catalog=KNOWN)

        assert (await stored(store))["spec"] == {
            "replicas": 5,
            "paused": True,
            "template": {"version": "v2", "restartedAt": "2026-01-01T00:00:00Z"},
        }

    async def test_fields_of_the_manifest_hold(self) -> None:
        store = await store_with(fleet({"replicas": 5, "paused": True, "minReadySeconds": 20}))

        await apply(store, "gold", fleet({"replicas": 2, "paused": False}), ANN, catalog=KNOWN)

        assert (await stored(store))["spec"] == {"replicas": 2, "paused": False}

    async def test_a_reason_beats_the_manifests(self) -> None:
        store = MemoryStore()
        manifest = fleet(annotations={"wharfinger.dev/change-cause": "as written"})

        await apply(store, "gold", manifest, BOB, catalog=KNOWN)
        assert (await stored(store))["metadata"]["annotations"]["wharfinger.dev/change-cause"] == "as written"
        assert (await apply(store, "gold", manifest, BOB, catalog=KNOWN)).result == "unchanged"
        await apply(store, "gold", {**manifest, "spec": {"replicas": 3}}, ANN, catalog=KNOWN)
        assert (await stored(store))["metadata"]["annotations"]["wharfinger.dev/change-cause"] == "more room"

    async def test_an_object_that_is_none_is_not_laid_over(self) -> None:
        store = MemoryStore()
        await store.put(KEY, b"\xff")
        with pytest.raises(InvalidObject, match="is no object"):
            await apply(store, "gold", fleet(), ANN, catalog=KNOWN)


def test_the_author_is_one_line() -> None:
    by = author("line\nbreak")
    assert "@" in by.who
    assert by.why == "line\\nbreak"


async def test_a_budget_of_nothing_is_refused_and_a_stored_one_is_left_alone() -> None:
    nothing = {"strategy": {"rollingUpdate": {"maxSurge": 0}}}
    store = await store_with(fleet())
    with pytest.raises(InvalidConfiguration, match="may not be 0 where maxSurge is 0"):
        await apply(store, "gold", fleet({"replicas": 2, **nothing}), ANN, catalog=KNOWN)
    with pytest.raises(InvalidConfiguration, match="may not be 0 where maxSurge is 0"):
        await change(store, "gold", lambda spec, _: bool(spec.update(nothing)), ANN, catalog=KNOWN)
    of_an_earlier_release = await store_with(fleet({"replicas": 2, **nothing}))

    def scale(spec: dict[str, Any], _: StatusAndObject) -> None:
        spec["replicas"] = 3

    assert (await change(of_an_earlier_release, "gold", scale, ANN, catalog=KNOWN)).written
    with pytest.raises(InvalidConfiguration, match="may not be 0 where maxSurge is 0"):
        await apply(of_an_earlier_release, "gold", fleet({"replicas": 4, **nothing}), ANN, catalog=KNOWN)
