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


async def bind(apiserver: MemoryUpstream, name: str = "a", **metadata: Any) -> ApiAnswer:
    body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": "node-1"}}
    return await apiserver.create(PODS, body, namespace="default", name=name, subresource="binding")


def node_of(apiserver: MemoryUpstream, name: str = "a") -> str:
    pod = apiserver.find(PODS, name)
    assert pod is not None
    return str(pod["spec"].get("nodeName", ""))


async def test_lost_answer_was_applied() -> None:
    apiserver = MemoryUpstream()
    apiserver.put(PODS, POD)
    apiserver.faults.lose_answers(subresource="binding")

    with pytest.raises(UpstreamUnavailable) as lost:
        await bind(apiserver)
    again = await bind(apiserver)

    assert lost.value.maybe_applied
    assert node_of(apiserver) == "node-1"
    assert again.code == 409


@pytest.mark.parametrize(
    ("fault", "maybe_applied", "retry_after"),
    [
        (lambda apiserver: apiserver.faults.refuse(503, "overloaded", subresource="binding"), True, None),
        (lambda apiserver: apiserver.faults.throttle(3.0, subresource="binding"), False, 3.0),
        (lambda apiserver: apiserver.faults.disconnect(subresource="binding"), False, None),
    ],
    ids=["503", "429", "no connection"],
)
async def test_request_that_fails_before_is_not_applied(
    fault: Any, maybe_applied: bool, retry_after: float | None
) -> None:
    apiserver = MemoryUpstream()
    apiserver.put(PODS, POD)
    fault(apiserver)
    with pytest.raises(UpstreamUnavailable) as failed:
        await bind(apiserver)
    before = node_of(apiserver)

    assert (failed.value.maybe_applied, failed.value.retry_after) == (maybe_applied, retry_after)
    assert before == ""
    assert (await bind(apiserver)).done, "the fault was for one request"


async def test_webhook_refuses_chosen_requests_until_it_ends() -> None:
    apiserver = MemoryUpstream()
    for name in ("a", "b"):
        apiserver.put(PODS, {"metadata": {"name": name}})
    text = 'admission webhook "policy.example.com" denied the request: not today'
    webhook = apiserver.faults.refuse(400, text, reason="BadRequest", subresource="binding", name="a", times=None)
    answers = [await bind(apiserver), await bind(apiserver), await bind(apiserver, "b")]
    webhook.end()

    assert [answer.code for answer in answers] == [400, 400, 201]
    assert answers[0].message == text
    assert (await bind(apiserver)).done


async def test_forbidden_verb_is_refused_and_reviews_show_it() -> None:
    apiserver = MemoryUpstream(user="system:serviceaccount:kube-system:wharfinger")
    apiserver.put(PODS, POD)
    apiserver.faults.forbid("create", PODS, "binding")
    apiserver.faults.forbid("watch", NODES)
    attributes = {"verb": "create", "group": "", "resource": "pods", "subresource": "binding"}
    reviews = [
        await apiserver.create(OWN_ACCESS_REVIEWS, {"spec": {"resourceAttributes": attributes | {"verb": verb}}})
        for verb in ("create", "delete")
    ]
    answer = await bind(apiserver)
    async with apiserver.watch(NODES) as batches:
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
    apiserver = MemoryUpstream()
    other = apiserver.client()
    fault = apiserver.faults.deny()

    with pytest.raises(UpstreamDenied):
        await apiserver.get(PODS, "a", namespace="default")
    async with apiserver.watch(PODS) as batches:
        with pytest.raises(UpstreamDenied):
            await anext(batches)
    assert (await other.get(PODS, "a", namespace="default")).code == 404
    fault.end()
    assert (await apiserver.get(PODS, "a", namespace="default")).code == 404


async def test_late_get_has_the_state_of_when_it_was_asked() -> None:
    apiserver = MemoryUpstream()
    old = apiserver.put(PODS, POD)
    gate = apiserver.faults.hold(verb="get", resource=PODS)
    reading = asyncio.create_task(apiserver.get(PODS, "a", namespace="default"))
    await gate.reached()
    apiserver.put(PODS, {**POD, "metadata": {"name": "a", "labels": {"new": "1"}}})
    gate.open()

    assert (await reading).object == old


