"""Where a lone pod, a pod of a cohort and a gang are decided differently on purpose, each difference with its reason.

A lone pod's run can wait and be retried, so it handles whatever hinders its pod itself. A cohort's run never waits: it
leaves such pods to attempts of their own, and goes on. A gang's run waits and is retried too, but for all members.
"""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.world import PROFILES, Hand, World
from wharfinger.etcd import keys
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Permission
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Code, Status
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod, PodKey
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany, Reasons, TurnedAway
from wharfinger.scheduling.contracts.group_payloads import placed_alone

GROUP = "pod-group.scheduling.sigs.k8s.io/"
MEMBERS = ("m0", "m1")


async def pods_of_each_kind(world: World, *, least: int = 2, **more: Any) -> None:
    """A lone pod, two pods for a cohort, and the two members of the gang `team`."""
    for name in ("lone", "one", "two"):
        await world.put_pod(name, **more)
    labels = {GROUP + "name": "team", GROUP + "min-available": str(least)}
    for name in MEMBERS:
        await world.put_pod(name, labels=labels, **more)


async def full_node(world: World, *, cpu: int) -> None:
    """A node that pods of one CPU and of priority 0 fill."""
    await world.put_node("node", cpu=str(cpu))
    for number in range(cpu):
        await world.put_pod(f"low-{number}", spec={"nodeName": "node"})


def away_of(placed: PlacedMany) -> dict[str, tuple[TurnedAway, Reasons]]:
    """The pods that were turned away, and why."""
    return {one.name: (one, placed.reasons[one.reasons]) for one in placed.turned_away}


def attempts(hand: Hand) -> dict[str, float]:
    """Attempts by result, and the durations that were observed of unschedulable ones."""
    found = {}
    for metric in (hand.metrics.schedule_attempts, hand.metrics.attempt_duration):
        for sample in next(iter(metric.collect())).samples:
            if sample.name.endswith(("_total", "_count")):
                kind = "durations of " if sample.name.endswith("_count") else ""
                found[kind + sample.labels["result"]] = sample.value
    return found


class Quota:
    """Reserves for every pod, and answers in Permit what it is given."""

    name = "Quota"

    def __init__(self, answer: Status | Exception, *only: str, reserves: Status = SUCCESS) -> None:
        """`only`: pods that it concerns; none = all."""
        self._answer = answer
        self._reserves = reserves
        self._only = only
        self.reserved: list[str] = []

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.reserved.append(pod.name)
        return self._reserves

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if pod.name in self.reserved:
            self.reserved.remove(pod.name)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Permission:
        if self._only and pod.name not in self._only:
            return Permission()
        if isinstance(self._answer, Exception):
            raise self._answer
        return Permission(self._answer, 30.0)


def profiles(plugin: Quota) -> dict[str, Profile]:
    usual = PROFILES[DEFAULT_SCHEDULER]
    return {DEFAULT_SCHEDULER: Profile(DEFAULT_SCHEDULER, Enabled.everywhere([*usual.plugins, plugin], {}))}


# --- plugins --------------------------------------------------------------------------------------


async def test_permit_wait_holds_a_seat_for_a_lone_pod_only(world: World) -> None:
    """The lone pod's run waits for the signal. A cohort's other pods would wait along, so the pod gets its own run.

    A gang's members are bound in one transaction, and one signal is for one pod, so the wait is a refusal of all.
    """
    await world.put_node("node", cpu="8")
    await pods_of_each_kind(world)
    plugin = Quota(Status(Code.WAIT), "lone", "one", "m1")
    hand = await world.hand(profiles=profiles(plugin))

    lone = await hand.placed("lone")
    cohort = await hand.place_many("one", "two")
    gang = await hand.place_gang()

    assert lone.permit is not None
    assert (lone.permit.plugin, lone.permit.seconds) == ("Quota", 30.0)
    assert [seat.name for seat in cohort.seats] == ["two"]
    assert away_of(cohort)["one"][0].own_attempt
    assert gang.seats == ()
    for name in MEMBERS:
        away, why = away_of(gang)[name]
        assert not away.own_attempt
        assert why.message.startswith("Quota would keep the pod waiting")
    assert sorted(plugin.reserved) == ["lone", "two"]
    assert sorted(one.identity.name for one in hand.cache.assumed()) == ["lone", "two"]


