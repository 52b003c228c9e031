"""A placement that is delivered, on a store in memory: what hubs and agents would have written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.placement.objects import pick, placement_object
from tests.placement.scene import TIME, HubScene, P
from wharfinger.etcd import keys
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    PinRecord,
    ResultRecord,
    RolloutRecord,
    SnapshotRecord,
    ToldObject,
    WorkRecord,
)
from wharfinger.placement.contracts.placement_records import HubRecord, MemberStatusRecord
from wharfinger.placement.effects.selected import read_selected
from wharfinger.placement.model.delivery import Want
from wharfinger.placement.reading.placement_conditions import DeliveredMember
from wharfinger.placement.reading.placement_delivery import PlacementDelivery, delivery_of, read
from wharfinger.placement.spec.members import agent_status
from wharfinger.placement.spec.placement_fields import ApplyStrategyFields

GOOD: Mapping[str, Any] = {"applied": True, "available": True, "objects": 3}
STRATEGY = ApplyStrategyFields.model_validate({}).complete
NAMESPACE = ("", "v1", "Namespace", "", "web")
DRIFT = ToldObject(object="v1 ConfigMap web/c", reason="Drifted", diffs=(("/data/a", '"1"', '"2"'),))


@dataclass
class DeliveredScene(HubScene):
    """Members a, b, c; the placement `web` on all of them."""

    placement: str = P

    @classmethod
    async def begin(cls, *, namespace: str = "", **spec: Any) -> DeliveredScene:
        """Members, a hub, and a placement that is decided. `spec`: more of the placement's."""
        scene = cls(placement=f"ns/{namespace}/web" if namespace else P)
        await scene.store.put(placement_keys.hub("h"), HubRecord().to_bytes())
        for name in "abc":
            await scene.member(name)
        await scene.namespace()
        obj = placement_object(namespace=namespace, **pick(3))
        obj["spec"].update(spec)
        await scene.put(obj)
        await scene.attempt(scene.placement)
        return scene

    async def namespace(self, **labels: str) -> None:
        """The object that the placement selects."""
        obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web", "labels": labels}}
        await self.store.put(keys.stored("namespaces", "", "web"), json.dumps(obj).encode())

    async def snapshot(self, number: int) -> None:
        """Of what is selected now."""
        kv = (await self.store.get(placement_keys.placement(self.placement))).kv
        assert kv is not None
        selected = await read_selected(self.store, json.loads(kv.value), self.placement)
        digest = selected.digest or f"digest-{number}"
        record = SnapshotRecord(digest=digest, objects=(NAMESPACE,), revision=selected.revision, time=TIME)
        await self.store.put(placement_keys.snapshot(self.placement, number), record.to_bytes())

    async def deliver(
        self,
        *members: str,
        snapshot: int = 1,
        want: Want = "present",
        result: Mapping[str, Any] | None = GOOD,
        **work: Any,
    ) -> None:
        """The works of members, and their results: None = there is none."""
        for name in members:
            kv = (await self.store.get(placement_keys.member_cluster(name))).kv
            fields = {
                "counter": 5,
                "since": 5,
                "strategy": STRATEGY,
                "identity": kv.create_revision if kv else 0,
                **work,
            }
            record = WorkRecord(want=want, snapshot=snapshot, **fields)
            await self.store.put(placement_keys.work(self.placement, name), record.to_bytes())
            if result is not None:
                said = {"counter": record.counter, "identity": record.identity, "time": TIME, **result}
                await self.store.put(placement_keys.result(self.placement, name), ResultRecord(**said).to_bytes())

    async def ready(self) -> DeliveredScene:
        """Snapshot 1 is available everywhere."""
        await self.snapshot(1)
        await self.deliver("a", "b", "c")
        return self

    async def pin(self, number: int, **fields: str) -> None:
        await self.store.put(placement_keys.pin(self.placement), PinRecord(snapshot=number, **fields).to_bytes())

    async def trouble(self, text: str) -> None:
        """Why the selected objects cannot be placed."""
        await self.store.put(placement_keys.rollout(self.placement), RolloutRecord(trouble=text).to_bytes())

    async def away(self, member: str) -> None:
        """Its agent is not there."""
        await self.store.delete(placement_keys.member(member))

    async def told(self) -> PlacementDelivery:
        return delivery_of(await read(self.store, self.placement))

    async def on(self, member: str) -> DeliveredMember:
        """How it stands on one member."""
        return next(one for one in (await self.told()).members if one.name == member)


async def unwell(scene: HubScene, member: str) -> None:
    """Its agent is there, and its etcd does not answer."""
    kv = (await scene.store.get(placement_keys.member_cluster(member))).kv
    assert kv is not None
    status = agent_status(healthy=False, why="its etcd does not answer")
    await scene.store.put(
        placement_keys.member_status(member), MemberStatusRecord(identity=kv.create_revision, status=status).to_bytes()
    )
