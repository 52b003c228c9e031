"""The whole bind of a pod that an extender binds in a Kubernetes API: its transaction, the call, and the outcome."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from temporalio.exceptions import ApplicationError

from tests.framework.extenders.extender_server import ExtenderServer
from tests.scheduling.effects.kubernetes_world import UpstreamWorld, sent
from tests.scheduling.world import Hand
from wharfinger.etcd import keys
from wharfinger.framework.extenders.calls import ExtenderCalls
from wharfinger.framework.profiles import load_profiles
from wharfinger.process.names import FailureType
from wharfinger.scheduling.contracts.group_payloads import bind_many_input
from wharfinger.scheduling.contracts.scheduling import BindInput, Bound, Placed


@pytest.fixture
async def server() -> AsyncIterator[ExtenderServer]:
    made = ExtenderServer()
    async with made.serving():
        yield made


@pytest.fixture
async def site() -> AsyncIterator[UpstreamWorld]:
    made = UpstreamWorld()
    await made.store.put(keys.INSTALLATION, b"{}")
    await made.begin()
    yield made
    await made.close()


async def placed_by(site: UpstreamWorld, server: ExtenderServer) -> tuple[Hand, Placed]:
    """A worker with an extender that binds, and its placement of the one pod."""
    site.node("n1")
    uid = site.pending("web")
    await site.imports()
    extender = {"urlPrefix": f"http://127.0.0.1:{server.port}", "bindVerb": "bind", "httpTimeout": "7s"}
    hand = await site.upstream_hand(profiles=load_profiles({"extenders": [extender]}), calls=ExtenderCalls())
    return hand, await hand.placed("web", live_uid=uid)


async def test_the_pod_is_bound_by_the_extender_alone(site: UpstreamWorld, server: ExtenderServer) -> None:
    hand, placed = await placed_by(site, server)
    server.verbs["bind"] = lambda _: site.change("web", nodeName="n1") or {}

    outcome = await hand.bind("web", placed)

    assert isinstance(outcome, Bound)
    assert (outcome.node, site.there("web"), sent(site.clients[-1])) == ("n1", "n1", [])
    assert placed.bind_seconds == 7
    assert await site.promise("web") is None


async def test_a_failed_extender_fails_the_attempt_and_frees_the_room(
    site: UpstreamWorld, server: ExtenderServer
) -> None:
    hand, placed = await placed_by(site, server)
    server.verbs["bind"] = lambda _: {"Error": "no card is free"}

    with pytest.raises(ApplicationError, match=r"plugin Extender failed in Bind: .*: no card is free") as raised:
        await hand.bind("web", placed)

    assert (raised.value.type, raised.value.non_retryable) == (FailureType.SCHEDULER_ERROR, True)
    assert (site.there("web"), await site.promise("web")) == ("", None)
    await hand.seen()
    info = hand.cache.node_info("n1")
    assert info is not None
    assert not info.pods


async def test_a_failed_extender_leaves_a_group_of_one_to_be_placed_anew(
    site: UpstreamWorld, server: ExtenderServer
) -> None:
    """It came to concern the extender after the group was decided: only that pod's own attempt fails with it."""
    hand, placed = await placed_by(site, server)
    server.verbs["bind"] = lambda _: {"Error": "no card is free"}
    request = BindInput(namespace="default", name="web", placed=placed, workflow_id="test/cohort/1", run_id="run-1")

    outcome = await hand.activities.bind_many(bind_many_input(request))

    assert outcome.bound == ()
    assert [(one.kind, "no card is free" in one.message) for one in outcome.unbound] == [("contended", True)]
    assert await site.promise("web") is None
