"""Judges all deliveries that etcd ever held: the floor, the ceiling, and that nothing older follows something newer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from wharfinger.etcd.store import Event, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import AppliedRecord, MarkRecord, ResultRecord, WorkRecord


@dataclass
class DeliveryHistory:
    """What stood at each revision of the hub's etcd. The budget is that of all placements."""

    targets: dict[str, int]
    """Placement -> how many members it wants."""
    max_unavailable: int
    max_surge: int
    works: defaultdict[str, dict[str, WorkRecord]] = field(default_factory=lambda: defaultdict(dict))
    results: defaultdict[str, dict[str, ResultRecord]] = field(default_factory=lambda: defaultdict(dict))
    changes: int = 0
    """Of works."""
    broken: list[str] = field(default_factory=list)

    def available(self, reference: str) -> set[str]:
        """Members whose result says so of what their work wants."""
        found = set()
        for member, work in self.works[reference].items():
            result = self.results[reference].get(member)
            current = result is not None and work.since <= result.counter <= work.counter
            if work.want == "present" and current and result is not None and result.available:
                found.add(member)
        return found

    def take(self, events: list[Event]) -> None:
        """All changes of one revision."""
        touched = {
            one.kv.key.removeprefix(placement_keys.work.prefix).rpartition("/")[0]
            for one in events
            if _of(one, placement_keys.work.prefix)
        }
        before = {reference: self.available(reference) for reference in touched}
        there = {reference: set(self.works[reference]) for reference in touched}
        for event in events:
            self._take_one(event)
        for reference in touched:
            self.changes += 1
            now, target = self.available(reference), self.targets[reference]
            where = f"{reference}@{events[0].kv.mod_revision}"
            if before[reference] - now and len(now) < target - self.max_unavailable:
                self.broken.append(f"{where}: {len(now)} of {target} are available")
            added = set(self.works[reference]) - there[reference]
            if added and len(self.works[reference]) > target + self.max_surge:
                self.broken.append(f"{where}: {len(self.works[reference])} works for {target}")

    def _take_one(self, event: Event) -> None:
        for prefix, kind, into in (
            (placement_keys.work.prefix, WorkRecord, self.works),
            (placement_keys.result.prefix, ResultRecord, self.results),
        ):
            if not _of(event, prefix):
                continue
            reference, _, member = event.kv.key.removeprefix(prefix).rpartition("/")
            if event.deleted:
                into[reference].pop(member, None)
                continue
            record = kind.model_validate_json(event.kv.value)
            earlier = into[reference].get(member)
            if isinstance(record, WorkRecord) and earlier is not None and record.counter <= earlier.counter:
                self.broken.append(f"{event.kv.key}: counter {record.counter} follows {earlier.counter}")
            into[reference][member] = record  # type: ignore[assignment]


def _of(event: Event, prefix: str) -> bool:
    return event.kv.key.startswith(prefix)


async def judge_hub(store: Store, judged: DeliveryHistory) -> DeliveryHistory:
    """All that happened on the hub, from the first revision on."""
    until = await store.put(f"{placement_keys.HUB}zz", b"")
    async with store.watch(placement_keys.HUB, 1) as batches:
        async for batch in batches:
            if batch.events:
                judged.take(list(batch.events))
            if batch.revision >= until:
                return judged
    raise AssertionError("a watch does not end")


async def judge_member(store: Store, name: str) -> list[str]:
    """What is wrong with the order in which works were applied on a member."""
    broken: list[str] = []
    counters: dict[str, tuple[int, int]] = {}
    until = await store.put(f"{placement_keys.PLACED}zz", b"")
    async with store.watch(placement_keys.PLACED, 1) as batches:
        async for batch in batches:
            for event in batch.events:
                key = event.kv.key
                if event.deleted:  # nothing is there any more, so that counting begins anew
                    counters = {known: seen for known, seen in counters.items() if known.partition(" ")[0] != key}
                    continue
                if not key.startswith((placement_keys.applied.prefix, placement_keys.MARKS)):
                    continue
                if key.startswith(placement_keys.applied.prefix):
                    applied = AppliedRecord.model_validate_json(event.kv.value)
                    now = applied.identity, applied.counter
                else:
                    mark = MarkRecord.model_validate_json(event.kv.value)
                    key = f"{key} {mark.placement}"
                    now = int(mark.life.rpartition("/")[2]), mark.counter
                if now < counters.get(key, (0, 0)):
                    broken.append(f"{name} {key}@{event.kv.mod_revision}: {now} follows {counters[key]}")
                counters[key] = now
            if batch.revision >= until:
                return broken
    raise AssertionError("a watch does not end")
