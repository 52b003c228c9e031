"""Objects of placement are applied whole or refused whole, count the changes of their spec, and are marked first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wharfinger.cli.files import Manifest
from wharfinger.cli.objects import delete
from wharfinger.cli.objects.writing import REFUSED, Applied, write
from wharfinger.etcd import keys
from wharfinger.objects.documents.kinds import PLACEMENTS, by_word, reference
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberRecord
from wharfinger.testing.memory_store import MemoryStore

KEY = "/registry/placement.kubernetes-fleet.io/clusterresourceplacements/web"
NAMESPACED_KEY = "/registry/placement.kubernetes-fleet.io/resourceplacements/team/web"
MEMBER_KEY = "/registry/cluster.kubernetes-fleet.io/memberclusters/east"
SELECTORS = [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}]


def placement(kind: str = "ClusterResourcePlacement", **policy: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": kind,
        "metadata": {"name": "web"},
        "spec": {"resourceSelectors": SELECTORS, "policy": policy},
    }


def member(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": "east", "labels": {"region": "east"}},
        "spec": spec,
    }


async def apply(store: MemoryStore, given: dict[str, Any]) -> Applied:
    return await write(store, Manifest("f", reference(given, "team"), given), uid="u", now="2026-01-01T00:00:00Z")


async def stored(store: MemoryStore, key: str) -> dict[str, Any]:
    kv = (await store.get(key)).kv
    assert kv is not None
    found: dict[str, Any] = json.loads(kv.value)
    return found


async def test_placements_lie_where_kubernetes_keeps_them() -> None:
    store = MemoryStore()
    applied = await apply(store, placement())
    assert (applied.result, applied.notes) == ("created", ())
    assert (await apply(store, placement("ResourcePlacement"))).result == "created"
    assert (await apply(store, member())).result == "created"
    assert (await stored(store, KEY))["metadata"]["generation"] == 1
    assert (await stored(store, NAMESPACED_KEY))["metadata"]["namespace"] == "team"
    assert (await stored(store, MEMBER_KEY))["metadata"]["labels"] == {"region": "east"}


async def test_the_generation_counts_changes_of_the_spec_only() -> None:
    store = MemoryStore()
    given = placement(placementType="PickN", numberOfClusters=2)
    await apply(store, given)
    given["metadata"]["labels"] = {"team": "a"}
    assert (await apply(store, given)).result == "configured"
    assert (await stored(store, KEY))["metadata"]["generation"] == 1
    given["spec"]["policy"]["numberOfClusters"] = 3
    assert (await apply(store, given)).result == "configured"
    assert (await stored(store, KEY))["metadata"]["generation"] == 2
    assert (await apply(store, given)).result == "unchanged"


async def test_all_mistakes_of_a_placement_are_told_at_once() -> None:
    store = MemoryStore()
    applied = await apply(
        store, placement(placementType="PickN", clusterNames=["a"], tolerations=[{"key": "a", "operator": "In"}])
    )
    assert applied.result == REFUSED
    assert {problem.partition(":")[0] for problem in applied.problems} == {
        "spec.policy.clusterNames",
        "spec.policy.numberOfClusters",
        "spec.policy.tolerations[0].operator",
    }
    assert (await store.get(KEY)).kv is None


async def test_a_placement_may_not_change_its_type() -> None:
    store = MemoryStore()
    await apply(store, placement(placementType="PickAll"))
    applied = await apply(store, placement(placementType="PickFixed", clusterNames=["east"]))
    assert applied.problems == ("spec.policy.placementType: may not change; it is PickAll",)


async def test_an_override_is_created_without_a_note() -> None:
    override = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourceOverride",
        "metadata": {"name": "web"},
        "spec": {
            "clusterResourceSelectors": SELECTORS,
            "policy": {"overrideRules": [{"overrideType": "Delete", "clusterSelector": {}}]},
        },
    }
    applied = await apply(MemoryStore(), override)
    assert (applied.result, applied.notes) == ("created", ())


@pytest.mark.parametrize("kind", PLACEMENTS)
async def test_a_deleted_placement_is_marked_and_keeps_its_spec(kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    store = MemoryStore()
    given = placement(kind.name)
    await apply(store, given)
    about = reference(given, "team")
    assert not await delete._delete(store, [about, about], ignore_not_found=False)
    assert capsys.readouterr().out.splitlines() == [
        f"{about} marked for deletion",
        f"{about} is being deleted already",
    ]
    found = await stored(store, keys.stored(kind.folder, about.namespace, about.name))
    assert found["metadata"]["deletionTimestamp"]
    assert found["spec"]["resourceSelectors"] == SELECTORS


async def test_applying_a_marked_placement_again_does_not_revive_it() -> None:
    store = MemoryStore()
    await apply(store, placement())
    await delete._delete(store, [reference(placement(), "")], ignore_not_found=False)
    await apply(store, placement(placementType="PickAll"))
    assert (await stored(store, KEY))["metadata"]["deletionTimestamp"]


async def test_an_absent_placement_cannot_be_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert await delete._delete(MemoryStore(), [reference(placement(), "")], ignore_not_found=False)
    assert capsys.readouterr().err == "error: clusterresourceplacement/web does not exist\n"


def test_words_of_kubefleet_name_the_kinds() -> None:
    words = ("crp", "rp", "membercluster", "crpe", "crpdb", "clusterresourceoverrides")
    assert [by_word(word).name for word in words] == [
        "ClusterResourcePlacement",
        "ResourcePlacement",
        "MemberCluster",
        "ClusterResourcePlacementEviction",
        "ClusterResourcePlacementDisruptionBudget",
        "ClusterResourceOverride",
    ]


def test_pod_workers_skip_objects_of_placement_and_the_keys_of_hubs() -> None:
    assert keys.parse(KEY) is None
    assert keys.parse(MEMBER_KEY) is None
    assert not placement_keys.HUB.startswith(keys.ROOT)


def override(name: str, *objects: str) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ResourceOverride",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [
                {"group": "apps", "version": "v1", "kind": "Deployment", "name": each} for each in objects
            ],
            "policy": {"overrideRules": [{"overrideType": "Delete", "clusterSelector": {}}]},
        },
    }


async def test_an_object_is_overridden_by_one_override_only() -> None:
    store = MemoryStore()
    assert (await apply(store, override("one", "a", "b"))).result == "created"
    refused = await apply(store, override("other", "c", "b"))
    assert refused.problems == ("spec.resourceSelectors[1]: apps/v1/Deployment/b is overridden by one already",)
    assert (await apply(store, override("one", "b"))).result == "configured"
    assert (await apply(store, override("other", "a"))).result == "created"


WIDGET = {"group": "example.com", "version": "v1", "kind": "Widget"}
UNKNOWN = "no format of member takes a Widget: kind 'Widget' is not known here; objects cannot be placed on"


def selecting(*selectors: dict[str, str]) -> dict[str, Any]:
    found = placement()
    return {**found, "spec": {"resourceSelectors": [*SELECTORS, *selectors], "policy": {}}}


async def test_kinds_that_no_format_of_member_takes_are_refused() -> None:
    given = selecting(WIDGET, {"group": "", "version": "v1", "kind": "Node"})
    given["spec"]["policy"] = {"placementType": "PickN"}
    applied = await apply(MemoryStore(), given)
    assert applied.result == REFUSED
    assert [one.partition(": ")[0] for one in applied.problems] == [
        "spec.policy.numberOfClusters",
        "spec.resourceSelectors[1].kind",
        "spec.resourceSelectors[2].kind",
    ]
    assert applied.problems[1].partition(": ")[2].startswith(UNKNOWN)
    assert applied.problems[2].endswith("no member takes a Node: objects of this kind are never delivered")


async def test_an_envelope_and_an_override_of_such_a_kind_are_refused() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "team"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}
    envelope = {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": {"name": "bundle"},
        "data": {"config": config, "widget.yaml": widget, "text": "no object"},
    }
    applied = await apply(MemoryStore(), envelope)
    assert (applied.result, len(applied.problems)) == (REFUSED, 1)
    assert applied.problems[0].startswith(f"data[widget.yaml].kind: {UNKNOWN}")
    changed = override("tweak", "web")
    changed["spec"]["resourceSelectors"][0] |= WIDGET
    applied = await apply(MemoryStore(), changed)
    assert applied.problems[0].startswith(f"spec.resourceSelectors[0].kind: {UNKNOWN}")


@pytest.mark.parametrize(
    ("formats", "warns"), [([], False), (["rk8s"], True), (["rk8s", "kubernetes"], False), ([""], False)]
)
async def test_kinds_that_no_joined_member_takes_are_noted(formats: list[str], warns: bool) -> None:
    store = MemoryStore()
    for number, name in enumerate(formats):
        record = MemberRecord(identity=1, format=name)
        await store.put(placement_keys.member(f"m{number}"), record.to_bytes())
    applied = await apply(store, placement())
    why = "objects cannot be placed on members of the format rk8s"
    noted = f"spec.resourceSelectors[0].kind: no joined member takes a Namespace: {why}"
    assert (applied.result, applied.notes) == ("created", (noted,) if warns else ())


async def test_fields_of_a_manifest_without_effect_are_noted() -> None:
    store = MemoryStore()
    given = member(heartbeatPeriodSeconds=15) | {"status": {"properties": {"cost": {"value": "1"}}}}
    for result in ("created", "unchanged"):
        applied = await apply(store, given)
        assert applied.result == result
        assert [note.split(" has no effect: ")[0] for note in applied.notes] == [
            "spec.heartbeatPeriodSeconds",
            "status.properties",
        ]
