"""How a placement is delivered: as a whole and on each member, with KubeFleet's conditions and reasons.

`read` gets everything from etcd at one revision. `delivery_of` is pure: the same reading gives the same answer. Nothing
of it is ever stored. `reading.placement_conditions` has the states and the conditions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from wharfinger.errors import NotFound
from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import PinRecord, ResultRecord, WorkRecord
from wharfinger.placement.contracts.placement_records import DecisionRecord
from wharfinger.placement.deciding import rolling
from wharfinger.placement.effects.rolling_out import NO_ROLLOUT, Rollout, rollout_of
from wharfinger.placement.reading.observe_placements import read_one
from wharfinger.placement.reading.placement_conditions import (
    DeliveredMember,
    DeliveryCondition,
    ScheduledCondition,
    conditions_of,
)
from wharfinger.placement.state.hub_view import HUB, HubView


@dataclass(frozen=True, slots=True)
class DeliveryReading:
    """What etcd has about one placement, all of one revision."""

    reference: str
    view: HubView
    record: DecisionRecord | None = None
    works: Mapping[str, WorkRecord] = field(default_factory=dict)
    """By member, complete: the view keeps less of each."""
    results: Mapping[str, ResultRecord] = field(default_factory=dict)
    """By member, complete."""


async def read(store: Store, reference: str) -> DeliveryReading:
    """Read how a placement is delivered. Raises the store's errors, and `NotFound` for an unreadable decision."""
    view = await read_one(store, reference)
    revision = view.revisions[HUB]
    kv = (await store.get(placement_keys.decision(reference), revision=revision)).kv
    try:
        record = DecisionRecord.from_bytes(kv.value) if kv is not None else None
    except ValueError as error:
        raise NotFound(f"the decision of placement {reference} cannot be read: {error}") from error
    works = placement_keys.work.records(store, WorkRecord.model_validate_json, reference, revision=revision)
    results = placement_keys.result.records(store, ResultRecord.model_validate_json, reference, revision=revision)
    return DeliveryReading(  # `view.unreadable` has those that cannot be read
        reference,
        view,
        record,
        {member: work async for (_, member), work in works},
        {member: result async for (_, member), result in results},
    )


@dataclass(frozen=True)
class PlacementDelivery:
    """How a placement stands."""

    reading: DeliveryReading
    record: DecisionRecord
    rollout: Rollout
    members: tuple[DeliveredMember, ...]
    """All that are chosen or have a work, by name."""
    conditions: tuple[DeliveryCondition, ...]

    @property
    def reference(self) -> str:
        """P."""
        return self.reading.reference

    @property
    def behind(self) -> bool:
        """Whether the placement was changed since it was decided."""
        return _is_behind(self.reading, self.record)

    @property
    def pin(self) -> PinRecord | None:
        """Which snapshot is wanted instead of the newest."""
        return self.reading.view.delivery.pins.get(self.reference)

    @property
    def newest(self) -> int:
        """Number of the newest snapshot, 0 for none."""
        return max(self.reading.view.delivery.snapshots.get(self.reference, {}), default=0)

    @cached_property
    def ready(self) -> int:
        """Members that are ready. What cannot be tracked counts at once: only hubs see how long it is unchanged."""
        budget = self.rollout.spec.budget
        return sum(
            rolling.is_ready(replace(one, unchanged=budget.unavailable_period), budget)
            for one in self.rollout.members
            if one.there and not one.gone
        )

    @property
    def settled(self) -> bool:
        """Whether everything is where it shall be, by the stored decision and the newest or pinned snapshot."""
        lacks = self.record.decision.chosen and not self.rollout.snapshot and not self.rollout.spec.external
        return self.rollout.steps.settled and not self.rollout.trouble and not lacks and not self.rollout.forgets


def delivery_of(reading: DeliveryReading) -> PlacementDelivery:
    """How a placement stands. Raises `NotFound` for a placement that is not there, or not decided yet."""
    view, reference, record = reading.view, reading.reference, reading.record
    if record is None:
        raise NotFound(
            f"placement {reference} is not decided yet: does a hub run? (`wharfinger hub`)"
            if reference in view.placements
            else f"there is no placement {reference}"
        )
    rollout, chosen = rollout_of(view, reference), record.decision.names
    refused = {one.name: one.reason for one in record.decision.verdicts}
    by_name, held = {one.member: one for one in rollout.members}, frozenset(rollout.steps.held)
    no_contents = view.delivery.rollouts.get(reference, NO_ROLLOUT).trouble
    members = tuple(
        DeliveredMember(
            name=name,
            chosen=name in chosen,
            why=chosen[name].reason if name in chosen else refused.get(name, "not chosen any more"),
            online=name in view.members and view.members[name].there,
            held=name in held,
            rollout=rollout,
            no_contents=no_contents,
            delivery=by_name.get(name),
            work=reading.works.get(name),
            result=reading.results.get(name),
        )
        for name in sorted(chosen.keys() | reading.works.keys())
    )
    scheduled = ScheduledCondition(record.decision.condition, _is_behind(reading, record), no_contents)
    of_chosen = [(one.work, one.conditions) for one in members if one.chosen]
    conditions = tuple(conditions_of(reference, scheduled, rollout, of_chosen))
    return PlacementDelivery(reading, record, rollout, members, conditions)


def _is_behind(reading: DeliveryReading, record: DecisionRecord) -> bool:
    seen = reading.view.placements.get(reading.reference)
    if seen is None:
        return not record.deleting
    placement, decision = seen.placement, record.decision
    changed = placement.generation > decision.generation or placement.deleting != record.deleting
    return changed and seen.revision != record.placement
