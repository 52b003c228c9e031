"""Asynchronous PreBind and Bind where a Kubernetes API is the store: the promise waits for the plugins."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.called_plugins import (
    Crane,
    Licences,
    answered,
    bound_with_calls,
    call_step,
    profiles_with,
)
from tests.scheduling.effects.kubernetes_world import UpstreamWorld, sent
from tests.scheduling.world import NOW, Hand
from wharfinger.apiserver.client import PODS
from wharfinger.framework.async_plugins import BindCall
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.kubernetes.effects.adopting import Adopter
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import FailureType
from wharfinger.scheduling.contracts.plugin_calls import Held, first_answers
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, Gone, Placed, Rejected
from wharfinger.scheduling.effects.binding.right_to_bind import RightToBind
from wharfinger.scheduling.effects.binding.writers import KeptKind

WEB = PodKey("default", "web")


@pytest.fixture
def site(site: UpstreamWorld) -> UpstreamWorld:
    """It has one node, with room for one pod."""
    site.node("n1", cpu="1")
    return site


async def placed_by(site: UpstreamWorld, *plugins: object) -> tuple[Hand, Placed]:
    """A worker with these plugins, and its placement of the one pod."""
    uid = site.pending("web")
    await site.imports()
    hand = await site.upstream_hand(profiles=profiles_with(*plugins))
    return hand, await hand.placed("web", live_uid=uid)


async def held(hand: Hand, placed: Placed) -> Held:
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Held), outcome
    await hand.seen()
    return outcome


def counted(hand: Hand) -> list[str]:
    info = hand.cache.node_info("n1")
    return [pod.name for pod in info.pods] if info is not None else []


async def test_the_promise_is_not_sent_before_the_plugin_agrees(site: UpstreamWorld) -> None:
    licences = Licences()
    hand, placed = await placed_by(site, licences)
    outcome = await held(hand, placed)

    promise = await site.promise("web")
    assert promise is not None
    assert (promise.ready, promise.calls, promise.call_patience) == (False, ("PreBind/Licences",), 360)
    assert (counted(hand), site.there("web"), sent(site.clients[-1]), licences.diary) == (["web"], "", [], ["reserve"])

    answer = await call_step(hand, "web", placed, outcome)
    assert [one.node_name for one in licences.pods] == [""]
    ended = await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer))
    assert isinstance(ended, Bound)
    assert (ended.node, ended.notes) == ("n1", ())
    assert (site.there("web"), sent(site.clients[-1])) == ("n1", ["web"])
    assert licences.diary == ["reserve", "pre_bind", "post_bind n1"]


async def test_a_sweep_does_not_send_it_either(site: UpstreamWorld) -> None:
    hand, placed = await placed_by(site, Licences())
    await held(hand, placed)
    later = NOW + timedelta(seconds=350)
    kept = await promises_at(site, later).keep(WEB)
    assert (kept.kind, kept.calls) == (KeptKind.NOT_READY, ("PreBind/Licences",))
    assert site.there("web") == ""


async def test_a_promise_whose_attempt_is_lost_is_given_up(site: UpstreamWorld) -> None:
    """Its workflow was terminated: after the plugins' deadlines any worker frees the room."""
    hand, placed = await placed_by(site, Licences())
    await held(hand, placed)
    kept = await promises_at(site, NOW + timedelta(seconds=400)).keep(WEB)
    await hand.seen()
    assert kept.kind is KeptKind.CHANGED
    assert (await site.promise("web"), counted(hand)) == (None, [])


def promises_at(site: UpstreamWorld, now: datetime) -> Promises:
    store = site.store.client()
    adopter = Adopter(store, utc_now=lambda: now)
    right = RightToBind(store, clock=lambda: 0.0)
    return Promises(site.api.client(), adopter, right)


async def test_a_refusal_gives_the_promise_up(site: UpstreamWorld) -> None:
    licences = Licences(answers=[unschedulable("no licence is free")])
    hand, placed = await placed_by(site, licences)
    outcome = await bound_with_calls(hand, "web", placed)
    await hand.seen()
    assert outcome == Rejected(plugin="Licences", message="no licence is free")
    assert (await site.promise("web"), counted(hand), site.there("web")) == (None, [], "")
    assert licences.diary == ["reserve", "pre_bind", "unreserve n1 {'node': 'n1'}"]


async def test_a_plugin_error_fails_the_attempt(site: UpstreamWorld) -> None:
    licences = Licences(answers=[Status(Code.ERROR, ("the server is down",))])
    hand, placed = await placed_by(site, licences)
    with pytest.raises(ApplicationError, match="plugin Licences failed in PreBind: the server is down") as raised:
        await bound_with_calls(hand, "web", placed)
    await hand.seen()
    assert raised.value.type == FailureType.SCHEDULER_ERROR
    assert (await site.promise("web"), counted(hand)) == (None, [])


