"""Calls and binds of an attempt that come when its room was given back, or when the pod is bound already."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.patience import patient
from tests.scheduling.effects.binding.test_calling_upstream import held as held_in_kubernetes
from tests.scheduling.effects.binding.test_calling_upstream import placed_by
from tests.scheduling.effects.binding.test_calling_upstream import site as site  # noqa: PLC0414 - a fixture
from tests.scheduling.effects.called_plugins import Crane, Licences, answered, call_step, held, profiles_with
from tests.scheduling.effects.kubernetes_world import UpstreamWorld
from tests.scheduling.effects.refusing.test_evicting_upstream import put
from tests.scheduling.effects.refusing.test_preemption import eviction, nominate
from tests.scheduling.world import Hand, World, settled
from wharfinger.apiserver.client import NODES, PODS
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Condition
from wharfinger.framework.async_plugins import BindCall, CallLimits
from wharfinger.framework.status import Status
from wharfinger.scheduling.contracts.eviction import Evicted
from wharfinger.scheduling.contracts.plugin_calls import Held, PluginAnswer, first_answers
from wharfinger.scheduling.contracts.scheduling import Bound, Contended
from wharfinger.scheduling.effects.binding.calling import AT_ONCE, BUSY


async def by_default(call: BindCall) -> Status:
    return await call.bind()


def compared(conditions: Sequence[Condition], key: str) -> bool:
    return any(isinstance(one, Compare) and one.key == key for one in conditions)


# --- etcd itself is the store ---------------------------------------------------------------------


async def test_a_late_bind_of_a_room_that_was_given_back_is_none(hand: Hand, world: World, licences: Licences) -> None:
    """Its worker stood still, and the attempt was ended on another one; nothing else has moved."""
    theirs = Licences()
    other = await world.hand(profiles=profiles_with(theirs))
    placed, outcome = await held(hand)
    calls = first_answers(outcome).with_one(await call_step(hand, "web", placed, outcome))
    standing, goes_on = asyncio.Event(), asyncio.Event()
    txn = hand.store.txn

    async def late(compares: Sequence[Condition], *more: Any) -> Any:
        if compared(compares, keys.binding("n1")):
            standing.set()
            await goes_on.wait()
        return await txn(compares, *more)

    hand.store.txn = late  # type: ignore[method-assign]
    bind = asyncio.create_task(hand.bind("web", placed, calls=calls))
    await standing.wait()
    assert isinstance(await other.bind("web", placed, calls=answered("cancelled")), Contended)
    assert theirs.diary == ["unreserve n1 {'node': 'n1'}"]
    goes_on.set()
    ended = await bind
    assert isinstance(ended, Contended)
    assert "the attempt does not hold the pod's room any more" in ended.message
    assert await world.node_of("web") == ""
    assert licences.diary[-1] == "unreserve n1 {'node': 'n1'}"


async def test_a_bind_whose_answer_was_lost_finds_the_pod_bound(hand: Hand, world: World, licences: Licences) -> None:
    """Its record is gone because the first try has bound the pod."""
    other = await world.hand(profiles=profiles_with(Licences()))
    placed, outcome = await held(hand)
    calls = first_answers(outcome).with_one(await call_step(hand, "web", placed, outcome))
    await other.seen()
    world.store.pause_watches()
    assert isinstance(await hand.bind("web", placed, calls=calls), Bound)
    assert isinstance(await other.bind("web", placed, calls=calls), Bound)
    world.store.resume_watches()
    assert await world.node_of("web") == "n1"


async def test_an_attempt_whose_record_is_gone_is_placed_anew(hand: Hand, world: World, licences: Licences) -> None:
    placed, outcome = await held(hand)
    calls = first_answers(outcome).with_one(await call_step(hand, "web", placed, outcome))
    await world.store.delete(keys.hold("default", "web"))
    ended = await hand.bind("web", placed, calls=calls)
    assert ended == Contended(message="the attempt does not hold the pod's room any more")
    assert (await world.node_of("web"), licences.diary[-1]) == ("", "unreserve n1 {'node': 'n1'}")


async def test_a_call_ends_when_another_attempt_holds_the_room(hand: Hand, world: World, licences: Licences) -> None:
    """The workflow was terminated, and its worker is the last to know."""

    async def held_again() -> None:
        again = await hand.placed("web", run_id="run-2")
        assert isinstance(await hand.bind("web", again, run_id="run-2"), Held)
        await asyncio.Event().wait()

    licences.waits_for, licences.limits = held_again, CallLimits(heartbeat=0.03)
    placed, outcome = await held(hand)
    assert (await call_step(hand, "web", placed, outcome)).code == "lost"


async def test_no_more_calls_than_allowed_are_made_at_a_time(hand: Hand, licences: Licences) -> None:
    """All of them are asked for at the same moment."""
    go = asyncio.Event()
    licences.waits_for = go.wait
    placed, outcome = await held(hand)
    calls = [asyncio.create_task(call_step(hand, "web", placed, outcome)) for _ in range(AT_ONCE + 5)]
    await settled()
    made = len(licences.calls)
    go.set()
    answers = [await one for one in calls]
    assert made == AT_ONCE
    assert [one.message for one in answers if one.code == "wait"] == [BUSY] * 5


# --- a Kubernetes API is the store ----------------------------------------------------------------


async def test_a_pod_that_is_bound_after_all_is_not_unreserved(site: UpstreamWorld) -> None:
    """The plugin had it bound, and its worker died; no further call was allowed."""
    licences = Licences()
    hand, placed = await placed_by(site, licences, Crane(by_default))
    outcome = await held_in_kubernetes(hand, placed)
    calls = first_answers(outcome)
    calls = calls.with_one(await call_step(hand, "web", placed, outcome, calls))
    await call_step(hand, "web", placed, outcome, calls, step=1)
    lost = PluginAnswer(point="Bind", plugin="Crane", code="error", message="the worker that called it is gone")
    assert isinstance(await hand.bind("web", placed, calls=calls.with_one(lost)), Bound)
    assert site.there("web") == "n1"
    assert licences.diary == ["reserve", "pre_bind", "post_bind n1"]


async def test_an_edit_while_the_default_binder_begins_is_no_refusal(site: UpstreamWorld) -> None:
    """The importer promises the pod again between the read of its promise and the mark that it is ready."""
    hand, placed = await placed_by(site, Crane(by_default))
    outcome = await held_in_kubernetes(hand, placed)
    txn, edits = hand.store.txn, iter(range(1))

    async def edited(compares: Sequence[Condition], *more: Any) -> Any:
        if compared(compares, keys.promise("default", "web")) and next(edits, None) is not None:
            site.change("web", annotations={"team": "blue"})
            await site.imports()
        return await txn(compares, *more)

    hand.store.txn = edited  # type: ignore[method-assign]
    answer = await call_step(hand, "web", placed, outcome)
    assert (answer.code, answer.message, next(edits, None)) == ("success", "", None)
    assert site.there("web") == "n1"


async def test_no_bind_plugin_is_called_without_the_right_to_bind(site: UpstreamWorld) -> None:
    """Another scheduler has the Lease by now; the plugin would bind by its own means."""
    crane = Crane(by_default)
    hand, placed = await placed_by(site, crane)
    outcome = await held_in_kubernetes(hand, placed)
    await site.store.delete(keys.ACTIVE)
    with pytest.raises(ApplicationError, match="does not hold the Lease") as raised:
        await call_step(hand, "web", placed, outcome)
    assert (raised.value.non_retryable, crane.calls) == (False, [])


async def test_preemption_gives_up_a_bind_that_waits_for_plugins(site: UpstreamWorld) -> None:
    """The victim runs nowhere: it is not deleted, and waits again."""
    licences = Licences()
    hand, placed = await placed_by(site, licences)
    outcome = await held_in_kubernetes(hand, placed)
    put(site, "high", priority=10)
    await site.imports()
    uid = str((site.api.find(PODS, "high") or {})["metadata"]["uid"])
    refused = await hand.refused("high", live_uid=uid)
    assert [one.pod for one in refused.victims] == ["default/web"]
    request = eviction(refused, await nominate(hand, refused))
    await hand.seen()
    async with asyncio.timeout(patient(20)):
        evicted = await hand.activities.evict(request)
    await hand.seen()
    assert isinstance(evicted, Evicted)
    assert (evicted.evicted, evicted.complete) == ((), True)
    assert evicted.notes == ("default/web was not bound yet: its bind was given up",)
    assert (await site.promise("web"), site.api.find(PODS, "web") is None) == (None, False)
    assert (await hand.placed("high", live_uid=uid)).node == "n1"
    answer = await call_step(hand, "web", placed, outcome)
    assert (answer.code, licences.calls) == ("lost", [])
    ended = await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer))
    assert isinstance(ended, Contended)
    assert licences.diary == ["reserve", "reserve", "unreserve n1 {'node': 'n1'}"]


@pytest.mark.parametrize("anew", [False, True], ids=["deleted", "created anew"])
async def test_a_node_that_went_while_plugins_were_called_gets_no_pod(site: UpstreamWorld, anew: bool) -> None:
    """The API would bind the pod there all the same."""
    licences = Licences()
    hand, placed = await placed_by(site, licences)
    outcome = await held_in_kubernetes(hand, placed)
    answer = await call_step(hand, "web", placed, outcome)
    site.api.remove(NODES, "n1")
    await site.imports()
    if anew:
        site.node("n1", cpu="1")
        await site.imports()
    ended = await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer))
    assert ended == Contended(message=f"the node {'was created anew since the decision' if anew else 'is gone'}")
    assert (site.there("web"), await site.promise("web")) == ("", None)
    assert licences.diary[-1] == "unreserve n1 {'node': 'n1'}"
