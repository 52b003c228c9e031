"""Deciding and assuming: what `place` answers, and when it must ask etcd first."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.patience import patient
from tests.scheduling.world import CLUSTER, NOW, PROFILES, World
from wharfinger.etcd import keys
from wharfinger.etcd.store import Read
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.interface import Permission
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.objects.model.pod import PodIdentity
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.parts import ProcessParts
from wharfinger.process.transactions import STOCK
from wharfinger.scheduling.contracts.scheduling import PlaceInput
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.finding import Finder
from wharfinger.scheduling.effects.placing import payload
from wharfinger.scheduling.state.pool import Identity, Ownership, Pool
from wharfinger.settings import BindSettings
from wharfinger.testing.memory_store import MemoryStore

DEFAULT = PROFILES["default-scheduler"]


def with_plugin(plugin: Any) -> dict[str, Profile]:
    """The default profile and one plugin more."""
    return {DEFAULT.name: Profile(DEFAULT.name, Enabled.everywhere([*DEFAULT.plugins, plugin], {}), digest="other")}


class HangingStore(MemoryStore):
    """A store one of whose clients gets no answer."""

    hangs = False

    async def get(self, key: str, *, revision: int = 0) -> Read:
        if self.hangs:
            await asyncio.Event().wait()
        return await super().get(key, revision=revision)


# --- placed ---------------------------------------------------------------------------------------


async def test_a_pod_is_placed_on_a_node_that_fits_and_assumed_there(world: World) -> None:
    node_revision = await world.put_node("node-1")
    await world.put_node("small", cpu="500m")
    pod_revision = await world.put_pod("web")
    hand = await world.hand()

    placed = await hand.placed("web")

    assert (placed.node, placed.node_revision, placed.pod_revision) == ("node-1", node_revision, pod_revision)
    assert placed.uid == "uid-web"
    assert [(one.plugin, one.reasons) for one in placed.refusals] == [("NodeResourcesFit", {"Insufficient cpu": 1})]
    assert (placed.computation.nodes, placed.computation.feasible) == (2, 1)
    assert placed.computation.revision == pod_revision
    assert placed.computation.profile == DEFAULT.digest
    assert placed.computation.worker == "hand-1"
    [assumed] = hand.cache.assumed()
    assert (assumed.identity.name, assumed.node, assumed.sent) == ("web", "node-1", False)


async def test_ranking_has_the_chosen_node_and_the_runners_up_with_scores(world: World) -> None:
    for number in range(8):
        await world.put_node(f"node-{number}", cpu=str(4 + number))
    await world.put_pod("web")
    hand = await world.hand()

    placed = await hand.placed("web")

    assert len(placed.ranking) == 5
    assert placed.ranking[0].node == placed.node
    assert placed.score == placed.ranking[0].total
    assert "NodeResourcesFit" in placed.ranking[0].plugins


async def test_two_pods_decided_one_after_the_other_do_not_share_the_last_place(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    hand = await world.hand()

    first, second = await asyncio.gather(hand.place("web-1"), hand.place("web-2"))

    assert sorted([first.kind, second.kind]) == ["placed", "refused"]


async def test_placing_again_replaces_the_assumption(world: World) -> None:
    """Steps: the worker's task times out after place; the local activity runs again."""
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web")
    hand = await world.hand()
    await hand.placed("web")

    assert (await hand.placed("web")).node == "node-1"
    assert len(hand.cache.assumed()) == 1


async def test_decision_records_the_assumed_pods_it_included(world: World) -> None:
    await world.put_node("node-1")
    first = await world.put_pod("web-1")
    await world.put_pod("web-2")
    hand = await world.hand()
    await hand.placed("web-1")

    [seen] = (await hand.placed("web-2")).computation.assumed
    assert (seen.pod, seen.create_revision, seen.node) == ("default/web-1", first, "node-1")


# --- how far the cache must be --------------------------------------------------------------------


async def test_place_waits_until_the_cache_has_seen_the_pod(world: World) -> None:
    await world.put_node("node-1")
    hand = await world.hand()
    hand.store.pause_watches()
    revision = await world.put_pod("web")
    deciding = asyncio.create_task(hand.place("web", revision=revision))
    await asyncio.sleep(0)
    hand.store.resume_watches()

    assert (await deciding).kind == "placed"