async def test_a_cancelled_attempt_gives_the_promise_up(site: UpstreamWorld) -> None:
    licences = Licences()
    hand, placed = await placed_by(site, licences)
    await held(hand, placed)
    assert await hand.bind("web", placed, calls=answered("cancelled")) == Contended(message="so")
    assert await site.promise("web") is None
    assert licences.diary[-1] == "unreserve n1 {'node': 'n1'}"


async def test_an_edit_of_the_pod_meanwhile_is_promised_again(site: UpstreamWorld) -> None:
    hand, placed = await placed_by(site, Licences())
    outcome = await held(hand, placed)
    site.change("web", annotations={"team": "blue"})
    await site.imports()
    answer = await call_step(hand, "web", placed, outcome)
    assert answer.code == "success"
    assert isinstance(await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer)), Bound)
    assert site.there("web") == "n1"


async def test_a_pod_that_is_deleted_meanwhile_is_gone(site: UpstreamWorld) -> None:
    licences = Licences()
    hand, placed = await placed_by(site, licences)
    outcome = await held(hand, placed)
    site.api.remove(PODS, "web", namespace="default")
    await site.imports()
    answer = await call_step(hand, "web", placed, outcome)
    assert (answer.code, licences.calls) == ("lost", [])
    ended = await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer))
    assert isinstance(ended, Gone)
    assert licences.diary[-1] == "unreserve n1 {'node': 'n1'}"


async def test_a_bind_that_runs_again_asks_for_the_same_calls(site: UpstreamWorld) -> None:
    """Its answer got lost: the promise is there, and the plugin was not called yet."""
    hand, placed = await placed_by(site, Licences())
    first = await held(hand, placed)
    again = await held(hand, placed)
    assert (again.steps, again.node) == (first.steps, first.node)


# --- Bind -----------------------------------------------------------------------------------------


async def test_a_bind_plugin_binds_by_the_default_binder(site: UpstreamWorld) -> None:
    async def does(call: BindCall) -> Status:
        return await call.bind()

    crane = Crane(does)
    hand, placed = await placed_by(site, crane)
    assert isinstance(await bound_with_calls(hand, "web", placed), Bound)
    assert (site.there("web"), sent(site.clients[-1]), await site.promise("web")) == ("n1", ["web"], None)


async def test_a_bind_plugin_gets_the_body_of_the_binding(site: UpstreamWorld) -> None:
    async def does(call: BindCall) -> Status:
        assert call.binding is not None
        answer = await site.api.client().create(
            PODS, dict(call.binding), namespace="default", name="web", subresource="binding"
        )
        return SUCCESS if answer.done else unschedulable(answer.message)

    hand, placed = await placed_by(site, Crane(does))
    outcome = await bound_with_calls(hand, "web", placed)
    assert isinstance(outcome, Bound)
    assert (outcome.node, site.there("web"), sent(site.clients[-1])) == ("n1", "n1", [])
    assert await site.promise("web") is None


async def test_post_bind_is_called_once_for_a_bind_plugin(site: UpstreamWorld) -> None:
    async def does(call: BindCall) -> Status:
        return await call.bind()

    licences = Licences()
    hand, placed = await placed_by(site, licences, Crane(does))
    assert isinstance(await bound_with_calls(hand, "web", placed), Bound)
    assert licences.diary == ["reserve", "pre_bind", "post_bind n1"]


async def test_a_bind_plugin_that_did_not_bind_fails_the_attempt(site: UpstreamWorld) -> None:
    async def does(call: BindCall) -> Status:
        return SUCCESS

    hand, placed = await placed_by(site, Crane(does))
    with pytest.raises(ApplicationError, match="plugin Crane failed in Bind: it answered success, and the pod is not"):
        await bound_with_calls(hand, "web", placed)
    await hand.seen()
    assert (site.there("web"), await site.promise("web"), counted(hand)) == ("", None, [])


async def test_a_bind_that_was_lost_with_its_worker_is_not_made_again(site: UpstreamWorld) -> None:
    """The plugin bound the pod and its worker died: the next call looks first."""

    async def does(call: BindCall) -> Status:
        site.change("web", nodeName="n1")
        return SUCCESS

    crane = Crane(does)
    hand, placed = await placed_by(site, crane)
    outcome = await held(hand, placed)
    await call_step(hand, "web", placed, outcome)
    assert await site.promise("web") is not None
    answer = await call_step(hand, "web", placed, outcome, attempt=2)
    assert (answer.code, len(crane.calls)) == ("success", 1)
    assert isinstance(await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer)), Bound)