@pytest.mark.parametrize("point", ["Permit raises", "Reserve answers an error"])
async def test_plugin_failure_fails_a_lone_pod_and_refuses_a_gang(world: World, point: str) -> None:
    """A lone pod's run fails and is retried with backoff. In a cohort, the others must not fail with the pod.

    Each member of a gang needs a record that says why, and parks with the gang, so the failure is a refusal of all.
    """
    await world.put_node("node", cpu="8")
    await pods_of_each_kind(world)
    raising = point == "Permit raises"
    reserves = SUCCESS if raising else Status(Code.ERROR, ("no idea",))
    plugin = Quota(RuntimeError("no idea") if raising else SUCCESS, reserves=reserves)
    hand = await world.hand(profiles=profiles(plugin))

    with pytest.raises(ApplicationError, match=r"plugin Quota failed .*no idea") as failed:
        await hand.place("lone")
    cohort = away_of(await hand.place_many("one", "two"))
    gang = away_of(await hand.place_gang())

    assert (failed.value.type, failed.value.non_retryable) == ("SchedulerError", True)
    assert {name: away.own_attempt for name, (away, _) in cohort.items()} == {"one": True, "two": True}
    assert {name: away.own_attempt for name, (away, _) in gang.items()} == dict.fromkeys(MEMBERS, False)
    for _, why in (*cohort.values(), *gang.values()):
        assert why.rejectors == ("Quota",)
        assert "no idea" in why.message
    assert attempts(hand) == {"error": 3, "unschedulable": 2, "durations of unschedulable": 1}
    assert plugin.reserved == []
    assert hand.cache.assumed() == ()


async def test_gated_pod_is_refused_alone_but_not_counted_in_its_gang(world: World) -> None:
    """A lone or a cohort's pod needs the record of its refusal. A gang has no pod to place while it is too small."""
    await world.put_node("node", cpu="8")
    await pods_of_each_kind(world)
    gates = {"schedulingGates": [{"name": "quota"}]}
    for name in ("lone", "one", "m1"):
        await world.change_pod(name, lambda obj: obj["spec"].update(gates))
    hand = await world.hand()

    lone = await hand.refused("lone")
    cohort = await hand.place_many("one", "two")
    gang = await hand.place_gang()

    assert lone.rejectors == ("SchedulingGates",)
    away, why = away_of(cohort)["one"]
    assert (why.rejectors, away.own_attempt) == (("SchedulingGates",), False)
    assert [seat.name for seat in cohort.seats] == ["two"]
    assert (gang.seats, gang.turned_away) == ((), ())
    assert [one.name for one in gang.skipped] == ["team"]


# --- room -----------------------------------------------------------------------------------------


async def test_preemption_is_for_a_lone_pod_or_for_a_whole_gang(world: World) -> None:
    """A cohort's run ends before victims have left, so preemption is left to an attempt of the pod's own.

    Evicting for a part of a gang would help no member, so a gang names victims only if all that it needs will fit.
    """
    await full_node(world, cpu=1)
    await pods_of_each_kind(world, spec={"priority": 10})
    hand = await world.hand()

    lone = await hand.refused("lone")
    cohort = away_of(await hand.place_many("one"))["one"][0]
    too_small = away_of(await hand.place_gang())
    await world.put_node("node", cpu="2")
    await world.put_pod("low-1", spec={"nodeName": "node"})
    await world.seen()
    gang = away_of(await hand.place_gang())

    assert (lone.nominated_node, [one.pod for one in lone.victims]) == ("node", ["default/low-0"])
    assert (cohort.own_attempt, cohort.nominated_node, cohort.victims) == (True, "", ())
    assert [(away.nominated_node, away.victims) for away, _ in too_small.values()] == [("", ())] * 2
    assert [away.nominated_node for away, _ in gang.values()] == ["node", "node"]
    assert sorted(one.pod for away, _ in gang.values() for one in away.victims) == ["default/low-0", "default/low-1"]


