"""What is waited for of a placement: verdicts, the sentences of those that wait, and the wait itself."""

from __future__ import annotations

import asyncio

import pytest

from tests.patience import patient
from tests.placement.delivered import GOOD, DeliveredScene
from tests.placement.objects import eviction_object, pick, placement_object
from tests.placement.scene import P
from wharfinger.errors import NotFound, UsageError
from wharfinger.etcd import keys
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries
from wharfinger.placement.reading.placement_goals import PlacementGoal, look
from wharfinger.process.waiting import Verdict

SETTLED, AVAILABLE, GONE = PlacementGoal.SETTLED, PlacementGoal.AVAILABLE, PlacementGoal.GONE


@pytest.fixture
async def scene() -> DeliveredScene:
    return await (await DeliveredScene.begin()).ready()


async def verdict(scene: DeliveredScene, goal: PlacementGoal = SETTLED) -> tuple[str, str]:
    found = await look(scene.store, scene.placement, goal)
    return found.kind, found.why


async def test_what_is_available_everywhere_has_reached_both_goals(scene: DeliveredScene) -> None:
    assert await verdict(scene) == ("reached", "snapshot 1 is settled on 3 member clusters")
    assert await verdict(scene, AVAILABLE) == ("reached", "snapshot 1 is available on 3 member clusters")
    assert await verdict(scene, GONE) == ("waiting", "its deletion was not requested")


@pytest.mark.parametrize("goal", [SETTLED, AVAILABLE])
async def test_members_that_are_not_ready_are_named(scene: DeliveredScene, goal: PlacementGoal) -> None:
    await scene.deliver("a", result={"applied": True, "reason": "v1 Pod web/x: Pending"})
    await scene.deliver("b", counter=7, since=7, result=None)
    assert await verdict(scene, goal) == ("waiting", "a: not available: v1 Pod web/x: Pending; b: applying")


async def test_a_sentence_names_at_most_three_members() -> None:
    scene = await DeliveredScene.begin()
    await scene.member("d")
    await scene.put(placement_object(generation=2))
    await scene.attempt()
    kind, why = await verdict(scene)
    assert (kind, why.count(";")) == ("waiting", 3)
    assert why.endswith("; and 1 more")


async def test_changed_contents_are_waited_for(scene: DeliveredScene) -> None:
    await scene.namespace(new="yes")
    told = "objects changed since snapshot 1, and the next one is not taken yet"
    assert await verdict(scene) == ("waiting", told)
    assert await verdict(scene, AVAILABLE) == ("waiting", told)
    await scene.pin(1)
    assert (await verdict(scene))[0] == "reached"


async def test_a_snapshot_that_is_not_there_is_waited_for(scene: DeliveredScene) -> None:
    await scene.store.delete(placement_keys.snapshot(P, 1))
    assert await verdict(scene, AVAILABLE) == ("waiting", "no snapshot of the selected objects is taken yet")
    assert (await verdict(scene))[0] == "waiting"


async def test_contents_that_cannot_be_placed_are_told(scene: DeliveredScene) -> None:
    await scene.store.put(keys.stored("namespaces", "", "web"), b"garbage")
    kind, why = await verdict(scene)
    assert kind == "waiting"
    assert "cannot be read" in why


async def test_a_placement_that_is_to_be_decided_again_is_waited_for(scene: DeliveredScene) -> None:
    await scene.put(placement_object(generation=2, **pick(2)))
    assert await verdict(scene) == ("waiting", "it was changed since it was decided")
    await scene.attempt()
    kind, why = await verdict(scene)
    assert (kind, "removing" in why) == ("waiting", True)


async def test_a_member_that_leaves_is_waited_for(scene: DeliveredScene) -> None:
    await scene.drain("b")
    await scene.member("d")
    assert await verdict(scene) == ("waiting", "it is about to be decided again: + d; - b")


async def test_an_eviction_that_is_not_judged_is_waited_for(scene: DeliveredScene) -> None:
    await scene.put(eviction_object("e", "web", "b"))
    assert await verdict(scene) == ("waiting", "e: not judged yet")


async def test_an_unfulfilled_policy_settles_and_is_not_available(scene: DeliveredScene) -> None:
    await scene.put(placement_object(generation=2, **pick(4)))
    await scene.attempt()
    assert await verdict(scene) == ("reached", "snapshot 1 is settled on 3 member clusters; 4 are wanted: unfulfilled")
    assert (await verdict(scene, AVAILABLE)) == ("waiting", (await scene.record()).decision.condition.message)


async def test_an_empty_placement_settles_and_is_not_available(scene: DeliveredScene) -> None:
    await scene.put(placement_object("none", **pick(0)))
    await scene.attempt("cluster/none")
    scene.placement = "cluster/none"
    assert await verdict(scene) == ("reached", "it is settled: no member cluster is chosen")
    assert (await verdict(scene, AVAILABLE)) == ("waiting", "no member cluster is chosen")


