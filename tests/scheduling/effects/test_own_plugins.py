"""Plugins of one's own from Reserve to PostBind: what is called and undone when one agrees, skips or fails."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.effects.refusing.test_preemption import eviction, full_node, nominate, preemptor
from tests.scheduling.world import PROFILES, Hand, World
from wharfinger.etcd import keys
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import Permission
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SKIP, SUCCESS, Code, Status, unschedulable
from wharfinger.scheduling.contracts.scheduling import Placed, Refused, Rejected

USUAL = PROFILES["default-scheduler"]
FAILURE = Status(Code.ERROR, ("the server is down",))


class Witness:
    """Notes each call from Reserve to PostBind, and answers as a test says."""

    name = "Witness"

    def __init__(self, **answers: Status) -> None:
        """By point: what it answers there; success elsewhere."""
        self.calls: list[str] = []
        self.answers = answers

    def reserve(self, state: Any, pod: Any, node_name: str) -> Status:
        return self._call("reserve")

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        self.calls.append("unreserve")

    def permit(self, state: Any, pod: Any, node_name: str) -> Permission:
        return Permission(self._call("permit"))

    def pre_bind(self, state: Any, pod: Any, node_name: str) -> Status:
        return self._call("pre_bind")

    def bind(self, state: Any, pod: Any, node_name: str) -> Status:
        return self._call("bind")

    def post_bind(self, state: Any, pod: Any, node_name: str) -> None:
        self.calls.append("post_bind")

    def _call(self, point: str) -> Status:
        self.calls.append(point)
        return self.answers.get(point, SUCCESS)


async def worker(world: World, witness: Witness, *, without: str = "") -> Hand:
    """One with this plugin before all others; `without`: a plugin that is left out."""
    others = [plugin for plugin in USUAL.plugins if plugin.name != without]
    profile = Profile(USUAL.name, Enabled.everywhere([witness, *others], {}), digest="own")
    return await world.hand(profiles={USUAL.name: profile}, eviction="immediate")


async def web(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web")


async def test_no_reservation_is_undone_when_every_point_agrees(world: World) -> None:
    await web(world)
    witness = Witness()
    hand = await worker(world, witness)

    outcome = await hand.bind("web", await hand.placed("web"))
    await hand.seen()

    assert outcome.kind == "bound"
    assert witness.calls == ["reserve", "permit", "pre_bind", "bind", "post_bind"]
    assert await world.node_of("web") == "node-1"


async def test_the_default_binder_binds_where_the_own_plugin_skips(world: World) -> None:
    await web(world)
    witness = Witness(bind=SKIP, pre_bind=SKIP)
    hand = await worker(world, witness)

    assert (await hand.bind("web", await hand.placed("web"))).kind == "bound"
    assert "unreserve" not in witness.calls


@pytest.mark.parametrize(
    ("point", "calls"),
    [("pre_bind", ["pre_bind", "unreserve"]), ("bind", ["pre_bind", "bind", "unreserve"])],
)
@pytest.mark.parametrize("answer", [unschedulable("no volume"), FAILURE], ids=["refuses", "fails"])
async def test_reservations_are_undone_and_the_pod_stays_unbound(
    world: World, point: str, calls: list[str], answer: Status
) -> None:
    await web(world)
    witness = Witness(**{point: answer})
    hand = await worker(world, witness)
    placed = await hand.placed("web")

    if answer is FAILURE:
        with pytest.raises(ApplicationError, match=r"plugin Witness failed in (PreBind|Bind): the server is down"):
            await hand.bind("web", placed)
    else:
        assert await hand.bind("web", placed) == Rejected(plugin="Witness", message="no volume")

    assert witness.calls == ["reserve", "permit", *calls]
    assert hand.cache.assumed() == ()
    assert await world.node_of("web") == ""


async def test_a_pod_that_every_bind_plugin_skips_stays_unbound(world: World) -> None:
    await web(world)
    witness = Witness(bind=SKIP)
    hand = await worker(world, witness, without="DefaultBinder")
    placed = await hand.placed("web")

    with pytest.raises(ApplicationError, match="every bind plugin skipped the pod"):
        await hand.bind("web", placed)

    assert witness.calls == ["reserve", "permit", "pre_bind", "bind", "unreserve"]
    assert await world.node_of("web") == ""


# --- a preemptor that a plugin refuses ------------------------------------------------------------


async def preempting(world: World, witness: Witness) -> tuple[Hand, Placed]:
    """A more important pod whose victim has left, placed on its nominated node."""
    await full_node(world, "low")
    hand = await worker(world, witness)
    refused = await preemptor(world, hand)
    await hand.activities.evict(eviction(refused, await nominate(hand, refused)))
    await hand.seen()
    return hand, await hand.placed("high")


def refused_for(rejected: Rejected, placed: Placed) -> Refused:
    return Refused(
        uid=placed.uid,
        create_revision=placed.create_revision,
        pod_revision=placed.pod_revision,
        message=rejected.message,
        rejectors=(rejected.plugin,),
        computation=placed.computation,
    )


async def nominated(world: World, name: str = "high") -> str:
    status: dict[str, str] = (await world.pod(name))["status"]
    return status.get("nominatedNodeName", "")


async def test_the_nomination_stays_when_pre_bind_refuses(world: World) -> None:
    """A less important pod that comes meanwhile does not get the room that was made."""
    witness = Witness(pre_bind=unschedulable("no volume"))
    hand, placed = await preempting(world, witness)

    rejected = await hand.bind("high", placed)
    assert isinstance(rejected, Rejected)
    await nominate(hand, refused_for(rejected, placed), attempt=2)
    await world.put_pod("less", spec={"priority": 5})
    await hand.seen()

    assert await nominated(world) == "node-1"
    assert (await hand.refused("less")).victims == ()
    witness.answers = {}
    assert (await hand.bind("high", await hand.placed("high"))).kind == "bound"
    assert await nominated(world) == ""


async def test_the_nomination_stays_when_pre_bind_fails(world: World) -> None:
    witness = Witness(pre_bind=FAILURE)
    hand, placed = await preempting(world, witness)

    with pytest.raises(ApplicationError):
        await hand.bind("high", placed)
    await hand.record("high", attempt=2, reason="SchedulerError", message="the server is down", rejectors=())
    await hand.seen()

    assert await nominated(world) == "node-1"
    assert (await hand.placed("high")).node == "node-1"


@pytest.mark.parametrize("why", ["the room is taken", "it is in a gang", "the node is gone"])
async def test_the_nomination_goes_where_it_cannot_hold(world: World, why: str) -> None:
    hand, _ = await preempting(world, Witness())
    if why == "the room is taken":
        await world.put_pod("other", spec={"nodeName": "node-1", "priority": 20})
    elif why == "the node is gone":
        await world.store.delete(keys.node("node-1"))
    else:
        group = {"pod-group.scheduling.sigs.k8s.io/name": "g", "pod-group.scheduling.sigs.k8s.io/min-available": "2"}
        await world.change_pod("high", lambda obj: obj["metadata"].update(labels=group))
    await hand.seen()

    await hand.record("high", attempt=2)
    await hand.seen()

    assert await nominated(world) == ""
