"""What a decision's record has beyond what people read, so that the decision can be made again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.scheduling.world import NOW, PROFILES, World
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import Permission
from wharfinger.framework.preferred_nodes import PreferredNodes, members_digest
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.contracts.computation import Computation, LateVerdict, OwnNodes
from wharfinger.scheduling.contracts.scheduling import Refused
from wharfinger.scheduling.effects.placing import payload
from wharfinger.scheduling.state.cache.assumptions import digest_of

GROUP = "pod-group.scheduling.sigs.k8s.io/"


class Guard:
    """Refuses at Reserve or Permit by the pod's name."""

    name = "Guard"

    def reserve(self, state: Any, pod: Pod, node_name: str) -> Status:
        return unschedulable("no licence") if pod.name.startswith("unlicensed") else SUCCESS

    def unreserve(self, state: Any, pod: Pod, node_name: str) -> None:
        """Holds nothing."""

    def permit(self, state: Any, pod: Pod, node_name: str) -> Permission:
        if pod.name.startswith("waits"):
            return Permission(Status(Code.WAIT), 5.0)
        return Permission(unschedulable("not today") if pod.name.startswith("denied") else SUCCESS)


def guarded() -> dict[str, Profile]:
    usual = PROFILES["default-scheduler"]
    return {usual.name: Profile(usual.name, Enabled.everywhere([*usual.plugins, Guard()], {}), digest=usual.digest)}


def test_nothing_is_written_that_is_as_usual() -> None:
    plain = Computation(revision=7, profile="d", nodes=3, worker="w", incarnation="s-c", number=4)

    assert json.loads(plain.model_dump_json()) == {
        "revision": 7,
        "profile": "d",
        "nodes": 3,
        "worker": "w",
        "incarnation": "s-c",
        "number": 4,
    }
    assert Computation.model_validate_json(plain.model_dump_json()) == plain
    assert plain.to_commit() == Computation(revision=7, profile="d", nodes=3, worker="w")
    assert json.loads(Refused(
        uid="u", create_revision=1, pod_revision=2, message="no", computation=plain
    ).model_dump_json())["kind"] == "refused"  # fmt: skip


async def test_decisions_of_a_worker_are_numbered(world: World) -> None:
    await world.put_node("a", cpu="8")
    for name in ("one", "two", "three", "four"):
        await world.put_pod(name)
    hand = await world.hand()

    first = await hand.placed("one")
    many = await hand.place_many("two", "three")
    last = await hand.placed("four")

    numbers = [first.computation.number, many.stretches[0].computation.number, last.computation.number]
    assert numbers == [1, 2, 3]


@pytest.mark.parametrize(("name", "point"), [("unlicensed", "reserve"), ("denied", "permit")])
async def test_who_refused_the_chosen_node_is_recorded(world: World, name: str, point: Any) -> None:
    await world.put_node("a", cpu="8")
    await world.put_pod(name)
    await world.put_pod(f"{name}-2")
    hand = await world.hand(profiles=guarded())
    late = LateVerdict(point=point, plugin="Guard", node="a")

    alone = await hand.refused(name)
    [away] = (await hand.place_many(f"{name}-2")).turned_away

    assert (alone.late, away.late) == (late, late)
    assert LateVerdict.model_validate_json(late.model_dump_json()) == late


async def test_a_cohorts_pod_that_permit_lets_wait_is_recorded_as_such(world: World) -> None:
    await world.put_node("a", cpu="8")
    await world.put_pod("waits")
    hand = await world.hand(profiles=guarded())

    [away] = (await hand.place_many("waits")).turned_away

    assert away.late == LateVerdict(point="permit", plugin="Guard", node="a", wait=True)
    assert away.own_attempt


async def test_of_a_gang_the_member_whose_node_was_refused_is_recorded(world: World) -> None:
    await world.put_node("a", cpu="8")
    for name in ("m0", "unlicensed"):
        await world.put_pod(name, labels={GROUP + "name": "team", GROUP + "min-available": "2"})
    hand = await world.hand(profiles=guarded())

    placed = await hand.place_gang()

    assert {one.name: one.late and one.late.node for one in placed.turned_away} == {"m0": None, "unlicensed": "a"}


async def test_a_refused_node_that_no_late_plugin_refused_has_no_verdict(world: World) -> None:
    await world.put_node("a", cpu="1")
    await world.put_pod("huge", cpu="9")
    hand = await world.hand(profiles=guarded())

    assert (await hand.refused("huge")).late is None


