"""A gang is decided as a whole, bound in one transaction or not at all, and refused as a whole."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.world import PROFILES, Hand, World
from wharfinger.etcd import keys
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Permission
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER as DEFAULT
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts.cohort_scheduling import BoundMany, GangName, PlacedMany
from wharfinger.scheduling.contracts.eviction import Evicted, EvictInput
from wharfinger.scheduling.contracts.group_payloads import placed_alone, refused_alone
from wharfinger.scheduling.contracts.scheduling import Refused
from wharfinger.scheduling.reading.recomputation import RecordedDecision, read_past, recompute

TEAM = GangName(namespace="default", name="team")
LABEL = "pod-group.scheduling.sigs.k8s.io/"


def gang_labels(least: int, name: str = "team") -> dict[str, str]:
    return {LABEL + "name": name, LABEL + "min-available": str(least)}


async def team(world: World, members: int, *, least: int | None = None, **more: Any) -> list[str]:
    names = [f"m{number}" for number in range(members)]
    for name in names:
        await world.put_pod(name, labels=gang_labels(members if least is None else least), **more)
    return names


async def bind_gang(hand: Hand, placed: PlacedMany, **more: Any) -> BoundMany:
    return await hand.bind_many(placed, whole=True, domain=placed.domain, **more)


async def test_all_members_are_seated_and_bound_in_one_transaction(world: World) -> None:
    for name in ("a", "b"):
        await world.put_node(name, cpu="2")
    names = await team(world, 4)
    hand = await world.hand()

    placed = await hand.place_gang()
    assert [seat.name for seat in placed.seats] == names
    assert placed.turned_away == ()
    before = world.store.revision
    bound = await bind_gang(hand, placed)

    assert len(bound.bound) == 4
    assert world.store.revision == before + 1
    assert sorted([await world.node_of(name) for name in names]) == ["a", "a", "b", "b"]


async def test_a_revision_of_the_time_before_etcd_was_restored_holds_no_gang_up(world: World) -> None:
    for name in ("a", "b"):
        await world.put_node(name, cpu="2")
    await team(world, 4)
    hand = await world.hand()
    placed = await hand.place_gang(revision=2**62)

    assert placed.seats


async def test_too_little_room_turns_all_members_away_with_one_message(world: World) -> None:
    await world.put_node("a", cpu="3")
    names = await team(world, 4)
    hand = await world.hand()

    placed = await hand.place_gang()

    assert placed.seats == ()
    assert [one.name for one in placed.turned_away] == names
    assert {one.reasons for one in placed.turned_away} == {0}
    assert placed.reasons[0].message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert "gang needs 4 members placed together, 3 fit." in placed.reasons[0].message
    assert placed.reasons[0].rejectors == ("NodeResourcesFit",)
    assert hand.cache.assumed() == ()
    recorded = await hand.record_many(placed, gang=TEAM, workflow_id="test/cohort/default/team")
    assert recorded.recorded == 4
    for name in names:
        record = await world.record_of(name)
        assert (record["workflow_id"], record["parked"]) == ("test/cohort/default/team", True)
        assert (await world.pod(name))["status"]["conditions"][0]["message"] == placed.reasons[0].message


async def test_members_beyond_those_needed_come_along_or_follow(world: World) -> None:
    await world.put_node("a", cpu="3")
    await team(world, 4, least=2)
    hand = await world.hand()

    placed = await hand.place_gang()

    assert [seat.name for seat in placed.seats] == ["m0", "m1", "m2"]
    assert [(one.name, one.after_seat) for one in placed.turned_away] == [("m3", 3)]
    assert "gang needs" not in placed.reasons[placed.turned_away[0].reasons].message


async def test_members_that_are_bound_are_not_needed_again(world: World) -> None:
    await world.put_node("a", cpu="4")
    await team(world, 3)
    await world.put_pod("there", labels=gang_labels(4), spec={"nodeName": "a"})
    hand = await world.hand()

    placed = await hand.place_gang()

    assert len(placed.seats) == 3
    await world.put_node("a", cpu="3")
    await world.seen()
    short = await hand.place_gang()
    assert "gang needs 3 more members placed together, 2 fit." in short.reasons[0].message


@pytest.mark.parametrize(
    ("members", "least", "why"),
    [(2, 3, "PodGroup: 2 of 3 members exist"), (0, 1, "none of its members is to be placed")],
)
async def test_too_few_members_are_no_gang_to_place(world: World, members: int, least: int, why: str) -> None:
    await world.put_node("a")
    await team(world, members, least=least)
    hand = await world.hand()

    placed = await hand.place_gang()

    assert (placed.seats, placed.turned_away) == ((), ())
    assert [one.reason for one in placed.skipped] == [why]


async def test_members_are_not_placed_by_themselves(world: World) -> None:
    await world.put_node("a")
    names = await team(world, 2)
    await world.put_pod("lone", labels=gang_labels(5, "other"))
    hand = await world.hand()

    one = await hand.place("m0")
    many = await hand.place_many(*names)
    held = await hand.place("lone")

    assert isinstance(one, Refused)
    assert (one.rejectors, one.message) == (("GangScheduling",), "PodGroup: placed with gang default/team only")
    assert many.seats == ()
    assert isinstance(held, Refused)
    assert held.message == "PodGroup: 1 of 5 members exist"


async def test_a_gang_has_a_domain_and_its_nodes_keep_it_until_the_bind(world: World) -> None:
    for name, zone in (("a", "x"), ("b", "y"), ("c", "y")):
        await world.put_node(name, cpu="2", labels={"zone": zone})
    names = await team(world, 3, annotations={"wharfinger.dev/topology-key": "zone"})
    hand = await world.hand()

    placed = await hand.place_gang()
    assert placed.domain == "zone=y"
    assert {seat.node for seat in placed.seats} == {"b", "c"}
    await world.put_node("c", cpu="2", labels={"zone": "x"})
    await world.seen()
    bound = await bind_gang(hand, placed)

    assert bound.bound == ()
    assert "the node is not in zone=y any more" in bound.unbound[0].message
    again = await hand.place_gang()
    assert again.domain == "zone=x"
    assert len((await bind_gang(hand, again)).bound) == 3
    assert {await world.node_of(name) for name in names} == {"a", "c"}


async def test_every_members_part_is_decided_again_from_what_is_recorded(world: World) -> None:
    for name, zone, cpu in (("a", "x", "9"), ("b", "y", "2"), ("c", "y", "2"), ("d", "y", "1")):
        await world.put_node(name, cpu=cpu, labels={"zone": zone})
    await world.put_pod("used", cpu="8", spec={"nodeName": "a"})
    await team(world, 6, least=4, annotations={"wharfinger.dev/topology-key": "zone"})
    hand = await world.hand()

    placed = await hand.place_gang()

    past = partial(read_past, hand.store, hand.cache.progress.revision)
    assert len(placed.seats) == 5
    for number, seat in enumerate(placed.seats):
        record = placed_alone(placed, number)
        again = recompute(
            await past(), RecordedDecision(PodKey("default", seat.name), record, placed), PROFILES[DEFAULT]
        )
        assert again.same, again
        told = {one.node: one for one in again.nodes}
        assert (told[seat.node].feasible, told[seat.node].total) == (True, seat.score), "after the seats before it"
    (left,) = placed.turned_away
    key, record = PodKey("default", left.name), refused_alone(placed, left)
    assert recompute(await past(), RecordedDecision(key, record, placed), PROFILES[DEFAULT]).same


async def test_a_refused_gang_is_decided_again_as_a_whole(world: World) -> None:
    await world.put_node("a", cpu="3")
    await team(world, 4)
    hand = await world.hand()

    placed = await hand.place_gang()

    past = partial(read_past, hand.store, hand.cache.progress.revision)
    first = placed.turned_away[0]
    key, record = PodKey("default", first.name), refused_alone(placed, first)
    again = recompute(await past(), RecordedDecision(key, record, placed), PROFILES[DEFAULT])

    assert again.same
    assert again.recomputed is not None
    assert "gang needs 4 members placed together, 3 fit." in again.recomputed.message
    assert any("default/team was refused as a whole" in note for note in again.notes)
    assert [one.feasible for one in again.nodes] == [True], "the pod alone would fit"
    other = placed.model_copy(
        update={"reasons": (placed.reasons[0].model_copy(update={"message": "0/1 nodes are available: another"}),)}
    )
    changed = recompute(await past(), RecordedDecision(key, refused_alone(other, first), other), PROFILES[DEFAULT])
    assert (changed.same, changed.differs) == (False, ("message",))


async def test_a_gang_is_decided_again_within_the_limits_of_then(world: World) -> None:
    await world.put_node("a", cpu="64")
    await team(world, 9)
    hand = await world.hand(limits=Limits(operations=10))

    placed = await hand.place_gang()

    past = partial(read_past, hand.store, hand.cache.progress.revision)
    first = placed.turned_away[0]
    key, record = PodKey("default", first.name), refused_alone(placed, first)
    again = recompute(
        await past(), RecordedDecision(key, record, placed), PROFILES[DEFAULT], limits=Limits(operations=10)
    )
    assert again.same
    assert recompute(await past(), RecordedDecision(key, record, placed), PROFILES[DEFAULT]).differs


async def test_a_contended_gang_is_not_bound_at_all_and_frees_its_seats(world: World) -> None:
    await world.put_node("a", cpu="4")
    names = await team(world, 4)
    first, second = await world.hand(), await world.hand()
    placed = await first.place_gang()
    await world.put_pod("quick", cpu="1")
    await second.seen()
    await second.bind("quick", await second.placed("quick"))
    await world.seen()

    bound = await bind_gang(first, placed)

    assert bound.bound == ()
    assert {one.kind for one in bound.unbound} == {"contended"}
    assert [await world.node_of(name) for name in names] == [""] * 4
    assert first.cache.assumed() == ()


async def test_two_workers_bind_a_gang_once(world: World) -> None:
    await world.put_node("a", cpu="8")
    names = await team(world, 4)
    hands = [await world.hand(), await world.hand()]
    placed = [await hand.place_gang() for hand in hands]

    bound = await asyncio.gather(*(bind_gang(hand, one) for hand, one in zip(hands, placed, strict=True)))

    assert {len(one.bound) for one in bound} <= {0, 4}
    assert {await world.node_of(name) for name in names} == {"a"}


async def test_refusal_by_assumed_pods_only_is_marked(world: World) -> None:
    await world.put_node("a", cpu="2")
    await world.put_pod("other", cpu="1")
    await team(world, 2)
    hand = await world.hand()
    await hand.placed("other")

    placed = await hand.place_gang()

    assert placed.seats == ()
    assert placed.only_assumed


# --- preemption -----------------------------------------------------------------------------------


async def test_room_is_made_for_all_members(world: World) -> None:
    for name in ("a", "b"):
        await world.put_node(name, cpu="2")
        await world.put_pod(f"low-{name}", cpu="2", spec={"nodeName": name})
    names = await team(world, 4, spec={"priority": 10})
    hand = await world.hand()

    placed = await hand.place_gang()
    assert sorted(one.nominated_node for one in placed.turned_away) == ["a", "a", "b", "b"]
    assert sorted(victim.pod for one in placed.turned_away for victim in one.victims) == [
        "default/low-a",
        "default/low-b",
    ]
    recorded = await hand.record_many(placed, gang=TEAM, workflow_id="test/cohort/default/team")
    assert recorded.lapsed == ()
    assert len(recorded.record_revisions) == 2
    for one in placed.turned_away:
        assert (await world.pod(one.name))["status"]["nominatedNodeName"] == one.nominated_node
        if one.victims:
            evicted = await hand.activities.evict(
                EvictInput(
                    namespace="default",
                    name=one.name,
                    uid=one.uid,
                    create_revision=one.create_revision,
                    node=one.nominated_node,
                    victims=one.victims,
                    record_revision=recorded.record_revisions[f"default/{one.name}"],
                    workflow_id="test/cohort/default/team",
                    run_id="run-1",
                )
            )
            assert isinstance(evicted, Evicted)
            assert evicted.complete

    await world.seen()
    waits = await hand.place_gang()
    assert waits.seats == ()
    assert waits.leaving > 0
    assert [one.victims for one in waits.turned_away] == [()] * 4
    assert all(one.nominated_node for one in waits.turned_away)
    for name in ("low-a", "low-b"):
        await world.store.delete(keys.pod("default", name))
    await world.seen()
    assert len((await bind_gang(hand, await hand.place_gang())).bound) == 4
    assert {await world.node_of(name) for name in names} == {"a", "b"}


async def test_no_pod_is_evicted_for_a_part_of_a_gang(world: World) -> None:
    await world.put_node("a", cpu="2")
    await world.put_pod("low", cpu="2", spec={"nodeName": "a"})
    await team(world, 3, spec={"priority": 10})
    hand = await world.hand()

    placed = await hand.place_gang()

    assert [(one.nominated_node, one.victims) for one in placed.turned_away] == [("", ())] * 3
    assert "preemption:" in placed.reasons[0].message


# --- limits of a transaction ----------------------------------------------------------------------


async def test_gang_too_large_for_a_transaction_is_refused_before_placement(world: World) -> None:
    await world.put_node("a", cpu="64")
    await team(world, 9)
    hand = await world.hand(limits=Limits(operations=10))

    placed = await hand.place_gang()

    assert placed.seats == ()
    assert "--max-txn-ops" in placed.reasons[0].message
    assert "11 operations" in placed.reasons[0].message
    assert placed.reasons[0].rejectors == ("GangScheduling",)


async def test_one_that_turns_out_too_large_is_rejected_at_the_commit(world: World) -> None:
    for number in range(8):
        await world.put_node(f"n{number}", cpu="1")
    await team(world, 8)
    hand = await world.hand(limits=Limits(operations=12))

    bound = await bind_gang(hand, await hand.place_gang())

    assert {(one.kind, one.plugin) for one in bound.unbound} == {("rejected", "GangScheduling")}
    assert "raise --max-txn-ops" in bound.unbound[0].message


async def test_members_beyond_the_minimum_are_left_out_of_a_full_transaction(world: World) -> None:
    await world.put_node("a", cpu="64")
    await team(world, 12, least=6)
    hand = await world.hand(limits=Limits(operations=26))

    placed = await hand.place_gang()

    assert len(placed.seats) == 8
    assert "a transaction holds no more members" in placed.reasons[placed.turned_away[0].reasons].message
    assert len((await bind_gang(hand, placed)).bound) == 8


# --- what must not be decided, and plugins --------------------------------------------------------


async def test_nothing_is_decided_on_an_older_state_than_was_asked_for(world: World) -> None:
    hand = await world.hand()
    hand.store.pause_watches()
    await world.put_node("a")

    with pytest.raises(ApplicationError) as failed:
        await hand.place_gang(revision=world.store.revision)

    assert failed.value.type == "Behind"


async def test_gang_with_a_bind_in_doubt_is_not_decided(world: World) -> None:
    await world.put_node("a", cpu="8")
    await team(world, 2)
    hand = await world.hand()
    placed = await hand.place_gang()
    pod = hand.cache.pods[PodKey("default", "m1")]
    hand.cache.assume(pod, "a")
    hand.cache.mark_sent(pod.identity)

    with pytest.raises(ApplicationError) as failed:
        await hand.place_gang()

    assert failed.value.type == "Unavailable"
    assert len(placed.seats) == 2


class Booking:
    """Reserves two places in all; a Permit that waits if told so."""

    name = "Booking"

    def __init__(self, *, waits: bool = False) -> None:
        self.reserved: list[str] = []
        self.waits = waits

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        if len(self.reserved) == 2:
            return unschedulable("no place left")
        self.reserved.append(pod.name)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if pod.name in self.reserved:
            self.reserved.remove(pod.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Permission:
        return Permission(Status(Code.WAIT), 10.0) if self.waits else Permission()


@pytest.mark.parametrize(("members", "waits", "why"), [(3, False, "no place left"), (2, True, "Booking would keep")])
async def test_what_is_reserved_for_some_is_given_back_when_not_all_may(
    world: World, members: int, waits: bool, why: str
) -> None:
    plugin = Booking(waits=waits)
    default = load_profiles()["default-scheduler"]
    profile = Profile("default-scheduler", Enabled.everywhere((*default.plugins, plugin), {}))
    await world.put_node("a", cpu="8")
    await team(world, members)
    hand = await world.hand(profiles={"default-scheduler": profile})

    placed = await hand.place_gang()

    assert placed.seats == ()
    assert why in placed.reasons[0].message
    assert plugin.reserved == []
    assert hand.cache.assumed() == ()
