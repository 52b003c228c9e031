"""A hub that plans and writes rollouts on a store in memory, and agents that answer in a line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.placement.objects import pick, placement_object
from tests.placement.scene import TIME, HubScene, P
from wharfinger.etcd import keys
from wharfinger.etcd.store import Condition, Event, Operation, TxnResult
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    PinRecord,
    ResultRecord,
    RolloutRecord,
    SnapshotRecord,
    WorkRecord,
)
from wharfinger.placement.contracts.placement_rollouts import (
    PlannedRollout,
    TakenSnapshot,
    TakeSnapshotInput,
    WriteWorksInput,
    WrittenWorks,
)
from wharfinger.placement.effects.rolling_out import planned
from wharfinger.placement.effects.snapshots import take
from wharfinger.placement.effects.works import write
from wharfinger.placement.member.applier import ceases
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_changes import HubChange
from wharfinger.placement.state.hub_view import STREAMS
from wharfinger.testing.memory_store import MemoryStore

RBAC = "rbac.authorization.k8s.io"
ROLES = f"{keys.ROOT}clusterroles/"
SELECTORS = [{"group": RBAC, "version": "v1", "kind": "ClusterRole", "name": "role"}]


def role(name: str = "role", mark: str = "1", **labels: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": labels, "annotations": {"mark": mark}}
    return {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": []}


def rolled_out(
    policy: Mapping[str, Any] | None = None, *, selectors: Any = None, history: int = 10, **rolling: Any
) -> dict[str, Any]:
    """A placement that is rolled out so; nothing = KubeFleet's defaults."""
    apply_ = {"applyStrategy": rolling.pop("strategy")} if "strategy" in rolling else {}
    meta = {key: rolling.pop(key) for key in ("generation", "deleting") if key in rolling}
    obj = placement_object(**meta, **(policy or {}))
    obj["spec"] |= {
        "resourceSelectors": selectors or SELECTORS,
        "revisionHistoryLimit": history,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": rolling, **apply_},
    }
    return obj


def careless(store: MemoryStore, prefix: str) -> MemoryStore:
    """A client whose transactions compare nothing under a prefix."""
    client = store.client()
    txn = client.txn

    async def without(compares: Any, success: Any, failure: Any = ()) -> TxnResult:
        kept: list[Condition] = [one for one in compares if not one.key.startswith(prefix)]
        operations: list[Operation] = list(success)
        return await txn(kept, operations, failure)

    client.txn = without  # type: ignore[method-assign]
    return client


def events_since(store: MemoryStore, prefix: str, revision: int) -> list[Event]:
    """What changed after a revision, in order."""
    found = store._shared.history.events_from(revision + 1, prefix)
    return [event for _, events in found for event in events]


