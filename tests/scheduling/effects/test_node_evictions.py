"""Clearing absent and tainted nodes, on a store in memory that fails where it hurts."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from tests.scheduling.intercepted import intercepted
from tests.scheduling.world import NOW, Hand, World, pod_object
from wharfinger.activities.node_evictions import NodeEvictionActivities
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Operation
from wharfinger.process.parts import ProcessParts
from wharfinger.process.records import NodeBudgetRecord
from wharfinger.scheduling.contracts.node_eviction import Cleared, ClearInput, Looked, LookInput
from wharfinger.settings import NodeEvictionSettings

REQUEUE = NodeEvictionSettings(lost_pods="requeue", lost_after=300.0)
OWNED = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}]
START = NOW.timestamp()


class Caretaker:
    """One worker's activities, and a clock."""

    def __init__(self, hand: Hand, settings: NodeEvictionSettings = REQUEUE, *, mode: str = "immediate") -> None:
        self.hand = hand
        self.now = START
        numbers = itertools.count(1)
        self.activities = intercepted(
            NodeEvictionActivities(
                ProcessParts(hand.store, hand.metrics, utc_now=lambda: datetime.fromtimestamp(self.now, UTC)),
                hand.cache,
                settings,
                mode=mode,
                new_uid=lambda: f"new-{hand.name}-{next(numbers)}",
            )
        )

    async def look(self, node: str = "n", **more: Any) -> Looked:
        await self.hand.seen()
        return await self.activities.look_at_node(LookInput(node=node, now=self.now, **more))

    async def clear(self, node: str = "n", *, absent: bool = True, **more: Any) -> Cleared:
        await self.hand.seen()
        return await self.activities.clear_node(ClearInput(node=node, now=self.now, absent=absent, **more))


async def caretaker(world: World, settings: NodeEvictionSettings = REQUEUE, **more: Any) -> Caretaker:
    return Caretaker(await world.hand(), settings, **more)


async def put_lost(world: World, name: str, *, node: str = "n", **metadata: Any) -> None:
    """A pod that runs on a node."""
    obj = pod_object(name, spec={"nodeName": node}, annotations={"wharfinger.dev/attempt": "w@r"})
    obj["metadata"] |= metadata
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-03-01T11:00:00Z"}]
    obj["status"] = {"phase": "Running", "podIP": "10.0.0.9", "conditions": conditions}
    await world.store.put(keys.pod("default", name), json.dumps(obj).encode())


async def requeued_records(world: World) -> list[str]:
    return [kv.key async for page in world.store.list(keys.REQUEUED) for kv in page.items]


async def test_bare_pod_of_an_absent_node_is_made_anew_unbound(world: World) -> None:
    one = await caretaker(world)
    await put_lost(world, "web")
    before = (await world.store.get(keys.pod("default", "web"))).kv

    cleared = await one.clear()

    after = (await world.store.get(keys.pod("default", "web"))).kv
    assert before is not None
    assert after is not None
    assert (cleared.removed, cleared.made_anew, cleared.pods) == (1, 1, ("default/web",))
    assert after.create_revision > before.create_revision
    pod = json.loads(after.value)
    assert "nodeName" not in pod["spec"]
    assert pod["status"] == {"phase": "Pending"}
    assert pod["metadata"]["uid"] == "new-hand-1-1"
    assert pod["metadata"]["annotations"] == {"team": "red"}
    assert pod["unknown"] == {"kept": True}
    assert await requeued_records(world) == []


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"ownerReferences": OWNED}, id="a controller makes another one"),
        pytest.param({"annotations": {"kubernetes.io/config.mirror": "x"}}, id="the copy of a static pod"),
        pytest.param({"deletionTimestamp": "2026-03-01T11:00:00Z"}, id="its deletion was asked for"),
    ],
)
async def test_other_pods_of_an_absent_node_are_deleted_only(world: World, metadata: dict[str, Any]) -> None:
    one = await caretaker(world)
    await put_lost(world, "web", **metadata)

    cleared = await one.clear()

    assert (cleared.removed, cleared.made_anew) == (1, 0)
    assert await world.pod("web") is None


