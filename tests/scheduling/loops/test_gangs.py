"""Members of a gang are held until there are enough of them, and then started as one."""

from __future__ import annotations

import json
from typing import Any

from tests.scheduling.stage import Stage
from wharfinger.etcd import keys
from wharfinger.scheduling.state.queue.entry import UNCONFIRMED, Part
from wharfinger.settings import DispatchSettings

TEAM = ("team", 3)
GANG_CHAIN = "wharfinger/cohort/default/team"


async def put_members(stage: Stage, *names: str, gang: tuple[str, int] = TEAM, **fields: Any) -> None:
    for name in names:
        await stage.put_pod(name, gang=gang, **fields)


async def refuse_members(stage: Stage, *names: str, **fields: Any) -> None:
    for name in names:
        await stage.refuse(name, **{"workflow_id": GANG_CHAIN, **fields})


def parts(stage: Stage, *names: str) -> list[Part | None]:
    return [stage.part(name) for name in names]


async def test_members_are_held_until_enough_exist_and_started_as_one() -> None:
    async with Stage() as stage:
        await put_members(stage, "a", "b")
        await stage.caught_up()
        assert parts(stage, "a", "b") == [Part.GATED] * 2
        entry = stage.entry("a")
        assert entry is not None
        assert entry.gate == "PodGroup: 2 of 3 members exist"

        await put_members(stage, "c")
        await stage.until(lambda: stage.attempts.gangs)

        assert parts(stage, "a", "b", "c") == [Part.IN_FLIGHT] * 3
        ((name, cause, wake),) = stage.attempts.gangs
        assert (name, cause) == ("team", "gang complete, seen")
        assert wake is not None
        assert wake.revision == stage.cache.progress.revision  # a worker that has not seen the last member waits for it
        assert stage.attempts.started == []


async def test_a_member_with_gates_of_its_own_is_not_there_yet() -> None:
    async with Stage() as stage:
        await put_members(stage, "a", "b")
        await put_members(stage, "c", gates=("quota",))
        await stage.caught_up()
        assert parts(stage, "a", "b", "c") == [Part.GATED] * 3

        await put_members(stage, "c")
        await stage.until(lambda: stage.attempts.gangs)

        assert parts(stage, "a", "b", "c") == [Part.IN_FLIGHT] * 3


async def test_a_gang_without_its_pod_group_waits_for_it() -> None:
    async with Stage() as stage:
        group = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "team"}}
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        for name in ("a", "b"):
            obj = {"metadata": {"name": name}, "spec": {"schedulingGroup": {"podGroupName": "team"}}}
            await stage.store.put(keys.pod("default", name), json.dumps(obj).encode())
        await stage.caught_up()
        entry = stage.entry("a")
        assert entry is not None
        assert (entry.part, entry.gate) == (Part.GATED, "PodGroup default/team does not exist")

        key = keys.stored("podgroups", "default", "team")
        await stage.store.put(key, json.dumps({**group, "spec": spec}).encode())
        await stage.until(lambda: stage.attempts.gangs)
        assert parts(stage, "a", "b") == [Part.IN_FLIGHT] * 2

        await stage.store.put(key, json.dumps({**group, "spec": {"schedulingPolicy": {"basic": {}}}}).encode())
        await put_members(stage, "other", gang=("other", 1))
        await stage.until(lambda: "other" in stage.attempts.names)  # no pod of a basic group waits for another


async def test_a_member_that_changes_its_mind_changes_how_the_others_stand() -> None:
    async with Stage() as stage:
        await put_members(stage, "a", gang=("team", 2))
        await put_members(stage, "b", gang=("team", 3))
        await stage.caught_up()
        assert parts(stage, "a", "b") == [Part.GATED] * 2

        await put_members(stage, "b", gang=("team", 1))
        await stage.until(lambda: stage.attempts.gangs)
        await put_members(stage, "a", gang=("team", 1))
        await stage.caught_up()

        assert [entry.gang for entry in map(stage.entry, "ab") if entry is not None] == [None, None]


async def test_refused_members_wait_and_one_of_them_is_started_again() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, restart_every=100.0)) as stage:
        await put_members(stage, "a", "b", "c")
        await stage.until(lambda: stage.attempts.gangs)
        await refuse_members(stage, "a", "b", "c")
        await stage.until(lambda: parts(stage, "a", "b", "c") == [Part.WAITING] * 3)

        stage.later(200.0)
        await stage.until(lambda: len(stage.attempts.gangs) == 2)
        await stage.caught_up()

        assert stage.attempts.gangs[1:] == [("team", "level", None)]


async def test_unconfirmed_members_are_started_again_as_one() -> None:
    async with Stage() as stage:
        await put_members(stage, "a", "b", "c")
        await stage.until(lambda: all(entry is not None and entry.started_at for entry in map(stage.entry, "abc")))

        stage.later(31.0)
        await stage.until(lambda: len(stage.attempts.gangs) == 2)

        assert stage.attempts.gangs[1][:2] == ("team", "unconfirmed")
        assert parts(stage, "a", "b", "c") == [Part.IN_FLIGHT] * 3


