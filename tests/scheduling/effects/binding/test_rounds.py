"""Committing placements: what the transaction compares, and what each answer leads to.

Interleavings that would break a promise are named by the test; each fails without its rule.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.placing.test_placing_lone import Fussy, with_plugin
from tests.scheduling.world import Hand, World, settled
from wharfinger.errors import RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import unschedulable
from wharfinger.objects.model.pod import PodIdentity
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, Gone, Placed, Rejected
from wharfinger.scheduling.effects.placing import payload
from wharfinger.settings import BindSettings

CALM = BindSettings(tries=4, catch_up=1.0, behind=1.0)


def grow(cpu: str) -> Any:
    """A pod's owner asks for more."""

    def change(pod: Any) -> None:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu

    return change


# --- the commit -----------------------------------------------------------------------------------


async def test_bind_writes_node_condition_and_attempt_and_keeps_other_fields(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand()
    before = await world.pod("web")
    await hand.record("web")

    bound = await hand.bind("web", await hand.placed("web"))

    assert bound == Bound(node="node-1", revision=world.store.revision, tries=1)
    pod = await world.pod("web")
    assert pod["spec"] == before["spec"] | {"nodeName": "node-1"}
    assert pod["unknown"] == {"kept": True}
    assert pod["metadata"]["annotations"] == {
        "team": "red",
        "wharfinger.dev/attempt": "test/pod/default/web/uid-web@run-1",
    }
    [condition] = pod["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
    assert await world.record_of("web") is None
    assert (await world.store.get(keys.binding("node-1"))).kv is not None


async def test_the_assumption_becomes_a_fact_when_the_watch_shows_the_bind(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand()
    await hand.bind("web", await hand.placed("web"))
    await hand.seen()

    assert hand.cache.assumed() == ()
    assert hand.cache.pods["default", "web"].node_name == "node-1"  # type: ignore[index]


async def test_binds_of_one_node_in_one_worker_are_serial_without_conflicts(world: World) -> None:
    await world.put_node("node-1", cpu="10")
    names = [f"web-{number}" for number in range(10)]
    for name in names:
        await world.put_pod(name)
    hand = await world.hand()
    hand.store.pause_watches()
    placements = [await hand.placed(name, revision=1) for name in names]

    outcomes = await asyncio.gather(*(hand.bind(*pair) for pair in zip(names, placements, strict=True)))

    assert [outcome.kind for outcome in outcomes] == ["bound"] * 10
    assert [outcome.tries for outcome in outcomes if isinstance(outcome, Bound)] == [1] * 10


async def test_a_worker_that_did_not_decide_can_bind(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    decider, binder = await world.hand(), await world.hand()

    outcome = await binder.bind("web", await decider.placed("web"))

    assert outcome.kind == "bound"
    await world.seen()
    assert decider.cache.assumed() == binder.cache.assumed() == ()


# --- another writer was faster ----------------------------------------------------------------------


async def placed_by_two(world: World, *, cpu: str, **more: Any) -> list[tuple[Hand, Placed]]:
    """Two workers, each with a pod of one core that it placed on the one node of so many cores."""
    await world.put_node("node-1", cpu=cpu)
    names = ("web-1", "web-2")
    for name in names:
        await world.put_pod(name)
    hands = [await world.hand(**more) for _ in names]
    return [(hand, await hand.placed(name)) for hand, name in zip(hands, names, strict=True)]


async def test_two_workers_with_one_place_left_never_share_it(world: World) -> None:
    (one, first), (two, second) = await placed_by_two(world, cpu="1", settings=CALM)

    outcomes = await asyncio.gather(one.bind("web-1", first), two.bind("web-2", second))

    assert sorted(outcome.kind for outcome in outcomes) == ["bound", "contended"]
    assert sorted([await world.node_of("web-1"), await world.node_of("web-2")]) == ["", "node-1"]


async def test_two_workers_with_room_for_both_bind_both(world: World) -> None:
    (one, first), (two, second) = await placed_by_two(world, cpu="2", settings=CALM)

    outcomes = await asyncio.gather(one.bind("web-1", first), two.bind("web-2", second))

    assert [outcome.kind for outcome in outcomes] == ["bound", "bound"]
    assert one.conflicts("binding") + two.conflicts("binding") == 1


async def test_a_binding_version_that_was_read_is_never_used(world: World) -> None:
    """Steps: A fills node-1; B's watch stands still, so B does not know A's pod. B's transaction fails and reads
    the new binding version. Were it used, B's next transaction would go through: overcommitted.
    """
    (one, first), (two, second) = await placed_by_two(world, cpu="1")
    two.store.pause_watches()
    await one.bind("web-1", first)

    contended = await two.bind("web-2", second)

    assert isinstance(contended, Contended)
    assert "watch is behind" in contended.message
    assert isinstance(await two.bind("web-2", await two.placed("web-2", revision=1)), Contended)
    assert await world.node_of("web-2") == ""
    assert two.conflicts("binding") == 2
    assert two.metrics.contended._value.get() == 2


async def test_a_full_node_is_left_for_the_runner_up(world: World) -> None:
    await world.put_node("node-1", cpu="4")
    await world.put_node("node-2", cpu="4")
    for name in ("web-1", "web-2"):
        await world.put_pod(name, cpu="3")
    one, two = await world.hand(settings=CALM), await world.hand(settings=CALM)
    first = await one.placed("web-1")
    second = await two.placed("web-2")
    if first.node != second.node:  # the tie between equal nodes is broken by the pod: let both want the same
        second = second.model_copy(update={"node": first.node})
    await one.bind("web-1", first)

    bound = await two.bind("web-2", second)

    assert isinstance(bound, Bound)
    assert {await world.node_of("web-1"), bound.node} == {"node-1", "node-2"}
    assert any("NodeResourcesFit" in note for note in bound.notes)
    assert bound.notes[-1] == f"bound to the runner-up {bound.node}"


async def test_without_runners_up_a_pod_whose_node_is_full_is_decided_anew(world: World) -> None:
    """As `--compatible` has it: kube-scheduler binds nothing but the node that was chosen."""
    await world.put_node("node-1", cpu="4")
    await world.put_node("node-2", cpu="4")
    for name in ("web-1", "web-2"):
        await world.put_pod(name, cpu="3")
    one, two = await world.hand(settings=CALM), await world.hand(settings=replace(CALM, runners_up=False))
    first = await one.placed("web-1")
    second = (await two.placed("web-2")).model_copy(update={"node": first.node})
    await one.bind("web-1", first)

    assert isinstance(await two.bind("web-2", second), Contended)
    assert await world.node_of("web-2") == ""
    await two.seen()
    again = await two.placed("web-2")
    assert isinstance(await two.bind("web-2", again), Bound)
    assert {await world.node_of("web-1"), await world.node_of("web-2")} == {"node-1", "node-2"}


async def test_a_contended_placement_gives_its_seat_back(world: World) -> None:
    (one, first), (two, second) = await placed_by_two(world, cpu="1", settings=CALM)
    await one.bind("web-1", first)
    await two.bind("web-2", second)

    assert two.cache.assumed() == ()


# --- the node moved -------------------------------------------------------------------------------


async def test_a_heart_beat_of_the_node_is_adopted_on_the_spot(world: World) -> None:
    """Steps: 5,000 nodes beat every five seconds and the watch is a moment behind; waiting would cost every bind."""
    hand, placed = await world.one_placed()
    hand.store.pause_watches()
    await world.put_node("node-1", heartbeat="2")

    bound = await hand.bind("web", placed)

    assert isinstance(bound, Bound)
    assert (bound.tries, bound.notes) == (2, ("the node's heart-beat was adopted",))
    assert hand.conflicts("node") == 1


async def test_a_node_that_shrank_is_not_bound_to_before_the_watch_has_shown_it(world: World) -> None:
    await world.put_node("node-1", cpu="4")
    await world.put_pod("web", cpu="3")
    hand = await world.hand()
    placed = await hand.placed("web")
    hand.store.pause_watches()
    await world.put_node("node-1", cpu="2")

    assert isinstance(await hand.bind("web", placed), Contended)
    assert await world.node_of("web") == ""


async def test_a_heart_beat_together_with_another_bind_is_not_adopted(world: World) -> None:
    (one, first), (two, second) = await placed_by_two(world, cpu="1")
    two.store.pause_watches()
    await one.bind("web-1", first)
    await world.put_node("node-1", cpu="1", heartbeat="2")

    assert isinstance(await two.bind("web-2", second), Contended)


async def test_a_node_that_is_gone_is_not_bound_to(world: World) -> None:
    hand, placed = await world.one_placed()
    hand.store.pause_watches()
    await world.store.delete(keys.node("node-1"))

    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Contended)
    assert "the node is gone" in outcome.message


@pytest.mark.parametrize("seen", [True, False], ids=["the watch has shown it", "the watch is behind"])
async def test_a_node_that_was_created_anew_is_not_bound_to(world: World, seen: bool) -> None:
    """The machine of that name is another one now: what was decided for the former one does not hold."""
    hand, placed = await world.one_placed()
    if not seen:
        hand.store.pause_watches()
    await world.store.delete(keys.node("node-1"))
    await world.put_node("node-1")
    if seen:
        await hand.seen()

    assert isinstance(await hand.bind("web", placed), Contended)
    assert await world.node_of("web") == ""


# --- the pod moved --------------------------------------------------------------------------------


async def test_a_pod_that_changed_is_verified_again_and_bound_as_it_is_now(world: World) -> None:
    hand, placed = await world.one_placed()
    hand.store.pause_watches()
    await world.change_pod("web", lambda pod: pod["metadata"]["labels"].update(colour="blue"))

    bound = await hand.bind("web", placed)

    assert isinstance(bound, Bound)
    assert (bound.tries, bound.notes) == (2, ("the pod changed",))
    assert (await world.pod("web"))["metadata"]["labels"] == {"colour": "blue"}


async def test_a_pod_that_grew_beyond_the_node_is_not_bound_there(world: World) -> None:
    await world.put_node("node-1", cpu="2")
    await world.put_pod("web")
    hand = await world.hand()
    placed = await hand.placed("web")
    hand.store.pause_watches()
    await world.change_pod("web", grow("3"))

    assert isinstance(await hand.bind("web", placed), Contended)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda pod: pod["spec"].update(nodeName="node-9"), "bound"),
        (lambda pod: pod["spec"].update(schedulerName="somebody-else"), "not-ours"),
        (lambda pod: pod["metadata"].update(deletionTimestamp="2026-03-01T12:00:00Z"), "terminating"),
    ],
    ids=["bound by another client", "given to another scheduler", "being deleted"],
)
@pytest.mark.parametrize("seen", [True, False], ids=["the watch has shown it", "the watch is behind"])
async def test_a_pod_that_is_not_to_be_bound_any_more_is_gone(
    world: World, change: Any, reason: str, seen: bool
) -> None:
    hand, placed = await world.one_placed()
    if not seen:
        hand.store.pause_watches()
    await world.change_pod("web", change)
    if seen:
        await hand.seen()

    outcome = await hand.bind("web", placed)

    assert isinstance(outcome, Gone)
    assert outcome.reason == reason
    hand.store.resume_watches()
    await hand.seen()
    assert hand.cache.assumed() == ()


