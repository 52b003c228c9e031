"""Watches: the first list, what changes, and how they end."""

from __future__ import annotations

import asyncio

import pytest

from tests.apiserver.conformance.conftest import Cluster
from wharfinger.apiserver.client import NODES, PODS, Batch, ChangeKind, revision_of
from wharfinger.errors import UpstreamUnavailable

LIVE = "status.phase!=Succeeded,status.phase!=Failed"


async def test_watch_shows_what_exists_and_marks_the_end(cluster: Cluster) -> None:
    pods = [await cluster.pod(f"pod-{number}") for number in range(5)]
    shown: list[Batch] = []

    async with cluster.apiserver.watch(PODS) as batches:
        while not (shown and shown[-1].listed):
            shown.append(await anext(batches))

    ours = [change for batch in shown for change in cluster.of_ours(batch)]
    assert [batch.listed for batch in shown] == [False] * (len(shown) - 1) + [True]
    assert {batch.revision for batch in shown[:-1]} <= {0}
    assert shown[-1].revision >= revision_of(pods[-1])
    assert {change.kind for change in ours} == {ChangeKind.ADDED}
    assert {change.object["metadata"]["name"]: change.revision for change in ours} == {
        pod["metadata"]["name"]: revision_of(pod) for pod in pods
    }
    assert ours[0].object["kind"] == "Pod"


async def test_first_list_ends_also_without_objects(cluster: Cluster) -> None:
    async with cluster.apiserver.watch(NODES, field_selector="metadata.name=nothing") as batches:
        batch = await anext(batches)

    assert (batch.changes, batch.listed) == ((), True)
    assert batch.revision > 0


async def test_changes_follow_the_first_list_without_gap(cluster: Cluster) -> None:
    await cluster.pod("a")
    async with cluster.apiserver.watch(PODS) as batches:
        while not (await anext(batches)).listed:
            pass
        await cluster.pod("b")
        await cluster.bind("a", "node-1")
        changes = await cluster.next_changes(batches, 2)

    assert [(change.kind, change.object["metadata"]["name"]) for change in changes] == [
        (ChangeKind.ADDED, "b"),
        (ChangeKind.MODIFIED, "a"),
    ]


async def test_watch_resumes_after_a_revision(cluster: Cluster) -> None:
    first = await cluster.pod("a")
    second = await cluster.pod("b")
    third = await cluster.pod("c")

    async with cluster.apiserver.watch(PODS, revision=revision_of(first)) as batches:
        changes = await cluster.next_changes(batches, 2)

    assert [change.object for change in changes] == [second, third]
    assert [change.revision for change in changes] == [revision_of(second), revision_of(third)]


async def test_batch_has_the_revision_of_its_last_change(cluster: Cluster) -> None:
    start = await cluster.pod("a")
    last = revision_of(await cluster.pod("b"))

    async with cluster.apiserver.watch(PODS, revision=revision_of(start), newest=last) as batches:
        batch = await anext(batches)

    assert batch.revision == batch.changes[-1].revision
    assert not batch.listed


async def test_deletion_shows_the_last_state_at_its_own_revision(cluster: Cluster) -> None:
    pod = await cluster.pod("a")

    async with cluster.apiserver.watch(PODS, revision=revision_of(pod)) as batches:
        answer = await cluster.apiserver.delete(PODS, "a", namespace=cluster.namespace)
        changes = await cluster.next_changes(batches, 2)

    assert answer.object is not None
    assert [change.kind for change in changes] == [ChangeKind.MODIFIED, ChangeKind.DELETED]
    assert changes[0].object["metadata"]["deletionGracePeriodSeconds"] == 0
    assert changes[1].revision == revision_of(changes[1].object) > changes[0].revision
    assert changes[1].object["spec"] == pod["spec"]


async def test_pod_that_leaves_the_selector_is_shown_as_deleted(cluster: Cluster) -> None:
    """At the revision of the write that took it out, in the state before."""
    pod = await cluster.pod("a")

    async with cluster.apiserver.watch(PODS, revision=revision_of(pod), field_selector=LIVE) as batches:
        await cluster.patch_status("a", {"status": {"phase": "Succeeded"}})
        left = (await cluster.next_changes(batches))[0]

    assert left.kind is ChangeKind.DELETED
    assert left.object["status"]["phase"] == "Pending"
    assert left.revision == revision_of(await cluster.read("a"))


async def test_first_list_leaves_out_what_the_selector_leaves_out(cluster: Cluster) -> None:
    await cluster.pod("lives")
    await cluster.pod("done")
    await cluster.patch_status("done", {"status": {"phase": "Failed"}})
    names: list[str] = []

    async with cluster.apiserver.watch(PODS, field_selector=LIVE) as batches:
        listed = False
        while not listed:
            batch = await anext(batches)
            listed = batch.listed
            names += [change.object["metadata"]["name"] for change in cluster.of_ours(batch)]

    assert names == ["lives"]


async def test_many_changes_come_in_order_without_gap_or_double(cluster: Cluster) -> None:
    start = await cluster.pod("a")
    writer = cluster.client()
    written: list[int] = []

    async def write() -> None:
        for number in range(200):
            patch = {"metadata": {"annotations": {"number": str(number)}}}
            answer = await writer.patch(PODS, "a", patch, namespace=cluster.namespace, subresource="status")
            assert answer.object is not None
            written.append(revision_of(answer.object))

    async with cluster.apiserver.watch(PODS, revision=revision_of(start)) as batches:
        writing = asyncio.create_task(write())
        changes = await cluster.next_changes(batches, 200)
        await writing

    assert [change.revision for change in changes] == written


async def test_revisions_grow_over_all_kinds(cluster: Cluster) -> None:
    pod = await cluster.pod("a")
    node = await cluster.apiserver.create(NODES, {"metadata": {"name": f"{cluster.namespace}-node"}})
    other = await cluster.pod("b")

    assert node.object is not None
    assert revision_of(pod) < revision_of(node.object) < revision_of(other)


async def test_ended_watch_leaves_the_client_usable(cluster: Cluster) -> None:
    for _ in range(3):
        async with cluster.apiserver.watch(PODS) as batches:
            await anext(batches)

    assert (await cluster.apiserver.read("/version")).done


async def test_closing_breaks_watches_and_later_requests(cluster: Cluster) -> None:
    client = cluster.client()
    async with client.watch(PODS) as batches:
        while not (await anext(batches)).listed:
            pass
        waiting = asyncio.ensure_future(anext(batches))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(UpstreamUnavailable):
            await waiting
    await client.close()

    with pytest.raises(UpstreamUnavailable) as refused:
        await client.create(PODS, cluster.pod_body("a"), namespace=cluster.namespace)
    assert not refused.value.maybe_applied