@pytest.mark.parametrize("least", [1, 2])
async def test_a_gang_evicts_no_pod_while_victims_of_a_member_leave(world: World, least: int) -> None:
    """A lone pod may preempt beside another one that waits for its victims: each needs its own room only.

    A gang is placed once all its room is free, and what it lacks then may differ from what it lacks now.
    """
    for name in ("a", "b"):
        await world.put_node(name, cpu="1")
        await world.put_pod(f"low-{name}", spec={"nodeName": name})
    await pods_of_each_kind(world, least=least, spec={"priority": 10})
    hand = await world.hand()
    await world.change_pod("low-a", lambda obj: obj["metadata"].update(deletionTimestamp="2026-03-01T12:00:20Z"))
    mark = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    await world.change_pod("low-a", lambda obj: obj["status"].update(conditions=[mark]))
    await world.change_pod("m0", lambda obj: obj["status"].update(nominatedNodeName="a"))
    await world.seen()

    gang = await hand.place_gang()
    lone = await hand.refused("lone")

    assert gang.leaving > 0
    assert {name: away.victims for name, (away, _) in away_of(gang).items()} == dict.fromkeys(MEMBERS, ())
    assert away_of(gang)["m0"][0].nominated_node == "a"
    assert (lone.nominated_node, [one.pod for one in lone.victims]) == ("b", ["default/low-b"])


async def test_assumed_pods_in_the_way_are_retried_at_once_by_each_kind(world: World) -> None:
    """No event comes when an assumption fails. So the lone pod's and the gang's run place again without a wait.

    A cohort's run does not place again: an attempt of the pod's own does.
    """
    await world.put_node("node", cpu="2")
    await pods_of_each_kind(world)
    for name in ("first", "second"):
        await world.put_pod(name)
    hand = await world.hand()
    for name in ("first", "second"):
        await hand.placed(name)

    lone = await hand.refused("lone")
    cohort = await hand.place_many("one")
    gang = await hand.place_gang()

    assert lone.only_assumed
    assert (away_of(cohort)["one"][0].own_attempt, cohort.only_assumed) == (True, False)
    assert gang.only_assumed
    assert not any(away.own_attempt for away, _ in away_of(gang).values())


async def test_a_small_group_tells_as_much_of_a_pod_as_its_own_attempt_does(world: World) -> None:
    """A large one tells the scores of each plugin for the chosen node only."""
    for number in range(6):
        await world.put_node(f"node-{number}", cpu=str(8 + number))
    names = [f"pod-{number}" for number in range(11)]
    for name in names:
        await world.put_pod(name)

    alone = await (await world.hand()).placed("pod-0")
    small = placed_alone(await (await world.hand()).place_many(*names[:10]), 0)
    large = placed_alone(await (await world.hand()).place_many(*names), 0)

    assert len(alone.ranking) == 5
    assert all(one.plugins for one in alone.ranking)
    told = {"ranking", "refusals", "score", "node", "passed_over"}
    assert small.model_dump(include=told) == alone.model_dump(include=told)
    assert [bool(one.plugins) for one in large.ranking] == [True, False, False, False, False]


async def test_seats_of_the_same_cohort_count_as_bound(world: World) -> None:
    """A cohort's seats are committed by the same run, which starts attempts for pods that a lost seat leaves room for.

    For a lone pod the same seat is another run's assumption: nothing tells it when that fails.
    """
    await world.put_node("node", cpu="1", labels={"pool": "a"})
    await world.put_node("other", cpu="1", labels={"pool": "b"})
    await pods_of_each_kind(world, spec={"nodeSelector": {"pool": "a"}})
    await world.put_pod("elsewhere", spec={"nodeSelector": {"pool": "b"}})
    hand = await world.hand()
    await hand.placed("elsewhere")  # an assumption that is in no pod's way

    cohort = await hand.place_many("one", "two")
    lone = await hand.refused("lone")

    assert [seat.name for seat in cohort.seats] == ["one"]
    away, _ = away_of(cohort)["two"]
    assert (away.own_attempt, away.after_seat) == (False, 1)
    assert lone.only_assumed