@pytest.mark.parametrize("again", [True, False], ids=["and created anew", "for good"])
async def test_a_pod_that_was_deleted_is_gone(world: World, again: bool) -> None:
    hand, placed = await world.one_placed()
    hand.store.pause_watches()
    await world.store.delete(keys.pod("default", "web"))
    if again:
        await world.put_pod("web")

    outcome = await hand.bind("web", placed)
    assert isinstance(outcome, Gone)
    assert outcome.reason == "deleted"
    if again:
        assert await world.node_of("web") == ""


# --- answers that get lost ------------------------------------------------------------------------


@pytest.mark.parametrize("elsewhere", [False, True], ids=["on the same worker", "on another worker"])
async def test_a_commit_whose_answer_got_lost_is_found_by_the_retry(world: World, elsewhere: bool) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    hand, other = await world.hand(), await world.hand()
    placed = await hand.placed("web")
    hand.store.fail_next(applied=True)

    with pytest.raises(ApplicationError) as raised:
        await hand.bind("web", placed)
    assert (raised.value.type, raised.value.non_retryable) == ("Unavailable", False)

    bound = await (other if elsewhere else hand).bind("web", placed)
    assert isinstance(bound, Bound)
    assert (bound.node, bound.notes) == ("node-1", ("committed by an earlier try",))


