"""How a placement is delivered, as `placement status` prints it: for programs and for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from wharfinger.objects.model.texts import one_line
from wharfinger.placement.cli.naming import decision_mapping, tell_deviations
from wharfinger.placement.contracts.delivery_records import ToldObject
from wharfinger.placement.reading.placement_conditions import DeliveryCondition
from wharfinger.placement.reading.placement_delivery import DeliveredMember, PlacementDelivery

HEADINGS = ("CLUSTER", "ONLINE", "SNAPSHOT", "STATE", "WHY")
SHOWN = 160
"""Characters of a state in the table."""


def status_mapping(delivery: PlacementDelivery) -> dict[str, Any]:
    """A placement and its members, as printed for programs."""
    record, rollout, pin = delivery.record, delivery.rollout, delivery.pin
    steps = rollout.steps
    return {
        "placement": delivery.reference,
        **decision_mapping(record.decision),
        "policy": record.decision.policy,
        "numberOfClusters": record.decision.number,
        "generation": record.decision.generation,
        "behind": delivery.behind,
        "decided": record.time,
        "conditions": [_condition(one) for one in delivery.conditions],
        "deleting": rollout.deleting,
        "external": rollout.spec.external,
        "snapshot": rollout.snapshot,
        "newestSnapshot": delivery.newest,
        "pin": None if pin is None else {"snapshot": pin.snapshot, "by": pin.by, "why": pin.why, "time": pin.time},
        "target": steps.target,
        "ready": delivery.ready,
        "floor": steps.floor,
        "ceiling": steps.ceiling,
        "settled": delivery.settled,
        "trouble": rollout.trouble,
        "members": [_member(one, delivery) for one in delivery.members],
        "evicted": sorted(record.evicted),
        "workflow": record.workflow_id,
        "run": record.run_id,
    }


def _condition(condition: DeliveryCondition) -> dict[str, str]:
    return dict(condition._asdict())


def _member(one: DeliveredMember, delivery: PlacementDelivery) -> dict[str, Any]:
    work, result = one.work, one.result
    ended = work is not None and result is not None and result.counter == work.counter
    state: str = "none yet" if work is None else work.want
    if ended and result is not None:
        state = "failed" if result.failed else "available" if result.available else "applied"
    return {
        "cluster": one.name,
        "chosen": one.chosen,
        "online": "yes" if one.online else "no",
        "work": state,
        "reason": one.why if one.chosen else "not chosen any more",
        "state": one.state.value,
        "message": one.message,
        "want": work.want if work is not None else None,
        "snapshot": work.snapshot if work is not None else 0,
        "wanted": delivery.rollout.snapshot if one.chosen else 0,
        "counter": work.counter if work is not None else 0,
        "result": None
        if result is None
        else {
            "counter": result.counter,
            "current": one.told,
            "applied": result.applied,
            "available": result.available,
            "untrackable": result.untrackable,
            "failed": result.failed,
            "reported": result.reported,
            "gone": result.gone,
            "objects": result.objects,
            "reason": result.reason,
            "told": told_mappings(result.told),
            "drifted": told_mappings(result.drifted),
            "time": result.time,
        },
        "conditions": [_condition(each) for each in one.conditions],
    }


def told_mappings(told: Iterable[ToldObject]) -> list[dict[str, Any]]:
    """What a member's agent says of objects, as printed for programs."""
    return [
        {
            "object": one.object,
            "reason": one.reason,
            "message": one.message,
            "differences": [{"path": path, "hub": hub, "member": member} for path, hub, member in one.diffs],
        }
        for one in told
    ]


def head(told: Mapping[str, Any]) -> Iterator[str]:
    """The lines above the table."""
    condition = told["condition"]
    yield f"{told['placement']}: {condition['message']} ({condition['reason']})"
    yield f"policy {told['policy']}, generation {told['generation']}, decided {told['decided']}"
    if told["behind"]:
        yield "it was changed since, and is decided again"
    yield _snapshot(told)
    if told["trouble"]:
        yield f"trouble: {told['trouble']}"


def _snapshot(told: Mapping[str, Any]) -> str:
    if told["deleting"]:
        left = len(told["members"])
        return f"it is being deleted: left on {left} member cluster{'s' if left != 1 else ''}"
    number, pin = told["snapshot"], told["pin"]
    ready = f"{told['ready']} of {told['target']} ready, at least {told['floor']}, at most {told['ceiling']}"
    if told["external"]:
        return f"update runs deliver it: {ready}"
    if not number:
        return f"no snapshot of the selected objects yet: {ready}"
    if pin is None or pin["snapshot"] != number:
        return f"snapshot {number}: {ready}"
    by = f" by {pin['by']}" if pin["by"] else ""
    why = f": {pin['why']}" if pin["why"] else ""
    return f"snapshot {number}, pinned{by}{why} (the newest is {told['newestSnapshot']}): {ready}"


def cells(one: Mapping[str, Any]) -> Sequence[str]:
    """A member's row under `HEADINGS`."""
    has, wanted = one["snapshot"], one["wanted"]
    snapshot = f"{has} -> {wanted}" if has and wanted and has != wanted else str(has or "")
    state = f"{one['state']}: {one['message']}" if one["message"] else one["state"]
    return (one["cluster"], one["online"], snapshot, one_line(state, SHOWN), one["reason"])


def foot(told: Mapping[str, Any]) -> Iterator[str]:
    """The lines below the table."""
    if told["evicted"]:
        yield f"evicted from {', '.join(told['evicted'])}, whose works are not gone yet"
    yield from tell_deviations(told)