async def test_late_first_list_is_followed_by_what_it_missed() -> None:
    apiserver = MemoryUpstream()
    apiserver.put(PODS, POD)
    gate = apiserver.faults.hold(verb="watch", resource=PODS)
    async with apiserver.watch(PODS) as batches:
        first = asyncio.ensure_future(anext(batches))
        await gate.reached()
        apiserver.remove(PODS, "a")
        gate.open()
        seen = [await first, await anext(batches), await anext(batches)]

    assert [change.kind for batch in seen for change in batch.changes] == [ChangeKind.ADDED, ChangeKind.DELETED]
    assert [batch.listed for batch in seen] == [False, True, False]


async def test_held_write_may_be_broken_off_before_it_is_done() -> None:
    apiserver = MemoryUpstream()
    apiserver.put(PODS, POD)
    gate = apiserver.faults.hold(before=True, subresource="binding")
    binding = asyncio.create_task(bind(apiserver))
    await gate.reached()
    gate.break_off()
    with pytest.raises(UpstreamUnavailable) as lost:
        await binding

    assert lost.value.maybe_applied
    assert node_of(apiserver) == ""


async def test_hooks_run_before_and_after_a_request() -> None:
    """As a user who edits the pod just before each bind."""
    apiserver = MemoryUpstream()
    seen: list[str] = []

    async def before(request: ApiCall) -> None:
        seen.append(f"before {request.verb} {node_of(apiserver)}")
        apiserver.put(PODS, {"metadata": {"name": "a", "labels": {"edited": "1"}}, "spec": {}})

    def after(request: ApiCall) -> None:
        seen.append(f"after {request.subresource} {node_of(apiserver)}")

    pod = apiserver.put(PODS, POD)
    apiserver.before_request = before
    stale = await bind(apiserver, resourceVersion=pod["metadata"]["resourceVersion"])
    apiserver.before_request, apiserver.after_request = None, after
    await bind(apiserver)

    assert stale.code == 409
    assert seen == ["before create ", "after binding node-1"]


async def test_requests_are_kept_in_their_order() -> None:
    apiserver = MemoryUpstream()
    await apiserver.get(PODS, "a", namespace="default")
    await apiserver.create(LEASES, {"metadata": {"name": "l"}}, namespace="default")

    assert [(request.verb, request.name) for request in apiserver.requests] == [
        ("get", "a"),
        ("create", "l"),
    ]


async def test_cut_watches_break_and_resume() -> None:
    apiserver = MemoryUpstream()
    revision = apiserver.revision
    apiserver.put(PODS, POD)
    async with apiserver.watch(PODS, revision=revision) as pods, apiserver.watch(NODES, revision=revision) as nodes:
        batch = await anext(pods)
        assert await anext(nodes) == Batch((), revision), "nothing has changed before"
        broken = asyncio.ensure_future(anext(pods))
        others = asyncio.ensure_future(anext(nodes))
        await asyncio.sleep(0)
        apiserver.cut_watches(PODS)
        with pytest.raises(UpstreamUnavailable):
            await broken
        apiserver.put(NODES, {"metadata": {"name": "n"}})
        assert (await others).changes
    apiserver.put(PODS, {"metadata": {"name": "b"}})
    async with apiserver.watch(PODS, revision=batch.revision) as pods:
        resumed = await anext(pods)

    assert [change.object["metadata"]["name"] for change in resumed.changes] == ["b"]


async def test_silent_watches_give_up_after_70_seconds() -> None:
    clock = Clock()
    apiserver = MemoryUpstream(clock=clock)
    apiserver.silence_watches()
    async with apiserver.watch(PODS, revision=apiserver.revision) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        apiserver.put(PODS, POD)
        clock.advance(69.0)
        apiserver.tick()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
        clock.advance(1.0)
        apiserver.tick()
        with pytest.raises(UpstreamUnavailable, match="silent for 70 s"):
            await waiting


