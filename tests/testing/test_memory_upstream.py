"""`MemoryUpstream`'s switches for what may go wrong; what it has in common with a real server is in conformance/."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.clock import Clock
from wharfinger.apiserver.client import (
    LEASES,
    NODES,
    OWN_ACCESS_REVIEWS,
    PODS,
    TOKEN_REVIEWS,
    ApiAnswer,
    ApiCall,
    ApiClient,
    ApiResource,
    Batch,
    ChangeKind,
    ReadRefused,
    revision_of,
)
from wharfinger.errors import HistoryGone, UpstreamDenied, UpstreamUnavailable
from wharfinger.testing import MemoryUpstream

_typed: type[ApiClient] = MemoryUpstream
POD = {"metadata": {"name": "a"}, "spec": {}}


async def bind(upstream: MemoryUpstream, name: str = "a", **metadata: Any) -> ApiAnswer:
    body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": "node-1"}}
    return await upstream.create(PODS, body, namespace="default", name=name, subresource="binding")


def node_of(upstream: MemoryUpstream, name: str = "a") -> str:
    pod = upstream.find(PODS, name)
    assert pod is not None
    return str(pod["spec"].get("nodeName", ""))


async def test_lost_answer_was_applied() -> None:
    upstream = MemoryUpstream()
    upstream.put(PODS, POD)
    upstream.faults.lose_answers(subresource="binding")

    with pytest.raises(UpstreamUnavailable) as lost:
        await bind(upstream)
    again = await bind(upstream)

    assert lost.value.maybe_applied
    assert node_of(upstream) == "node-1"
    assert again.code == 409


@pytest.mark.parametrize(
    ("fault", "maybe_applied", "retry_after"),
    [
        (lambda upstream: upstream.faults.refuse(503, "overloaded", subresource="binding"), True, None),
        (lambda upstream: upstream.faults.throttle(3.0, subresource="binding"), False, 3.0),
        (lambda upstream: upstream.faults.disconnect(subresource="binding"), False, None),
    ],
    ids=["503", "429", "no connection"],
)
async def test_request_that_fails_before_is_not_applied(
    fault: Any, maybe_applied: bool, retry_after: float | None
) -> None:
    upstream = MemoryUpstream()
    upstream.put(PODS, POD)
    fault(upstream)
    with pytest.raises(UpstreamUnavailable) as failed:
        await bind(upstream)
    before = node_of(upstream)

    assert (failed.value.maybe_applied, failed.value.retry_after) == (maybe_applied, retry_after)
    assert before == ""
    assert (await bind(upstream)).done, "the fault was for one request"


async def test_webhook_refuses_chosen_requests_until_it_ends() -> None:
    upstream = MemoryUpstream()
    for name in ("a", "b"):
        upstream.put(PODS, {"metadata": {"name": name}})
    text = 'admission webhook "policy.example.com" denied the request: not today'
    webhook = upstream.faults.refuse(400, text, reason="BadRequest", subresource="binding", name="a", times=None)
    answers = [await bind(upstream), await bind(upstream), await bind(upstream, "b")]
    webhook.end()

    assert [answer.code for answer in answers] == [400, 400, 201]
    assert answers[0].message == text
    assert (await bind(upstream)).done


async def test_forbidden_verb_is_refused_and_reviews_show_it() -> None:
    upstream = MemoryUpstream(user="system:serviceaccount:kube-system:wharfinger")
    upstream.put(PODS, POD)
    upstream.faults.forbid("create", PODS, "binding")
    upstream.faults.forbid("watch", NODES)
    attributes = {"verb": "create", "group": "", "resource": "pods", "subresource": "binding"}
    reviews = [
        await upstream.create(OWN_ACCESS_REVIEWS, {"spec": {"resourceAttributes": attributes | {"verb": verb}}})
        for verb in ("create", "delete")
    ]
    answer = await bind(upstream)
    async with upstream.watch(NODES) as batches:
        with pytest.raises(ReadRefused) as unwatched:
            await anext(batches)

    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert answer.message == (
        'pods "a" is forbidden: User "system:serviceaccount:kube-system:wharfinger" cannot create resource '
        '"pods/binding" in API group "" in the namespace "default"'
    )
    assert unwatched.value.code == 403
    statuses = [review.object["status"] for review in reviews if review.object is not None]
    assert statuses == [{"allowed": False}, {"allowed": True}]


async def test_denied_client_may_do_nothing_and_others_all() -> None:
    upstream = MemoryUpstream()
    other = upstream.client()
    fault = upstream.faults.deny()

    with pytest.raises(UpstreamDenied):
        await upstream.get(PODS, "a", namespace="default")
    async with upstream.watch(PODS) as batches:
        with pytest.raises(UpstreamDenied):
            await anext(batches)
    assert (await other.get(PODS, "a", namespace="default")).code == 404
    fault.end()
    assert (await upstream.get(PODS, "a", namespace="default")).code == 404


async def test_late_get_has_the_state_of_when_it_was_asked() -> None:
    upstream = MemoryUpstream()
    old = upstream.put(PODS, POD)
    gate = upstream.faults.hold(verb="get", resource=PODS)
    reading = asyncio.create_task(upstream.get(PODS, "a", namespace="default"))
    await gate.reached()
    upstream.put(PODS, {**POD, "metadata": {"name": "a", "labels": {"new": "1"}}})
    gate.open()

    assert (await reading).object == old


async def test_late_first_list_is_followed_by_what_it_missed() -> None:
    upstream = MemoryUpstream()
    upstream.put(PODS, POD)
    gate = upstream.faults.hold(verb="watch", resource=PODS)
    async with upstream.watch(PODS) as batches:
        first = asyncio.ensure_future(anext(batches))
        await gate.reached()
        upstream.remove(PODS, "a")
        gate.open()
        seen = [await first, await anext(batches), await anext(batches)]

    assert [change.kind for batch in seen for change in batch.changes] == [ChangeKind.ADDED, ChangeKind.DELETED]
    assert [batch.listed for batch in seen] == [False, True, False]


async def test_held_write_may_be_broken_off_before_it_is_done() -> None:
    upstream = MemoryUpstream()
    upstream.put(PODS, POD)
    gate = upstream.faults.hold(before=True, subresource="binding")
    binding = asyncio.create_task(bind(upstream))
    await gate.reached()
    gate.break_off()
    with pytest.raises(UpstreamUnavailable) as lost:
        await binding

    assert lost.value.maybe_applied
    assert node_of(upstream) == ""


async def test_hooks_run_before_and_after_a_request() -> None:
    """As a user who edits the pod just before each bind."""
    upstream = MemoryUpstream()
    seen: list[str] = []

    async def before(request: ApiCall) -> None:
        seen.append(f"before {request.verb} {node_of(upstream)}")
        upstream.put(PODS, {"metadata": {"name": "a", "labels": {"edited": "1"}}, "spec": {}})

    def after(request: ApiCall) -> None:
        seen.append(f"after {request.subresource} {node_of(upstream)}")

    pod = upstream.put(PODS, POD)
    upstream.before_request = before
    stale = await bind(upstream, resourceVersion=pod["metadata"]["resourceVersion"])
    upstream.before_request, upstream.after_request = None, after
    await bind(upstream)

    assert stale.code == 409
    assert seen == ["before create ", "after binding node-1"]


async def test_requests_are_kept_in_their_order() -> None:
    upstream = MemoryUpstream()
    await upstream.get(PODS, "a", namespace="default")
    await upstream.create(LEASES, {"metadata": {"name": "l"}}, namespace="default")

    assert [(request.verb, request.name) for request in upstream.requests] == [
        ("get", "a"),
        ("create", "l"),
    ]


async def test_cut_watches_break_and_resume() -> None:
    upstream = MemoryUpstream()
    revision = upstream.revision
    upstream.put(PODS, POD)
    async with upstream.watch(PODS, revision=revision) as pods, upstream.watch(NODES, revision=revision) as nodes:
        batch = await anext(pods)
        assert await anext(nodes) == Batch((), revision), "nothing has changed before"
        broken = asyncio.ensure_future(anext(pods))
        others = asyncio.ensure_future(anext(nodes))
        await asyncio.sleep(0)
        upstream.cut_watches(PODS)
        with pytest.raises(UpstreamUnavailable):
            await broken
        upstream.put(NODES, {"metadata": {"name": "n"}})
        assert (await others).changes
    upstream.put(PODS, {"metadata": {"name": "b"}})
    async with upstream.watch(PODS, revision=batch.revision) as pods:
        resumed = await anext(pods)

    assert [change.object["metadata"]["name"] for change in resumed.changes] == ["b"]


async def test_silent_watches_give_up_after_70_seconds() -> None:
    clock = Clock()
    upstream = MemoryUpstream(clock=clock)
    upstream.silence_watches()
    async with upstream.watch(PODS, revision=upstream.revision) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        upstream.put(PODS, POD)
        clock.advance(69.0)
        upstream.tick()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        clock.advance(1.0)
        upstream.tick()
        with pytest.raises(UpstreamUnavailable, match="silent for 70 s"):
            await waiting


async def test_resumed_watches_show_what_they_held_back() -> None:
    upstream = MemoryUpstream()
    upstream.silence_watches()
    async with upstream.watch(PODS, revision=upstream.revision) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        upstream.put(PODS, POD)
        upstream.resume_watches()
        batch = await waiting

    assert len(batch.changes) == 1


async def test_bookmarks_are_shown_on_demand() -> None:
    upstream = MemoryUpstream()
    start = upstream.revision
    upstream.put(NODES, {"metadata": {"name": "n"}})
    async with upstream.watch(NODES, revision=start) as batches:
        await anext(batches)
        upstream.put(PODS, POD)
        upstream.bookmark()
        batch = await anext(batches)

    assert (batch.changes, batch.revision, batch.listed) == ((), upstream.revision, False)


async def test_forgotten_history_is_gone() -> None:
    upstream = MemoryUpstream()
    revisions = [revision_of(upstream.put(PODS, {"metadata": {"name": f"pod-{n}"}})) for n in range(4)]
    pages = upstream.list(PODS, page=1)
    await anext(pages)
    for name in ("b", "c"):
        upstream.put(PODS, {"metadata": {"name": name}})
    upstream.forget_before(upstream.revision)

    async with upstream.watch(PODS, revision=revisions[0]) as batches:
        with pytest.raises(HistoryGone):
            await anext(batches)
    async with upstream.watch(PODS, revision=upstream.revision - 1) as batches:
        assert len((await anext(batches)).changes) == 1
    with pytest.raises(HistoryGone):
        await anext(pages)


async def test_restored_backup_has_lower_revisions() -> None:
    upstream = MemoryUpstream()
    backup = upstream.backup()
    old = upstream.put(PODS, POD)
    upstream.restore(backup)
    again = upstream.put(PODS, POD)

    assert revision_of(again) == revision_of(old)
    assert again["metadata"]["uid"] != old["metadata"]["uid"]


async def test_kinds_come_and_go() -> None:
    groups = ApiResource("scheduling.example.com", "v1", "podgroups", namespaced=True)
    upstream = MemoryUpstream()
    before = await upstream.read("/apis/scheduling.example.com/v1")
    upstream.serve(groups, "PodGroup")
    served = await upstream.read("/apis/scheduling.example.com/v1")
    created = await upstream.create(groups, {"metadata": {"name": "g"}}, namespace="default")
    upstream.withdraw(groups)

    assert (before.code, served.code, created.code) == (404, 200, 201)
    assert created.object is not None
    assert (created.object["apiVersion"], created.object["kind"]) == ("scheduling.example.com/v1", "PodGroup")
    async with upstream.watch(groups) as batches:
        with pytest.raises(ReadRefused):
            await anext(batches)


async def test_known_tokens_are_of_their_users() -> None:
    upstream = MemoryUpstream()
    upstream.know_token("t", {"username": "ada", "groups": ["admins"]})
    answer = await upstream.create(TOKEN_REVIEWS, {"spec": {"token": "t"}})

    assert answer.object is not None
    assert answer.object["status"] == {"authenticated": True, "user": {"username": "ada", "groups": ["admins"]}}


async def test_put_replaces_an_object_with_its_status() -> None:
    """As a kubelet that reports a pod, with the identity that the pod has."""
    upstream = MemoryUpstream()
    first = upstream.put(PODS, {**POD, "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}})
    second = upstream.put(PODS, {**POD, "status": {"phase": "Succeeded"}})
    kept = upstream.put(PODS, {**POD, "metadata": {"name": "a", "labels": {"x": "1"}}})

    assert (first["status"]["phase"], first["spec"]["nodeName"]) == ("Running", "node-1")
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert [one["status"]["phase"] for one in (second, kept)] == ["Succeeded", "Succeeded"]
    assert [obj["metadata"]["name"] for obj in upstream.objects(PODS)] == ["a"]


async def test_readers_cannot_change_what_is_stored() -> None:
    upstream = MemoryUpstream()
    created = await upstream.create(PODS, POD, namespace="default")
    assert isinstance(created.object, dict)
    created.object["spec"]["nodeName"] = "node-9"

    assert node_of(upstream) == ""
