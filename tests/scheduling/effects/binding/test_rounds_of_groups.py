"""Committing a cohort: few transactions within etcd's limits, and whatever goes wrong costs only whom it concerns."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.placing.test_placing_cohorts import worst_seat
from tests.scheduling.world import PROFILES, Hand, World, settled
from wharfinger.errors import RequestTooLarge, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation, Put
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Status, unschedulable
from wharfinger.objects.model.pod import Pod
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts.cohort_scheduling import MOST_PODS, BindManyInput, BoundMany, PlacedMany
from wharfinger.scheduling.contracts.scheduling import Bound
from wharfinger.scheduling.effects.binding.cohort_payload import bound_many
from wharfinger.scheduling.effects.binding.outcome import PATIENCE, Outcome, Outcomes, rejected


async def many(world: World, pods: int, nodes: int, **more: Any) -> list[str]:
    for number in range(nodes):
        await world.put_node(f"node-{number}", cpu=more.get("node_cpu", "4"))
    names = [f"web-{number}" for number in range(pods)]
    for name in names:
        await world.put_pod(name, cpu=more.get("cpu", "1"), **more.get("pod", {}))
    return names


async def placed(world: World, pods: int, nodes: int, **more: Any) -> tuple[Hand, PlacedMany]:
    names = await many(world, pods, nodes, **more)
    hand = await world.hand(**more.get("hand", {}))
    cohort = await hand.place_many(*names)
    assert len(cohort.seats) == pods
    return hand, cohort


def told(bound: BoundMany) -> dict[str, str]:
    return {one.name: one.node for one in bound.bound} | {one.name: one.kind for one in bound.unbound}


async def test_a_cohort_is_bound_in_one_transaction(world: World) -> None:
    hand, cohort = await placed(world, pods=10, nodes=5)
    before = world.store.revision

    bound = await hand.bind_many(cohort)

    assert (len(bound.bound), bound.unbound, bound.transactions) == (10, (), 1)
    assert world.store.revision == before + 1 == bound.bound[0].revision
    for seat in cohort.seats:
        pod = await world.pod(seat.name)
        assert pod["spec"]["nodeName"] == seat.node
        assert pod["metadata"]["annotations"]["wharfinger.dev/attempt"] == "test/cohort/1@run-1"
        assert pod["unknown"] == {"kept": True}
    assert hand.metrics.schedule_attempts.labels(result="scheduled", profile="default-scheduler")._value.get() == 10


async def test_transactions_stay_within_the_limits_of_a_stock_server(world: World) -> None:
    hand, cohort = await placed(world, pods=200, nodes=200)

    bound = await hand.bind_many(cohort)

    assert len(bound.bound) == 200
    assert bound.transactions == 5  # 42 pods on nodes of their own have 3 * 42 + 2 compares


async def test_seats_on_one_node_share_its_compares(world: World) -> None:
    hand, cohort = await placed(world, pods=100, nodes=2, cpu="10m")

    bound = await hand.bind_many(cohort)

    assert (len(bound.bound), bound.transactions) == (100, 1)


async def test_more_seats_on_a_node_than_a_transaction_takes_follow_each_other(world: World) -> None:
    hand, cohort = await placed(world, pods=110, nodes=1, cpu="10m", pod={"labels": {"size": "small"}})
    hand.activities._bindings._limits = Limits(operations=40)

    bound = await hand.bind_many(cohort)

    assert (len(bound.bound), bound.transactions) == (110, 4)  # 36 pods beside 4 shared ones
    assert hand.conflicts("binding") == 0


async def test_a_contended_pod_costs_only_itself(world: World) -> None:
    hand, cohort = await placed(world, pods=20, nodes=20, cpu="3")
    other = await world.hand()
    taken = cohort.seats[7]
    await world.put_pod("first", cpu="3", spec={"nodeSelector": {}, "nodeName": taken.node})
    hand.store.pause_watches()
    await other.seen()
    await world.store.put(keys.binding(taken.node), b"{}")
    hand.store.resume_watches()
    await hand.seen()

    bound = await hand.bind_many(cohort)

    assert [one.name for one in bound.unbound] == [taken.name]
    assert bound.unbound[0].kind == "contended"
    assert len(bound.bound) == 19


async def test_mostly_contended_cohort_is_placed_anew_before_the_time_is_up(world: World) -> None:
    """[A cluster that is nearly full, shared by two tenants]: each seat would wait for the watch, one after another."""
    seconds: Iterator[int] = itertools.repeat(0)
    hand, cohort = await placed(world, pods=20, nodes=20, cpu="3", hand={"durations": lambda: next(seconds)})
    hand.store.pause_watches()
    await asyncio.sleep(0)
    for seat in cohort.seats:
        await world.store.put(keys.binding(seat.node), b"{}")
    seconds = itertools.count()

    bound = await hand.bind_many(cohort)

    assert {one.kind for one in bound.unbound} == {"contended"}
    assert len(bound.unbound) == 20
    left = [one for one in bound.unbound if "placed anew" in one.message]
    assert len(left) >= 20 - PATIENCE
    assert not hand.cache.assumed()
    seconds = itertools.repeat(0)
    hand.store.resume_watches()
    await hand.seen()
    assert len((await hand.bind_many(await hand.place_many(*(seat.name for seat in cohort.seats)))).bound) == 20


async def test_a_moved_pod_node_or_binding_is_sorted_out_alone(world: World) -> None:
    hand, cohort = await placed(world, pods=12, nodes=12, cpu="3")
    hand.store.pause_watches()
    await asyncio.sleep(0)
    await world.put_node(cohort.seats[1].node, heartbeat="2")
    await world.change_pod(cohort.seats[2].name, lambda obj: obj["metadata"]["labels"].update(turn="2"))
    await world.store.delete(keys.pod("default", cohort.seats[3].name))

    bound = await hand.bind_many(cohort)

    assert told(bound) == {seat.name: seat.node for seat in cohort.seats} | {cohort.seats[3].name: "gone"}
    assert [one.reason for one in bound.unbound] == ["deleted"]
    notes = {one.name: one.notes for one in bound.bound if one.notes}
    assert notes[cohort.seats[1].name] == ("the node's heart-beat was adopted",)
    assert (await world.pod(cohort.seats[2].name))["metadata"]["labels"] == {"turn": "2"}


async def test_a_pod_that_was_created_anew_is_not_bound(world: World) -> None:
    hand, cohort = await placed(world, pods=5, nodes=5)
    await world.store.delete(keys.pod("default", "web-1"))
    await world.put_pod("web-1", uid="another")

    bound = await hand.bind_many(cohort)

    assert [(one.name, one.kind) for one in bound.unbound] == [("web-1", "gone")]
    assert await world.node_of("web-1") == ""


async def test_a_record_is_deleted_only_where_there_is_one(world: World) -> None:
    names = await many(world, pods=4, nodes=4)
    await world.store.put(keys.attempt("default", "web-2"), b"{}")
    hand = await world.hand()
    cohort = await hand.place_many(*names, recorded=True)
    seen: list[Operation] = []
    hand.store.before_txn = lambda _, success: seen.extend(success)
    plain = cohort.model_copy(
        update={"seats": tuple(seat.model_copy(update={"recorded": seat.name == "web-2"}) for seat in cohort.seats)}
    )

    await hand.bind_many(plain)

    assert [each.key for each in seen if not isinstance(each, Put)] == [keys.attempt("default", "web-2")]
    assert await world.record_of("web-2") is None


async def test_terms_that_moved_concern_all_and_all_are_sent_again(world: World) -> None:
    hand, cohort = await placed(world, pods=20, nodes=20)
    hand.store.pause_watches()
    await asyncio.sleep(0)
    await world.store.put(keys.terms("default"), b"{}")
    asyncio.get_running_loop().call_later(0.005, hand.store.resume_watches)

    bound = await hand.bind_many(cohort)

    assert (len(bound.bound), bound.transactions) == (20, 2)
    assert hand.conflicts("terms") == 1


@pytest.mark.parametrize("applied", [True, False])
async def test_an_answer_that_got_lost_is_found_out_by_the_retry(world: World, applied: bool) -> None:
    hand, cohort = await placed(world, pods=60, nodes=60)
    hand.store.fail_next(applied=applied)

    with pytest.raises(ApplicationError) as failed:
        await hand.bind_many(cohort)
    assert failed.value.type == "Unavailable"
    bound = await hand.bind_many(cohort)

    assert told(bound) == {seat.name: seat.node for seat in cohort.seats}
    await hand.seen()
    await settled()
    await hand.seen()
    assert hand.cache.assumed() == ()


async def test_a_bind_that_is_run_again_finds_its_pods_bound(world: World) -> None:
    hand, cohort = await placed(world, pods=10, nodes=10)
    await hand.bind_many(cohort)
    revision = world.store.revision

    again = await hand.bind_many(cohort)

    assert told(again) == {seat.name: seat.node for seat in cohort.seats}
    assert {one.notes for one in again.bound} == {("committed by an earlier try",)}
    assert world.store.revision == revision


async def test_etcd_with_a_lower_limit_than_configured_gets_smaller_txns(world: World) -> None:
    hand, cohort = await placed(world, pods=60, nodes=60)

    def refuse(compares: Any, success: Any) -> None:
        if len(compares) > 50:
            raise RequestTooLarge("too many operations")

    hand.store.before_txn = refuse

    bound = await hand.bind_many(cohort)

    assert told(bound) == {seat.name: seat.node for seat in cohort.seats}


async def test_an_etcd_that_is_away_fails_the_activity_and_frees_the_seats(world: World) -> None:
    hand, cohort = await placed(world, pods=60, nodes=60)
    hand.store.fail_next(applied=False, error=Unavailable("away", maybe_applied=False), times=10)

    with pytest.raises(ApplicationError):
        await hand.bind_many(cohort)

    assert await world.node_of("web-0") == ""
    assert all(not one.sent for one in hand.cache.assumed())


async def test_cancelled_in_the_middle_nothing_stays_assumed_for_ever(world: World) -> None:
    hand, cohort = await placed(world, pods=100, nodes=100)
    waiting = asyncio.Event()

    async def stall(compares: Any, success: Any) -> None:
        waiting.set()
        await asyncio.sleep(60)

    hand.store.before_txn = stall
    task = asyncio.create_task(hand.bind_many(cohort))
    await waiting.wait()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    hand.store.before_txn = None
    await settled()
    hand.clock[0] = 100.0
    hand.cache.expire()

    assert hand.cache.assumed() == ()
    assert not list(hand.activities._bindings._locks._locks)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_transactions_do_not_wait_for_a_slow_one(world: World, cancelled: bool) -> None:
    """What they have bound is told at once, whatever becomes of the slow one."""
    hand, cohort = await placed(world, pods=200, nodes=200)
    slow, sent = asyncio.Event(), itertools.count()

    async def stall(compares: Any, success: Any) -> None:
        if next(sent) == 0:
            await slow.wait()

    hand.store.before_txn = stall
    task = asyncio.create_task(hand.bind_many(cohort))
    await hand.cache.progress.wait_for(world.store.revision + 4, 5)
    counted = hand.metrics.schedule_attempts.labels(result="scheduled", profile="default-scheduler")._value
    await settled()
    assert (next(sent), counted.get()) == (5, 200 - 42)
    if cancelled:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    slow.set()
    if not cancelled:
        assert len((await task).bound) == 200


async def test_another_worker_binds_what_this_one_decided(world: World) -> None:
    """It has assumed none of them: seats on one node are verified with those before them."""
    names = await many(world, pods=8, nodes=2)
    one, two = await world.hand(), await world.hand()
    cohort = await one.place_many(*names)
    crowded = cohort.model_copy(
        update={"seats": tuple(seat.model_copy(update={"node": "node-0", "others": {}}) for seat in cohort.seats)}
    )

    bound = await two.bind_many(crowded)

    assert len(bound.bound) == 4  # of 4 cpu
    assert {one.kind for one in bound.unbound} == {"contended"}


async def test_pods_with_rules_across_nodes_share_a_transaction(world: World) -> None:
    await many(world, pods=6, nodes=4)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    apart = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    for number in range(4):
        await world.put_node(f"node-{number}", labels={"kubernetes.io/hostname": f"node-{number}"})
        await world.put_pod(f"db-{number}", labels={"app": "db"}, spec=apart)
    hand = await world.hand()
    cohort = await hand.place_many("db-0", "web-0", "db-1", "web-1", "db-2", "db-3", "web-2")
    assert len(cohort.seats) == 7

    bound = await hand.bind_many(cohort)

    assert told(bound) == {seat.name: seat.node for seat in cohort.seats}
    assert len({one.node for one in bound.bound if one.name.startswith("db")}) == 4
    assert bound.transactions == 2  # of the plain pods, and of those with rules


async def test_single_and_many_at_once_wait_for_each_other(world: World) -> None:
    names = await many(world, pods=20, nodes=4, cpu="100m")
    hand = await world.hand()
    cohort = await hand.place_many(*names[:18])
    single = [await hand.placed(name) for name in names[18:]]

    answers = await asyncio.gather(
        hand.bind_many(cohort), *(hand.bind(name, one) for name, one in zip(names[18:], single, strict=True))
    )

    assert len(answers[0].bound) == 18
    assert all(isinstance(one, Bound) for one in answers[1:])
    assert hand.conflicts("binding") == 0


async def test_large_pods_are_cut_by_bytes(world: World) -> None:
    await many(world, pods=0, nodes=10)
    names = [f"big-{number}" for number in range(10)]
    for name in names:
        await world.put_pod(name, cpu="1", labels={}, spec={"blob": "x" * 300_000})
    hand = await world.hand()
    sizes: list[int] = []

    def measure(compares: list[Condition], success: list[Operation]) -> None:
        sizes.append(sum(len(each.value) for each in success if isinstance(each, Put)))

    hand.store.before_txn = measure

    bound = await hand.bind_many(await hand.place_many(*names))

    assert len(bound.bound) == 10
    assert len(sizes) == 4
    assert max(sizes) < 1024 * 1024


async def test_versions_name_their_writer(world: World) -> None:
    hand, cohort = await placed(world, pods=2, nodes=1)
    await hand.bind_many(cohort)
    kv = (await world.store.get(keys.binding("node-0"))).kv
    assert kv is not None
    assert json.loads(kv.value)["attempt"] == "test/cohort/1@run-1"


# --- plugins --------------------------------------------------------------------------------------


class Hooks:
    """Takes part in everything around a commit; dislikes some pods."""

    name = "Hooks"

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Status:
        state.carry(self.name, {"disk": pod.name})
        return SUCCESS

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        self.calls.append(("unreserve", pod.name))

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Status:
        assert state.baggage[self.name] == {"disk": pod.name}
        if pod.name == "web-1":
            raise RuntimeError("no idea")
        return unschedulable("no disk") if pod.name == "web-2" else SUCCESS

    def post_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        self.calls.append(("post_bind", pod.name))
        if pod.name == "web-3":
            raise RuntimeError("too late")


async def test_plugins_are_called_for_each_pod(world: World) -> None:
    usual, hooks = PROFILES["default-scheduler"], Hooks()
    profile = Profile(usual.name, Enabled.everywhere([*usual.plugins, hooks], {}), digest="d")
    names = await many(world, pods=5, nodes=5)
    hand = await world.hand(profiles={usual.name: profile})

    bound = await hand.bind_many(await hand.place_many(*names))

    assert [one.name for one in bound.bound] == ["web-0", "web-3", "web-4"]
    rejected = {one.name: (one.kind, one.plugin, one.message) for one in bound.unbound}
    assert rejected["web-2"] == ("rejected", "Hooks", "no disk")
    assert rejected["web-1"][:2] == ("rejected", "Hooks")
    assert "no idea" in rejected["web-1"][2]
    assert sorted(hooks.calls) == [
        ("post_bind", "web-0"),
        ("post_bind", "web-3"),
        ("post_bind", "web-4"),
        ("unreserve", "web-1"),
        ("unreserve", "web-2"),
    ]


async def test_a_heart_beat_between_decision_and_bind_changes_nothing(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision still stands: no filter is asked again."""
    hand, cohort = await placed(world, pods=6, nodes=3)
    for number in range(3):
        await world.put_node(f"node-{number}", cpu="4", heartbeat="2")
    await hand.seen()
    monkeypatch.setattr(Profile, "verify", None)

    bound = await hand.bind_many(cohort)

    assert (len(bound.bound), bound.transactions) == (6, 1)


async def test_another_s_pod_on_the_node_is_looked_at_again(world: World) -> None:
    hand, cohort = await placed(world, pods=6, nodes=3, cpu="2")
    crowded = cohort.seats[0].node
    await world.put_pod("first", cpu="1", spec={"nodeName": crowded})
    await hand.seen()

    bound = await hand.bind_many(cohort)

    # By a client that writes no binding version. This worker's watch has shown it, so its filters see it.
    on_crowded = [one for one in bound.bound if one.node == crowded]
    assert len(on_crowded) == 1
    assert len(bound.unbound) == 1


def test_outcomes_stay_small_for_any_message_of_a_plugin() -> None:
    seats = tuple(worst_seat(number) for number in range(MOST_PODS))
    request = BindManyInput(seats=seats, computations=(), workflow_id="w", run_id="r")
    bound = Bound(node="n" * 253, revision=2**60, notes=("é" * 2000, "x" * 2000))
    outcomes: dict[int, Outcome] = {
        number: rejected("p" * 60, "é" * 5000) if number % 2 else bound for number in range(MOST_PODS)
    }

    assert len(bound_many(request, Outcomes(outcomes)).model_dump_json().encode()) < 1.5 * 1024 * 1024