async def test_a_lost_answer_is_found_even_when_the_watch_is_behind(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand()
    placed = await hand.placed("web")
    hand.store.pause_watches()
    hand.store.fail_next(applied=True)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)

    assert (await hand.bind("web", placed)).kind == "bound"


async def test_a_lost_answer_is_found_although_the_node_takes_no_pod_any_more(world: World) -> None:
    """Steps: committed, the answer got lost, the node went; the retry's verifying fails, yet the pod is bound."""
    await world.put_node("node-1")
    await world.put_pod("web")
    hand, other = await world.hand(), await world.hand()
    placed = await hand.placed("web")
    hand.store.fail_next(applied=True)
    other.store.pause_watches()
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    other.cache.remove_node("node-1")

    assert (await other.bind("web", placed)).kind == "bound"


async def test_a_transaction_that_never_arrived_is_sent_again_by_the_retry(world: World) -> None:
    hand, placed = await world.one_placed()
    hand.store.fail_next(applied=False)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)
    assert await world.node_of("web") == ""

    assert await hand.bind("web", placed) == Bound(node="node-1", revision=world.store.revision, tries=1)


async def test_seat_in_doubt_is_kept_until_the_watch_has_shown_it(world: World) -> None:
    """Steps: the answer got lost, another worker retries and binds; here the watch is behind. Until it has shown the
    commit the seat is taken, then the pod itself takes it: at no time are there two, and at none is it free.
    """
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    hand = await world.hand()
    placed = await hand.placed("web-1")
    hand.store.pause_watches()
    hand.store.fail_next(applied=True)
    with pytest.raises(ApplicationError):
        await hand.bind("web-1", placed)
    await settled()
    hand.clock[0] = 1000.0

    assert hand.cache.expire() == ()
    assert (await hand.refused("web-2", revision=1)).only_assumed
    hand.store.resume_watches()
    await hand.seen()
    assert hand.cache.assumed() == ()
    assert not (await hand.refused("web-2")).only_assumed


