"""Judges all decisions that etcd ever held: never more than N, and nobody leaves a decision without a cause."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from wharfinger.etcd.store import Event, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DecisionRecord, DrainRecord


@dataclass
class PlacementHistory:
    """What stood at each revision, as far as decisions are judged by it."""

    members: dict[str, tuple[int, bool]] = field(default_factory=dict)
    """Name -> identity, and whether it is leaving."""
    drained: set[str] = field(default_factory=set)
    excused: dict[str, int] = field(default_factory=dict)
    """Members that were leaving or drained, and the revision at which that ended: who decides may not have seen it."""
    decisions: dict[str, DecisionRecord] = field(default_factory=dict)
    versions: int = 0
    """Decisions that were seen."""
    broken: list[str] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """One change."""
        key, kv = event.kv.key, event.kv
        if key.startswith(placement_keys.member_cluster.prefix):
            name = key.removeprefix(placement_keys.member_cluster.prefix)
            if event.deleted:
                self.members.pop(name, None)
            else:
                obj = json.loads(kv.value)
                if self.members.get(name, (0, False))[1]:
                    self.excused[name] = kv.mod_revision
                self.members[name] = kv.create_revision, bool(obj.get("metadata", {}).get("deletionTimestamp"))
        elif key.startswith(placement_keys.drain.prefix):
            name = key.removeprefix(placement_keys.drain.prefix)
            if name in self.drained:
                self.excused[name] = kv.mod_revision
            self.drained.discard(name)
            if not event.deleted and DrainRecord.model_validate_json(kv.value).want == "drain":
                self.drained.add(name)
        elif key.startswith(placement_keys.decision.prefix):
            reference = key.removeprefix(placement_keys.decision.prefix)
            before = self.decisions.pop(reference, None)
            if not event.deleted:
                now = self.decisions[reference] = DecisionRecord.from_bytes(kv.value)
                self.versions += 1
                self._judge(reference, before, now, kv.mod_revision)

    def _judge(self, reference: str, before: DecisionRecord | None, now: DecisionRecord, revision: int) -> None:
        names = [one.name for one in now.decision.chosen]
        wanted = now.decision.number
        if len(set(names)) < len(names):
            self.broken.append(f"{reference}@{revision}: a member is chosen twice")
        if wanted is not None and len(names) > wanted:
            self.broken.append(f"{reference}@{revision}: {len(names)} are chosen of {wanted}")
        if before is None or before.identity != now.identity or now.deleting:
            return
        fewer = wanted is not None and (before.decision.number or 0) > wanted
        if now.decision.policy != before.decision.policy or fewer:
            return
        kept = {(one.name, one.identity) for one in now.decision.chosen}
        for one in before.decision.chosen:
            if (one.name, one.identity) in kept or one.name in now.evicted or one.name in self.drained:
                continue
            identity, leaving = self.members.get(one.name, (0, True))
            excused = self.excused.get(one.name, 0) > min(now.seen.members, now.seen.hub)
            if identity == one.identity and not leaving and not excused:
                self.broken.append(f"{reference}@{revision}: {one.name} left without a cause")


async def history(store: Store, until: int) -> PlacementHistory:
    """All that happened from the first revision on."""
    found = PlacementHistory()
    events: list[Any] = []
    for prefix in (placement_keys.member_cluster.prefix, placement_keys.HUB):
        async with store.watch(prefix, 1) as batches:
            async for batch in batches:
                events += [(batch.revision, event) for event in batch.events]
                if batch.revision >= until:
                    break
    for _, event in sorted(events, key=lambda pair: int(pair[0])):
        found.take(event)
    return found
