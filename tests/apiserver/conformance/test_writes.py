"""Writes of objects in general: creation, optimistic concurrency, patches, deletion."""

from __future__ import annotations

import pytest

from tests.apiserver.conformance.conftest import Cluster
from wharfinger.apiserver.client import EVENTS, LEASES, NAMESPACES, NODES, PODS, PatchType, revision_of, uid_of


def lease(name: str, holder: str, **metadata: str) -> dict[str, object]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": holder},
    }


async def test_created_object_has_uid_revision_and_time(cluster: Cluster) -> None:
    pod = await cluster.pod("a")

    assert uid_of(pod)
    assert revision_of(pod) > 0
    assert pod["metadata"]["creationTimestamp"].endswith("Z")
    assert pod["metadata"]["namespace"] == cluster.namespace
    assert pod["status"]["phase"] == "Pending"
    assert (pod["apiVersion"], pod["kind"]) == ("v1", "Pod")
    assert pod["spec"]["terminationGracePeriodSeconds"] == 30
    assert dict(await cluster.read("a")) == pod


async def test_second_object_of_a_name_already_exists(cluster: Cluster) -> None:
    await cluster.pod("a")

    answer = await cluster.apiserver.create(PODS, cluster.pod_body("a"), namespace=cluster.namespace)

    assert (answer.done, answer.code, answer.reason) == (False, 409, "AlreadyExists")
    assert answer.message == 'pods "a" already exists'


async def test_object_needs_a_namespace_that_exists(cluster: Cluster) -> None:
    body = {**cluster.pod_body("a"), "metadata": {"name": "a"}}

    answer = await cluster.apiserver.create(PODS, body, namespace="nowhere")

    assert (answer.code, answer.reason) == (404, "NotFound")
    assert answer.message == 'namespaces "nowhere" not found'


async def test_body_of_another_namespace_is_refused(cluster: Cluster) -> None:
    answer = await cluster.apiserver.create(PODS, cluster.pod_body("a"), namespace="default")

    assert (answer.code, answer.reason) == (400, "BadRequest")


async def test_object_without_a_name_is_invalid(cluster: Cluster) -> None:
    body = {**cluster.pod_body("a"), "metadata": {}}

    answer = await cluster.apiserver.create(PODS, body, namespace=cluster.namespace)

    assert (answer.code, answer.reason) == (422, "Invalid")
    assert answer.message == 'Pod "" is invalid: metadata.name: Required value: name or generateName is required'


async def test_dry_run_creates_nothing(cluster: Cluster) -> None:
    answer = await cluster.apiserver.create(PODS, cluster.pod_body("a"), namespace=cluster.namespace, dry_run=True)

    assert answer.code == 201
    assert (await cluster.apiserver.get(PODS, "a", namespace=cluster.namespace)).code == 404


async def test_absent_object_is_not_found_by_any_verb(cluster: Cluster) -> None:
    place = {"namespace": cluster.namespace}
    answers = [
        await cluster.apiserver.get(PODS, "a", **place),
        await cluster.apiserver.replace(PODS, "a", cluster.pod_body("a"), **place),
        await cluster.patch_status("a", {"metadata": {"annotations": {"a": "b"}}}),
        await cluster.apiserver.delete(PODS, "a", **place),
        await cluster.bind("a", "node-1"),
    ]

    assert {(answer.code, answer.reason, answer.message) for answer in answers} == {
        (404, "NotFound", 'pods "a" not found')
    }


async def test_kind_that_is_not_served_is_not_found(cluster: Cluster) -> None:
    unknown = PODS._replace(plural="foos")

    answer = await cluster.apiserver.get(unknown, "a", namespace=cluster.namespace)

    assert (answer.code, answer.reason) == (404, "NotFound")