async def test_too_few_members_are_held_and_their_parked_chain_is_signalled() -> None:
    async with Stage() as stage:
        await put_members(stage, "a", "b", "c")
        await refuse_members(stage, "a", "b", "c")
        await stage.until(lambda: parts(stage, "a", "b", "c") == [Part.WAITING] * 3)

        await stage.store.delete(keys.pod("default", "c"))
        await stage.until(lambda: parts(stage, "a", "b") == [Part.GATED] * 2)
        await stage.until(lambda: stage.attempts.woken)
        assert [(name, wake.event) for name, wake in stage.attempts.woken] == [("team", "PodGone")]

        started = len(stage.attempts.gangs)
        await put_members(stage, "d")
        await stage.until(lambda: len(stage.attempts.gangs) > started)
        assert parts(stage, "a", "b", "d") == [Part.IN_FLIGHT] * 3


async def test_later_member_is_signalled_to_the_parked_chain() -> None:
    async with Stage() as stage:
        await put_members(stage, "a", "b", "c")
        await refuse_members(stage, "a", "b", "c")
        await stage.until(lambda: parts(stage, "a", "b", "c") == [Part.WAITING] * 3)
        started = len(stage.attempts.gangs)

        await put_members(stage, "d")
        await stage.until(lambda: len(stage.attempts.gangs) > started)

        name, _, wake = stage.attempts.gangs[-1]
        assert name == "team"
        assert wake is not None
        assert wake.object == "default/d"


async def test_when_enough_are_bound_the_others_are_ordinary_pods() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="8")
        await put_members(stage, "a", "b", "c")
        await stage.until(lambda: stage.attempts.gangs)
        for name in ("a", "b", "c"):
            await stage.bind(name, "n", gang=TEAM)
        await put_members(stage, "d")
        await stage.until(lambda: "d" in stage.attempts.names)

        assert len(stage.attempts.gangs) == 1
        assert stage.queue.in_flight.gangs == 0
        assert len(stage.queue.gangs) == 0


async def test_a_gang_goes_as_its_first_member_does() -> None:
    """The pods that go before it wait for the group that counts; it does not, but keeps its place behind them."""
    async with Stage() as stage:
        await stage.put_pod("first")
        await stage.until(lambda: stage.attempts.names == ["first"])
        await stage.put_pod("second")
        await stage.caught_up()
        stage.later(1.0)
        await put_members(stage, "a", "b", "c")
        await stage.caught_up()
        stage.later(1.0)
        await stage.put_pod("third")
        await stage.caught_up()
        assert stage.attempts.gangs == []

        await put_members(stage, "x", "y", "z", gang=("urgent", 3), priority=5)
        await stage.until(lambda: stage.attempts.gangs)
        assert [name for name, _, _ in stage.attempts.gangs] == ["urgent"]
        await stage.put_node("n", cpu="8")
        await stage.bind("first", "n")
        await stage.until(lambda: len(stage.attempts.gangs) == 2)

        assert stage.attempts.names == ["first"]
        assert [cohort.names for cohort in stage.attempts.cohorts] == [["second", "third"]]


async def test_a_gang_starts_while_a_group_counts() -> None:
    async with Stage() as stage:
        await stage.put_pod("counts")
        await stage.until(lambda: stage.attempts.names == ["counts"])
        await put_members(stage, "a", "b", "c")
        await stage.until(lambda: stage.attempts.gangs)


async def test_a_gang_that_is_given_up_while_it_starts_loses_no_member() -> None:
    async with Stage() as stage:
        stage.loops.scheduling.dispatcher.serve(False)
        await put_members(stage, "a", "b", "c")
        await stage.until(lambda: parts(stage, "a", "b", "c") == [Part.ACTIVE] * 3)
        members = stage.queue.pop_gang()
        stage.loops.scheduling.dispatcher._starts.gang(members)
        for entry in members:
            stage.queue.gangs.discard(entry)
        await stage.caught_up()
        stage.loops.scheduling.dispatcher.serve(True)
        stage.later(31.0)
        await stage.until(lambda: {entry.cause for entry in members} == {UNCONFIRMED})


async def test_start_that_fails_for_good_is_retried_later_with_all_members() -> None:
    async with Stage() as stage:
        stage.attempts.failing.add("team")
        stage.attempts.error = ValueError("no")
        await put_members(stage, "a", "b", "c")
        await stage.until(lambda: stage.attempts.tries and parts(stage, "a", "b", "c") == [Part.ACTIVE] * 3)

        stage.attempts.failing.clear()
        stage.later(6.0)
        await stage.until(lambda: stage.attempts.gangs)
        assert parts(stage, "a", "b", "c") == [Part.IN_FLIGHT] * 3


