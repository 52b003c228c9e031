"""`wharfinger kubernetes audit` and `status`, on a store and a Kubernetes API in memory."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.kubernetes.api_and_store import NOW, POD, Between, node_object
from wharfinger.apiserver.access_checks import LeaseName
from wharfinger.apiserver.client import LEASES, NODES, PODS, ApiResource
from wharfinger.etcd import keys
from wharfinger.kubernetes.cli.status import _lines
from wharfinger.kubernetes.loops.connecting import COPIED_KINDS
from wharfinger.kubernetes.reading import audit as audits
from wharfinger.kubernetes.reading import status
from wharfinger.kubernetes.reading.audit import CopiesAudit, audit
from wharfinger.kubernetes.reading.status import KubernetesStatus, read_status
from wharfinger.objects.documents.copies import copy_of
from wharfinger.process.records import InstallationRecord
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Imported

KINDS = (NODES, PODS)
LEASE = LeaseName("kube-system", "kube-scheduler")
OURS = InstallationRecord(cluster="east", temporal_namespace="default", upstream="uid-1", id="abc")


async def nothing() -> None:
    """Between the two looks."""


async def audited(
    between: Between, pause: Callable[[], Awaitable[None]] = nothing, *, late: float = 0.0
) -> CopiesAudit:
    """`late`: seconds after `NOW` at which it is done."""
    return await audit(between.store, between.api, KINDS, pause=pause, now=lambda: NOW + timedelta(seconds=late))


def problems(found: CopiesAudit) -> dict[str, str]:
    return {one.object: one.problem for one in found.differences}


async def add_node(between: Between, name: str) -> dict[str, Any]:
    stored: dict[str, Any] = between.api.put(NODES, node_object(name))
    await between.store.put(keys.node(name), copy_of(stored, "nodes"))
    return stored


async def test_equal_copies_are_clean_after_one_look() -> None:
    between = Between()
    await add_node(between, "n1")
    await between.add("a")
    await between.add("b", nodeName="n1")

    found = await audited(between)

    assert found.clean
    assert (found.looks, audits.to_plain(found)["boundPods"]) == (1, 1)
    counted = {kind.plural: (kind.objects, kind.copies) for kind in found.kinds}
    assert counted == {"nodes": (1, 1), "pods": (2, 2)}


async def test_pod_groups_of_two_api_groups_are_told_apart() -> None:
    """Their copies have the same keys; of two of one name, the one of the built-in group is copied."""
    between = Between()
    groups = [ApiResource(f"scheduling.{of}.io", "v1", "podgroups", namespaced=True) for of in ("k8s", "x-k8s")]
    for resource, name in ((groups[0], "a"), (groups[0], "g"), (groups[1], "g"), (groups[1], "b")):
        between.api.serve(resource, "PodGroup")
        stored = between.api.put(resource, {"metadata": {"name": name}, "spec": {}})
        await between.store.put(keys.stored("podgroups", "default", name), copy_of(stored, "podgroups"))
        if name == "g" and resource == groups[0]:
            first = copy_of(stored, "podgroups")
    await between.store.put(keys.stored("podgroups", "default", "g"), first)

    found = await audit(between.store, between.api, groups, pause=nothing, now=lambda: NOW)

    counted = {kind.plural: (kind.objects, kind.copies, len(kind.differences)) for kind in found.kinds}
    assert counted == {"podgroups.scheduling.k8s.io": (2, 2, 0), "podgroups.scheduling.x-k8s.io": (2, 1, 0)}


async def test_copies_with_all_fields_are_clean() -> None:
    """Where extenders are configured, copies are whole."""
    between = Between()
    stored = between.api.put(NODES, {**node_object("n1"), "spec": {"podCIDR": "10.0.0.0/24"}})
    await between.store.put(keys.node("n1"), copy_of(stored, "nodes", whole=True))

    assert (await audited(between)).clean


async def test_each_kind_of_difference_is_named() -> None:
    between = Between()
    await add_node(between, "kept")
    between.api.put(NODES, node_object("not-copied"))
    await add_node(between, "gone")
    between.api.remove(NODES, "gone")
    changed = await add_node(between, "changed")
    between.api.put(NODES, {**changed, "spec": {"unschedulable": True}})
    await between.add("moved", nodeName="kept")
    moved = (await between.store.get(keys.pod("default", "moved"))).kv
    assert moved is not None
    await between.store.put(moved.key, moved.value.replace(b'"kept"', b'"elsewhere"'))
    await between.store.put(keys.pod("default", "broken"), b"{}")
    between.api.put(PODS, {"metadata": {"name": "broken", "namespace": "default"}, "spec": {"containers": []}})

    found = await audited(between)

    assert found.looks == 2
    assert problems(found) == {
        "nodes/not-copied": "is not copied",
        "nodes/gone": "is copied, but the API has none",
        "nodes/changed": "its copy has other contents",
        "pods/default/moved": "is bound to kept in the API, to elsewhere in etcd",
        "pods/default/broken": "its copy cannot be read: has no metadata",
    }


async def test_copy_of_another_life_is_a_difference() -> None:
    between = Between()
    stored = await add_node(between, "n1")
    between.api.remove(NODES, "n1")
    between.api.put(NODES, node_object("n1"))

    assert problems(await audited(between)) == {
        "nodes/n1": f"its copy is of another object (uid {stored['metadata']['uid']})"
    }


async def test_what_catches_up_between_the_looks_is_no_difference() -> None:
    between = Between()
    stored = between.api.put(NODES, node_object("late"))

    async def catch_up() -> None:
        await between.store.put(keys.node("late"), copy_of(stored, "nodes"))

    found = await audited(between, catch_up)

    assert (found.clean, found.looks) == (True, 2)


async def test_another_difference_at_the_second_look_is_not_reported() -> None:
    """An object that changes all the time is always a little behind."""
    between = Between()
    stored = await add_node(between, "busy")
    between.api.put(NODES, {**stored, "spec": {"unschedulable": True}})

    async def change_again() -> None:
        await between.store.put(keys.node("busy"), copy_of(between.api.put(NODES, node_object("other")), "nodes"))
        between.api.put(NODES, {**stored, "spec": {"unschedulable": False}})
        await between.store.put(keys.node("other"), copy_of(between.api.put(NODES, node_object("other")), "nodes"))

    assert (await audited(between, change_again)).clean


async def test_copy_that_is_newer_than_the_list_is_no_difference() -> None:
    between = Between()
    stored = await add_node(between, "n1")
    newer = {**stored, "metadata": {**stored["metadata"], "resourceVersion": "999999"}, "spec": {"unschedulable": True}}
    await between.store.put(keys.node("n1"), copy_of(newer, "nodes"))

    assert (await audited(between)).clean


async def test_promised_pod_is_clean_until_its_promise_is_old() -> None:
    between = Between()
    await between.begin()
    await between.promised()
    await between.store.put(keys.node("n1"), copy_of(between.api.find(NODES, "n1"), "nodes"))

    soon, later = await audited(between), await audited(between, late=61)

    assert soon.clean
    assert (later.clean, later.differences, list(later.old)) == (False, [], [POD])
    assert audits.to_plain(later)["oldPromises"][0]["pod"] == "default/a"


async def test_promised_copy_with_another_request_is_a_difference() -> None:
    between = Between()
    await between.begin()
    await between.promised()
    await between.store.put(keys.node("n1"), copy_of(between.api.find(NODES, "n1"), "nodes"))
    kv = (await between.store.get(keys.pod(*POD))).kv
    assert kv is not None
    await between.store.put(kv.key, kv.value.replace(b'"image":"i"', b'"image":"other"'))

    assert "differs in what its placement rests on" in problems(await audited(between))["pods/default/a"]


# --- status --------------------------------------------------------------------------------


async def status_of(
    between: Between, *, seconds: float = 1.0, trouble: str = "", uid: str = "uid-1", hindered: str = ""
) -> KubernetesStatus:
    """`seconds`: since the importer's last sign, which says what hinders it."""
    told = (NOW - timedelta(seconds=seconds)).isoformat()
    await between.store.put(keys.IMPORTED, promise_records.stored(Imported({"nodes": 7}, 0, told, hindered=hindered)))
    return await read_status(
        between.store,
        between.api,
        OURS,
        cluster_uid="" if trouble else uid,
        trouble=trouble,
        kinds=COPIED_KINDS,
        lease=LEASE,
        now=NOW,
    )


