"""Judges every revision that the hub's etcd and the members' ever had: floor, ceiling, and nothing older after newer.

A wave relies on what its hub had seen. What it cannot compare counts as it was then: a member whose agent went since,
and a placement that was edited since.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.placement.delivery_scene import events_since
from tests.placement.scene import P
from tests.properties.rollout_world import World
from wharfinger.etcd.store import Event
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import (
    AppliedRecord,
    MarkRecord,
    ResultRecord,
    RolloutRecord,
    WorkRecord,
)
from wharfinger.placement.contracts.placement_records import DecisionRecord, MemberRecord
from wharfinger.placement.model.delivery import DeliverySpec
from wharfinger.placement.spec.placement_fields import stored_delivery


@dataclass
class Spec:
    """A version of the placement, until it was replaced."""

    number: int | None
    delivery: DeliverySpec
    until: int = 2**62


@dataclass
class Judge:
    """What stood at a revision."""

    world: World
    works: dict[str, WorkRecord] = field(default_factory=dict)
    results: dict[str, ResultRecord] = field(default_factory=dict)
    says_since: dict[str, float] = field(default_factory=dict)
    counted_since: dict[str, int] = field(default_factory=dict)
    """Revision of the result by which a member counts against the ceiling, where an earlier one said otherwise."""
    identities: dict[str, int] = field(default_factory=dict)
    agents: dict[str, int] = field(default_factory=dict)
    lost: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Revision at which a member was lost, and the identity that it had."""
    specs: list[Spec] = field(default_factory=list)
    chosen: int = 0
    wave: str = ""
    broken: list[str] = field(default_factory=list)
    taken_away: int = 0
    added: int = 0

    def judge(self) -> list[str]:
        """All revisions of the hub, then the members'."""
        for event in events_since(self.world.store, "", 0):
            self._take(event)
        self.judge_members()
        return self.broken

    def judge_members(self) -> None:
        """Nothing older is applied after something newer."""
        for name, store in self.world.members.items():
            seen: dict[int, int] = {}
            marks: dict[tuple[str, str], int] = {}
            for event in events_since(store, placement_keys.PLACED, 0):
                if event.deleted:  # all is gone there: counters begin again
                    if event.kv.key == placement_keys.applied(P):
                        seen.clear()
                        marks.clear()
                    continue
                if event.kv.key == placement_keys.applied(P):
                    record = AppliedRecord.model_validate_json(event.kv.value)
                    if record.counter < seen.get(record.identity, 0):
                        self.broken.append(f"{name}@{event.kv.mod_revision}: counter {record.counter} is older")
                    seen[record.identity] = record.counter
                elif event.kv.key.startswith(placement_keys.MARKS):
                    mark = MarkRecord.model_validate_json(event.kv.value)
                    if mark.counter < marks.get((event.kv.key, mark.life), 0):
                        self.broken.append(f"{name}@{event.kv.mod_revision}: {mark.counter} is applied late")
                    marks[event.kv.key, mark.life] = mark.counter

    def _time(self, revision: int) -> float:
        times = self.world.times
        at = bisect_left(times, (revision, 0.0))
        return times[at][1] if at < len(times) else self.world.clock()

    def _take(self, event: Event) -> None:
        key, revision = event.kv.key, event.kv.mod_revision
        value = None if event.deleted else event.kv.value
        if key == placement_keys.rollout(P):
            self.wave = RolloutRecord.model_validate_json(value).token if value is not None else ""
        elif key == placement_keys.placement(P):
            self._take_spec(value, revision)
        elif key == placement_keys.decision(P):
            self.chosen = len(DecisionRecord.from_bytes(value).decision.chosen) if value is not None else 0
        elif key.startswith(placement_keys.member_cluster.prefix):
            name = key.removeprefix(placement_keys.member_cluster.prefix)
            identity = event.kv.create_revision if value is not None else 0
            self._note_lost(name, revision, self.identities.get(name, 0) != identity)
            self.identities[name] = identity
        elif key.startswith(placement_keys.member.prefix):
            name = key.removeprefix(placement_keys.member.prefix)
            identity = MemberRecord.model_validate_json(value).identity if value is not None else 0
            self._note_lost(name, revision, self.agents.get(name, 0) != identity)
            self.agents[name] = identity
        elif key.startswith(placement_keys.result.below(P)):
            self._take_result(key.rpartition("/")[2], value, revision)
        elif key.startswith(placement_keys.work.below(P)):
            self._take_work(key.rpartition("/")[2], value, revision)

    def _take_spec(self, value: bytes | None, revision: int) -> None:
        if self.specs:
            self.specs[-1].until = min(self.specs[-1].until, revision)
        if value is not None:
            spec = json.loads(value)["spec"]
            policy = spec["policy"]
            number = {"PickN": policy.get("numberOfClusters"), "PickFixed": len(policy.get("clusterNames", ()))}
            self.specs.append(Spec(number.get(policy["placementType"]), stored_delivery(spec)[0]))

    def _note_lost(self, name: str, revision: int, differs: bool) -> None:
        if differs and self._is_there(name):
            self.lost[name] = revision, self.identities[name]

    def _is_there(self, name: str) -> bool:
        identity = self.identities.get(name, 0)
        return bool(identity) and self.agents.get(name) == identity

    def _take_result(self, name: str, value: bytes | None, revision: int) -> None:
        before = self.results.pop(name, None)
        if value is None:
            return
        now = self.results[name] = ResultRecord.model_validate_json(value)
        if before is None or _says(before) != _says(now):
            self.says_since[name] = self._time(revision)
        if before is not None and (before.failed or before.reported) and not (now.failed or now.reported):
            self.counted_since[name] = revision

    def _take_work(self, name: str, value: bytes | None, revision: int) -> None:
        ready = self._ready(revision, after=0)
        before = self.works.pop(name, None)
        if value is not None:
            self.works[name] = WorkRecord.model_validate_json(value)
        view = self.world.views.get(self.wave, {})
        specs = [one for one in self.specs if one.until > view.get("objects", 0)]
        now = self.works.get(name)
        if name in ready and name not in self._ready(revision, after=0):
            self.taken_away += 1
            left = self._ready(revision, after=view.get("hub", 0))
            self._judge_floor(name, revision, len(left), specs)
        fresh = before is None or (now is not None and before.identity != now.identity)
        if now is not None and now.want == "present" and fresh:
            self.added += 1
            self._judge_ceiling(name, revision, view, specs)

    def _target(self, spec: Spec) -> int:
        return self.chosen if spec.number is None else spec.number

    def _judge_floor(self, name: str, revision: int, left: int, specs: list[Spec]) -> None:
        floors = []
        for one in specs:
            target = self._target(one)
            floors.append(target - one.delivery.budget.max_unavailable.of(target, up=True))
        plan = self.world.plans.get(self.wave)
        if plan is not None and plan.target == 0:  # it is being deleted
            return
        if floors and left < min(floors):
            self.broken.append(f"@{revision} {self.wave}: {name} was taken away, {left} are ready of {min(floors)}")

    def _judge_ceiling(self, name: str, revision: int, view: Mapping[str, int], specs: list[Spec]) -> None:
        counted = []
        for other, work in self.works.items():
            if other != name and self.identities.get(other) != work.identity:
                continue
            result = self.results.get(other)
            told = result if result is not None and result.counter >= work.since else None
            if told is not None and told.gone and told.counter == work.counter:
                continue
            failed = told is not None and (told.failed or told.reported)
            since = self.counted_since.get(other, 0) > view.get("hub", 0)
            if work.want != "present" or not (failed or since):
                counted.append(other)
        ceilings = []
        for one in specs:
            target = self._target(one)
            ceilings.append(target + one.delivery.budget.max_surge.of(target, up=True))
        if ceilings and len(counted) > max(ceilings):
            self.broken.append(f"@{revision} {self.wave}: {name} was added, {counted} count of {max(ceilings)}")

    def _ready(self, revision: int, *, after: int) -> set[str]:
        """Members that are counted on; those lost after a revision count as if they were there."""
        found = set()
        for name, work in self.works.items():
            lost, identity = self.lost.get(name, (0, 0))
            there = self._is_there(name) and self.identities[name] == work.identity
            there |= bool(after) and lost > after and identity == work.identity
            result = self.results.get(name)
            if work.want != "present" or not there or result is None or result.identity != work.identity:
                continue
            if not work.since <= result.counter <= work.counter or not (result.available or result.reported):
                continue
            period = self.specs[-1].delivery.budget.unavailable_period if self.specs else 0.0
            shortest = min([one.delivery.budget.unavailable_period for one in self.specs[-3:]] or [period])
            waited = self._time(revision) - self.says_since.get(name, 0.0)
            if result.untrackable and waited < (shortest if after else period):
                continue
            found.add(name)
        return found


def _says(result: ResultRecord) -> tuple[object, ...]:
    return result.since, result.identity, result.available, result.untrackable, result.failed, result.reported