async def test_members_of_a_gang_do_not_take_room_unless_all_fit(world: World) -> None:
    """A lone pod and the first of a cohort are placed where a gang of two is not: a part of a gang is worth nothing."""
    await world.put_node("node", cpu="1")
    await pods_of_each_kind(world)
    hand = await world.hand()

    gang = await hand.place_gang()
    assert hand.cache.assumed() == ()
    cohort = await hand.place_many("one", "two")

    assert (gang.seats, sorted(away_of(gang))) == ((), list(MEMBERS))
    assert not gang.only_assumed
    assert [seat.name for seat in cohort.seats] == ["one"]


# --- pods that are not to be placed ---------------------------------------------------------------


async def test_only_a_lone_pods_run_asks_etcd_for_a_deleted_pod(world: World) -> None:
    """The answer `gone` ends a lone pod's chain for good, so it needs a linearizable read.

    A cohort skips the pod and its owner finds out why. A gang counts the members that are left.
    """
    await world.put_node("node", cpu="8")
    await pods_of_each_kind(world)
    hand = await world.hand()
    for name in ("lone", "one", "m1"):
        await world.store.delete(keys.pod("default", name))
    await world.seen()

    assert (await hand.gone("lone")).reason == "deleted"
    hand.store.fail_reads(100)
    with pytest.raises(ApplicationError) as failed:
        await hand.place("lone")
    cohort = await hand.place_many("one", "two")
    gang = await hand.place_gang()

    assert failed.value.type == "Unavailable"
    assert [one.reason for one in cohort.skipped] == ["this worker does not know it"]
    assert [seat.name for seat in cohort.seats] == ["two"]
    assert [one.reason for one in gang.skipped] == ["PodGroup: 1 of 2 members exist"]


async def test_a_pod_whose_bind_is_unanswered_holds_up_its_whole_gang(world: World) -> None:
    """A lone pod's run reads the outcome. A cohort leaves the pod out, because another run is binding it.

    One transaction binds a gang, so while one member's bind is unknown, none may be decided: the run is retried.
    """
    await world.put_node("node", cpu="8")
    await pods_of_each_kind(world)
    hand = await world.hand()
    placed = await hand.placed("lone")
    hand.store.pause_watches()
    hand.store.fail_next(applied=True)
    with pytest.raises(ApplicationError):
        await hand.bind("lone", placed)
    for name in ("one", "m1"):
        hand.cache.assume_sent(hand.cache.pods[PodKey("default", name)], "node")

    lone = await hand.gone("lone", revision=placed.pod_revision)
    cohort = await hand.place_many("one", "two")
    with pytest.raises(ApplicationError) as failed:
        await hand.place_gang()

    assert (lone.reason, lone.node) == ("bound", "node")
    assert [(one.name, one.reason) for one in cohort.skipped] == [("one", "its bind is on its way")]
    assert [seat.name for seat in cohort.seats] == ["two"]
    assert failed.value.type == "Unavailable"


# --- what is counted ------------------------------------------------------------------------------


async def test_a_refused_gang_is_one_decision_of_many_attempts(world: World) -> None:
    """Each member waits, so each is an attempt. All members took one decision, so one duration is observed."""
    await world.put_node("node", cpu="1")
    await pods_of_each_kind(world, cpu="2")
    lone, cohort, gang = await world.hand(), await world.hand(), await world.hand()

    await lone.refused("lone")
    await cohort.place_many("one", "two")
    await gang.place_gang()

    assert attempts(lone) == {"unschedulable": 1, "durations of unschedulable": 1}
    assert attempts(cohort) == {"unschedulable": 2, "durations of unschedulable": 2}
    assert attempts(gang) == {"unschedulable": 2, "durations of unschedulable": 1}