async def test_resumed_watches_show_what_they_held_back() -> None:
    apiserver = MemoryUpstream()
    apiserver.silence_watches()
    async with apiserver.watch(PODS, revision=apiserver.revision) as batches:
        waiting = asyncio.ensure_future(anext(batches))
        apiserver.put(PODS, POD)
        apiserver.resume_watches()
        batch = await waiting

    assert len(batch.changes) == 1


async def test_bookmarks_are_shown_on_demand() -> None:
    apiserver = MemoryUpstream()
    start = apiserver.revision
    apiserver.put(NODES, {"metadata": {"name": "n"}})
    async with apiserver.watch(NODES, revision=start) as batches:
        await anext(batches)
        apiserver.put(PODS, POD)
        apiserver.bookmark()
        batch = await anext(batches)

    assert (batch.changes, batch.revision, batch.listed) == ((), apiserver.revision, False)


async def test_forgotten_history_is_gone() -> None:
    apiserver = MemoryUpstream()
    revisions = [revision_of(apiserver.put(PODS, {"metadata": {"name": f"pod-{n}"}})) for n in range(4)]
    pages = apiserver.list(PODS, page=1)
    await anext(pages)
    for name in ("b", "c"):
        apiserver.put(PODS, {"metadata": {"name": name}})
    apiserver.forget_before(apiserver.revision)

    async with apiserver.watch(PODS, revision=revisions[0]) as batches:
        with pytest.raises(HistoryGone):
            await anext(batches)
    async with apiserver.watch(PODS, revision=apiserver.revision - 1) as batches:
        assert len((await anext(batches)).changes) == 1
    with pytest.raises(HistoryGone):
        await anext(pages)


async def test_restored_backup_has_lower_revisions() -> None:
    apiserver = MemoryUpstream()
    backup = apiserver.backup()
    old = apiserver.put(PODS, POD)
    apiserver.restore(backup)
    again = apiserver.put(PODS, POD)

    assert revision_of(again) == revision_of(old)
    assert again["metadata"]["uid"] != old["metadata"]["uid"]


async def test_kinds_come_and_go() -> None:
    groups = ApiResource("scheduling.example.com", "v1", "podgroups", namespaced=True)
    apiserver = MemoryUpstream()
    before = await apiserver.read("/apis/scheduling.example.com/v1")
    apiserver.serve(groups, "PodGroup")
    served = await apiserver.read("/apis/scheduling.example.com/v1")
    created = await apiserver.create(groups, {"metadata": {"name": "g"}}, namespace="default")
    apiserver.withdraw(groups)

    assert (before.code, served.code, created.code) == (404, 200, 201)
    assert created.object is not None
    assert (created.object["apiVersion"], created.object["kind"]) == ("scheduling.example.com/v1", "PodGroup")
    async with apiserver.watch(groups) as batches:
        with pytest.raises(ReadRefused):
            await anext(batches)


async def test_known_tokens_are_of_their_users() -> None:
    apiserver = MemoryUpstream()
    apiserver.know_token("t", {"username": "ada", "groups": ["admins"]})
    answer = await apiserver.create(TOKEN_REVIEWS, {"spec": {"token": "t"}})

    assert answer.object is not None
    assert answer.object["status"] == {"authenticated": True, "user": {"username": "ada", "groups": ["admins"]}}


async def test_put_replaces_an_object_with_its_status() -> None:
    """As a kubelet that reports a pod, with the identity that the pod has."""
    apiserver = MemoryUpstream()
    first = apiserver.put(PODS, {**POD, "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}})
    second = apiserver.put(PODS, {**POD, "status": {"phase": "Succeeded"}})
    kept = apiserver.put(PODS, {**POD, "metadata": {"name": "a", "labels": {"x": "1"}}})

    assert (first["status"]["phase"], first["spec"]["nodeName"]) == ("Running", "node-1")
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert [one["status"]["phase"] for one in (second, kept)] == ["Succeeded", "Succeeded"]
    assert [obj["metadata"]["name"] for obj in apiserver.objects(PODS)] == ["a"]


async def test_readers_cannot_change_what_is_stored() -> None:
    apiserver = MemoryUpstream()
    created = await apiserver.create(PODS, POD, namespace="default")
    assert isinstance(created.object, dict)
    created.object["spec"]["nodeName"] = "node-9"

    assert node_of(apiserver) == ""