async def test_the_clock_is_recorded_only_where_it_was_read(world: World) -> None:
    terminating = {"deletionTimestamp": (NOW + timedelta(seconds=30)).isoformat()}
    await world.put_node("a", cpu="1")
    hand = await world.hand(utc_now=lambda: NOW)
    await world.put_pod("full", cpu="1", spec={"nodeName": "a"})
    await world.put_pod("web", cpu="1")
    await world.seen()
    plain = await hand.refused("web")

    def evicted(obj: Any) -> None:
        obj["metadata"] |= terminating
        obj["spec"]["priority"] = -1
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        obj["status"]["conditions"] = [condition]

    await world.change_pod("full", evicted)
    await world.change_pod("web", lambda obj: obj["status"].update(nominatedNodeName="a"))
    await world.seen()
    waiting = await hand.refused("web")

    assert plain.computation.clock == ""
    assert waiting.leaving == 60.0
    assert waiting.computation.clock == NOW.isoformat()


async def test_an_overlay_that_is_too_large_to_name_has_a_digest(world: World) -> None:
    await world.put_node("a", cpu="90")
    names = [f"pod-{number}" for number in range(payload.OVERLAY_LIMIT + 2)]
    for name in names:
        await world.put_pod(name)
    hand = await world.hand()

    decided = [await hand.placed(name) for name in names]

    assert [bool(one.computation.overlay) for one in decided] == [False] * (len(names) - 1) + [True]
    before = [(f"default/{name}", one.create_revision, "a") for name, one in zip(names, decided[:-1], strict=False)]
    assert decided[-1].computation.overlay == digest_of(before)
    assert decided[-1].computation.approximate
    pod = hand.cache.pods[PodKey("default", names[0])]
    assert hand.cache.overlay_digest(pod.identity) != hand.cache.overlay_digest()
    hand.cache.forget(pod.identity)
    assert hand.cache.overlay_digest(pod.identity) == hand.cache.overlay_digest()


def test_a_digest_is_left_where_names_have_to_go() -> None:
    reasons = "x" * payload.MESSAGE_LIMIT
    assumed = [{"pod": f"default/{'n' * 200}-{number}", "create_revision": 5, "node": "a"} for number in range(20)]
    computation = Computation.model_validate({"revision": 7, "assumed": assumed})
    whole = Refused(uid="u", create_revision=1, pod_revision=2, message=reasons, computation=computation)

    cut = payload.fitted(whole)

    assert cut.computation.assumed == ()
    assert cut.computation.overlay == digest_of((one["pod"], 5, "a") for one in assumed)  # type: ignore[misc]


async def test_members_that_are_too_many_have_a_digest(world: World) -> None:
    members = tuple(f"common/{number:02}" for number in range(payload.MEMBERS_LIMIT + 1))
    nodes = PreferredNodes(margin=4)
    nodes.share(members, members[0])
    for name in ("a", "b"):
        await world.put_node(name, cpu="8")
    await world.put_pod("web")
    hand = await world.hand(preferred_nodes=nodes)

    own = (await hand.placed("web")).computation.own_nodes

    assert own == OwnNodes(me="common/00", digest=members_digest(members), margin=4)
    nodes.share(members[:3], members[0])
    assert payload.Overlay().own_nodes(nodes) == OwnNodes(me="common/00", members=members[:3], margin=4)
    assert nodes.digest == members_digest(reversed(members[:3])) != members_digest(members)


async def test_what_a_worker_binds_for_another_is_told_with_its_next_decision(world: World) -> None:
    await world.put_node("a", cpu="8")
    for name in ("theirs", "mine", "next"):
        await world.put_pod(name)
    decider, binder = await world.hand(), await world.hand()
    placed = await decider.placed("theirs")
    await world.seen()
    theirs = binder.cache.pods[PodKey("default", "theirs")]
    binder.cache.assume_sent(theirs, placed.node)

    mine = await binder.placed("mine")
    binder.cache.forget(theirs.identity)
    following = await binder.placed("next")

    told = f"default/theirs {theirs.create_revision}"
    assert (mine.computation.begun, mine.computation.ended) == ((f"{told} a",), ())
    assert (following.computation.begun, following.computation.ended) == ((), (told,))


async def test_what_etcd_shows_is_not_told(world: World) -> None:
    await world.put_node("a", cpu="8")
    for name in ("web", "gone", "next"):
        await world.put_pod(name)
    hand = await world.hand()
    await hand.bind("web", (await hand.placed("web")).to_commit())
    await hand.placed("gone")
    await world.store.delete("/registry/pods/default/gone")
    await world.seen()

    following = await hand.placed("next")

    assert (following.computation.begun, following.computation.ended) == ((), ())


async def test_what_has_no_room_is_told_later(world: World) -> None:
    await world.put_node("a", cpu="90")
    names = [f"{'x' * 50}-{number}" for number in range(30)]
    for name in (*names, "one", "two", "three"):
        await world.put_pod(name)
    hand = await world.hand()
    for name in names:
        hand.cache.assume_sent(hand.cache.pods[PodKey("default", name)], "a")

    told = [(await hand.placed(name)).computation.begun for name in ("one", "two", "three")]

    assert [name.split()[0] for each in told for name in each] == [f"default/{name}" for name in names]
    assert all(told)
    assert sum(map(len, told[0])) < payload.CHANGES
