"""What a hub reconciles after a change of what is delivered, which rollouts it starts, and how its activity waits."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from tests.fleet.agent.hosts import running, until
from tests.placement.delivery_scene import ROLES, DeliveryScene, events_since, role, rolled_out
from tests.placement.effects.test_rolling_out import override
from tests.placement.effects.test_works import ALL_AT_ONCE, ONE
from tests.placement.objects import agent_record, pick
from tests.placement.scene import P
from wharfinger.activities.placements import RollingActivities
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_rollouts import Awaited, AwaitResultsInput, PlanRolloutInput
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.hub.following import ContentsStreams
from wharfinger.placement.hub.rollout_controller import RolloutController
from wharfinger.placement.state import catching_up
from wharfinger.placement.state.hub_view import STREAMS
from wharfinger.process.names import placement_rollout_id
from wharfinger.process.parts import ProcessParts


@dataclass
class Starter:
    """Notes what is started."""

    started: list[tuple[str, str]] = field(default_factory=list)
    seen: list[StreamRevisions] = field(default_factory=list)
    failures: int = 0
    answers: asyncio.Event | None = None

    async def start_rollout(self, reference: str, seen: StreamRevisions, cause: str) -> None:
        if self.answers is not None:
            await self.answers.wait()
        if self.failures:
            self.failures -= 1
            raise RuntimeError("no answer")
        self.started.append((reference, cause))
        self.seen.append(seen)


@dataclass
class ReconcilingScene(DeliveryScene):
    """A hub that reconciles what it has seen; rollouts are carried out by the test."""

    starter: Starter = field(default_factory=Starter)
    others: set[str] = field(default_factory=set)
    """Placements of another hub."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.controller = RolloutController(
            ProcessParts(self.store, clock=self.clock),
            self.view,
            self.contents,
            self.starter.start_rollout,
            mine=lambda reference: reference not in self.others,
            sees=lambda: True,
        )

    async def reconciled(self) -> list[str]:
        """See and reconcile; the causes of what was started by that."""
        before, stamped = len(self.starter.started), self.store.revision
        changes = await self.see()
        self.controller.note(changes)
        concerned = {P} if events_since(self.store, ROLES, self._seen_roles) else set()
        self._seen_roles = stamped
        if concerned:
            self.controller.note_contents(concerned)
        await self.controller.reconcile_due()
        for _ in range(3):
            await asyncio.sleep(0)
        return [cause for _, cause in self.starter.started[before:]]

    _seen_roles: int = 0


async def settled_scene() -> ReconcilingScene:
    """A placement that is settled on a and b, of which the controller has seen all."""
    scene = ReconcilingScene()
    for name in "abc":
        await scene.member(name)
    await scene.put(role())
    await scene.put(rolled_out(pick(2), **ALL_AT_ONCE))
    await scene.attempt()
    await scene.settle()
    scene.controller.note(scene.changes)
    await scene.reconciled()
    scene.clock.advance(100)
    assert await scene.reconciled() == []
    assert scene.controller.unsettled == 0
    scene.starter.started.clear()
    return scene


@pytest.fixture
async def scene() -> ReconcilingScene:
    return await settled_scene()


async def decided(scene: ReconcilingScene, number: int, **rolling: Any) -> None:
    """Another number of members is chosen; the controller has not seen it."""
    await scene.put(rolled_out(pick(number), generation=int(scene.clock()), **(rolling or ALL_AT_ONCE)))
    scene.controller.note(await scene.see())
    await scene.commit(scene.decide())


async def test_a_new_decision_starts_a_rollout_once(scene: ReconcilingScene) -> None:
    await decided(scene, 3)
    assert await scene.reconciled() == ["changed"]
    assert await scene.reconciled() == []
    assert scene.controller.unsettled == 1
    await scene.settle()
    scene.clock.advance(1)
    assert await scene.reconciled() == []
    assert scene.controller.unsettled == 0


async def test_a_start_names_the_newest_change_that_was_seen(scene: ReconcilingScene) -> None:
    await decided(scene, 3)
    await scene.store.put("/elsewhere", b"")
    await scene.reconciled()
    kv = (await scene.store.get(placement_keys.decision(P))).kv
    assert kv is not None
    assert scene.starter.seen[-1].hub == kv.mod_revision


async def test_nothing_is_started_before_all_was_listed() -> None:
    scene = ReconcilingScene()
    await scene.member("a")
    await scene.put(rolled_out(pick(1)))
    scene.controller.note_contents([P])
    await scene.controller.reconcile_due()
    assert scene.starter.started == []


async def test_a_rollout_is_started_again_ever_more_rarely(scene: ReconcilingScene) -> None:
    await decided(scene, 3)
    await scene.reconciled()
    waits = []
    for _ in range(8):
        waited = 0.0
        while not await scene.reconciled():
            scene.clock.advance(0.5)
            waited += 0.5
        waits.append(waited)
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