async def test_finished_and_foreign_pods_are_left_alone(world: World) -> None:
    one = await caretaker(world)
    await world.put_pod("done", spec={"nodeName": "n"}, status={"phase": "Succeeded"})
    await put_lost(world, "elsewhere", node="m")

    assert (await one.look()).action == "done"
    assert (await one.clear()).removed == 0
    assert await world.pod("done") is not None
    assert await world.pod("elsewhere") is not None


async def test_absent_node_is_waited_for_before_its_pods_are_requeued(world: World) -> None:
    one = await caretaker(world)
    await put_lost(world, "web")

    early, late = await one.look(absent_for=299.0), await one.look(absent_for=300.0)

    assert (early.action, early.absent, early.seconds) == ("wait", True, 1.0)
    assert (late.action, late.absent) == ("clear", True)


async def test_node_that_returns_keeps_its_pods(world: World) -> None:
    one = await caretaker(world)
    await put_lost(world, "web")
    await put_lost(world, "api")
    await one.look()

    async def returns(compares: Sequence[Condition], _: Sequence[Operation]) -> None:
        if any(getattr(compare, "key", "") == keys.node("n") for compare in compares):
            one.hand.store.before_txn = None
            await world.put_node("n")

    one.hand.store.before_txn = returns
    cleared = await one.clear()

    assert (cleared.removed, cleared.notes) == (0, ("its node is there again",))
    assert await world.node_of("web") == "n"
    assert await world.node_of("api") == "n"


@pytest.mark.parametrize("applied", [True, False], ids=["the answer is lost", "it did not happen"])
@pytest.mark.parametrize("write", [1, 2, 3], ids=["at the budget", "at the deletion", "at the new pod"])
async def test_crash_at_any_write_loses_no_pod(world: World, write: int, applied: bool) -> None:
    """A worker ends within the clearing. Another one carries the activity out again."""
    one, other = await caretaker(world), await caretaker(world)
    await put_lost(world, "web")
    count = itertools.count(1)

    def fail(*_: object) -> None:
        if next(count) == write:
            one.hand.store.fail_next(applied=applied)

    one.hand.store.before_txn = fail
    with pytest.raises(ApplicationError) as failure:
        await one.clear()
    assert failure.value.type == "Unavailable"
    looked = await other.look(absent_for=300.0)
    if looked.action == "clear":
        await other.clear()

    assert await world.node_of("web") == ""
    assert (await world.pod("web"))["metadata"]["uid"].startswith("new-")
    assert await requeued_records(world) == []


async def test_pod_that_a_client_puts_in_between_is_not_overwritten(world: World) -> None:
    one = await caretaker(world)
    await put_lost(world, "web")

    async def put(compares: Sequence[Condition], operations: Sequence[Operation]) -> None:
        if any(isinstance(compare.key, str) and compare.key.startswith(keys.REQUEUED) and compare.revision
               for compare in compares if hasattr(compare, "key")):  # fmt: skip
            one.hand.store.before_txn = None
            await world.put_pod("web", uid="theirs")

    one.hand.store.before_txn = put
    await one.clear()

    assert (await world.pod("web"))["metadata"]["uid"] == "theirs"
    assert await requeued_records(world) == []


async def test_half_requeued_pods_are_recreated_though_the_node_returned(world: World) -> None:
    one = await caretaker(world, NodeEvictionSettings())
    manifest = json.dumps(pod_object("web", uid="new")).encode()
    await world.store.put(keys.requeued("n", "default", "web"), manifest)
    await world.put_node("n")

    looked = await one.look()
    cleared = await one.clear(absent=looked.absent)

    assert (looked.action, cleared.made_anew) == ("clear", 1)
    assert (await world.pod("web"))["metadata"]["uid"] == "new"
    assert (await one.look()).action == "done"


async def test_half_done_pods_do_not_shorten_the_wait_for_the_node(world: World) -> None:
    one = await caretaker(world)
    await put_lost(world, "waits")
    manifest = json.dumps(pod_object("web", uid="new-1")).encode()
    await world.store.put(keys.requeued("n", "default", "web"), manifest)

    looked = await one.look(absent_for=10.0)
    cleared = await one.clear(absent=looked.absent)

    assert looked.action == "clear"
    assert (cleared.removed, cleared.made_anew) == (0, 1)
    assert (await one.look(absent_for=10.0)).action == "wait"

    await world.store.put(keys.requeued("n", "default", "web-2"), json.dumps(pod_object("web-2", uid="u")).encode())
    assert (await one.look(absent_for=300.0)).absent