async def test_replacing_compares_revision_and_uid(cluster: Cluster) -> None:
    place = {"namespace": cluster.namespace}
    created = await cluster.apiserver.create(LEASES, lease("l", "a"), **place)
    assert created.object is not None
    version = created.object["metadata"]["resourceVersion"]
    done = await cluster.apiserver.replace(LEASES, "l", lease("l", "b", resourceVersion=version), **place)
    stale = await cluster.apiserver.replace(LEASES, "l", lease("l", "c", resourceVersion=version), **place)
    other = await cluster.apiserver.replace(LEASES, "l", lease("l", "c", uid="another"), **place)

    assert done.code == 200
    assert done.object is not None
    assert done.object["spec"]["holderIdentity"] == "b"
    assert (stale.code, stale.reason) == (409, "Conflict")
    assert stale.message == (
        'Operation cannot be fulfilled on leases.coordination.k8s.io "l": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )
    assert (other.code, other.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: another" in other.message


async def test_lease_is_replaced_only_with_its_revision(cluster: Cluster) -> None:
    place = {"namespace": cluster.namespace}
    await cluster.apiserver.create(LEASES, lease("l", "a"), **place)

    answer = await cluster.apiserver.replace(LEASES, "l", lease("l", "b"), **place)

    assert (answer.code, answer.reason) == (422, "Invalid")


async def test_replacing_an_absent_lease_creates_it(cluster: Cluster) -> None:
    """A holder that renews a lease which is gone has it anew, whatever revision it names."""
    place = {"namespace": cluster.namespace}

    answer = await cluster.apiserver.replace(LEASES, "l", lease("l", "b", resourceVersion="7"), **place)

    assert answer.code == 201


async def test_name_of_the_body_must_be_that_of_the_url(cluster: Cluster) -> None:
    place = {"namespace": cluster.namespace}
    await cluster.apiserver.create(LEASES, lease("l", "a"), **place)

    answer = await cluster.apiserver.replace(LEASES, "l", lease("other", "b"), **place)

    assert (answer.code, answer.reason) == (400, "BadRequest")


async def test_write_that_changes_nothing_keeps_the_revision(cluster: Cluster) -> None:
    await cluster.pod("a")
    patch = {"metadata": {"annotations": {"wharfinger.dev/fence": "7"}}}
    first = await cluster.patch_status("a", patch)
    second = await cluster.patch_status("a", patch)

    assert first.object is not None
    assert second.object is not None
    assert (first.code, second.code) == (200, 200)
    assert revision_of(first.object) == revision_of(second.object)


async def test_merge_patch_removes_what_is_null(cluster: Cluster) -> None:
    pod = cluster.pod_body("a")
    pod["metadata"]["annotations"] = {"stays": "1", "goes": "2"}
    await cluster.apiserver.create(PODS, pod, namespace=cluster.namespace)

    answer = await cluster.apiserver.patch(
        PODS,
        "a",
        {"metadata": {"annotations": {"goes": None, "new": "3"}}},
        namespace=cluster.namespace,
        type_=PatchType.MERGE,
    )

    assert answer.object is not None
    assert answer.object["metadata"]["annotations"] == {"stays": "1", "new": "3"}


async def test_patch_with_an_old_revision_is_a_conflict(cluster: Cluster) -> None:
    """Also when the uid differs, too: a pod that was created again has another revision."""
    pod = await cluster.pod("a")
    await cluster.patch_status("a", {"metadata": {"annotations": {"moved": "1"}}})
    version = pod["metadata"]["resourceVersion"]
    answers = [
        await cluster.patch_status("a", {"metadata": {"resourceVersion": version, "annotations": {"b": "1"}}}),
        await cluster.patch_status(
            "a", {"metadata": {"resourceVersion": version, "uid": "another", "annotations": {"b": "1"}}}
        ),
    ]

    assert [(answer.code, answer.reason) for answer in answers] == [(409, "Conflict")] * 2
    assert answers[0].message == (
        'Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the '
        "latest version and try again"
    )


async def test_patch_with_another_uid_alone_is_invalid(cluster: Cluster) -> None:
    """422, not 409: the server takes it for an attempt to change the uid."""
    pod = await cluster.pod("a")

    other = await cluster.patch_status("a", {"metadata": {"uid": "another", "annotations": {"b": "1"}}})
    same = await cluster.patch_status("a", {"metadata": {"uid": uid_of(pod), "annotations": {"b": "1"}}})

    assert (other.code, other.reason) == (422, "Invalid")
    assert other.message == 'Pod "a" is invalid: metadata.uid: Invalid value: "another": field is immutable'
    assert same.code == 200


@pytest.mark.parametrize("resource", [NODES, NAMESPACES], ids=["node", "namespace"])
async def test_kinds_without_a_namespace_are_read_by_name(cluster: Cluster, resource: object) -> None:
    name = f"{cluster.namespace}-object"
    created = await cluster.apiserver.create(resource, {"metadata": {"name": name}})  # type: ignore[arg-type]
    found = await cluster.apiserver.get(resource, name)  # type: ignore[arg-type]

    assert created.code == 201
    assert found.object is not None
    assert "namespace" not in found.object["metadata"]


async def test_event_of_a_name_is_created_once(cluster: Cluster) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "a.1", "namespace": cluster.namespace},
        "eventTime": "2025-01-01T00:00:00.000000Z",
        "reportingController": "wharfinger",
        "reportingInstance": "worker-1",
        "action": "Binding",
        "reason": "Scheduled",
        "type": "Normal",
        "note": "assigned",
        "regarding": {"kind": "Pod", "namespace": cluster.namespace, "name": "a"},
    }
    first = await cluster.apiserver.create(EVENTS, event, namespace=cluster.namespace)
    second = await cluster.apiserver.create(EVENTS, event, namespace=cluster.namespace)

    assert first.code == 201
    assert (second.code, second.reason) == (409, "AlreadyExists")