def put_lease(between: Between, holder: str) -> None:
    between.api.put(
        LEASES,
        {"metadata": {"name": "kube-scheduler", "namespace": "kube-system"}, "spec": {"holderIdentity": holder}},
    )


async def test_status_of_an_installation_that_binds_has_no_warning() -> None:
    between = Between()
    await between.begin()
    put_lease(between, "east_abc")
    await add_node(between, "n1")

    found = await status_of(between)
    plain = status.to_plain(found)

    assert found.warnings() == []
    assert plain["lease"] == {
        "namespace": "kube-system", "name": "kube-scheduler", "holder": "east_abc", "ours": True, "renewed": "",
        "transitions": 0,
    }  # fmt: skip
    assert plain["imported"]["seconds"] == 1.0
    assert plain["imported"]["kinds"]["nodes"] == {"revision": 7, "copies": 1}
    assert plain["importer"]["epoch"] == between.epoch
    assert plain["active"]["holder"] == "here"


async def test_standby_names_the_holder_of_the_lease() -> None:
    between = Between()
    await between.begin()
    await between.store.delete(keys.ACTIVE)
    put_lease(between, "somebody_else")

    found = await status_of(between)

    assert not found.lease.ours
    assert found.warnings() == ["nothing is bound: somebody_else holds the Lease"]