@pytest.mark.parametrize("told", [True, False], ids=["revision given", "revision read"])
async def test_a_worker_that_does_not_catch_up_fails_as_behind(world: World, told: bool) -> None:
    await world.put_node("node-1")
    hand = await world.hand()
    hand.store.pause_watches()
    revision = await world.put_pod("web")

    with pytest.raises(ApplicationError) as raised:
        await hand.place("web", revision=revision if told else 0)
    assert raised.value.type == "Behind"


async def test_both_waits_for_the_watch_share_one_limit(world: World) -> None:
    """Else a decision that waits twice outlasts its activity's time-out, and that counts as the scheduler's error."""
    await world.put_node("node-1")
    hand = await world.hand()
    hand.store.pause_watches()
    await world.put_pod("web")
    ticks = count(step=600)
    process = ProcessParts(hand.store, metrics=hand.metrics, clock=lambda: float(next(ticks)), utc_now=lambda: NOW)
    pool = Pool(hand.cache, PROFILES, Ownership(frozenset(PROFILES), "common"))
    core = Core(process, pool, Identity(CLUSTER, "worker-1"), BindSettings(behind=600.0), STOCK)
    finder = Finder(core)
    workflow_id = pod_workflow_id(CLUSTER, "default", "web", "uid-web")
    request = PlaceInput(namespace="default", name="web", revision=1, workflow_id=workflow_id, run_id="run-1")

    with pytest.raises(ApplicationError) as raised:
        await asyncio.wait_for(finder.lone(request), patient(30))
    assert raised.value.type == "Behind"


