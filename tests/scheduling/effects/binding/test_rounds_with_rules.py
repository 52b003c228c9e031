"""Committing the seats of a cohort whose pods have rules across nodes: shared transactions, and what may move."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.binding.test_rounds_of_groups import told
from tests.scheduling.effects.binding.test_three_workers import ZONE, apart, spread, together
from tests.scheduling.world import Hand, World, settled
from wharfinger.errors import RequestTooLarge
from wharfinger.etcd import keys
from wharfinger.etcd.store import Put
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany, Seat
from wharfinger.settings import BindSettings

HOST = "kubernetes.io/hostname"


def apart_by_host(app: str, **more: Any) -> dict[str, Any]:
    spec = apart(app, **more)
    spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["topologyKey"] = HOST
    return spec


async def cohort(
    world: World, spec: dict[str, Any], pods: int, *, nodes: int = 0, **more: Any
) -> tuple[Hand, PlacedMany]:
    """Pods with this rule, placed on nodes in three zones."""
    for number in range(nodes or pods):
        name = f"node-{number:02}"
        await world.put_node(name, cpu="20", labels={ZONE: "abc"[number % 3], HOST: name})
    names = [f"web-{number:02}" for number in range(pods)]
    for name in names:
        await world.put_pod(name, labels={"app": "web"}, spec=spec)
    hand = await world.hand(**more)
    placed = await hand.place_many(*names)
    assert len(placed.seats) == pods
    return hand, placed


async def bind_foreign(world: World, name: str, node: str) -> None:
    """Another worker binds a plain pod of the namespace."""
    await world.put_pod(name, spec={"nodeName": node})
    await world.store.txn([], [Put(keys.bound("default"), b"{}"), Put(keys.binding(node), b"{}")])


@pytest.mark.parametrize("rule", [spread, together, apart_by_host], ids=["spread", "affinity", "anti-affinity"])
async def test_pods_with_one_rule_share_one_transaction(world: World, rule: Any) -> None:
    hand, placed = await cohort(world, rule("web"), 12)
    before = world.store.revision

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    assert (bound.transactions, world.store.revision) == (1, before + 1)


async def test_transactions_stay_within_the_limits_of_a_stock_server(world: World) -> None:
    sizes: list[tuple[int, int]] = []
    hand, placed = await cohort(world, apart_by_host("web"), 90)
    hand.store.before_txn = lambda compares, success: sizes.append((len(compares), len(success)))

    bound = await hand.bind_many(placed)

    assert len(bound.bound) == 90
    assert bound.transactions == len(sizes) == 3
    assert max(map(max, sizes)) <= Limits().operations


async def test_a_server_that_takes_less_gets_smaller_transactions(world: World) -> None:
    hand, placed = await cohort(world, spread("web"), 30)

    def refuse(compares: Any, success: Any) -> None:
        if len(compares) > 20:
            raise RequestTooLarge("too many operations")

    hand.store.before_txn = refuse

    assert told(await hand.bind_many(placed)) == {seat.name: seat.node for seat in placed.seats}


async def test_a_foreign_bind_costs_one_transaction_and_halves_the_next(world: World) -> None:
    hand, placed = await cohort(world, apart_by_host("web"), 16, nodes=17)
    sizes: list[int] = []
    free = next(name for name in hand.cache.nodes if name not in {seat.node for seat in placed.seats})

    async def foreign_first(compares: Any, success: Any) -> None:
        pods = sum(isinstance(one, Put) and one.key.startswith(keys.PODS) for one in success)
        sizes.append(pods)
        if len(sizes) == 1:
            hand.store.before_txn = None
            await bind_foreign(world, "other", free)
            hand.store.before_txn = foreign_first

    hand.store.before_txn = foreign_first

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    assert sizes[:2] == [16, 8]
    assert hand.conflicts("bound") == 1


async def test_what_moves_of_one_seat_is_sorted_out_alone(world: World) -> None:
    hand, placed = await cohort(world, apart_by_host("web"), 8)
    hand.store.pause_watches()
    await world.store.delete(keys.pod("default", "web-02"))
    await world.change_pod("web-04", lambda obj: obj["metadata"]["labels"].update(turn="2"))
    hand.store.resume_watches()

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats} | {"web-02": "gone"}


def before_transactions(hand: Hand, change: Callable[[], Awaitable[None]], *, times: int = 1) -> list[int]:
    """Run `change` before each of the first transactions; returns how many pods each transaction has."""
    sizes: list[int] = []

    async def hook(compares: Any, success: Any) -> None:
        sizes.append(sum(isinstance(one, Put) and one.key.startswith(keys.PODS) for one in success))
        if len(sizes) <= times:
            hand.store.before_txn = None  # the client is the hand's own: what `change` writes is no bind
            await change()
            hand.store.before_txn = hook

    hand.store.before_txn = hook
    return sizes


def of_one_zone(hand: Hand, placed: PlacedMany, count: int) -> list[Seat]:
    """The first seats in the zone of the first one: later seats of a spread rely on them."""
    nodes = hand.cache.nodes
    zone = nodes[placed.seats[0].node].labels[ZONE]
    return [seat for seat in placed.seats if nodes[seat.node].labels[ZONE] == zone][:count]


async def beat(world: World, hand: Hand, node: str, heartbeat: str) -> None:
    """The node reports that it lives; nothing that scheduling reads changes."""
    labels = dict(hand.cache.nodes[node].labels)
    await world.put_node(node, cpu="20", heartbeat=heartbeat, labels=labels)


@pytest.mark.parametrize(
    ("what", "note"),
    [
        ("node", "the node's heart-beat was adopted"),
        ("binding", "caught up with another bind"),
        ("pod", "the pod changed"),
    ],
)
async def test_a_seat_whose_own_key_moved_keeps_its_place(world: World, what: str, note: str) -> None:
    """Later seats of a spread rely on it: if it went after them, they would be contended."""
    hand, placed = await cohort(world, spread("web"), 12)
    moved = of_one_zone(hand, placed, 2)

    async def move() -> None:
        for seat in moved:
            if what == "node":
                await beat(world, hand, seat.node, "2")
            elif what == "binding":
                await world.store.put(keys.binding(seat.node), b"{}")
            else:
                await world.change_pod(seat.name, lambda obj: obj["metadata"]["labels"].update(turn="2"))

    sizes = before_transactions(hand, move)

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    assert sizes == [12, 12]
    assert {one.name: one.notes for one in bound.bound if one.notes} == {seat.name: (note,) for seat in moved}
    assert hand.conflicts(what) == 2


async def test_a_seat_whose_node_never_rests_is_bound_alone(world: World) -> None:
    """Its transactions fail a few times for all; then the others are bound without it."""
    hand, placed = await cohort(world, apart_by_host("web"), 6, settings=BindSettings(tries=3, catch_up=0.2))
    beats = itertools.count(2)
    sizes = before_transactions(hand, lambda: beat(world, hand, placed.seats[0].node, str(next(beats))), times=3)

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    assert sizes == [6, 6, 6, 5, 1]


async def test_nodes_that_beat_one_after_the_other_do_not_stop_the_others(world: World) -> None:
    """No seat fails twice, so only failures in a row show that it has to go alone."""
    hand, placed = await cohort(world, apart_by_host("web"), 6, settings=BindSettings(tries=3, catch_up=0.2))
    nodes = iter([seat.node for seat in placed.seats])
    sizes = before_transactions(hand, lambda: beat(world, hand, next(nodes), "2"), times=4)

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    assert sizes == [6, 6, 6, 5, 4, 1, 1]


async def test_a_seat_whose_node_goes_meanwhile_takes_a_runner_up(world: World) -> None:
    hand, placed = await cohort(world, apart_by_host("web"), 4, nodes=8)
    lost = placed.seats[1]

    async def lose() -> None:
        await world.store.delete(keys.node(lost.node))

    sizes = before_transactions(hand, lose)

    bound = await hand.bind_many(placed)

    nodes = {one.name: one.node for one in bound.bound}
    assert len(set(nodes.values()) - {lost.node}) == 4
    assert sizes == [4, 3, 1]
    notes = next(one.notes for one in bound.bound if one.name == lost.name)
    assert notes[-2:] == (f"{lost.node}: the node is gone", f"bound to the runner-up {nodes[lost.name]}")


async def test_a_pod_deleted_meanwhile_costs_only_itself(world: World) -> None:
    hand, placed = await cohort(world, apart_by_host("web"), 6)
    gone = placed.seats[2].name

    async def delete() -> None:
        await world.store.delete(keys.pod("default", gone))

    sizes = before_transactions(hand, delete)

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats} | {gone: "gone"}
    assert sizes == [6, 5]
    await hand.seen()
    assert not hand.cache.assumed()


async def test_a_heart_beat_is_adopted_while_the_watch_is_behind(world: World) -> None:
    """The answer of the failed transaction shows only a heartbeat of the node, so the watch is not waited for."""
    hand, placed = await cohort(world, apart_by_host("web"), 6)

    async def unseen() -> None:
        hand.store.pause_watches()
        await beat(world, hand, placed.seats[0].node, "2")

    sizes = before_transactions(hand, unseen)

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    assert sizes == [6, 6]


async def test_rules_over_all_namespaces_share_a_transaction(world: World) -> None:
    """A namespace selector compares all that is bound anywhere; a bind in a namespace that is not named halves it."""
    hand, placed = await cohort(world, apart_by_host("web", namespaceSelector={}), 8, nodes=9)
    free = next(name for name in hand.cache.nodes if name not in {seat.node for seat in placed.seats})

    async def bind_elsewhere() -> None:
        await world.put_pod("other", namespace="far", spec={"nodeName": free})
        await world.store.txn([], [Put(keys.bound("far"), b"{}"), Put(keys.binding(free), b"{}")])

    sizes = before_transactions(hand, bind_elsewhere)

    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    assert sizes[:2] == [8, 4]


@pytest.mark.parametrize("applied", [True, False])
async def test_a_lost_answer_is_resolved_by_the_retry(world: World, applied: bool) -> None:
    hand, placed = await cohort(world, spread("web"), 12)
    hand.store.fail_next(applied=applied)

    with pytest.raises(ApplicationError) as failed:
        await hand.bind_many(placed)
    assert failed.value.type == "Unavailable"
    bound = await hand.bind_many(placed)

    assert told(bound) == {seat.name: seat.node for seat in placed.seats}
    await hand.seen()
    await settled()
    assert hand.cache.assumed() == ()


async def test_a_seat_whose_node_was_taken_goes_to_a_runner_up(world: World) -> None:
    hand, placed = await cohort(world, apart_by_host("web"), 4, nodes=8)
    taken = placed.seats[1]
    await world.put_pod("first", labels={"app": "web"}, spec={"nodeName": taken.node})
    await hand.seen()

    bound = await hand.bind_many(placed)

    nodes = {one.name: one.node for one in bound.bound}
    assert len(set(nodes.values()) | {taken.node}) == 5
    notes = next(one.notes for one in bound.bound if one.name == taken.name)
    assert notes[-1] == f"bound to the runner-up {nodes[taken.name]}"
    assert notes[0].startswith(f"{taken.node}: InterPodAffinity")


async def test_without_a_runner_up_the_seat_is_contended(world: World) -> None:
    hand, placed = await cohort(
        world, apart_by_host("web"), 3, nodes=6, settings=BindSettings(runners_up=False, catch_up=0.2)
    )
    taken = placed.seats[0]
    await world.put_pod("first", labels={"app": "web"}, spec={"nodeName": taken.node})
    await hand.seen()

    bound = await hand.bind_many(placed)

    assert [(one.name, one.kind) for one in bound.unbound] == [(taken.name, "contended")]
    assert f"{taken.node}: InterPodAffinity" in bound.unbound[0].message
    assert len(bound.bound) == 2


async def test_a_seat_that_relies_on_an_unbound_pod_is_put_off(world: World) -> None:
    """A lone pod is only assumed; the cohort's pods must join its zone, and wait for its bind."""
    await world.put_node("node-x", cpu="20", labels={ZONE: "a", HOST: "node-x"})
    await world.put_pod("leader", labels={"app": "db"})
    hand = await world.hand()
    leader = await hand.placed("leader")
    names = ["web-1", "web-2"]
    for name in names:
        await world.put_pod(name, labels={"app": "web"}, spec=together("db"))
    await world.put_node("node-y", cpu="20", labels={ZONE: "b", HOST: "node-y"})
    await hand.seen()
    placed = await hand.place_many(*names)
    waits = 0
    progress = hand.cache.progress
    original = progress.wait_for

    async def bind_the_leader_meanwhile(revision: int, timeout: float) -> bool:
        nonlocal waits
        waits += 1
        if waits == 1:
            await hand.bind("leader", leader)
        return await original(revision, timeout)

    progress.wait_for = bind_the_leader_meanwhile  # type: ignore[method-assign]

    bound = await hand.bind_many(placed)

    assert waits >= 1
    assert Counter(one.node for one in bound.bound) == {leader.node: 2}