@pytest.mark.parametrize(
    "manifest",
    [
        b"{",
        json.dumps({"metadata": {"name": "other"}}).encode(),
        json.dumps(pod_object("web", spec={"nodeName": "n"})).encode(),
    ],
    ids=["no object", "of another pod", "bound"],
)
async def test_record_that_holds_no_unbound_pod_of_its_name_makes_none(world: World, manifest: bytes) -> None:
    one = await caretaker(world, NodeEvictionSettings())
    await world.store.put(keys.requeued("n", "default", "web"), manifest)
    await world.put_node("n")

    assert (await one.look()).action == "done"
    assert (await one.clear()).made_anew == 0
    assert (await world.store.get(keys.pod("default", "web"))).kv is None
    assert await requeued_records(world) == [keys.requeued("n", "default", "web")]


async def test_by_default_lost_pods_are_only_reported(world: World) -> None:
    one = await caretaker(world, NodeEvictionSettings())
    await put_lost(world, "web")

    assert (await one.look(absent_for=1e6)).action == "done"
    assert (await one.clear()).removed == 0
    assert await world.node_of("web") == "n"


async def test_of_a_mass_loss_a_tenth_of_the_nodes_is_cleared_per_window(world: World) -> None:
    """30 of 100 nodes vanish; two workers clear, in any order."""
    one, other = await caretaker(world), await caretaker(world)
    for number in range(70):
        await world.put_node(f"here-{number}")
    lost = [f"gone-{number}" for number in range(30)]
    for node in lost:
        await put_lost(world, f"web-{node}", node=node)

    first = [await (one if number % 2 else other).clear(node) for number, node in enumerate(lost)]
    again = await one.clear(lost[-1])
    one.now = other.now = START + 301
    second = [await (other if number % 2 else one).clear(node) for number, node in enumerate(lost)]

    assert sum(cleared.removed for cleared in first) == 10
    assert {cleared.held > 0 for cleared in first[10:]} == {True}
    assert "10 nodes were cleared within 300 s, 10 may be: only reported" in again.notes
    assert sum(cleared.removed for cleared in second) == 9
    held = [hand.metrics.registry.get_sample_value("wharfinger_node_evictions_held_total") for hand in world.hands]
    assert sum(value or 0 for value in held) >= 20


async def test_an_admitted_node_is_cleared_to_its_end(world: World) -> None:
    one = await caretaker(world)
    await put_lost(world, "first")
    assert (await one.clear()).removed == 1
    await put_lost(world, "second")
    await put_lost(world, "other", node="m")

    assert (await one.clear()).removed == 1
    assert (await one.clear("m")).held == 300.0
    kv = (await world.store.get(keys.NODE_BUDGET)).kv
    assert kv is not None
    assert NodeBudgetRecord.model_validate_json(kv.value).admitted == {"n": START}


# --- taints -----------------------------------------------------------------------------------------

TAINTS = NodeEvictionSettings(taint_eviction=True)
FLAKY = {"key": "flaky", "value": "", "effect": "NoExecute"}


async def put_on(world: World, name: str, *tolerations: dict[str, Any], **metadata: Any) -> None:
    await put_lost(world, name, **metadata)
    await world.change_pod(name, lambda pod: pod["spec"].update(tolerations=list(tolerations)))


async def test_pod_without_toleration_is_evicted_at_once(world: World) -> None:
    one = await caretaker(world, TAINTS)
    await world.put_node("n", spec={"taints": [FLAKY]})
    await put_on(world, "web")
    await put_on(world, "stays", {"key": "flaky", "operator": "Exists"})

    looked = await one.look()
    cleared = await one.clear(absent=False)

    assert (looked.action, looked.absent) == ("clear", False)
    assert cleared.pods == ("default/web",)
    assert await world.pod("web") is None
    assert await world.pod("stays") is not None
    assert (await one.look()).action == "done"


