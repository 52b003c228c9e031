"""Pods: their binding, their status, their deletion."""

from __future__ import annotations

import asyncio

from tests.apiserver.conformance.conftest import Cluster
from wharfinger.apiserver.client import PODS, ApiAnswer, revision_of, uid_of
from wharfinger.errors import UpstreamUnavailable


async def test_bind_sets_node_annotations_and_condition_in_one_write(cluster: Cluster) -> None:
    pod = await cluster.pod("a")
    await cluster.patch_status("a", {"status": {"nominatedNodeName": "node-9"}})
    version = (await cluster.read("a"))["metadata"]["resourceVersion"]

    answer = await cluster.bind(
        "a", "node-1", uid=uid_of(pod), resourceVersion=version, annotations={"wharfinger.dev/attempt": "run-1"}
    )

    bound = await cluster.read("a")
    assert (answer.code, answer.done) == (201, True)
    assert answer.object is not None
    assert answer.object["status"] == "Success"
    assert bound["spec"]["nodeName"] == "node-1"
    assert bound["metadata"]["annotations"] == {"wharfinger.dev/attempt": "run-1"}
    condition = next(one for one in bound["status"]["conditions"] if one["type"] == "PodScheduled")
    assert condition["status"] == "True"
    assert "reason" not in condition
    assert "nominatedNodeName" not in bound["status"]
    assert revision_of(bound) > int(version)


async def test_bind_compares_uid_and_revision(cluster: Cluster) -> None:
    pod = await cluster.pod("a")
    await cluster.patch_status("a", {"metadata": {"annotations": {"moved": "1"}}})
    other = await cluster.bind("a", "node-1", uid="another")
    stale = await cluster.bind("a", "node-1", uid=uid_of(pod), resourceVersion=pod["metadata"]["resourceVersion"])

    assert [(answer.code, answer.reason) for answer in (other, stale)] == [(409, "Conflict")] * 2
    assert f"UID in precondition: another, UID in object meta: {uid_of(pod)}" in other.message
    assert "Precondition failed: ResourceVersion in precondition: " in stale.message
    assert "nodeName" not in (await cluster.read("a"))["spec"]


async def test_second_bind_is_a_conflict_that_names_the_node(cluster: Cluster) -> None:
    await cluster.pod("a")
    await cluster.bind("a", "node-1")

    answers = [await cluster.bind("a", "node-1"), await cluster.bind("a", "node-2")]

    text = 'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "node-1"'
    assert [(answer.code, answer.reason, answer.message) for answer in answers] == [(409, "Conflict", text)] * 2


async def test_of_many_binds_of_one_pod_one_is_done(cluster: Cluster) -> None:
    await cluster.pod("a")

    answers = await asyncio.gather(*(cluster.bind("a", f"node-{number}") for number in range(10)))

    done = [number for number, answer in enumerate(answers) if answer.done]
    assert len(done) == 1
    assert (await cluster.read("a"))["spec"]["nodeName"] == f"node-{done[0]}"


async def test_dry_run_of_a_bind_checks_and_does_nothing(cluster: Cluster) -> None:
    pod = await cluster.pod("a")
    good = await cluster.bind("a", "node-1", dry_run=True, uid=uid_of(pod))
    bad = await cluster.bind("a", "node-1", dry_run=True, uid="another")

    assert (good.code, bad.code) == (201, 409)
    assert await cluster.read("a") == pod


async def test_pod_that_is_being_deleted_is_not_bound(cluster: Cluster) -> None:
    body = cluster.pod_body("a")
    body["metadata"]["finalizers"] = ["wharfinger.dev/test"]
    await cluster.apiserver.create(PODS, body, namespace=cluster.namespace)
    await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace)

    answer = await cluster.bind("a", "node-1")

    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message.endswith("pod a is being deleted, cannot be assigned to a host")


async def test_gated_pod_is_not_bound(cluster: Cluster) -> None:
    await cluster.pod("a", schedulingGates=[{"name": "example.com/wait"}])

    answer = await cluster.bind("a", "node-1")

    assert (answer.code, answer.reason) == (409, "Conflict")
    assert answer.message.endswith("pod a has non-empty .spec.schedulingGates")


async def test_binding_of_another_name_is_refused(cluster: Cluster) -> None:
    await cluster.pod("a")
    body = {"metadata": {"name": "b"}, "target": {"kind": "Node", "name": "node-1"}}

    answer = await cluster.apiserver.create(PODS, body, namespace=cluster.namespace, name="a", subresource="binding")

    assert (answer.code, answer.reason) == (400, "BadRequest")