@dataclass
class DeliveryScene(HubScene):
    contents: ContentsView = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.contents = ContentsView(self.clock)

    async def see(self) -> list[HubChange]:
        """See what came since: a list first, then each change, as a hub that follows etcd."""
        if not self.view.in_sync:
            found = await super().see()
        else:
            found = [
                change
                for stream, prefix in STREAMS.items()
                for event in events_since(self.store, prefix, self.view.revisions[stream])
                for change in self.view.changed(stream, event)
            ]
            for stream in STREAMS:
                self.view.reached(stream, self.store.revision)
        for change in found:
            if change.own:
                seen = self.view.placements.get(change.placement)
                self.contents.read(change.placement, seen.delivery.selectors if seen is not None else ())
        for folder in self.contents.wanted:
            self.contents.listed(folder, [kv async for page in self.store.list(folder) for kv in page.items])
        return found

    # --- what a rollout does ----------------------------------------------------------------------

    def plan(self, placement: str = P) -> PlannedRollout:
        return planned(self.view, self.contents, placement, self.clock())

    async def seen_plan(self) -> PlannedRollout:
        await self.see()
        return self.plan()

    def snapshot_input(self, plan: PlannedRollout, run: str = "r") -> TakeSnapshotInput:
        return TakeSnapshotInput(
            placement=P,
            selected=plan.selected,
            decision=plan.decision,
            rollout=plan.rollout,
            workflow_id="w",
            run_id=run,
        )

    async def take(self, plan: PlannedRollout | None = None, run: str = "r") -> TakenSnapshot:
        request = self.snapshot_input(plan or await self.seen_plan(), run)
        return await take(self.store, self.view, request, TIME)

    def wave(self, plan: PlannedRollout, run: str = "r", wave: str = "") -> WriteWorksInput:
        return WriteWorksInput(
            placement=P,
            steps=plan.steps,
            snapshot=plan.snapshot,
            decision=plan.decision,
            rollout=plan.rollout,
            losses=plan.losses,
            workflow_id="w",
            run_id=run,
            wave=wave or f"{run}/{next(self._tokens)}",
        )

    async def write(self, plan: PlannedRollout, run: str = "r", wave: str = "") -> WrittenWorks:
        return await write(self.store, self.view, self.wave(plan, run, wave), TIME)

    async def edit(self, mark: str) -> None:
        """The selected object changes, and another snapshot is taken."""
        await self.put(role(mark=mark))
        await self.see()
        self.plan()  # notes the change
        self.clock.advance(61)
        taken = await self.take()
        assert taken.outcome == "taken", taken

    async def settle(self) -> None:
        """Roll out, every agent applying at once, until nothing follows."""
        for _ in range(30):
            await self.see()
            self.view.delivery.tick(2.0)
            plan = self.plan()
            if plan.snapshot_is_due:
                await self.take(plan)
            elif plan.steps:
                await self.write(plan)
                for member in [step.member for step in plan.steps]:
                    await self.answer(member)
            else:
                return
        raise AssertionError(f"it does not settle: {plan}")

    # --- what agents do ---------------------------------------------------------------------------

    async def answer(self, member: str, **said: Any) -> None:
        """The member's agent tells of its work: all is applied and available, unless it says otherwise."""
        work = await self.work_of(member)
        if work is None:
            return
        usual = {"applied": True, "available": True} if work.want == "present" else {"gone": True}
        counters = {"counter": work.counter, "since": work.since, "identity": work.identity}
        result = ResultRecord(**{**counters, **usual, **said})
        kv = (await self.store.get(placement_keys.result(P, member))).kv
        if kv is not None and ceases(ResultRecord.model_validate_json(kv.value), result):
            await self.store.put(placement_keys.losses(P), member.encode())
        await self.store.put(placement_keys.result(P, member), result.to_bytes())

    # --- what there is ----------------------------------------------------------------------------

    async def work_of(self, member: str) -> WorkRecord | None:
        kv = (await self.store.get(placement_keys.work(P, member))).kv
        return WorkRecord.model_validate_json(kv.value) if kv is not None else None

    async def works(self) -> dict[str, tuple[str, int]]:
        """Member -> what is wanted there, and its snapshot."""
        prefix = placement_keys.work.below(P)
        found = [kv async for page in self.store.list(prefix) for kv in page.items]
        works = {kv.key.removeprefix(prefix): WorkRecord.model_validate_json(kv.value) for kv in found}
        return {name: (one.want, one.snapshot) for name, one in works.items()}

    async def rollout(self) -> RolloutRecord:
        kv = (await self.store.get(placement_keys.rollout(P))).kv
        return RolloutRecord.model_validate_json(kv.value) if kv is not None else RolloutRecord()

    async def snapshots(self) -> dict[int, SnapshotRecord]:
        prefix = placement_keys.snapshot.below(P)
        found = [kv async for page in self.store.list(prefix) for kv in page.items]
        return {int(kv.key.removeprefix(prefix)): SnapshotRecord.model_validate_json(kv.value) for kv in found}

    async def parts(self) -> set[str]:
        prefix = placement_keys.contents.below(P)
        return {kv.key.removeprefix(prefix) async for page in self.store.list(prefix) for kv in page.items}

    async def pin(self, number: int) -> None:
        await self.store.put(placement_keys.pin(P), PinRecord(snapshot=number).to_bytes())

    async def change_member(self, name: str, **metadata: Any) -> None:
        """Its object is another version, with the identity it had."""
        kv = (await self.store.get(placement_keys.member_cluster(name))).kv
        assert kv is not None
        obj = json.loads(kv.value)
        await self.put({**obj, "metadata": {**obj["metadata"], **metadata}})


async def selecting() -> DeliveryScene:
    """A placement that selects one object, and is decided to be on the one member; nothing is rolled out yet."""
    found = DeliveryScene()
    await found.member("a")
    await found.put(role())
    await found.put(rolled_out(pick(1)))
    await found.attempt()
    return found