async def test_what_never_can_be_bound_is_given_up_in_time(world: World) -> None:
    seconds: Iterator[int] = itertools.repeat(0)
    hand, placed = await cohort(world, apart_by_host("web"), 4, durations=lambda: next(seconds))
    seconds = itertools.count(step=10)

    bound = await hand.bind_many(placed)

    assert {one.kind for one in bound.unbound} == {"contended"}
    assert all("placed anew" in one.message for one in bound.unbound)
    assert not hand.cache.assumed()


async def test_plain_pods_of_the_cohort_go_first_and_do_not_disturb(world: World) -> None:
    hand, placed = await cohort(world, spread("web"), 6)
    for number in range(6):
        await world.put_pod(f"plain-{number}")
    await hand.seen()
    mixed = await hand.place_many(*(f"plain-{number}" for number in range(6)))
    names = [*(seat.name for seat in mixed.seats), *(seat.name for seat in placed.seats)]
    again = await hand.place_many(*names)

    bound = await hand.bind_many(again)

    assert len(bound.bound) == 12
    assert bound.transactions == 2
    assert hand.conflicts("bound") == 0


async def test_each_pod_names_the_cohorts_run(world: World) -> None:
    hand, placed = await cohort(world, spread("web"), 3)

    await hand.bind_many(placed)

    version = await world.store.get(keys.bound("default"))
    assert version.kv is not None
    assert json.loads(version.kv.value)["attempt"] == "test/cohort/1@run-1"
