"""Asynchronous PreBind and Bind where etcd itself is the store: the room is held, and every worker counts it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.called_plugins import (
    Crane,
    Licences,
    answered,
    bound_with_calls,
    call_step,
    held,
    profiles_with,
)
from tests.scheduling.effects.test_gangs import gang_labels
from tests.scheduling.world import CLUSTER, Hand, World, settled
from wharfinger.etcd import keys
from wharfinger.framework.async_plugins import BindCall, CallLimits
from wharfinger.framework.status import SKIP, SUCCESS, Code, Status, unschedulable
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import FailureType, pod_workflow_id
from wharfinger.scheduling.contracts.plugin_calls import PLUGIN_FAILED, Held, first_answers
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, Gone, Rejected

WEB = PodKey("default", "web")


async def hold_of(world: World, name: str = "web") -> Any:
    kv = (await world.store.get(keys.hold("default", name))).kv
    return None if kv is None else json.loads(kv.value)


def counted(hand: Hand, node: str = "n1") -> list[str]:
    info = hand.cache.node_info(node)
    return [pod.name for pod in info.pods] if info is not None else []


async def test_the_room_is_held_before_the_plugin_is_called(hand: Hand, world: World, licences: Licences) -> None:
    _, outcome = await held(hand)

    assert [(one.point, one.plugin, one.timeout, one.deadline) for one in outcome.steps] == [
        ("PreBind", "Licences", 30, 300)
    ]
    assert (outcome.node, licences.diary, await world.node_of("web")) == ("n1", ["reserve"], "")
    record = await hold_of(world)
    workflow_id = pod_workflow_id(CLUSTER, "default", "web", "uid-web")
    assert (record["node"], record["attempt"]) == ("n1", f"{workflow_id}@run-1")
    assert record["calls"] == ["PreBind/Licences"]


async def test_every_worker_counts_a_room_that_is_held(hand: Hand, world: World) -> None:
    other = await world.hand()
    await held(hand)
    await world.put_pod("late")
    await world.seen()

    assert counted(other) == ["web"]
    refusal = await other.refused("late")
    assert refusal.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert not refusal.only_assumed
    assert [one.pod for one in refusal.computation.assumed] == ["default/web"]


async def test_the_room_outlives_the_worker_that_held_it(hand: Hand, world: World) -> None:
    """A worker that starts afterwards, and lists, counts it too; no time ends it."""
    await held(hand)
    fresh = await world.hand()
    fresh.clock[0] = hand.clock[0] = 10_000.0
    assert fresh.cache.expire() == ()
    assert (counted(hand), counted(fresh)) == (["web"], ["web"])


async def test_a_pod_whose_plugin_agrees_is_bound(hand: Hand, world: World, licences: Licences) -> None:
    placed = await hand.placed("web")
    outcome = await bound_with_calls(hand, "web", placed)
    await hand.seen()

    assert isinstance(outcome, Bound)
    assert (await world.node_of("web"), await hold_of(world), counted(hand)) == ("n1", None, ["web"])
    assert licences.diary == ["reserve", "pre_bind", "post_bind n1"]
    assert hand.cache.assumed() == ()


async def test_the_plugin_gets_the_pod_unbound_and_a_key(hand: Hand, licences: Licences) -> None:
    placed, outcome = await held(hand)
    await call_step(hand, "web", placed, outcome)
    await call_step(hand, "web", placed, outcome, attempt=2)
    await call_step(hand, "web", placed, outcome, run_id="run-2")

    assert [(one.key, one.attempt) for one in licences.calls] == [("uid-web/run-1", 1), ("uid-web/run-1", 2)]
    assert {pod.node_name for pod in licences.pods} == {""}


async def test_a_refusal_gives_the_room_back(hand: Hand, world: World, licences: Licences) -> None:
    licences.answers = [unschedulable("no licence is free")]
    outcome = await bound_with_calls(hand, "web", await hand.placed("web"))
    await hand.seen()

    assert outcome == Rejected(plugin="Licences", message="no licence is free")
    assert (await world.node_of("web"), await hold_of(world), counted(hand)) == ("", None, [])
    assert licences.diary == ["reserve", "pre_bind", "unreserve n1 {'node': 'n1'}"]


@pytest.mark.parametrize("code", ["cancelled", "lost"])
async def test_a_cancelled_attempt_gives_the_room_back(hand: Hand, world: World, licences: Licences, code: str) -> None:
    placed, _ = await held(hand)
    outcome = await hand.bind("web", placed, calls=answered(code))
    await hand.seen()

    assert outcome == Contended(message="so")
    assert (await hold_of(world), counted(hand)) == (None, [])
    assert licences.diary[-1] == "unreserve n1 {'node': 'n1'}"


async def test_a_plugin_error_fails_the_attempt(hand: Hand, world: World, licences: Licences) -> None:
    licences.answers = [Status(Code.ERROR, ("the server is down",))]
    placed = await hand.placed("web")
    with pytest.raises(ApplicationError, match=r"plugin Licences failed in PreBind: the server is down$") as raised:
        await bound_with_calls(hand, "web", placed)
    await hand.seen()

    assert (raised.value.type, raised.value.non_retryable) == (FailureType.SCHEDULER_ERROR, True)
    assert (await hold_of(world), counted(hand), licences.diary[-1][:9]) == (None, [], "unreserve")


async def test_what_a_plugin_raises_is_tried_again(hand: Hand, world: World, licences: Licences) -> None:
    licences.answers = [ConnectionError("refused"), SUCCESS]
    placed, outcome = await held(hand)
    with pytest.raises(ApplicationError, match=r"ConnectionError: refused$") as raised:
        await call_step(hand, "web", placed, outcome)
    assert (raised.value.type, raised.value.non_retryable) == (PLUGIN_FAILED, False)
    assert counted(hand) == ["web"]
    assert (await call_step(hand, "web", placed, outcome)).code == "success"


async def test_an_answer_that_is_no_status_is_an_error(hand: Hand, licences: Licences) -> None:
    licences.answers = [5]  # type: ignore[list-item]
    placed, outcome = await held(hand)
    answer = await call_step(hand, "web", placed, outcome)
    assert (answer.code, answer.message) == ("error", "answered 5, not a Status")


async def test_a_call_that_takes_too_long_is_cancelled(hand: Hand, world: World, licences: Licences) -> None:
    cancelled: list[str] = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise

    licences.waits_for, licences.limits = hang, CallLimits(timeout=0.05)
    placed, outcome = await held(hand)
    with pytest.raises(ApplicationError, match=r"no answer within 0\.05 s$"):
        await call_step(hand, "web", placed, outcome)
    assert cancelled == ["cancelled"]


async def test_a_call_ends_when_its_pod_is_deleted(hand: Hand, world: World, licences: Licences) -> None:
    async def delete() -> None:
        await world.store.delete(keys.pod("default", "web"))
        await asyncio.Event().wait()

    licences.waits_for, licences.limits = delete, CallLimits(heartbeat=0.03)
    placed, outcome = await held(hand)
    answer = await call_step(hand, "web", placed, outcome)
    assert answer.code == "lost"
    ended = await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer))
    assert isinstance(ended, Gone)
    assert licences.diary[-1] == "unreserve n1 {'node': 'n1'}"
    assert await hold_of(world) is None


async def test_wait_is_passed_on(hand: Hand, licences: Licences) -> None:
    licences.answers = [Status(Code.WAIT, ("attaching",)), SUCCESS]
    placed, outcome = await held(hand)
    answer = await call_step(hand, "web", placed, outcome)
    assert (answer.code, answer.message, answer.done) == ("wait", "attaching", False)


async def test_what_a_plugin_carries_reaches_its_later_points(hand: Hand, licences: Licences) -> None:
    licences.carries = {"licence": 7}
    licences.answers = [unschedulable("expired")]
    await bound_with_calls(hand, "web", await hand.placed("web"))
    assert licences.diary[-1] == "unreserve n1 {'licence': 7}"


async def test_a_held_bind_that_runs_again_holds_the_same_room(hand: Hand, world: World, licences: Licences) -> None:
    """The answer of the first one got lost."""
    placed = await hand.placed("web")
    hand.store.fail_next(applied=True)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    await settled()
    assert isinstance(await hand.bind("web", placed), Held)
    await hand.seen()
    await settled()
    assert counted(hand) == ["web"]
    assert isinstance(await hand.bind("web", placed, calls=answered("success")), Bound)
    assert await world.node_of("web") == "n1"


async def test_another_worker_calls_and_binds(hand: Hand, world: World) -> None:
    """The worker that held the room is gone."""
    placed, outcome = await held(hand)
    theirs = Licences()
    other = await world.hand(profiles=profiles_with(theirs))
    answer = await call_step(other, "web", placed, outcome)
    assert isinstance(await other.bind("web", placed, calls=first_answers(outcome).with_one(answer)), Bound)
    assert theirs.diary == ["pre_bind", "post_bind n1"]
    await world.seen()
    assert (counted(hand), counted(other)) == (["web"], ["web"])


async def test_a_prepared_pod_goes_to_no_runner_up(hand: Hand, world: World, licences: Licences) -> None:
    """Its node was closed meanwhile: it is placed anew, after Unreserve."""
    await world.put_node("n2", cpu="1")
    await hand.seen()
    placed = await hand.placed("web")
    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Held)
    await world.put_node(outcome.node, cpu="1", spec={"unschedulable": True})
    await hand.seen()

    calls = first_answers(outcome).with_one(await call_step(hand, "web", placed, outcome))
    ended = await hand.bind("web", placed, calls=calls)
    await hand.seen()
    assert isinstance(ended, Contended)
    assert licences.diary[-1].startswith(f"unreserve {outcome.node}")
    assert (await hold_of(world), counted(hand, "n1"), counted(hand, "n2")) == (None, [], [])


async def test_an_older_attempt_does_not_end_the_room_of_a_newer_one(hand: Hand, world: World) -> None:
    placed, _ = await held(hand)
    again = await hand.placed("web", run_id="run-2")
    assert isinstance(await hand.bind("web", again, run_id="run-2"), Held)
    await hand.bind("web", placed, calls=answered("refused"))
    assert (await hold_of(world))["attempt"].endswith("@run-2")


async def test_an_attempt_that_lost_its_room_is_told(hand: Hand, licences: Licences) -> None:
    placed, outcome = await held(hand)
    again = await hand.placed("web", run_id="run-2")
    await hand.bind("web", again, run_id="run-2")
    answer = await call_step(hand, "web", placed, outcome)
    assert (answer.code, licences.calls) == ("lost", [])


async def test_a_pod_whose_room_is_held_is_not_preempted(hand: Hand, world: World) -> None:
    """Only bound pods can be evicted: its bind wakes the one that would preempt it."""
    await held(hand)
    await world.put_pod("high", spec={"priority": 10})
    await world.seen()
    refusal = await hand.refused("high")
    assert (refusal.victims, refusal.nominated_node, refusal.only_assumed) == ((), "", False)


async def test_plugins_that_a_pod_does_not_concern_are_not_called(hand: Hand, world: World) -> None:
    class Choosy(Licences):
        def concerns(self, pod: Any) -> bool:
            return pod.name != "web"

    choosy = Choosy("Choosy")
    other = await world.hand(profiles=profiles_with(choosy))
    assert isinstance(await other.bind("web", await other.placed("web")), Bound)
    assert "pre_bind" not in choosy.diary


async def test_pods_with_such_plugins_join_no_cohort(hand: Hand, world: World) -> None:
    placed = await hand.place_many("web")
    assert [(one.name, one.own_attempt) for one in placed.turned_away] == [("web", True)]
    assert not placed.seats


async def test_a_cohort_that_was_decided_before_places_the_pod_anew(hand: Hand, world: World) -> None:
    """The plugin was enabled between the decision and the bind."""
    before = await world.hand()
    bound = await hand.bind_many(await before.place_many("web"))
    assert [(one.name, one.kind) for one in bound.unbound] == [("web", "contended")]
    assert await hold_of(world) is None


async def test_a_gang_with_such_plugins_is_refused(hand: Hand, world: World) -> None:
    for name in ("a", "b"):
        await world.put_pod(name, labels=gang_labels(2))
    await hand.seen()
    placed = await hand.place_gang()
    assert not placed.seats
    assert "asynchronous plugins, and those are not called for gangs" in placed.reasons[0].message


# --- Bind -----------------------------------------------------------------------------------------


async def test_a_bind_plugin_binds_by_the_default_binder(world: World) -> None:
    async def does(call: BindCall) -> Status:
        assert call.binding is None
        return await call.bind()

    crane = Crane(does)
    await world.put_node("n1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles_with(crane))
    placed, outcome = await held(hand)
    assert [(one.point, one.plugin) for one in outcome.steps] == [("Bind", "Crane")]
    answer = await call_step(hand, "web", placed, outcome)
    assert (answer.code, await world.node_of("web"), await hold_of(world)) == ("success", "n1", None)

    # It was called, and its worker died: another call finds the pod bound.
    await hand.seen()
    assert (await call_step(hand, "web", placed, outcome, attempt=2)).code == "success"
    assert len(crane.calls) == 1
    bound = await hand.bind("web", placed, calls=first_answers(outcome).with_one(answer))
    assert isinstance(bound, Bound)
    assert bound.notes == ("bound by plugin Crane",)


async def test_a_bind_plugin_that_binds_itself_is_believed_on_its_node(world: World) -> None:
    async def does(call: BindCall) -> Status:
        await world.change_pod("web", lambda pod: pod["spec"].update(nodeName="n1"))
        return SUCCESS

    await world.put_node("n1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles_with(Crane(does)))
    outcome = await bound_with_calls(hand, "web", await hand.placed("web"))
    assert isinstance(outcome, Bound)
    assert (outcome.node, outcome.notes, await hold_of(world)) == ("n1", ("bound by plugin Crane",), None)


async def test_post_bind_is_called_once_for_a_bind_plugin(world: World, licences: Licences) -> None:
    async def does(call: BindCall) -> Status:
        return await call.bind()

    await world.put_node("n1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles_with(licences, Crane(does)))
    assert isinstance(await bound_with_calls(hand, "web", await hand.placed("web")), Bound)
    assert licences.diary == ["reserve", "pre_bind", "post_bind n1"]
    attempts = hand.metrics.schedule_attempts.labels(profile="default-scheduler", result="scheduled")
    assert attempts._value.get() == 1


async def test_a_bind_plugin_that_did_not_bind_fails_the_attempt(world: World) -> None:
    async def does(call: BindCall) -> Status:
        return SUCCESS

    await world.put_node("n1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles_with(Crane(does)))
    with pytest.raises(ApplicationError, match="plugin Crane failed in Bind: it answered success, and the pod is not"):
        await bound_with_calls(hand, "web", await hand.placed("web"))
    assert (await world.node_of("web"), await hold_of(world)) == ("", None)


async def test_a_bind_plugin_that_skips_leaves_the_pod_to_the_next(world: World, licences: Licences) -> None:
    async def does(call: BindCall) -> Status:
        return SKIP

    await world.put_node("n1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand(profiles=profiles_with(licences, Crane(does)))
    placed, outcome = await held(hand)
    assert [one.plugin for one in outcome.steps] == ["Licences", "Crane"]
    assert isinstance(await bound_with_calls(hand, "web", placed), Bound)
    assert await world.node_of("web") == "n1"
    assert licences.diary[-2:] == ["pre_bind", "post_bind n1"]