async def test_a_start_that_fails_is_tried_again_soon(scene: ReconcilingScene) -> None:
    scene.starter.failures = 2
    await decided(scene, 3)
    found = []
    for _ in range(4):
        found.append(await scene.reconciled())
        scene.clock.advance(1)
    assert found == [[], [], ["again"], []]


async def test_one_start_at_a_time(scene: ReconcilingScene) -> None:
    scene.starter.answers = asyncio.Event()
    await decided(scene, 3)
    for _ in range(3):
        assert await scene.reconciled() == []
        await scene.answer("c", available=False)
        scene.clock.advance(40)
    scene.starter.answers.set()
    assert await scene.reconciled() == ["changed"]


async def test_a_result_without_a_step_starts_nothing(scene: ReconcilingScene) -> None:
    for said in ({"available": False}, {"failed": True, "available": False, "applied": False}, {}):
        await scene.answer("c", **said)
        assert await scene.reconciled() == []
    assert scene.controller.unsettled == 0


async def test_a_timer_starts_a_rollout(scene: ReconcilingScene) -> None:
    await decided(scene, 2, unavailablePeriodSeconds=60, **ONE)
    await scene.settle()
    await scene.answer("c", untrackable=True)
    await scene.answer("b", available=False)
    await scene.edit("2")
    await scene.reconciled()
    assert [cause for _, cause in scene.starter.started] == ["changed"]
    assert scene.plan().timer == 60.0


async def test_contents_are_looked_at_when_they_have_settled(scene: ReconcilingScene) -> None:
    await scene.put(role(mark="2"))
    assert await scene.reconciled() == []
    scene.clock.advance(14.5)
    await scene.put(role(mark="3"))
    assert await scene.reconciled() == []
    scene.clock.advance(0.5)
    assert await scene.reconciled() == ["again"]
    await scene.settle()
    assert len(await scene.snapshots()) == 2


async def test_snapshots_lie_apart(scene: ReconcilingScene) -> None:
    await scene.put(role(mark="2"))
    await scene.reconciled()
    scene.clock.advance(15)
    await scene.reconciled()
    await scene.settle()
    await scene.reconciled()
    await scene.put(role(mark="3"))
    scene.clock.advance(1)
    assert await scene.reconciled() == []
    scene.clock.advance(15)
    assert await scene.reconciled() == []
    scene.clock.advance(14)
    assert await scene.reconciled() == ["again"]


async def test_contents_that_are_as_they_were_start_nothing(scene: ReconcilingScene) -> None:
    await scene.put(role("other"))
    assert await scene.reconciled() == []
    scene.clock.advance(60)
    assert await scene.reconciled() == []


async def test_a_member_that_goes_starts_what_has_a_work_there(scene: ReconcilingScene) -> None:
    await scene.store.delete(placement_keys.member_cluster("c"))
    assert await scene.reconciled() == ["member c changed"]


async def test_an_agent_that_returns_starts_what_waits_for_it(scene: ReconcilingScene) -> None:
    await scene.edit("2")
    await scene.settle()
    await decided(scene, 2, **ONE)
    await scene.settle()
    await scene.reconciled()
    scene.clock.advance(40)
    for name in "bc":
        await scene.store.delete(placement_keys.member(name))
    await scene.edit("3")
    await scene.reconciled()
    scene.clock.advance(100)
    await scene.reconciled()
    assert scene.controller.unsettled == 0
    await scene.store.put(placement_keys.member("c"), agent_record(scene.view.members["c"].member.identity))
    await scene.store.put(placement_keys.member("b"), agent_record(scene.view.members["b"].member.identity))
    assert await scene.reconciled() == ["member b changed"] or scene.starter.started[-1][1].startswith("member")


async def test_an_override_starts_what_it_changes(scene: ReconcilingScene) -> None:
    await scene.put(override({"region": "x"}))
    assert await scene.reconciled() == []
    await scene.change_member("c", labels={"region": "x"})
    assert await scene.reconciled() == ["member c changed"]
    await scene.settle()
    scene.clock.advance(100)
    await scene.reconciled()
    await scene.put(override({"region": "x"}, value="y"))
    assert await scene.reconciled() == ["an override changed"]


async def test_labels_start_nothing_without_overrides(scene: ReconcilingScene) -> None:
    await scene.change_member("c", labels={"region": "x"})
    assert await scene.reconciled() == []


async def test_another_hubs_placements_are_left_to_it_until_it_goes(scene: ReconcilingScene) -> None:
    scene.others = {P}
    await scene.store.put(placement_keys.hub("h2"), b"{}")
    await decided(scene, 3)
    assert await scene.reconciled() == []
    scene.others = set()
    await scene.store.delete(placement_keys.hub("h2"))
    assert await scene.reconciled() == ["hubs changed"]