async def test_a_seat_in_doubt_is_free_again_when_the_transaction_never_happened(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    hand = await world.hand()
    placed = await hand.placed("web-1")
    hand.store.fail_next(applied=False)
    with pytest.raises(ApplicationError):
        await hand.bind("web-1", placed)
    while hand.cache.assumed():
        await asyncio.sleep(0)

    assert (await hand.placed("web-2")).node == "node-1"


async def test_a_paused_worker_does_not_fill_its_own_node_twice(world: World) -> None:
    """Steps: the transaction is out when the process is stopped for a minute. It wakes: the timer runs first and would
    drop the old assumption, the answer (success) advances the binding version, the watch is still behind. Were the
    seat free now, the next pod would be bound there with a version that etcd accepts.
    """
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    hand = await world.hand()
    placed = await hand.placed("web-1")
    hand.store.pause_watches()

    def minute_passes(*_: Any) -> None:
        hand.clock[0] += 60.0
        hand.cache.expire()

    hand.store.after_txn = minute_passes
    assert (await hand.bind("web-1", placed)).kind == "bound"

    assert hand.cache.bindings["node-1"] == world.store.revision
    assert (await hand.refused("web-2", revision=1)).only_assumed


async def test_own_commit_counts_on_its_node_after_the_assumption_moved(world: World) -> None:
    """Steps: a bind is out; its run is terminated and the pod placed again, elsewhere; then the first bind's answer
    comes. The binding version advances only together with the pod behind it.
    """
    await world.put_node("node-1", cpu="1")
    await world.put_node("node-2", cpu="1")
    revision = await world.put_pod("web-1")
    await world.put_pod("web-2", spec={"nodeSelector": {"on": "node-1"}})
    hand = await world.hand()
    placed = await hand.placed("web-1")
    other_node = "node-2" if placed.node == "node-1" else "node-1"
    hand.store.pause_watches()

    def placed_again(*_: Any) -> None:
        hand.cache.assume(hand.cache.pods["default", "web-1"], other_node)  # type: ignore[index]

    hand.store.after_txn = placed_again
    await hand.bind("web-1", placed)

    [assumed] = hand.cache.assumed()
    assert (assumed.identity, assumed.node) == (PodIdentity("default", "web-1", revision), placed.node)


async def test_retry_before_the_watch_keeps_the_seat_of_the_earlier_runner_up(
    world: World,
) -> None:
    """Steps: the first node was taken, the runner-up bound; the activity's answer came too late for Temporal, so it
    is tried again here, and the watch is still behind. Were the pod assumed on its first choice again, the runner-up
    would seem free, with a binding version that etcd accepts: overcommitted.
    """
    await world.put_node("node-1", cpu="1")
    await world.put_node("node-2", cpu="1")
    for name in ("web-1", "web-2", "other"):
        await world.put_pod(name)
    hand, rival = await world.hand(), await world.hand()
    first = await hand.placed("web-1")
    hand.store.pause_watches()
    taken = (await rival.placed("other")).model_copy(update={"node": first.node, "ranking": ()})
    assert (await rival.bind("other", taken)).kind == "bound"
    bound = await hand.bind("web-1", first)
    assert isinstance(bound, Bound)
    assert bound.node != first.node

    again = await hand.bind("web-1", first)

    assert isinstance(again, Bound)
    assert again.node == bound.node
    [assumed] = hand.cache.assumed()
    assert assumed.node == bound.node
    second = first.model_copy(update={"uid": "uid-web-2", "create_revision": 0, "node": bound.node, "ranking": ()})
    await hand.bind("web-2", second)
    assert await world.node_of("web-2") == ""


async def test_two_tries_of_one_bind_in_one_worker_follow_each_other(world: World) -> None:
    """Steps: the first try hangs in its transaction for the runner-up, Temporal's time-out passes, the second try
    begins on the first choice. Side by side, the second one's failure would move the pod's seat away from where the
    first one has bound it.
    """
    await world.put_node("node-1", cpu="1")
    await world.put_node("node-2", cpu="1")
    for name in ("web-1", "other"):
        await world.put_pod(name)
    hand, rival = await world.hand(), await world.hand()
    first = await hand.placed("web-1")
    hand.store.pause_watches()
    taken = (await rival.placed("other")).model_copy(update={"node": first.node, "ranking": ()})
    assert (await rival.bind("other", taken)).kind == "bound"
    sent: list[asyncio.Event] = []

    async def slow(*_: Any) -> None:
        """All transactions but the first (the first choice is taken) are under way until they are let go."""
        sent.append(asyncio.Event())
        if len(sent) > 1:
            await sent[-1].wait()

    hand.store.before_txn = slow
    tries = [asyncio.create_task(hand.bind("web-1", first))]
    while len(sent) < 2:
        await asyncio.sleep(0.01)
    tries.append(asyncio.create_task(hand.bind("web-1", first)))
    await settled()
    outcomes = asyncio.gather(*tries)
    while not outcomes.done():
        for arrival in sent:
            arrival.set()
        await asyncio.sleep(0.01)

    assert [outcome.kind for outcome in outcomes.result()] == ["bound", "bound"]
    [assumed] = hand.cache.assumed()
    assert assumed.node == await world.node_of("web-1") != first.node


async def test_removed_binding_version_stays_removed_after_a_late_commit_answer(world: World) -> None:
    """Steps: bound; the node goes and its binding version is removed; the watch shows it all before the answer is
    looked at. Were the version remembered, no bind to a node of that name would ever succeed here.
    """
    await world.put_node("node-1")
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    hand = await world.hand()
    placed = await hand.placed("web-1")

    async def node_goes(*_: Any) -> None:
        hand.store.after_txn = None
        await world.store.delete(keys.node("node-1"))
        await world.store.delete(keys.binding("node-1"))
        await hand.seen()

    hand.store.after_txn = node_goes
    assert (await hand.bind("web-1", placed)).kind == "bound"
    await world.put_node("node-1")
    await hand.seen()

    assert hand.cache.bindings["node-1"] == 0
    assert (await hand.bind("web-2", await hand.placed("web-2"))).kind == "bound"


# --- plugins, other configurations, size ----------------------------------------------------------


async def test_a_placement_of_another_configuration_is_only_checked_for_room(world: World) -> None:
    """Steps: a canary's profile tolerates what this worker's refuses; the binder must not overrule it."""
    await world.put_node("node-1", spec={"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]})
    await world.put_pod("web")
    lenient = load_profiles({"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}}]})
    canary, binder = await world.hand(profiles=lenient), await world.hand()
    placed = await canary.placed("web")

    assert (await binder.bind("web", placed)).kind == "bound"


async def test_a_placement_of_another_configuration_still_never_overfills_a_node(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    careless = load_profiles({"profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}]})
    canary, binder = await world.hand(profiles=careless), await world.hand()
    await binder.bind("web-1", await binder.placed("web-1"))
    await world.seen()

    assert isinstance(await binder.bind("web-2", await canary.placed("web-2")), Contended)


async def test_a_plugin_that_refuses_before_the_bind_makes_the_pod_wait(world: World) -> None:
    class Picky(Fussy):
        def pre_bind(self, state: Any, pod: Any, node_name: str) -> Any:
            return unschedulable(f"{state.carried(self.name)['node']} has no volume" + " at all" * 1_000_000)

    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Picky()
    hand = await world.hand(profiles=with_plugin(plugin))

    outcome = await hand.bind("web", await hand.placed("web"))

    assert isinstance(outcome, Rejected)
    assert outcome.plugin == "Fussy"
    assert outcome.message.startswith("node-1 has no volume at all")
    assert len(outcome.message) == payload.MESSAGE_LIMIT  # it becomes the pod's condition
    assert plugin.reserved == []
    assert hand.cache.assumed() == ()


async def test_a_plugin_may_give_back_what_it_reserved_for_a_pod_that_is_gone(world: World) -> None:
    plugin = Fussy()
    hand, placed = await world.one_placed(profiles=with_plugin(plugin))
    hand.store.pause_watches()
    await world.store.delete(keys.pod("default", "web"))

    assert isinstance(await hand.bind("web", placed), Gone)
    assert plugin.reserved == []


async def test_a_plugin_that_raises_after_the_bind_changes_nothing(world: World) -> None:
    class Late(Fussy):
        def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
            raise RuntimeError("too late")

    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand(profiles=with_plugin(Late()))

    assert (await hand.bind("web", await hand.placed("web"))).kind == "bound"


async def test_a_pod_of_one_and_a_half_megabytes_is_bound(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web", labels={}, spec={"ballast": "x" * 1_400_000})
    hand = await world.hand()

    assert (await hand.bind("web", await hand.placed("web"))).kind == "bound"


async def test_pod_too_large_to_be_written_bound_is_refused_with_a_reason(world: World) -> None:
    hand, placed = await world.one_placed()
    hand.store.fail_next(applied=False, error=RequestTooLarge("etcdserver: request is too large"))

    rejected = await hand.bind("web", placed)

    assert isinstance(rejected, Rejected)
    assert rejected.plugin == "DefaultBinder"
    assert rejected.message.startswith("pod is too large for etcd")
    assert hand.cache.assumed() == ()


async def test_pod_that_cannot_be_written_back_is_refused_with_a_reason(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    await world.change_pod("web", lambda pod: pod["metadata"].update(annotations=["none"]))
    hand = await world.hand()

    rejected = await hand.bind("web", await hand.placed("web"))
    assert isinstance(rejected, Rejected)
    assert rejected.message == "pod cannot be written bound: annotations is no mapping"
    assert hand.cache.assumed() == ()


# --- whose pod it is ------------------------------------------------------------------------------


async def test_a_tenant_that_appears_while_its_pod_is_bound_gets_the_pod(world: World) -> None:
    """Steps: a pod labelled with a tenant that does not exist is placed by the common pool; the tenant is made just
    before the transaction. Bound all the same, the pod would have been placed by another pool's rules.
    """
    await world.put_node("node-1")
    await world.put_pod("web", labels={"wharfinger.dev/tenant": "red"})
    hand = await world.hand(settings=CALM)
    placed = await hand.placed("web")

    async def appear(_: Any, __: Any) -> None:
        hand.store.before_txn = None
        await world.store.put(keys.tenant("red"), b"{}")

    hand.store.before_txn = appear
    outcome = await hand.bind("web", placed)

    assert isinstance(outcome, Gone)
    assert outcome.reason == "not-ours"
    assert await world.node_of("web") == ""
    assert hand.cache.assumed() == ()


async def test_a_tenants_pod_is_bound_while_the_tenant_lasts(world: World) -> None:
    await world.put_node("node-1")
    await world.store.put(keys.tenant("red"), b"{}")
    await world.put_pod("web", labels={"wharfinger.dev/tenant": "red"})
    await world.put_pod("web-2", labels={"wharfinger.dev/tenant": "red"})
    hand = await world.hand(settings=CALM, tenant="red")
    assert (await hand.bind("web", await hand.placed("web"))).kind == "bound"
    placed = await hand.placed("web-2")
    hand.store.pause_watches()
    await world.store.delete(keys.tenant("red"))

    assert (await hand.bind("web-2", placed)).kind == "contended"
    assert await world.node_of("web-2") == ""