async def test_graceful_eviction_marks_the_pod_as_kubernetes_does(world: World) -> None:
    one = await caretaker(world, TAINTS, mode="graceful")
    await world.put_node("n", spec={"taints": [FLAKY]})
    await put_on(world, "web")

    await one.look()
    await one.clear(absent=False)

    pod = await world.pod("web")
    [condition] = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", "DeletionByTaintManager")
    assert condition["message"] == "Taint manager: deleting due to NoExecute taint"
    assert pod["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:30Z"
    assert (await one.look()).action == "done"


@pytest.mark.parametrize("added", ["2026-03-01T11:58:20Z", ""], ids=["by timeAdded", "since it was first seen"])
async def test_toleration_seconds_are_waited_for(world: World, added: str) -> None:
    one = await caretaker(world, TAINTS)
    await world.put_node("n", spec={"taints": [FLAKY | ({"timeAdded": added} if added else {})]})
    await put_on(world, "web", {"key": "flaky", "operator": "Exists", "tolerationSeconds": 300})

    first = await one.look()
    assert (first.action, first.seconds) == ("wait", 200.0 if added else 300.0)
    one.now += first.seconds - 1
    early = await one.clear(absent=False, tainted_since=first.tainted_since)
    one.now += 1
    second = await one.look(tainted_since=first.tainted_since)
    await one.clear(absent=False, tainted_since=second.tainted_since)

    assert early.removed == 0
    assert second.action == "clear"
    assert await world.pod("web") is None


async def test_toleration_seconds_do_not_count_before_the_pod_was_bound(world: World) -> None:
    one = await caretaker(world, TAINTS)
    await world.put_node("n", spec={"taints": [FLAKY | {"timeAdded": "2026-03-01T09:00:00Z"}]})
    await put_on(world, "web", {"key": "flaky", "operator": "Exists", "tolerationSeconds": 4000})

    assert (await one.look()).seconds == 400.0


async def test_taint_that_goes_cancels_the_eviction(world: World) -> None:
    one = await caretaker(world, TAINTS)
    await world.put_node("n", spec={"taints": [FLAKY]})
    await put_on(world, "web")
    await one.look()

    async def heals(compares: Sequence[Condition], _: Sequence[Operation]) -> None:
        if any(getattr(compare, "key", "") == keys.node("n") for compare in compares):
            one.hand.store.before_txn = None
            await world.put_node("n")

    one.hand.store.before_txn = heals
    cleared = await one.clear(absent=False)

    assert cleared.removed == 0
    assert "deletionTimestamp" not in (await world.pod("web"))["metadata"]
    assert (await one.look()).action == "done"


async def test_heart_beat_of_the_node_does_not_keep_a_pod_from_being_evicted(world: World) -> None:
    one = await caretaker(world, TAINTS)
    await world.put_node("n", spec={"taints": [FLAKY]})
    await put_on(world, "web")
    await one.look()

    async def beats(compares: Sequence[Condition], _: Sequence[Operation]) -> None:
        if any(getattr(compare, "key", "") == keys.node("n") for compare in compares):
            one.hand.store.before_txn = None
            await world.put_node("n", spec={"taints": [FLAKY]}, heartbeat="2")

    one.hand.store.before_txn = beats
    await one.clear(absent=False)

    assert await world.pod("web") is None


async def test_bare_pod_evicted_for_a_taint_is_not_made_anew(world: World) -> None:
    one = await caretaker(world, NodeEvictionSettings(lost_pods="requeue", taint_eviction=True))
    await world.put_node("n", spec={"taints": [FLAKY]})
    await put_on(world, "web")
    await one.look()

    assert (await one.clear(absent=False)).made_anew == 0
    assert await world.pod("web") is None
    assert await requeued_records(world) == []


async def test_evictions_for_taints_share_the_budget_with_lost_nodes(world: World) -> None:
    one = await caretaker(world, NodeEvictionSettings(lost_pods="requeue", taint_eviction=True))
    await world.put_node("n", spec={"taints": [FLAKY]})
    await put_on(world, "web")
    await put_lost(world, "lost", node="m")
    await one.clear("m")

    assert (await one.clear(absent=False)).held > 0
    assert await world.pod("web") is not None


async def test_without_the_option_no_taint_evicts(world: World) -> None:
    one = await caretaker(world, NodeEvictionSettings())
    await world.put_node("n", spec={"taints": [FLAKY]})
    await put_on(world, "web")

    assert (await one.look()).action == "done"
    assert (await one.clear(absent=False)).removed == 0
    assert await world.pod("web") is not None