# --- waking ---------------------------------------------------------------------------------------


async def waiting_team(stage: Stage, *names: str, gang: tuple[str, int] = TEAM, **refusal: Any) -> None:
    await put_members(stage, *names, gang=gang, cpu="2")
    await refuse_members(stage, *names, workflow_id=f"wharfinger/cohort/default/{gang[0]}", **refusal)
    await stage.until(lambda: parts(stage, *names) == [Part.WAITING] * len(names))
    stage.attempts.woken.clear()


async def test_a_gang_that_fits_now_is_woken_once() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="4")
        await waiting_team(stage, "a", "b", "c")

        await stage.put_node("m", cpu="1")
        await stage.caught_up()
        assert stage.attempts.woken == []

        await stage.put_node("o", cpu="2")
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        ((name, wake),) = stage.attempts.woken
        assert (name, wake.event, wake.object) == ("team", "NodeAdd", "o")


async def test_one_room_wakes_one_gang() -> None:
    async with Stage() as stage:
        for name in ("one", "two"):
            await waiting_team(stage, f"{name}-a", f"{name}-b", gang=(name, 2))
        await stage.put_node("n", cpu="7")
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        assert stage.attempts.woken_names == ["one"]


async def test_a_gang_that_wants_a_domain_is_woken_by_a_label() -> None:
    async with Stage() as stage:
        await stage.put_node("n", cpu="8")
        key = keys.stored("podgroups", "default", "team")
        spec = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
        await stage.store.put(key, json.dumps({"metadata": {"name": "team"}, "spec": spec}).encode())
        await waiting_team(stage, "a", "b", "c", plugins=("GangScheduling",))

        await stage.put_node("n", cpu="8", labels={"zone": "x"})
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()

        assert stage.attempts.woken_names == ["team"]


async def test_the_first_label_of_its_key_wakes_a_gang_that_fits_nowhere() -> None:
    """Else it would go on saying that no node has the label, and no end of a pod would make room for it."""
    async with Stage() as stage:
        for node in ("n", "m"):
            await stage.put_node(node, cpu="4")
        key = keys.stored("podgroups", "default", "team")
        spec = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
        await stage.store.put(key, json.dumps({"metadata": {"name": "team"}, "spec": spec}).encode())
        lacks = "gang needs 3 members placed together, and no node has the label zone."
        await waiting_team(stage, "a", "b", "c", plugins=("GangScheduling",), message=lacks)
        await stage.put_node("n", cpu="4", labels={"disk": "ssd"})
        await stage.caught_up()
        assert stage.attempts.woken == [], "the label of another key"

        await stage.put_node("n", cpu="4", labels={"zone": "x"})
        await stage.until(lambda: stage.attempts.woken)
        await stage.caught_up()
        ((name, wake),) = stage.attempts.woken
        assert (name, wake.event, wake.object, wake.plugin) == ("team", "NodeUpdateNodeLabel", "n", "GangScheduling")

        await refuse_members(stage, "a", "b", "c", plugins=("GangScheduling", "NodeResourcesFit"), message="2 fit")
        await stage.until(lambda: parts(stage, "a", "b", "c") == [Part.WAITING] * 3)
        stage.attempts.woken.clear()
        await stage.put_node("m", cpu="4", labels={"zone": "x", "disk": "ssd"}, unschedulable=True)
        await stage.put_node("n", cpu="4", labels={"zone": "x", "disk": "ssd"})
        await stage.caught_up()
        assert stage.attempts.woken == [], "it has said so already"


async def test_a_gang_that_needs_fewer_is_started_again() -> None:
    async with Stage() as stage:
        key = keys.stored("podgroups", "default", "team")
        await stage.store.put(key, json.dumps({"metadata": {"name": "team"}, "spec": {"minMember": 3}}).encode())
        await waiting_team(stage, "a", "b", "c", gang=("team", 2))
        started = len(stage.attempts.gangs)

        await stage.store.put(key, json.dumps({"metadata": {"name": "team"}, "spec": {"minMember": 1}}).encode())
        await stage.until(lambda: len(stage.attempts.gangs) > started)

        assert parts(stage, "a", "b", "c") == [Part.IN_FLIGHT] * 3


async def test_sweep_wakes_a_gang_once_and_starts_a_closed_chain_anew() -> None:
    async with Stage(dispatching=DispatchSettings(hold=0.0, restart_every=100.0)) as stage:
        await stage.put_node("n", cpu="8")
        await waiting_team(stage, "a", "b", "c")
        stage.attempts.closed.add("team")
        started = len(stage.attempts.gangs)

        stage.clock.advance(101.0)
        stage.loops.scheduling.waker._kicked.set()
        await stage.until(lambda: len(stage.attempts.gangs) > started)

        assert stage.attempts.gangs[-1][0] == "team"
