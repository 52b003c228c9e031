"""Deciding for a cohort: in order, each seeing those before it; what travels of it is bounded."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.patience import patient
from tests.scheduling.world import PROFILES, World
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import Permission
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.contracts.cohort_scheduling import (
    MOST_PODS,
    CohortPod,
    PlacedMany,
    PlaceManyInput,
    Reasons,
    Seat,
    Stretch,
    Turn,
)
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.effects.binding import cohort_payload
from wharfinger.scheduling.effects.binding.cohort_payload import CohortPayload, size
from wharfinger.scheduling.effects.placing import placing_cohorts
from wharfinger.scheduling.effects.placing.placing_cohorts import CohortSequencer

MIB = 1024 * 1024


async def test_each_decision_sees_those_before_it(world: World) -> None:
    for number in range(3):
        await world.put_node(f"node-{number}", cpu="1")
    for number in range(4):
        await world.put_pod(f"web-{number}", cpu="1")
    hand = await world.hand()

    placed = await hand.place_many("web-2", "web-0", "web-3", "web-1")

    assert [seat.name for seat in placed.seats] == ["web-2", "web-0", "web-3"]
    assert len({seat.node for seat in placed.seats}) == 3
    [away] = placed.turned_away
    assert (away.name, away.after_seat, away.own_attempt) == ("web-1", 3, False)
    assert placed.reasons[away.reasons].message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    assert placed.reasons[away.reasons].rejectors == ("NodeResourcesFit",)
    assert {one.identity.name for one in hand.cache.assumed()} == {"web-2", "web-0", "web-3"}


async def test_seat_has_the_fields_of_a_placement(world: World) -> None:
    for number in range(8):
        await world.put_node(f"node-{number}", cpu="4", spec={"unschedulable": number > 5})
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    hand = await world.hand()
    single = await hand.placed("web-1")

    [seat] = (await hand.place_many("web-1")).seats
    placed = await hand.place_many("web-2")

    assert (seat.node, seat.score, seat.feasible) == (single.node, single.score, single.computation.feasible)
    assert seat.plugins == single.ranking[0].plugins
    assert seat.others == {one.node: one.total for one in single.ranking[1:]}
    assert placed.seats[0].reasons is not None
    assert placed.reasons[placed.seats[0].reasons].refusals == single.refusals
    [stretch] = placed.stretches
    assert [one.pod for one in stretch.computation.assumed] == ["default/web-1"]
    assert (stretch.first_seat, stretch.computation.nodes, stretch.computation.feasible) == (0, 8, 6)
    assert stretch.computation.revision == hand.cache.progress.revision


async def test_refused_class_is_decided_once_while_no_pod_is_placed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.put_node("node", cpu="2")
    for number in range(5):
        await world.put_pod(f"big-{number}", cpu="64")
    await world.put_pod("web", cpu="1")
    hand = await world.hand()
    asked: list[str] = []
    evaluate = Profile.evaluate

    def counted(profile: Profile, pod: Pod, *args: Any, **more: Any) -> Any:
        asked.append(pod.name)
        return evaluate(profile, pod, *args, **more)

    monkeypatch.setattr(Profile, "evaluate", counted)

    placed = await hand.place_many("big-0", "big-1", "web", "big-2", "big-3", "big-4")

    assert [one.name for one in placed.turned_away] == [f"big-{number}" for number in range(5)]
    assert asked == ["big-0", "web", "big-2"]


async def test_only_others_assumptions_in_the_way_mean_an_attempt_of_its_own(world: World) -> None:
    await world.put_node("node", cpu="1")
    await world.put_pod("first", cpu="1")
    await world.put_pod("web", cpu="1")
    hand = await world.hand()
    await hand.placed("first")

    [away] = (await hand.place_many("web")).turned_away

    assert away.own_attempt


async def test_preemption_is_left_to_an_attempt_of_its_own(world: World) -> None:
    await world.put_node("node", cpu="1")
    await world.put_pod("old", cpu="1", spec={"nodeName": "node"})
    await world.put_pod("urgent", cpu="1", spec={"priority": 1000})
    hand = await world.hand()

    [away] = (await hand.place_many("urgent")).turned_away

    assert (away.own_attempt, away.nominated_node, away.victims) == (True, "", ())


async def test_pod_not_to_be_placed_is_left_out_without_a_read_of_etcd(world: World) -> None:
    await world.put_node("node")
    await world.put_pod("bound", spec={"nodeName": "node"})
    await world.put_pod("done", status={"phase": "Succeeded"})
    await world.put_pod("web")
    await world.put_pod("sent")
    hand = await world.hand()
    sent = hand.cache.pods["default", "sent"]  # type: ignore[index]
    hand.cache.assume_sent(sent, "node")
    hand.store.fail_reads(100)

    placed = await hand.place_many("bound", "done", "nobody", "sent", "web", "web")

    assert [seat.name for seat in placed.seats] == ["web"]
    assert {one.name: one.reason for one in placed.skipped} == {
        "bound": "bound",
        "done": "finished",
        "nobody": "this worker does not know it",
        "sent": "its bind is on its way",
        "web": "it is named twice",
    }


async def test_another_life_or_a_later_revision_is_left_out(world: World) -> None:
    await world.put_node("node")
    await world.put_pod("web")
    hand = await world.hand()

    assert (await hand.place_many("web", uid="another")).skipped[0].reason == "deleted"
    request = PlaceManyInput(
        pods=(CohortPod(namespace="default", name="web"), CohortPod(namespace="default", name="new", revision=10**6)),
        workflow_id="test/cohort/1",
        run_id="run-1",
    )
    assert (await hand.activities.place_many(request)).skipped[0].reason == "this worker has not seen it yet"


async def test_worker_that_has_seen_no_pod_leaves_the_cohort_to_its_retry(world: World) -> None:
    await world.put_pod("web")
    hand = await world.hand()

    with pytest.raises(ApplicationError) as failure:
        await hand.place_many("web", revision=10**6)
    assert failure.value.type == "Behind"


async def test_when_deciding_takes_too_long_the_rest_is_left_out(world: World) -> None:
    """A cohort whose time is over would decide nothing, and the next one again."""
    await world.put_node("node")
    for number in range(3):
        await world.put_pod(f"web-{number}")
    ticks = itertools.count()
    hand = await world.hand(durations=lambda: next(ticks) * placing_cohorts.LONGEST / 4)

    placed = await hand.place_many("web-0", "web-1", "web-2")

    assert [seat.name for seat in placed.seats] == ["web-0"]
    assert {one.reason for one in placed.skipped} == {placing_cohorts.TOO_LONG}


async def test_run_again_it_decides_anew(world: World) -> None:
    for number in range(2):
        await world.put_node(f"node-{number}", cpu="1")
        await world.put_pod(f"web-{number}", cpu="1")
    hand = await world.hand()
    first = await hand.place_many("web-0", "web-1")

    again = await hand.place_many("web-0", "web-1")

    assert [seat.node for seat in again.seats] == [seat.node for seat in first.seats]
    assert again.stretches[0].computation.assumed == ()


async def test_a_long_cohort_lets_others_have_their_turn(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        await world.put_node(f"node-{number}")
        await world.put_pod(f"web-{number}")
    hand = await world.hand()
    monkeypatch.setattr(placing_cohorts, "STRETCH", -1.0)

    placed = await hand.place_many("web-0", "web-1", "web-2", "web-3")

    assert [seat.stretch for seat in placed.seats] == [0, 1, 2, 3]
    assert [stretch.first_seat for stretch in placed.stretches] == [0, 1, 2, 3]
    assert [len(stretch.computation.assumed) for stretch in placed.stretches] == [0, 1, 2, 3]


async def test_sampling_profile_records_where_each_search_began(world: World) -> None:
    sampling = Profile("default-scheduler", sampled(), digest="d", percentage=50)
    for number in range(300):
        await world.put_node(f"node-{number}")
    for number in range(3):
        await world.put_pod(f"web-{number}")
    hand = await world.hand(profiles={"default-scheduler": sampling})

    placed = await hand.place_many("web-0", "web-1", "web-2")

    assert [stretch.computation.start for stretch in placed.stretches] == [0, 150, 0]
    assert [seat.stretch for seat in placed.seats] == [0, 1, 2]


async def test_own_nodes_are_recorded(world: World) -> None:
    preferred_nodes = PreferredNodes(50)
    preferred_nodes.share(["common/a", "common/b"], "common/a")
    for number in range(6):
        await world.put_node(f"node-{number}")
    await world.put_pod("web")
    hand = await world.hand(preferred_nodes=preferred_nodes)

    placed = await hand.place_many("web")

    own = placed.stretches[0].computation.own_nodes
    assert own is not None
    assert own.members == ("common/a", "common/b")


# --- plugins --------------------------------------------------------------------------------------


class Moody:
    """A plugin of all points that a placement asks."""

    name = "Moody"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Status:
        self.calls.append(("reserve", pod.name))
        if pod.name == "reserve-waits":
            return Status(Code.WAIT)
        return unschedulable("not today") if pod.name == "reserved" else SUCCESS

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.calls.append(("unreserve", pod.name))

    def permit(self, state: Any, pod: Pod, node_name: str) -> Permission:
        if pod.name == "waits":
            return Permission(Status(Code.WAIT), 5.0)
        if pod.name == "raises":
            raise RuntimeError("no idea")
        return Permission(unschedulable("not permitted") if pod.name == "denied" else SUCCESS)


def with_plugin(plugin: Any) -> dict[str, Profile]:
    usual = PROFILES["default-scheduler"]
    return {usual.name: Profile(usual.name, Enabled.everywhere([*usual.plugins, plugin], {}), digest="d")}


def sampled() -> Enabled:
    return Enabled.everywhere(PROFILES["default-scheduler"].plugins, {})


async def test_plugins_may_refuse_hold_or_fail_one_pod(world: World) -> None:
    await world.put_node("node", cpu="40")
    for name in ("reserved", "reserve-waits", "denied", "waits", "raises", "web"):
        await world.put_pod(name)
    plugin = Moody()
    hand = await world.hand(profiles=with_plugin(plugin))

    placed = await hand.place_many("reserved", "reserve-waits", "denied", "waits", "raises", "web")

    assert [seat.name for seat in placed.seats] == ["web"]
    told = {one.name: (placed.reasons[one.reasons].message, one.own_attempt) for one in placed.turned_away}
    assert told["reserved"] == ("not today", False)
    assert told["reserve-waits"] == ("Moody answered WAIT to Reserve, which is neither success nor a refusal", False)
    assert told["denied"] == ("not permitted", False)
    assert told["waits"][1]
    assert told["raises"][1]
    assert "no idea" in told["raises"][0]
    undone = {pod for call, pod in plugin.calls if call == "unreserve"}
    assert undone == {"reserved", "reserve-waits", "denied", "waits", "raises"}
    assert [one.identity.name for one in hand.cache.assumed()] == ["web"]


async def test_what_fails_for_one_pod_fails_for_it_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.put_node("node", cpu="40")
    for name in ("odd", "web"):
        await world.put_pod(name)
    hand = await world.hand()
    evaluate = Profile.evaluate

    def failing(profile: Profile, pod: Pod, *args: Any, **more: Any) -> Any:
        if pod.name == "odd":
            raise OverflowError("too large an integer")
        return evaluate(profile, pod, *args, **more)

    monkeypatch.setattr(Profile, "evaluate", failing)

    placed = await hand.place_many("odd", "web")

    assert [seat.name for seat in placed.seats] == ["web"]
    [away] = placed.turned_away
    assert (away.name, away.own_attempt) == ("odd", True)
    assert placed.reasons[away.reasons].message == "OverflowError: too large an integer"


# --- turns ----------------------------------------------------------------------------------------


async def test_cohorts_of_a_dispatcher_are_decided_in_the_order_of_their_numbers(world: World) -> None:
    await world.put_node("node", cpu="2")
    for name in ("first", "second", "third"):
        await world.put_pod(name, cpu="1")
    hand = await world.hand()

    late = asyncio.create_task(hand.place_many("third", turn=Turn(dispatcher="d", number=3)))
    later = asyncio.create_task(hand.place_many("second", turn=Turn(dispatcher="d", number=2)))
    await asyncio.sleep(0)
    first = await hand.place_many("first", turn=Turn(dispatcher="d", number=1))

    assert len(first.seats) == 1
    assert len((await later).seats) == 1
    assert [one.name for one in (await late).turned_away] == ["third"]


async def test_a_turn_that_never_comes_is_waited_for_once() -> None:
    turns = CohortSequencer(patience=0.03)
    loop = asyncio.get_running_loop()
    began = loop.time()
    async with turns.take(Turn(dispatcher="d", number=7)):
        assert loop.time() - began >= 0.025
    next_turn = turns.take(Turn(dispatcher="d", number=8))
    with pytest.raises(StopIteration):  # it has entered, and the loop had no turn meanwhile
        next_turn.__aenter__().send(None)
    await next_turn.__aexit__(None, None, None)


async def test_a_failed_turn_is_over() -> None:
    turns = CohortSequencer(patience=600)
    with pytest.raises(RuntimeError):
        async with turns.take(Turn(dispatcher="d", number=1)):
            raise RuntimeError
    async with asyncio.timeout(patient(30)), turns.take(Turn(dispatcher="d", number=2)):
        pass


# --- what travels ---------------------------------------------------------------------------------


def worst_seat(number: int) -> Seat:
    name = f"{number:04}".ljust(253, "x")
    return Seat(
        namespace="n" * 63,
        name=name,
        uid="u" * 36,
        create_revision=2**60,
        pod_revision=2**60,
        node="n" * 253,
        score=2**31,
        plugins={f"{'p' * 60}-{each}": 2**31 for each in range(20)},
        others={f"{each}".ljust(253, "y"): 2**31 for each in range(4)},
        feasible=10**6,
        reasons=number,
        stretch=10**4,
    )


def test_the_largest_cohort_stays_small() -> None:
    told = CohortPayload(MOST_PODS)
    seats = []
    for number in range(MOST_PODS):
        seat = worst_seat(number)
        counts = {
            f"{'p' * 60}-{plugin}": {f"{number} {'é' * 150} {each}": 10**5 for each in range(12)}
            for plugin in range(10)
        }
        reasons = told.because(counts, "é" * 2000, tuple(counts))
        assert not told.full
        seats.append(told.seat(seat.model_copy(update={"reasons": reasons})))
    placed = PlacedMany(seats=tuple(seats), reasons=tuple(told.reasons))

    assert len(placed.model_dump_json().encode()) < 1.5 * MIB


def test_repeated_facts_of_stretches_are_bounded_together() -> None:
    """A sampling profile makes a stretch of each decision."""
    told = CohortPayload(MOST_PODS)
    pods = tuple(Pod("default", f"{number}".ljust(100, "x"), "u", create_revision=2**60) for number in range(30))
    preferred_nodes = PreferredNodes(margin=4)
    preferred_nodes.share(tuple(f"common/{number}".ljust(60, "y") for number in range(16)), f"{'common/0':y<60}")
    stretches = []
    for number in range(MOST_PODS):
        nominated, approximate = told.overlay.nominated({"n" * 100: pods})
        own = told.overlay.own_nodes(preferred_nodes)
        computation = Computation(revision=2**60, nominated=nominated, own_nodes=own, approximate=approximate)
        stretches.append(Stretch(first_seat=number, computation=computation))
    placed = PlacedMany(stretches=tuple(stretches))

    assert stretches[0].computation.nominated
    assert stretches[-1].computation.approximate
    assert len(placed.model_dump_json().encode()) < 0.4 * MIB


def test_usual_names_are_recorded_in_full() -> None:
    told = CohortPayload(MOST_PODS)
    for number in range(MOST_PODS):
        seat = replace_names(worst_seat(number), f"pod-{number}")
        assert told.seat(seat) == seat


def replace_names(seat: Seat, name: str) -> Seat:
    return seat.model_copy(
        update={
            "namespace": "default",
            "name": name,
            "node": "node-17",
            "plugins": {f"NodePlugin{each}": 100 for each in range(5)},
            "others": {f"node-{each}": 500 for each in range(4)},
        }
    )


def test_equal_reasons_are_recorded_once() -> None:
    told = CohortPayload(MOST_PODS)
    one = told.because({"Fit": {"Insufficient cpu": 3}}, "0/3", ("Fit",))
    same = told.because({"Fit": {"Insufficient cpu": 3}}, "0/3", ("Fit",))
    other = told.because({"Fit": {"Insufficient cpu": 4}}, "0/4", ("Fit",))

    assert (one, same, other, len(told.reasons)) == (0, 0, 1, 2)
    assert isinstance(told.reasons[0], Reasons)


@pytest.mark.parametrize("text", ["plain", 'quo"te', "back\\slash", "new\nline", "é", "𝄞", "\x00"])
def test_sizes_are_never_underestimated(text: str) -> None:
    assert size(text) >= len(PlacedMany(domain=text).model_dump_json().encode()) - len(
        PlacedMany().model_dump_json().encode()
    )


async def test_when_there_is_no_room_the_rest_is_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cohort_payload, "DECISIONS", cohort_payload.LEAST + 1000)
    await world.put_node("node", cpu="40")
    for number in range(6):
        await world.put_pod(f"web-{number}")
    hand = await world.hand()

    placed = await hand.place_many(*(f"web-{number}" for number in range(6)))

    assert 0 < len(placed.seats) < 6
    assert {one.reason for one in placed.skipped} == {placing_cohorts.TOO_LARGE}
    assert len(placed.seats) + len(placed.skipped) == 6
