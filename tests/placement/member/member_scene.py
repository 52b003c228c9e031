"""A member's etcd in memory, and works that are brought there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.etcd import keys
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    AgentRecord,
    AppliedRecord,
    MarkRecord,
    ResultRecord,
    WorkRecord,
)
from wharfinger.placement.member.applying import WorkOnMember
from wharfinger.placement.member.member_store import EtcdMember
from wharfinger.placement.spec.placement_fields import ApplyStrategyFields
from wharfinger.testing.memory_store import MemoryStore

P, Q = "cluster/web", "ns/team/web"
NOW = "2026-01-01T00:00:00Z"
Object = dict[str, Any]
NAMESPACE, SECRET, CONFIG, POD = (
    f"{keys.ROOT}{rest}" for rest in ("namespaces/web", "secrets/web/s", "configmaps/web/c", "pods/web/p")
)
ALL = {NAMESPACE, SECRET, CONFIG, POD}


def obj(kind: str, name: str, namespace: str = "web", **more: Any) -> Object:
    place = {"namespace": namespace} if namespace else {}
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **place, **more.pop("metadata", {})}, **more}


def pod(cpu: str = "1", **more: Any) -> Object:
    spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}
    return obj("Pod", "p", spec=spec, **more)


WEB = obj("Namespace", "web", "")
HIDDEN = obj("Secret", "s", data={"password": "aHVuZ2Vy"})
SETTINGS = obj("ConfigMap", "c", data={"a": "1"})
CONTENTS = (pod(), SETTINGS, HIDDEN, WEB)


@dataclass
class Member:
    """A member's etcd, and the agent that writes there."""

    store: MemoryStore = field(default_factory=MemoryStore)
    counter: int = 0

    async def take_over(self) -> None:
        """Another agent begins."""
        self.store = self.store.client()
        self.agent = EtcdMember(self.store, now=lambda: NOW)
        await self.agent.take_over(AgentRecord(token=str(self.store.revision)))

    async def bring(
        self,
        contents: Sequence[Object] = CONTENTS,
        *,
        placement: str = P,
        identity: int = 7,
        counter: int = 0,
        strategy: Object | None = None,
        **work: Any,
    ) -> ResultRecord:
        """Bring a work; a later one than before, unless its counter is given."""
        self.counter = counter or self.counter + 1
        return await self.again(
            contents,
            WorkRecord(
                counter=self.counter,
                since=self.counter,
                identity=identity,
                strategy=ApplyStrategyFields.model_validate(strategy or {}).complete,
                **work,
            ),
            placement=placement,
        )

    async def again(self, contents: Sequence[Object], work: WorkRecord, *, placement: str = P) -> ResultRecord:
        life = f"hub/east/{work.identity}"
        return await WorkOnMember(self.agent, placement, work, life, NOW).bring(contents)

    async def there(self) -> dict[str, Object]:
        """All objects, by key."""
        found = [kv async for page in self.store.list(keys.ROOT) for kv in page.items]
        return {kv.key: json.loads(kv.value) for kv in found if not kv.key.startswith(keys.ASIDE)}

    async def marks(self) -> dict[str, str]:
        """Key of an object -> its placement."""
        found = [kv async for page in self.store.list(placement_keys.MARKS) for kv in page.items]
        return {
            keys.ROOT + kv.key.removeprefix(placement_keys.MARKS): MarkRecord.model_validate_json(kv.value).placement
            for kv in found
        }

    async def recorded(self, placement: str = P) -> AppliedRecord | None:
        kv = (await self.store.get(placement_keys.applied(placement))).kv
        return AppliedRecord.model_validate_json(kv.value) if kv is not None else None

    async def change(self, key: str, **fields: Any) -> None:
        """Others change an object."""
        now = (await self.there())[key]
        await self.store.put(key, json.dumps({**now, **fields}).encode())


async def bound(member: Member, **metadata: Any) -> Object:
    """A pod that was applied, and bound to a node since."""
    await member.bring([WEB, pod()])
    live = (await member.there())[POD]
    await member.change(
        POD, spec={**live["spec"], "nodeName": "n1"}, metadata={**live["metadata"], "uid": "before", **metadata}
    )
    return live