async def test_it_is_told_that_no_hub_runs(scene: DeliveredScene) -> None:
    await scene.store.delete(placement_keys.hub("h"))
    await scene.put(placement_object("new"))
    scene.placement = "cluster/new"
    assert await verdict(scene) == ("waiting", "it is not decided yet; no hub runs (`wharfinger hub`)")


async def test_an_unreadable_placement_is_told(scene: DeliveredScene) -> None:
    await scene.store.put(placement_keys.placement(P), b"garbage")
    kind, why = await verdict(scene)
    assert kind == "waiting"
    assert why.startswith("it cannot be read: ")


async def test_trouble_with_overrides_keeps_it_from_settling(scene: DeliveredScene) -> None:
    await scene.trouble("v1 Namespace web is selected twice")
    assert await verdict(scene) == ("waiting", "v1 Namespace web is selected twice")


async def test_another_apply_strategy_is_a_step_that_is_left(scene: DeliveredScene) -> None:
    await scene.deliver("b", strategy={})
    assert await verdict(scene) == ("waiting", "the hub has steps left: strategy b")


async def test_a_deleted_placement_fails_and_then_is_gone(scene: DeliveredScene) -> None:
    await scene.put(placement_object(deleting=True, **pick(3)))
    assert await verdict(scene) == ("failed", "it is being deleted")
    await scene.attempt()
    await scene.away("c")
    assert await verdict(scene, GONE) == ("waiting", "left on a, b, c; no agent: c")
    for name in "abc":
        await scene.remove_work(name)
    assert await verdict(scene, GONE) == ("waiting", "its keys are not removed yet")
    for key in (placement_keys.decision(P), placement_keys.placement(P)):
        await scene.store.delete(key)
    assert await verdict(scene, GONE) == ("reached", "nothing is left of it")
    with pytest.raises(NotFound, match="there is no placement"):
        await verdict(scene)


async def test_a_finalizer_that_holds_a_placement_is_told(scene: DeliveredScene) -> None:
    obj = placement_object(deleting=True, **pick(3))
    obj["metadata"]["finalizers"] = ["example.com/mine"]
    await scene.put(obj)
    await scene.attempt()
    for name in "abc":
        await scene.remove_work(name)
    assert await verdict(scene, GONE) == ("waiting", "a finalizer holds it")


# --- the wait -------------------------------------------------------------------------------------


async def test_a_wait_ends_with_the_change_that_reaches_the_goal(
    scene: DeliveredScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not when everything is read again in any case."""
    monkeypatch.setattr("wharfinger.process.waiting.READ_AGAIN", 3600.0)
    await scene.deliver("b", counter=6, since=6, result=None)
    waiting = asyncio.create_task(PlacementDeliveries(scene.store).wait("web", timeout=3600))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await scene.deliver("b", counter=6, since=6, result=GOOD)
    assert (await asyncio.wait_for(waiting, patient(20))).reached


async def test_a_wait_says_each_change_of_what_it_waits_for(scene: DeliveredScene) -> None:
    said: list[str] = []
    spoke = asyncio.Event()

    def say(what: str) -> None:
        said.append(what)
        spoke.set()

    await scene.deliver("b", counter=6, since=6, result=None)
    waiting = asyncio.create_task(PlacementDeliveries(scene.store).wait("web", timeout=3600, say=say))
    async with asyncio.timeout(patient(30)):
        await spoke.wait()
        spoke.clear()
        await scene.deliver("b", counter=6, since=6, result={"failed": True, "reason": "no"})
        await spoke.wait()
        await scene.deliver("b", counter=6, since=6, result=GOOD)
        assert (await waiting).reached

    assert said == ["b: applying", "b: failed: no"]


async def test_a_wait_that_is_over_says_what_it_waits_for(scene: DeliveredScene) -> None:
    await scene.deliver("b", result={"failed": True, "reason": "no"})
    found = await PlacementDeliveries(scene.store).wait("web", "available", timeout=0.05)
    assert found == Verdict("waiting", "b: failed: no")


async def test_a_wait_goes_on_while_etcd_does_not_answer(scene: DeliveredScene) -> None:
    client = scene.store.client()
    client.fail_reads(3)
    assert (await PlacementDeliveries(client).wait("web", timeout=30)).reached
    client.fail_reads(1000)
    found = await PlacementDeliveries(client).wait("web", timeout=0.05)
    assert found == Verdict("waiting", "no answer from the store")


async def test_an_unknown_goal_is_refused(scene: DeliveredScene) -> None:
    with pytest.raises(UsageError, match="known are settled, available, gone"):
        await PlacementDeliveries(scene.store).wait("web", "ready")
