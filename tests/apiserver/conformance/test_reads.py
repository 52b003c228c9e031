"""Lists, documents and reviews."""

from __future__ import annotations

import pytest

from tests.apiserver.conformance.conftest import Cluster
from wharfinger.apiserver.client import (
    ACCESS_REVIEWS,
    NAMESPACES,
    OWN_ACCESS_REVIEWS,
    PODS,
    TOKEN_REVIEWS,
    ApiResource,
    ReadRefused,
    revision_of,
)

LIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def test_list_has_all_objects_at_one_revision(cluster: Cluster) -> None:
    pods = [await cluster.pod(f"pod-{number}") for number in range(7)]

    pages = [page async for page in cluster.apiserver.list(PODS, namespace=cluster.namespace, page=3)]

    assert [len(objects) for objects, _ in pages] == [3, 3, 1]
    assert len({revision for _, revision in pages}) == 1
    assert pages[0][1] >= revision_of(pods[-1])
    names = [obj["metadata"]["name"] for objects, _ in pages for obj in objects]
    assert names == [pod["metadata"]["name"] for pod in pods]


async def test_list_shows_the_state_at_its_first_page(cluster: Cluster) -> None:
    for number in range(4):
        await cluster.pod(f"pod-{number}")
    writer = cluster.client()
    names: list[str] = []

    async for objects, _ in cluster.apiserver.list(PODS, namespace=cluster.namespace, page=2):
        names += [obj["metadata"]["name"] for obj in objects]
        await writer.delete(PODS, "pod-3", namespace=cluster.namespace)
        await writer.create(PODS, cluster.pod_body("pod-9"), namespace=cluster.namespace)

    assert names == ["pod-0", "pod-1", "pod-2", "pod-3"]


async def test_list_of_nothing_has_one_empty_page(cluster: Cluster) -> None:
    pages = [page async for page in cluster.apiserver.list(PODS, namespace=cluster.namespace)]

    assert [objects for objects, _ in pages] == [()]
    assert pages[0][1] > 0


async def test_listed_objects_lack_version_and_kind(cluster: Cluster) -> None:
    """As kube-apiserver prints lists; watches and single objects have them."""
    await cluster.pod("a")

    pages = [page async for page in cluster.apiserver.list(PODS, namespace=cluster.namespace)]

    assert {"apiVersion", "kind"}.isdisjoint(pages[0][0][0])


async def test_list_leaves_out_what_the_selector_does_not_mean(cluster: Cluster) -> None:
    for number, phase in enumerate(["Pending", "Running", "Succeeded", "Failed"]):
        await cluster.pod(f"pod-{number}")
        await cluster.patch_status(f"pod-{number}", {"status": {"phase": phase}})

    pages = [page async for page in cluster.apiserver.list(PODS, namespace=cluster.namespace, field_selector=LIVE)]

    assert [obj["metadata"]["name"] for objects, _ in pages for obj in objects] == ["pod-0", "pod-1"]


async def test_selector_by_an_unknown_field_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ReadRefused, match=r"field label not supported: spec\.foo") as refused:
        await anext(cluster.apiserver.list(PODS, field_selector="spec.foo=1"))
    assert refused.value.code == 400

    async with cluster.apiserver.watch(PODS, field_selector="spec.foo=1") as batches:
        with pytest.raises(ReadRefused, match=r"field label not supported: spec\.foo"):
            await anext(batches)


async def test_list_and_watch_of_an_unknown_kind_are_refused(cluster: Cluster) -> None:
    unknown = ApiResource("example.com", "v1", "foos", namespaced=True)

    with pytest.raises(ReadRefused) as refused:
        await anext(cluster.apiserver.list(unknown))
    async with cluster.apiserver.watch(unknown) as batches:
        with pytest.raises(ReadRefused) as unwatched:
            await anext(batches)

    assert (refused.value.code, unwatched.value.code) == (404, 404)


async def test_server_shows_its_version_and_kinds(cluster: Cluster) -> None:
    version = await cluster.apiserver.read("/version")
    served = await cluster.apiserver.read("/apis/coordination.k8s.io/v1")
    absent = await cluster.apiserver.read("/apis/scheduling.example.com/v1")

    assert version.object is not None
    assert version.object["major"] == "1"
    assert served.object is not None
    assert ("leases", True, "Lease") in {
        (one["name"], one["namespaced"], one["kind"]) for one in served.object["resources"]
    }
    assert (absent.code, absent.reason) == (404, "NotFound")


async def test_namespaces_of_the_system_exist(cluster: Cluster) -> None:
    answers = [await cluster.apiserver.get(NAMESPACES, name) for name in ("default", "kube-system")]

    assert [answer.code for answer in answers] == [200, 200]


async def test_reviews_are_answered_and_not_stored(cluster: Cluster) -> None:
    own = {"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "binding"}}}
    others = {"spec": {"user": "somebody", "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}}
    token = {"spec": {"token": "of-nobody"}}
    if cluster.memory is not None:
        cluster.memory.decide_access(lambda spec: "user" not in spec)

    answers = [
        await cluster.apiserver.create(resource, {"apiVersion": version, "kind": kind, **body})
        for resource, version, kind, body in (
            (OWN_ACCESS_REVIEWS, "authorization.k8s.io/v1", "SelfSubjectAccessReview", own),
            (ACCESS_REVIEWS, "authorization.k8s.io/v1", "SubjectAccessReview", others),
            (TOKEN_REVIEWS, "authentication.k8s.io/v1", "TokenReview", token),
        )
    ]

    assert [answer.code for answer in answers] == [201] * 3
    statuses = [answer.object["status"] for answer in answers if answer.object is not None]
    assert [status.get("allowed") for status in statuses[:2]] == [True, False]
    assert statuses[2] == {"user": {}, "error": "invalid bearer token"}