async def test_an_unreachable_etcd_is_unavailable_and_no_verdict(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand()
    hand.store.fail_reads(1)

    with pytest.raises(ApplicationError) as raised:
        await hand.place("web")
    assert (raised.value.type, raised.value.non_retryable) == ("Unavailable", False)


async def test_unresponsive_etcd_is_unavailable_before_the_activity_times_out() -> None:
    world = World(HangingStore())
    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand()
    assert isinstance(hand.store, HangingStore)
    hand.store.hangs = True

    with pytest.raises(ApplicationError) as raised:
        await hand.place("web")
    assert raised.value.type == "Unavailable"
    await world.close()


async def test_revision_from_before_a_restore_of_etcd_delays_no_attempt(world: World) -> None:
    """Steps: a chain was started at revision 10^6; etcd was restored from a backup and counts from 10^3 again."""
    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand()

    assert (await hand.placed("web", revision=10**6)).node == "node-1"


# --- gone -----------------------------------------------------------------------------------------


async def test_a_cache_that_is_behind_never_ends_an_attempt(world: World) -> None:
    """Steps: the cache still shows the former pod of the name, bound; etcd holds a new one, pending."""
    await world.put_node("node-1")
    first = await world.put_pod("web", spec={"nodeName": "node-1"})
    hand = await world.hand()
    hand.store.pause_watches()
    await world.store.delete(keys.pod("default", "web"))
    await world.put_pod("web")

    with pytest.raises(ApplicationError) as raised:
        await hand.place("web", revision=first)
    assert raised.value.type == "Behind"


async def test_a_pod_the_cache_does_not_know_is_looked_up_in_etcd(world: World) -> None:
    hand = await world.hand()

    assert (await hand.gone("web", revision=1)).reason == "deleted"


@pytest.mark.parametrize(
    ("more", "reason", "node", "why"),
    [
        ({"spec": {"nodeName": "node-9"}}, "bound", "node-9", "bound"),
        ({"status": {"phase": "Failed"}}, "finished", None, "not-pending"),
        ({"spec": {"schedulerName": "somebody-else"}}, "not-ours", None, "other-scheduler"),
        ({"labels": {"wharfinger.dev/tenant": "blue"}}, "not-ours", None, "other-pool"),
    ],
    ids=["bound", "finished", "another scheduler's", "a tenant's"],
)
async def test_a_pod_that_is_not_to_be_placed_is_gone(
    world: World, more: Any, reason: str, node: str | None, why: str
) -> None:
    await world.store.put(keys.tenant("blue"), b"{}")
    await world.put_node("node-1")
    await world.put_pod("web", **more)
    hand = await world.hand()

    gone = await hand.gone("web")
    assert (gone.reason, gone.node) == (reason, node)
    assert gone.why == why
    assert hand.cache.assumed() == ()


async def test_a_tenant_label_counts_for_nothing_while_the_tenant_does_not_exist(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web", labels={"wharfinger.dev/tenant": "blue"})
    hand = await world.hand()

    assert (await hand.placed("web")).node == "node-1"


async def test_a_pod_being_deleted_is_gone(world: World) -> None:
    await world.put_pod("web")
    await world.change_pod("web", lambda pod: pod["metadata"].update(deletionTimestamp="2026-03-01T12:00:00Z"))
    hand = await world.hand()

    gone = await hand.gone("web")
    assert gone.reason == "terminating"
    assert (gone.why, gone.detail) == ("not-pending", "it is being deleted")


async def test_unreadable_object_is_not_ours_with_a_reason(world: World) -> None:
    await world.store.put(keys.pod("default", "web"), b"[1, 2")
    hand = await world.hand()

    gone = await hand.gone("web")
    assert gone.reason == "not-ours"
    assert "cannot be read" in gone.detail
    assert gone.why == "unreadable"


async def test_the_attempt_of_an_earlier_pod_of_the_name_is_gone(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web", uid="second")
    hand = await world.hand()

    gone = await hand.gone("web", uid="first", live_uid="first")
    assert (gone.reason, gone.detail) == ("deleted", "another pod has the name now")
    assert gone.why == "replaced"


@pytest.mark.parametrize("revision", [0, 3], ids=["by hand", "by a dispatcher"])
async def test_run_under_another_id_than_the_pods_gets_the_right_one(world: World, revision: int) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand()

    with pytest.raises(ApplicationError) as raised:
        await hand.place("web", workflow_id="my-own-id", revision=revision)
    assert (raised.value.type, raised.value.non_retryable) == ("WrongWorkflowId", True)
    assert "test/pod/default/web/uid-web" in raised.value.message


async def test_a_pod_whose_bind_is_out_and_unanswered_is_looked_up_in_etcd(world: World) -> None:
    """Steps: a bind's answer got lost and its run was terminated; the watch is behind, the cache says pending."""
    hand, placed = await world.one_placed()
    hand.store.pause_watches()
    hand.store.fail_next(applied=True)
    with pytest.raises(ApplicationError):
        await hand.bind("web", placed)

    gone = await hand.gone("web", revision=placed.pod_revision)
    assert (gone.reason, gone.node) == ("bound", "node-1")


# --- refused --------------------------------------------------------------------------------------


async def test_a_pod_that_fits_nowhere_is_refused_in_kube_schedulers_words(world: World) -> None:
    await world.put_node("small", cpu="500m")
    await world.put_node("tainted", spec={"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]})
    revision = await world.put_pod("web")
    hand = await world.hand()

    refused = await hand.refused("web")

    assert refused.message.startswith("0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint")
    assert refused.rejectors == ("NodeResourcesFit", "TaintToleration")
    assert {one.plugin: sum(one.reasons.values()) for one in refused.refusals} == {
        "TaintToleration": 1,
        "NodeResourcesFit": 1,
    }
    assert refused.computation.revision == revision
    assert not refused.only_assumed


async def test_refusal_caused_by_assumed_pods_only_is_marked(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    await world.put_pod("web-1")
    await world.put_pod("web-2")
    await world.put_pod("huge", cpu="64")
    hand = await world.hand()
    await hand.placed("web-1")

    assert (await hand.refused("web-2")).only_assumed
    assert not (await hand.refused("huge")).only_assumed


async def test_a_gated_pod_is_refused_by_the_plugin_that_gates_it(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web", spec={"schedulingGates": [{"name": "quota"}]})
    hand = await world.hand()

    refused = await hand.refused("web")
    assert refused.rejectors == ("SchedulingGates",)
    assert hand.cache.assumed() == ()


# --- plugins that reserve, permit, raise ----------------------------------------------------------


class Fussy:
    """A plugin that takes part where a test says."""

    name = "Fussy"

    def __init__(self) -> None:
        self.reserved: list[str] = []
        self.reserves: Status = SUCCESS
        self.permits = Permission()
        self.fails = False

    def filter_node(self, state: Any, pod: Any, node: Any) -> Status:
        if self.fails and pod.name == "web":
            raise RuntimeError("boom\non two lines")
        return SUCCESS

    def reserve(self, state: Any, pod: Any, node_name: str) -> Status:
        self.reserved.append(pod.name)
        state.carry(self.name, {"node": node_name})
        return self.reserves

    def unreserve(self, state: Any, pod: Any, node_name: str) -> None:
        if pod.name in self.reserved:
            self.reserved.remove(pod.name)

    def permit(self, state: Any, pod: Any, node_name: str) -> Permission:
        return self.permits


async def test_a_plugin_that_raises_fails_its_pod_with_one_line_and_no_other_pod(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    await world.put_pod("other")
    plugin = Fussy()
    plugin.fails = True
    hand = await world.hand(profiles=with_plugin(plugin))

    with pytest.raises(ApplicationError) as raised:
        await hand.place("web")
    assert (raised.value.type, raised.value.non_retryable) == ("SchedulerError", True)
    assert "plugin Fussy failed in Filter" in raised.value.message
    assert "\n" not in raised.value.message
    assert (await hand.placed("other")).node == "node-1"


async def test_what_a_plugin_carries_travels_with_the_placement(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    hand = await world.hand(profiles=with_plugin(Fussy()))

    assert (await hand.placed("web")).plugin_data == {"Fussy": {"node": "node-1"}}


@pytest.mark.parametrize("point", ["reserve", "permit"])
async def test_a_refusal_to_reserve_or_permit_leaves_nothing_behind(world: World, point: str) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()
    if point == "reserve":
        plugin.reserves = unschedulable("no licence left")
    else:
        plugin.permits = Permission(unschedulable("no licence left"))
    hand = await world.hand(profiles=with_plugin(plugin))

    refused = await hand.refused("web")
    assert (refused.rejectors, refused.message) == (("Fussy",), "no licence left")
    assert plugin.reserved == []
    assert hand.cache.assumed() == ()


async def test_what_is_reserved_is_given_back_when_permit_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()

    def permit(state: Any, pod: Any, node_name: str) -> Permission:
        assert plugin.reserved == ["web"]
        raise RuntimeError("no idea")

    monkeypatch.setattr(plugin, "permit", permit)
    hand = await world.hand(profiles=with_plugin(plugin))

    with pytest.raises(ApplicationError, match="plugin Fussy failed in Permit"):
        await hand.place("web")

    assert plugin.reserved == []
    assert hand.cache.assumed() == ()


async def test_a_refusal_of_permit_stands_when_unreserve_fails(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()
    plugin.permits = Permission(unschedulable("no licence left"))
    calls: list[str] = []

    def unreserve(state: Any, pod: Any, node_name: str) -> None:
        calls.append(pod.name)
        raise RuntimeError("no idea")

    monkeypatch.setattr(plugin, "unreserve", unreserve)
    hand = await world.hand(profiles=with_plugin(plugin))

    refused = await hand.refused("web")

    assert (refused.rejectors, refused.message) == (("Fussy",), "no licence left")
    assert calls == ["web"]
    assert hand.cache.assumed() == ()


async def test_a_wait_that_reserve_answers_is_a_refusal(world: World) -> None:
    """Only Permit may hold a pod: no run would wait for what Reserve asks for."""
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()
    plugin.reserves = Status(Code.WAIT, ("later",))
    hand = await world.hand(profiles=with_plugin(plugin))

    refused = await hand.refused("web")

    why = "Fussy answered WAIT to Reserve, which is neither success nor a refusal"
    assert (refused.rejectors, refused.message) == (("Fussy",), why)
    assert plugin.reserved == []
    assert hand.cache.assumed() == ()


async def test_pod_that_a_plugin_holds_is_placed_with_the_time_it_may_wait(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()
    plugin.permits = Permission(Status(Code.WAIT), 30.0)
    hand = await world.hand(profiles=with_plugin(plugin))

    permit = (await hand.placed("web")).permit
    assert permit is not None
    assert (permit.plugin, permit.seconds) == ("Fussy", 30.0)


async def test_a_held_pod_keeps_its_seat_for_as_long_as_it_may_be_held(world: World) -> None:
    """Steps: a Permit plugin holds a pod for five minutes; an assumption lives thirty seconds, counted from then."""
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()
    plugin.permits = Permission(Status(Code.WAIT), 300.0)
    hand = await world.hand(profiles=with_plugin(plugin))
    placed = await hand.placed("web")

    hand.clock[0] = 301.0
    assert hand.cache.expire() == ()
    assert (await hand.bind("web", placed)).kind == "bound"


async def test_a_held_pods_seat_is_given_up_some_time_after_its_hold(world: World) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()
    plugin.permits = Permission(Status(Code.WAIT), 300.0)
    hand = await world.hand(profiles=with_plugin(plugin))
    await hand.placed("web")

    hand.clock[0] = 331.0
    assert [one.node for one in hand.cache.expire()] == ["node-1"]


@pytest.mark.parametrize("deleted", [False, True], ids=["refused", "deleted meanwhile"])
async def test_reservation_is_released_when_the_pod_is_not_permitted(world: World, deleted: bool) -> None:
    await world.put_node("node-1")
    await world.put_pod("web")
    plugin = Fussy()
    plugin.permits = Permission(Status(Code.WAIT), 30.0)
    hand = await world.hand(profiles=with_plugin(plugin))
    placed = await hand.placed("web")
    if deleted:
        await world.store.delete(keys.pod("default", "web"))
        await hand.seen()

    await hand.record("web", reserved_node=placed.node, plugin_data=placed.plugin_data)

    assert plugin.reserved == []
    assert hand.cache.assumed() == ()


async def test_reservation_is_released_when_the_bind_finds_the_pod_gone(world: World) -> None:
    plugin = Fussy()
    hand, placed = await world.one_placed(profiles=with_plugin(plugin))
    await world.store.delete(keys.pod("default", "web"))
    await hand.seen()

    assert (await hand.bind("web", placed)).kind == "gone"
    assert plugin.reserved == []


# --- size -----------------------------------------------------------------------------------------


def long_name(number: int) -> str:
    return f"node-{number:05d}." + ".".join(["x" * 60] * 4)[:240]


async def test_what_travels_stays_within_four_kibibytes_on_five_thousand_nodes(world: World) -> None:
    """Every node has a taint of its own, so there are as many reasons as nodes, and names of 250 characters."""
    for number in range(5000):
        taint = {"key": "dedicated", "value": f"team-{number}-{'y' * 40}", "effect": "NoSchedule"}
        tainted = number >= 100
        await world.put_node(long_name(number), spec={"taints": [taint]} if tainted else {})
    await world.put_pod("web", namespace="n" * 63)
    await world.put_pod("huge", cpu="400", namespace="n" * 63)
    for number in range(40):
        await world.put_pod(f"other-{number}")
    hand = await world.hand()

    for number in range(40):
        placed = await hand.placed(f"other-{number}")
        assert len(placed.model_dump_json()) <= payload.LIMIT
    placed = await hand.placed("web", namespace="n" * 63)
    refused = await hand.refused("huge", namespace="n" * 63)

    assert len(placed.model_dump_json()) <= payload.LIMIT
    assert len(refused.model_dump_json()) <= payload.LIMIT
    assert placed.computation.approximate
    assert placed.ranking[0].node == placed.node
    assert len(placed.ranking) >= 3
    assert refused.message.startswith("0/5000 nodes are available: ")
    told = {one.plugin: sum(one.reasons.values()) for one in refused.refusals}
    assert told == {"TaintToleration": 4900, "NodeResourcesFit": 100}


async def test_an_assumption_that_was_never_sent_expires(world: World) -> None:
    await world.put_node("node-1", cpu="1")
    revision = await world.put_pod("web")
    hand = await world.hand()
    await hand.placed("web")
    hand.clock[0] = 31.0

    [expired] = hand.cache.expire()
    assert expired.identity == PodIdentity("default", "web", revision)