async def test_status_says_why_the_lease_cannot_be_taken() -> None:
    between = Between()
    await between.begin()

    binds = await status_of(between, hindered="the Lease cannot be held: 403")
    await between.store.delete(keys.ACTIVE)
    found = await status_of(between, hindered="the Lease cannot be held: 403")

    assert binds.warnings() == []
    assert found.warnings() == ["nothing is bound: the Lease cannot be held: 403"]
    assert status.to_plain(found)["hindered"] == "the Lease cannot be held: 403"
    assert "May bind:    no: the Lease cannot be held: 403" in list(_lines(found))


async def test_old_copies_another_cluster_and_no_importer_are_warnings() -> None:
    found = await status_of(Between(), seconds=30, uid="uid-2")

    assert [warning.partition(":")[0] for warning in found.warnings()] == [
        "the API is of another cluster (uid-2) than the copies (uid-1)",
        "no worker copies",
        "the copies are 30 s old",
    ]


async def test_api_that_does_not_answer_leaves_what_etcd_has() -> None:
    between = Between()
    await between.begin()

    found = await status_of(between, trouble="connection refused")

    assert found.warnings() == ["the API server does not answer: connection refused"]
    assert status.to_plain(found)["answers"] is False


async def test_withdrawn_promise_is_shown_with_its_reason() -> None:
    between = Between()
    await between.begin()
    await between.promised()
    await between.store.put(keys.node("n1"), copy_of(between.api.find(NODES, "n1"), "nodes"))
    put_lease(between, "east_abc")
    promise = await between.promise()
    assert promise is not None
    withdrawn = replace(promise, withdrawn="the plugin refuses")
    await between.store.put(keys.promise(*POD), promise_records.stored(withdrawn))

    found = await status_of(between)

    (shown,) = status.to_plain(found)["promises"]["withdrawn"]
    assert (shown["pod"], shown["why"]) == ("default/a", "the plugin refuses")
    assert len(found.warnings()) == 1


async def test_missing_permissions_are_listed() -> None:
    between = Between()
    await between.begin()
    put_lease(between, "east_abc")
    between.api.faults.forbid("create", PODS, "binding")

    found = await status_of(between)

    assert status.to_plain(found)["missing"] == [
        {"verb": "create", "resource": "pods/binding", "group": "", "namespace": ""}
    ]
    assert "nothing can be bound" in found.warnings()[0]