async def test_binding_without_a_node_is_a_failure_of_the_server(cluster: Cluster) -> None:
    """Code 500, although nothing was done, so the caller must assume that it may be applied."""
    await cluster.pod("a")
    failure: UpstreamUnavailable | ApiAnswer
    try:
        failure = await cluster.bind("a", "")
    except UpstreamUnavailable as error:
        failure = error

    assert isinstance(failure, UpstreamUnavailable)
    assert failure.maybe_applied
    assert "nodeName" not in (await cluster.read("a"))["spec"]


async def test_status_patch_merges_conditions_by_their_type(cluster: Cluster) -> None:
    await cluster.pod("a")
    first = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}
    await cluster.patch_status("a", {"status": {"conditions": [first]}})
    await cluster.patch_status("a", {"status": {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}})
    await cluster.patch_status("a", {"status": {"conditions": [{"type": "PodScheduled", "message": "0/2 nodes"}]}})

    conditions = {one["type"]: one for one in (await cluster.read("a"))["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["status"] == "True"
    assert conditions["PodScheduled"]["reason"] == "Unschedulable"
    assert conditions["PodScheduled"]["message"] == "0/2 nodes"


async def test_status_and_the_rest_are_written_by_paths_of_their_own(cluster: Cluster) -> None:
    """`pods/status` changes annotations too, which the fence is made of; but never the spec."""
    pod = await cluster.pod("a")
    by_status = {"metadata": {"annotations": {"a": "1"}}, "spec": {"nodeName": "x"}, "status": {"message": "m"}}
    await cluster.patch_status("a", by_status)
    by_object = {"metadata": {"annotations": {"b": "2"}}, "status": {"message": "other"}}
    await cluster.apiserver.patch(PODS, "a", by_object, namespace=cluster.namespace)

    now = await cluster.read("a")
    assert now["metadata"]["annotations"] == {"a": "1", "b": "2"}
    assert now["spec"] == pod["spec"]
    assert now["status"]["message"] == "m"


async def test_unbound_pod_is_deleted_at_once(cluster: Cluster) -> None:
    await cluster.pod("a")

    answer = await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace)

    assert answer.code == 200
    assert answer.object is not None
    assert answer.object["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await cluster.apiserver.get(PODS, "a", namespace=cluster.namespace)).code == 404


async def test_bound_pod_stays_for_its_grace_period(cluster: Cluster) -> None:
    await cluster.bound_pod("a", "node-1")
    first = await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace)
    again = await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace)
    sooner = await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace, grace_seconds=3)

    kept = [answer.object["metadata"] for answer in (first, again, sooner) if answer.object is not None]
    assert [metadata["deletionGracePeriodSeconds"] for metadata in kept] == [30, 30, 3]
    assert kept[0]["resourceVersion"] == kept[1]["resourceVersion"]
    assert kept[0]["deletionTimestamp"] > kept[2]["deletionTimestamp"]
    assert (await cluster.read("a"))["metadata"]["deletionTimestamp"] == kept[2]["deletionTimestamp"]


async def test_bound_pod_without_grace_is_deleted_at_once(cluster: Cluster) -> None:
    await cluster.bound_pod("a", "node-1")

    await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace, grace_seconds=0)

    assert (await cluster.apiserver.get(PODS, "a", namespace=cluster.namespace)).code == 404


async def test_deletion_compares_uid_and_revision(cluster: Cluster) -> None:
    pod = await cluster.pod("a")
    place = {"namespace": cluster.namespace}
    other = await cluster.apiserver.delete(PODS, "a", uid="another", **place)
    stale = await cluster.apiserver.delete(PODS, "a", uid=uid_of(pod), revision=1, **place)
    done = await cluster.apiserver.delete(PODS, "a", uid=uid_of(pod), revision=revision_of(pod), **place)

    assert [(answer.code, answer.reason) for answer in (other, stale)] == [(409, "Conflict")] * 2
    assert other.message.startswith('Operation cannot be fulfilled on Pod "a": the UID in the precondition (another) ')
    assert "the ResourceVersion in the precondition (1) does not match" in stale.message
    assert done.code == 200


async def test_finalizer_keeps_a_deleted_pod_until_it_goes(cluster: Cluster) -> None:
    body = cluster.pod_body("a")
    body["metadata"]["finalizers"] = ["wharfinger.dev/test"]
    await cluster.apiserver.create(PODS, body, namespace=cluster.namespace)
    await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace)
    kept = await cluster.read("a")
    await cluster.apiserver.patch(PODS, "a", {"metadata": {"finalizers": None}}, namespace=cluster.namespace)

    assert kept["metadata"]["deletionTimestamp"]
    assert (await cluster.apiserver.get(PODS, "a", namespace=cluster.namespace)).code == 404


async def test_pod_created_again_is_another_one(cluster: Cluster) -> None:
    first = await cluster.pod("a")
    await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace)
    second = await cluster.pod("a")

    assert uid_of(first) != uid_of(second)
    assert revision_of(first) < revision_of(second)
