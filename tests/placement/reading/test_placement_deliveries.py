"""Rollback, evictions, deletion and snapshots of placements, for programs, on a store in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from tests.placement.delivered import DeliveredScene
from tests.placement.objects import pick, placement_object
from tests.placement.scene import P
from wharfinger.errors import InvalidObject, NotFound, ServerError, UsageError
from wharfinger.etcd import keys
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord
from wharfinger.placement.contracts.placement_records import EvictionRecord
from wharfinger.placement.contracts.placement_rollouts import RolloutResult
from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries
from wharfinger.placement.reading.placements import OUTCOME_KEY, Placements


@pytest.fixture
async def scene() -> DeliveredScene:
    """Snapshots 1 to 3; the first is everywhere."""
    scene = await (await DeliveredScene.begin()).ready()
    await scene.snapshot(2)
    await scene.snapshot(3)
    return scene


@pytest.fixture
def placements(scene: DeliveredScene) -> PlacementDeliveries:
    return PlacementDeliveries(scene.store.client(), who="me")


async def pinned(scene: DeliveredScene) -> PinRecord | None:
    kv = (await scene.store.get(placement_keys.pin(P))).kv
    return PinRecord.model_validate_json(kv.value) if kv is not None else None


# --- rollback -------------------------------------------------------------------------------------


async def test_a_rollback_pins_and_the_latest_unpins(scene: DeliveredScene, placements: PlacementDeliveries) -> None:
    changed = await placements.rollback("web", 2, why="crash\nloop")
    assert changed.written
    assert changed.sentence == (
        "clusterresourceplacement/web pinned to snapshot 2 (the newest is 3); "
        "the hub rolls it out within the placement's budget"
    )
    record = await pinned(scene)
    assert record is not None
    assert (record.snapshot, record.by, record.why) == (2, "me", "crash loop")
    assert (await scene.told()).rollout.snapshot == 2
    changed = await placements.rollback("web", None)
    assert changed.sentence == (
        "clusterresourceplacement/web unpinned: snapshot 3, the newest, is wanted; "
        "the hub rolls it out within the placement's budget"
    )
    assert await pinned(scene) is None


async def test_a_rollback_that_changes_nothing_writes_nothing(
    scene: DeliveredScene, placements: PlacementDeliveries
) -> None:
    assert not (await placements.rollback("web", None)).written
    await placements.rollback("web", 2, why="crash")
    before = scene.store.revision
    same = await placements.rollback("web", 2)
    assert (same.written, same.sentence) == (
        False,
        "clusterresourceplacement/web is pinned already to snapshot 2 (the newest is 3)",
    )
    assert scene.store.revision == before
    assert (await placements.rollback("web", 2, why="another")).written


async def test_a_snapshot_that_is_not_there_is_refused(scene: DeliveredScene, placements: PlacementDeliveries) -> None:
    with pytest.raises(NotFound, match=r"^placement cluster/web has no snapshot 7; there are: 1, 2, 3$"):
        await placements.rollback("web", 7)
    with pytest.raises(NotFound, match="there is no placement cluster/nothing"):
        await placements.rollback("nothing", 1)
    await scene.put(placement_object("new"))
    with pytest.raises(NotFound, match="there are: none yet"):
        await placements.rollback("new", 1)


async def test_a_placement_that_is_deleted_is_not_pinned(
    scene: DeliveredScene, placements: PlacementDeliveries
) -> None:
    await scene.put(placement_object(deleting=True, **pick(3)))
    with pytest.raises(InvalidObject, match="is being deleted"):
        await placements.rollback("web", 1)
    assert await pinned(scene) is None


async def test_a_snapshot_that_goes_meanwhile_is_not_pinned(scene: DeliveredScene) -> None:
    client = scene.store.client()

    async def forget(*_: object) -> None:
        client.before_txn = None
        await scene.store.delete(placement_keys.snapshot(P, 2))

    client.before_txn = forget
    with pytest.raises(NotFound, match="there are: 1, 3"):
        await PlacementDeliveries(client).rollback("web", 2)
    assert await pinned(scene) is None


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("to", [1, None])
async def test_a_lost_answer_changes_nothing_twice(scene: DeliveredScene, applied: bool, to: int | None) -> None:
    await scene.pin(2)
    client = scene.store.client()
    client.fail_next(applied=applied)
    assert (await PlacementDeliveries(client).rollback("web", to)).written
    record = await pinned(scene)
    assert (record.snapshot if record is not None else None) == to


async def test_a_pin_that_cannot_be_read_is_replaced(scene: DeliveredScene, placements: PlacementDeliveries) -> None:
    await scene.store.put(placement_keys.pin(P), b"garbage")
    assert (await placements.rollback("web", 1)).written
    await scene.store.put(placement_keys.pin(P), b"garbage")
    assert (await placements.rollback("web", None)).written


async def test_an_external_placement_is_said_to_need_an_update_run() -> None:
    scene = await DeliveredScene.begin(strategy={"type": "External"})
    await scene.snapshot(1)
    with pytest.raises(UsageError, match=r"update-run start RUN --placement web --strategy S --snapshot 1$"):
        await PlacementDeliveries(scene.store).rollback("web", 1)
    assert await pinned(scene) is None
    await scene.store.put(placement_keys.pin(P), b'{"snapshot": 1}')  # of a time when it was rolled out
    changed = await PlacementDeliveries(scene.store).rollback("web", None)
    assert changed.sentence.endswith("; an update run delivers it")


async def test_snapshots_name_the_members_that_have_them(
    scene: DeliveredScene, placements: PlacementDeliveries
) -> None:
    await scene.deliver("b", snapshot=3)
    await scene.deliver("c", snapshot=3, want="absent")
    found = await placements.snapshots("web")
    assert [(one.number, one.members, one.wanted, one.pinned) for one in found] == [
        (1, ("a",), False, False),
        (2, (), False, False),
        (3, ("b",), True, False),
    ]
    assert (found[0].objects, found[0].time) == (1, "2026-01-01T00:00:00Z")
    await scene.pin(2)
    assert [(one.wanted, one.pinned) for one in await placements.snapshots("web")] == [
        (False, False),
        (True, True),
        (False, False),
    ]
    await scene.pin(9)
    assert [one.wanted for one in await placements.snapshots("web")] == [False, False, True]
    assert await placements.snapshots("nothing") == []


# --- evictions ------------------------------------------------------------------------------------


async def test_an_eviction_is_created_with_a_name_of_its_own(
    scene: DeliveredScene, placements: PlacementDeliveries
) -> None:
    first, second = await placements.evict("web", "b"), await placements.evict("cluster/web", "b")
    assert first.name != second.name
    assert first.name.startswith("web-b-")
    kv = (await scene.store.get(keys.stored(_FOLDER, "", first.name))).kv
    assert kv is not None
    obj = json.loads(kv.value)
    assert (obj["kind"], obj["spec"]) == (
        "ClusterResourcePlacementEviction",
        {"placementName": "web", "clusterName": "b"},
    )
    assert obj["metadata"]["uid"]
    assert kv.create_revision == first.identity
    await scene.see()
    assert [one.eviction.name for one in scene.view.pending_evictions(P)] == [first.name, second.name]


_FOLDER = "placement.kubernetes-fleet.io/clusterresourceplacementevictions"


async def test_long_names_make_an_eviction_name_that_is_valid(scene: DeliveredScene) -> None:
    name, cluster = "a" * 99 + "." + "a" * 20, "b" * 63
    await scene.put(placement_object(name))
    requested = await PlacementDeliveries(scene.store).evict(name, cluster)
    assert requested.name.startswith("a" * 99 + "-" + "b" * 63 + "-")


@pytest.mark.parametrize(
    ("placement", "cluster", "kind"),
    [
        ("ns/team/web", "b", UsageError),
        ("web", "../b", UsageError),
        ("web", "", UsageError),
        ("nothing", "b", NotFound),
    ],
)
async def test_what_cannot_be_evicted_creates_nothing(
    scene: DeliveredScene, placements: PlacementDeliveries, placement: str, cluster: str, kind: type[Exception]
) -> None:
    before = scene.store.revision
    with pytest.raises(kind):
        await placements.evict(placement, cluster)
    assert scene.store.revision == before


async def test_the_outcome_of_an_eviction_is_waited_for(scene: DeliveredScene, placements: PlacementDeliveries) -> None:
    requested = await placements.evict("web", "b")
    waiting = asyncio.create_task(placements.eviction(requested, timeout=30))
    await asyncio.sleep(0)
    decided = await scene.attempt()
    assert requested.name in {one.name for one in decided.evictions}
    ended = await waiting
    assert ended.outcome is not None
    assert ended.outcome.executed
    assert await scene.chosen() == ["a", "c"]


async def test_an_eviction_that_does_not_end_has_no_outcome(
    scene: DeliveredScene, placements: PlacementDeliveries
) -> None:
    requested = await placements.evict("web", "b")
    former = EvictionRecord(identity=1, valid=True, executed=True, message="of a former life")
    await scene.store.put(placement_keys.evicted(requested.name), former.to_bytes())
    assert (await placements.eviction(requested, timeout=0)).outcome is None
    assert (await placements.evict("web", "c", wait=0)).outcome is None


# --- deletion -------------------------------------------------------------------------------------


async def test_a_placement_is_marked_once(scene: DeliveredScene, placements: PlacementDeliveries) -> None:
    first, second = await placements.delete("web"), await placements.delete("web")
    assert (first.written, first.sentence) == (True, "clusterresourceplacement/web marked for deletion")
    assert (second.written, second.sentence) == (False, "clusterresourceplacement/web is being deleted already")
    await scene.see()
    assert scene.view.placements[P].placement.deleting
    with pytest.raises(NotFound, match="there is no placement cluster/nothing"):
        await placements.delete("nothing")


async def test_what_cannot_be_read_is_not_marked(scene: DeliveredScene, placements: PlacementDeliveries) -> None:
    await scene.store.put(placement_keys.placement(P), b"garbage")
    with pytest.raises(InvalidObject, match="cannot be read, so it cannot be marked: apply it again"):
        await placements.delete("web")


# --- rollouts -------------------------------------------------------------------------------------


class FakeTemporal:
    """Runs of workflows."""

    def __init__(self, *runs: tuple[WorkflowExecutionStatus, str, RolloutResult | Exception | None]) -> None:
        self.queries: list[str] = []
        self._runs = runs
        self.broken = False

    async def list_workflows(self, query: str, *, limit: int) -> AsyncIterator[Any]:
        if self.broken:
            raise RPCError("no answer", RPCStatusCode.UNAVAILABLE, b"")
        self.queries.append(query)
        for number, (status, outcome, _) in enumerate(self._runs[:limit]):
            attributes = [SearchAttributePair(OUTCOME_KEY, outcome)] if outcome else []
            yield SimpleNamespace(
                id="id",
                run_id=str(number),
                status=status,
                start_time=datetime(2026, 1, 1, tzinfo=UTC),
                typed_search_attributes=TypedSearchAttributes(attributes),
            )

    def get_workflow_handle(self, _: str, *, run_id: str, result_type: type) -> Any:
        assert result_type is RolloutResult
        ended = self._runs[int(run_id)][2]

        async def result(**_: Any) -> RolloutResult | None:
            if isinstance(ended, Exception):
                raise ended
            return ended

        return SimpleNamespace(result=result)


async def test_runs_of_rollouts_are_read_from_temporal(scene: DeliveredScene) -> None:
    status = WorkflowExecutionStatus
    fake = FakeTemporal(
        (status.RUNNING, "", None),
        (status.CONTINUED_AS_NEW, "", None),
        (status.COMPLETED, "done", RolloutResult(outcome="done", why="snapshot 3; 3 of 3 ready")),
        (status.FAILED, "error", WorkflowFailureError(cause=ValueError("no answer"))),
        (status.TERMINATED, "", None),
    )
    placements = Placements(cast("Client", fake), scene.store, cluster="c")
    found = await placements.rollouts("web")
    assert [(one.outcome, one.why) for one in found] == [
        ("running", ""),
        ("continued as new", ""),
        ("done", "snapshot 3; 3 of 3 ready"),
        ("error", "no answer"),
        ("terminated", ""),
    ]
    assert fake.queries == ['WharfingerPlacement = "cluster/web" AND WorkflowId = "c/placement-rollout/cluster/web"']
    assert found[0].mapping()["time"] == "2026-01-01T00:00:00Z"
    fake.broken = True
    with pytest.raises(ServerError, match="Temporal did not answer"):
        await placements.rollouts("web")
