"""Namespaces, what selects pods, and disruption budgets are followed like pods and nodes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.objects.model.storage_index import NO_STORAGE
from wharfinger.objects.model.surroundings import DisruptionBudget, PodCollection
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import kind_of

LABELS = {"app": "web"}


async def put(stage: Stage, prefix: str, name: str, **fields: Any) -> int:
    space = {} if prefix in keys.CLUSTER_WIDE else {"namespace": "team"}
    metadata = {"name": name, **space, **fields.pop("metadata", {})}
    return await stage.store.put(key(prefix, name), json.dumps({"metadata": metadata, **fields}).encode())


def key(prefix: str, name: str) -> str:
    return f"{prefix}{name}" if prefix in keys.CLUSTER_WIDE else f"{prefix}team/{name}"


def collections(stage: Stage) -> list[tuple[str, str]]:
    return [(one.kind, one.name) for one in stage.cache.surroundings.collections.get("team", ())]


async def test_what_is_listed_and_what_is_watched_surrounds_the_pods() -> None:
    stage = Stage()
    await put(stage, keys.NAMESPACES, "team", metadata={"labels": {"tier": "gold"}})
    await put(stage, keys.SERVICES, "web", spec={"selector": LABELS})
    await put(stage, keys.STATEFUL_SETS, "db", spec={"selector": {"matchLabels": LABELS}})
    async with stage:
        await put(stage, keys.REPLICATION_CONTROLLERS, "old", spec={"selector": LABELS})
        await put(stage, keys.REPLICA_SETS, "web", spec={"selector": {"matchLabels": LABELS}})
        await put(stage, keys.DISRUPTION_BUDGETS, "web", spec={}, status={"disruptionsAllowed": 2})
        await stage.caught_up()

        around = stage.cache.surroundings
        assert around.namespace_labels("team")["tier"] == "gold"
        assert collections(stage) == [
            ("ReplicaSet", "web"),
            ("ReplicationController", "old"),
            ("Service", "web"),
            ("StatefulSet", "db"),
        ]
        assert around.budgets["team"] == (DisruptionBudget("team", "web", None, 2),)
        assert stage.cache.snapshot().surroundings is around


@pytest.mark.parametrize("prefix", [keys.SERVICES, keys.REPLICA_SETS])
async def test_what_selects_nothing_any_more_is_forgotten(prefix: str) -> None:
    async with Stage() as stage:
        await put(stage, keys.STATEFUL_SETS, "web", spec={"selector": {"matchLabels": LABELS}})
        selector = LABELS if prefix == keys.SERVICES else {"matchLabels": LABELS}
        await put(stage, prefix, "web", spec={"selector": selector})
        await stage.caught_up()
        assert len(collections(stage)) == 2

        await put(stage, prefix, "web", spec={"selector": {}})
        await stage.caught_up()

        assert collections(stage) == [("StatefulSet", "web")]


@pytest.mark.parametrize("prefix", keys.SURROUNDINGS)
async def test_what_is_deleted_or_turns_unreadable_is_absent(prefix: str) -> None:
    kind = kind_of(prefix)
    whole: dict[str, Any] = {"spec": {"selector": {"matchLabels": LABELS}}}
    if prefix in (keys.SERVICES, keys.REPLICATION_CONTROLLERS):
        whole = {"spec": {"selector": LABELS}}
    elif prefix in keys.STORAGE:
        whole = {}
    async with Stage() as stage:

        def known() -> bool:
            around = stage.cache.surroundings
            classes = around.priority_classes.by_name
            stored = around.storage != NO_STORAGE
            others = around.namespaces or around.collections or around.budgets or around.pod_groups
            return bool(others or classes or around.device_classes or stored)

        await put(stage, prefix, "web", **whole)
        await stage.caught_up()
        assert known()

        await stage.store.put(key(prefix, "web"), b"{")
        await stage.caught_up()
        assert not known()
        assert stage.metrics.invalid_objects.labels(kind)._value.get() == 1

        await put(stage, prefix, "web", **whole)
        await stage.caught_up()
        assert known()

        await stage.store.delete(key(prefix, "web"))
        await stage.caught_up()
        assert not known()
        assert stage.metrics.invalid_objects.labels(kind)._value.get() == 0


async def test_changes_are_passed_on_with_their_surroundings() -> None:
    seen: list[Changes] = []

    class Witness:
        follows = None

        def apply(self, changes: Changes) -> None:
            seen.append(changes)

    async with Stage() as stage:
        stage.loops.scheduling.informer._subscribers.append(Witness())  # type: ignore[attr-defined]
        await put(stage, keys.SERVICES, "web", spec={"selector": LABELS})
        await stage.put_node("n")
        await stage.caught_up()

    (told,) = [changes for changes in seen if changes.nodes]
    (service,) = told.surroundings.collections["team"]
    assert isinstance(service, PodCollection)


async def test_what_changed_behind_a_compaction_is_found_by_the_list() -> None:
    async with Stage() as stage:
        await put(stage, keys.NAMESPACES, "goes")
        await put(stage, keys.NAMESPACES, "stays")
        await stage.caught_up()
        stage.loops.scheduling.informer._store.pause_watches()  # type: ignore[attr-defined]
        await stage.store.delete(key(keys.NAMESPACES, "goes"))
        await put(stage, keys.NAMESPACES, "stays", metadata={"labels": {"a": "b"}})
        stage.store.compact(stage.store.revision)
        stage.loops.scheduling.informer._store.resume_watches()  # type: ignore[attr-defined]
        await stage.caught_up()

        assert set(stage.cache.surroundings.namespaces) == {"stays"}
        assert stage.cache.surroundings.namespace_labels("stays")["a"] == "b"