async def test_a_placement_that_cannot_be_reconciled_keeps_no_other(scene: ReconcilingScene) -> None:
    await decided(scene, 3)
    await scene.see()
    scene.view.decisions["ns/x/broken"] = None  # type: ignore[assignment]
    scene.view.works["ns/x/broken"] = {"a": None}  # type: ignore[dict-item]
    scene.controller.note_contents(["ns/x/broken", P])
    scene.controller._due["cluster/\0"] = "?"
    await scene.controller.reconcile_due()
    await asyncio.sleep(0)
    assert (P, "contents changed") in scene.starter.started or (P, "changed") in scene.starter.started


# --- the activities -------------------------------------------------------------------------------


@pytest.fixture
async def activities(scene: ReconcilingScene) -> RollingActivities:
    return RollingActivities(ProcessParts(scene.store, clock=scene.clock), scene.view, scene.contents, cluster="hub")


async def awaited(activities: RollingActivities, seconds: float = 60.0) -> Awaited:
    request = AwaitResultsInput(placement=P, seen=StreamRevisions(), seconds=seconds)
    found: Awaited = await ActivityEnvironment().run(activities.await_results, request)
    return found


async def test_a_wait_ends_at_once_if_nothing_is_awaited(activities: RollingActivities) -> None:
    assert (await awaited(activities)).news


async def test_a_wait_ends_with_the_result_that_lets_something_go_on(
    scene: ReconcilingScene, activities: RollingActivities
) -> None:
    await decided(scene, 2, **ONE)
    await scene.settle()
    await scene.edit("2")
    await scene.write(await scene.seen_plan())
    await scene.see()
    waiting = asyncio.create_task(awaited(activities))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    await scene.answer("b")
    scene.controller.note(await scene.see())
    assert (await waiting).news


async def test_a_wait_ends_when_its_time_is_up(scene: ReconcilingScene, activities: RollingActivities) -> None:
    await scene.answer("b", available=False)
    await scene.see()
    assert scene.plan().waiting == ("b",)
    assert not (await awaited(activities, seconds=0.0)).news


async def test_a_wait_without_a_place_is_tried_again_unless_there_is_news(
    scene: ReconcilingScene, activities: RollingActivities
) -> None:
    scene.view.delivery.waiting = catching_up.MOST_WAITING
    assert (await awaited(activities)).news
    await scene.answer("b", available=False)
    await scene.see()
    with pytest.raises(ApplicationError, match="wait in this hub") as crowded:
        await awaited(activities)
    assert (crowded.value.non_retryable, crowded.value.next_retry_delay) == (False, catching_up.CROWDED)
    assert scene.view.delivery.waiting == catching_up.MOST_WAITING


async def test_a_plan_is_of_what_the_hub_has_seen(scene: ReconcilingScene, activities: RollingActivities) -> None:
    await decided(scene, 3)
    await scene.see()
    right = placement_rollout_id("hub", P)
    request = PlanRolloutInput(placement=P, workflow_id=right, run_id="r")
    planned = await ActivityEnvironment().run(activities.plan_rollout, request)
    assert [one.member for one in planned.steps] == ["a"]
    assert planned.seen == scene.view.newest
    with pytest.raises(Exception, match="run under the workflow id"):
        await ActivityEnvironment().run(activities.plan_rollout, request.model_copy(update={"workflow_id": "other"}))


async def test_what_an_etcd_had_before_it_was_restored_is_not_waited_for(
    scene: ReconcilingScene, activities: RollingActivities, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catching_up, "WITHIN", 0.01)
    right = placement_rollout_id("hub", P)
    request = PlanRolloutInput(placement=P, workflow_id=right, run_id="r", seen=StreamRevisions(hub=10**9))
    planned = await ActivityEnvironment().run(activities.plan_rollout, request)
    assert planned.seen == scene.view.newest
    await scene.answer("c", available=False)  # etcd has it, and the hub has not seen it
    behind = request.model_copy(update={"seen": StreamRevisions(hub=scene.store.revision)})
    with pytest.raises(ApplicationError, match="must have seen"):
        await ActivityEnvironment().run(activities.plan_rollout, behind)


async def test_kinds_are_followed_as_long_as_any_placement_selects_them(scene: ReconcilingScene) -> None:
    noted: list[str] = []
    store = scene.store.client()
    streams = ContentsStreams(store, scene.contents, note=noted.extend, rng=ProcessParts(store).rng)
    async with running(streams.run()):
        await scene.put(role(mark="7"))
        await until(lambda: P in noted)
        scene.contents.read(P, ())
        await until(lambda: not streams._following)
    assert set(STREAMS) == scene.view.synced
