"""Promises of pods that an extender binds: it is asked in the place of our POST, and a look tells what came of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tests.framework.extenders.extender_server import ExtenderServer
from tests.kubernetes.api_and_store import POD, Between
from wharfinger.apiserver.client import PODS
from wharfinger.errors import UpstreamUnavailable
from wharfinger.framework.extenders.calls import ExtenderCalls
from wharfinger.framework.profiles import load_profiles
from wharfinger.kubernetes.effects.extender_binding import ExtenderBinders
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.scheduling.effects.binding.writers import KeptKind
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.testing.builders import pod

GPU = "example.com/gpu"


class Bound:
    """An API, an etcd and an extender that binds pods which ask for a GPU."""

    def __init__(self, server: ExtenderServer) -> None:
        self.server = server
        self.between = Between()
        self.calls = ExtenderCalls()
        self.cache = Cache(clock=lambda: 0.0)

    def uses(self, gpus: int = 1, *, ignorable: bool = False) -> None:
        """The pod asks for so many, and the extender may fail or not."""
        self.cache.set_pod(pod("a", extended={GPU: gpus}))
        extender = {
            "urlPrefix": f"http://127.0.0.1:{self.server.port}",
            "bindVerb": "bind",
            "ignorable": ignorable,
            "managedResources": [{"name": GPU}],
        }
        binders = ExtenderBinders(self.cache, load_profiles({"extenders": [extender]}), self.calls)
        between = self.between
        between.promises = Promises(between.api, between.adopter, between.right, binders=binders)

    def bind(self, arguments: Any) -> Any:
        """What such an extender does."""
        found = self.between.api.find(PODS, arguments["PodName"])
        assert found is not None
        assert found["metadata"]["uid"] == arguments["PodUID"]
        self.between.api.put(PODS, {**found, "spec": {**found["spec"], "nodeName": arguments["Node"]}})
        return {}

    @property
    def posts(self) -> int:
        return sum(one.subresource == "binding" for one in self.between.api.requests)

    @property
    def node(self) -> str:
        return str((self.between.api.find(PODS, "a") or {}).get("spec", {}).get("nodeName") or "")


@pytest.fixture
async def bound() -> AsyncIterator[Bound]:
    server = ExtenderServer()
    async with server.serving():
        made = Bound(server)
        await made.between.begin()
        made.uses()
        server.verbs["bind"] = made.bind
        await made.between.promised()
        yield made
        await made.calls.close()


async def test_the_extender_binds_in_the_place_of_a_post(bound: Bound) -> None:
    kept = await bound.between.promises.keep(POD, "pod-default-a@")

    assert (kept.kind, kept.node, bound.node, bound.posts) == (KeptKind.KEPT, "n1", "n1", 0)
    [(verb, sent)] = bound.server.asked
    assert (verb, sent["PodNamespace"], sent["PodName"], sent["Node"]) == ("bind", "default", "a", "n1")
    assert await bound.between.promise() is None


async def test_a_pod_that_asks_for_none_is_posted(bound: Bound) -> None:
    bound.uses(0)

    assert (await bound.between.promises.keep(POD)).kind is KeptKind.KEPT
    assert (bound.posts, bound.server.asked) == (1, [])


async def test_a_lost_answer_of_the_extender_is_found_by_a_look(bound: Bound) -> None:
    async def lost(_: web.Request) -> web.Response:
        bound.bind(bound.server.asked[-1][1])
        return web.Response(status=502)

    bound.server.verbs["bind"] = lost

    assert (await bound.between.promises.keep(POD)).kind is KeptKind.KEPT
    assert len(bound.server.asked) == 1


async def test_what_an_earlier_try_had_bound_is_not_asked_again(bound: Bound) -> None:
    promise = await bound.between.promise()
    assert promise is not None
    bound.bind({"PodName": "a", "PodUID": promise.uid, "Node": "n1"})

    kept = await bound.between.promises.keep(POD, "pod-default-a@")

    assert (kept.kind, kept.node) == (KeptKind.KEPT, "n1")
    assert bound.server.asked == []


async def test_a_failed_extender_gives_the_promise_up(bound: Bound) -> None:
    bound.server.verbs["bind"] = lambda _: {"Error": "no card is free"}

    kept = await bound.between.promises.keep(POD, "pod-default-a@")

    assert kept.kind is KeptKind.FAILED
    assert kept.message.endswith("/bind: no card is free")
    assert (bound.posts, bound.node) == (0, "")
    assert await bound.between.promise() is None
    copy = await bound.between.copy_of("/registry/pods/default/a")
    assert copy is not None
    assert "nodeName" not in copy["spec"]


async def test_an_extender_that_may_be_ignored_leaves_the_bind_to_us(bound: Bound) -> None:
    bound.uses(ignorable=True)
    bound.server.verbs["bind"] = lambda _: {"Error": "no card is free"}

    assert (await bound.between.promises.keep(POD)).kind is KeptKind.KEPT
    assert (len(bound.server.asked), bound.posts, bound.node) == (1, 1, "n1")


async def test_a_bind_that_the_api_does_not_show_is_not_believed(bound: Bound) -> None:
    """The promise stays, so the room is held; the next try looks before it asks again."""
    bound.server.verbs["bind"] = lambda _: {}

    with pytest.raises(UpstreamUnavailable, match="and the API server does not show it"):
        await bound.between.promises.keep(POD)
    assert await bound.between.promise() is not None

    bound.server.verbs["bind"] = bound.bind
    assert (await bound.between.promises.keep(POD)).kind is KeptKind.KEPT


async def test_a_pod_that_the_extender_bound_elsewhere_is_gone(bound: Bound) -> None:
    bound.server.verbs["bind"] = lambda sent: bound.bind({**sent, "Node": "n9"})

    kept = await bound.between.promises.keep(POD, "pod-default-a@")

    assert (kept.kind, kept.node) == (KeptKind.GONE, "n9")


async def test_a_note_on_the_pod_meanwhile_is_no_failure(bound: Bound) -> None:
    """The extender's bind met another state of the pod: it is asked again for the pod as it is now."""

    def noted(sent: Any) -> Any:
        found = bound.between.api.find(PODS, "a")
        assert found is not None
        bound.between.api.put(PODS, {**found, "metadata": {**found["metadata"], "annotations": {"note": "1"}}})
        bound.server.verbs["bind"] = bound.bind
        return {"Error": "the pod has changed"}

    bound.server.verbs["bind"] = noted

    assert (await bound.between.promises.keep(POD)).kind is KeptKind.KEPT
    assert (len(bound.server.asked), bound.node) == (2, "n1")
