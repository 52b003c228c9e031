"""Drafts a decision from what a hub has seen, and stores it by one transaction that compares all that it follows from.

So a member is chosen once, never more than N are, and one policy is active, whatever hubs decide at the same time. The
decision's token tells whether a commit whose answer was lost has happened.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence

from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DecisionRecord, EvictionRecord, PolicyRecord
from wharfinger.placement.contracts.placements import (
    LISTED,
    CommitDecisionInput,
    CommittedPlacement,
    DecidedPlacement,
    DecideInput,
    EvictionEnd,
    RefusedBy,
)
from wharfinger.placement.deciding.deviations import in_order
from wharfinger.placement.deciding.question import counting
from wharfinger.placement.effects.questions import WhatFollows, answer, differs
from wharfinger.placement.effects.works import shown
from wharfinger.placement.model.placement import PlacementDecision, lives
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import SeenDecision

REASONS = 8
"""Reasons that are named, the most frequent first."""


def draft(view: HubView, request: DecideInput, *, clock: float, time: str, token: str) -> DecidedPlacement:
    """Decide for a placement. `clock`: the hub's seconds; `time`: RFC 3339, UTC."""
    reference = request.placement
    found, stored = answer(view, reference, clock), view.decisions.get(reference)
    seen = view.placements.get(reference)
    changed = found.decision is not None and (stored is None or differs(found, stored))
    told = found.decision if changed else stored
    ends = _ends(view, reference, found)
    base = DecidedPlacement(
        action="nothing",
        decision_revision=view.mod_revision(placement_keys.decision(reference)),
        placement_revision=view.mod_revision(placement_keys.placement(reference)),
        policy=told.policy if told is not None else 0,
        evictions=ends,
        compares=_compares(view, reference, found) if ends else (),
        free=found.free,
        fulfilled=told is not None and told.condition.status,
        condition=told.condition.message if told is not None else "",
        chosen=len(told.chosen) if told is not None else 0,
        seen=view.seen,
        token=token,
    )
    if not changed or found.decision is None:
        action = "remove" if found.remove else "store" if found.outcomes else "nothing"
        # all of them; what one transaction does not take goes with the next attempt
        forgotten = tuple(sorted(view.policies.get(reference, ()))) if found.remove else ()
        return base.model_copy(update={"action": action, "forgotten": forgotten})
    decision = found.decision
    record = DecisionRecord(
        decision=decision,
        identity=seen.placement.identity if seen is not None else stored.identity if stored is not None else 0,
        placement=base.placement_revision,
        digest=found.digest,
        counting=counting(decision).hex(),
        abandons=found.abandons,
        deleting=found.deleting,
        evicted=found.evicted,
        seen=view.seen,
        ages={name: (one.heartbeat, one.health) for name, one in found.ages.items()},
        token=token,
        time=time,
        workflow_id=request.workflow_id,
        run_id=request.run_id,
    )
    added, removed = _moves(stored, decision)
    known = view.policies.get(reference, set())
    fresh = not found.deleting and decision.policy not in known
    return base.model_copy(
        update={
            "action": "store",
            "decision": base64.b64encode(record.to_bytes()).decode(),
            "new_policy": dict(seen.policy) if fresh and seen is not None else None,
            "digest": found.digest,
            "forgotten": _forgotten(known, decision, seen.history_limit) if fresh and seen is not None else (),
            "added": added,
            "removed": removed,
            "refused": _refused(decision),
            "deviations": tuple(in_order(decision.deviations)),
        }
    )


def _ends(view: HubView, reference: str, found: WhatFollows) -> tuple[EvictionEnd, ...]:
    return tuple(
        EvictionEnd(
            name=one.eviction.name,
            revision=one.revision,
            identity=one.identity,
            record=view.mod_revision(placement_keys.evicted(one.eviction.name)),
            cluster=one.eviction.cluster,
            valid=said.valid,
            executed=said.executed,
            message=said.message,
        )
        for one in view.pending_evictions(reference)
        if (said := found.outcomes.get(one.eviction.name)) is not None
    )


def _compares(view: HubView, reference: str, found: WhatFollows) -> tuple[tuple[str, int], ...]:
    """What evictions follow from, beside the placement and its decision."""
    wanted = [placement_keys.rollout(reference), placement_keys.losses(reference)]
    if reference.startswith("cluster/"):
        wanted.append(placement_keys.PLACEMENT_BUDGETS + reference.removeprefix("cluster/"))
    wanted += [placement_keys.result(reference, member) for member in found.free]
    return tuple((key, view.mod_revision(key)) for key in wanted)


def _moves(stored: SeenDecision | None, decision: PlacementDecision) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who was chosen newly, and who is not chosen any more; the first ones of many."""
    before, now = lives(stored.chosen) if stored is not None else set(), lives(decision.chosen)
    return _named(now - before), _named(before - now)


def _named(members: set[tuple[str, int]]) -> tuple[str, ...]:
    found = sorted(name for name, _ in members)
    return tuple(found[:LISTED]) + ((f"and {len(found) - LISTED} more",) if len(found) > LISTED else ())


def _refused(decision: PlacementDecision) -> tuple[RefusedBy, ...]:
    counts = Counter((one.plugin, one.reason if one.plugin else "") for one in decision.verdicts)
    return tuple(
        RefusedBy(plugin=plugin, reason=reason, members=members)
        for (plugin, reason), members in counts.most_common(REASONS)
    )


def _forgotten(known: set[int], decision: PlacementDecision, limit: int) -> tuple[int, ...]:
    """Policies beyond the limit, the oldest first; those that the decision names are kept."""
    named = {one.policy for one in decision.chosen} | {decision.policy}
    older: Sequence[int] = sorted(known | {decision.policy})[:-limit]
    return tuple(number for number in older if number not in named)


FORGOTTEN = 40
"""Policies that are forgotten in one transaction; the next new policy goes on."""


async def commit(store: Store, request: CommitDecisionInput, time: str) -> CommittedPlacement:
    """Store it. `time`: RFC 3339, UTC. Raises `Unavailable`, and may be called again then."""
    reference, decided = request.placement, request.decided
    if decided.action == "remove":
        await _remove_parts(store, reference, decided.decision_revision)
    compares = [Compare(key, "mod", revision) for key, revision in _follows_from(reference, decided)]
    answered = await store.txn(compares, _writes(request, time), [Get(compare.key) for compare in compares])
    if answered.succeeded:
        return CommittedPlacement(outcome="committed", revision=answered.revision)
    found = dict(zip((compare.key for compare in compares), answered.reads, strict=True))
    if _is_ours(found, request):
        return CommittedPlacement(outcome="committed", revision=answered.revision)
    moved = [compare.key for compare in compares if not compare.holds(found[compare.key])]
    return CommittedPlacement(outcome="contended", seen=shown(answered.reads), moved=", ".join(moved[:3]))


async def _remove_parts(store: Store, reference: str, decision: int) -> None:
    """Remove parts of snapshots that nothing names: no more come once the decision is emptied."""
    fence = Compare(placement_keys.decision(reference), "mod", decision)
    names = [
        kv.key async for page in store.list(placement_keys.contents.below(reference), page_size=20) for kv in page.items
    ]
    for first in range(0, len(names), FORGOTTEN):
        await store.txn([fence], [Delete(name) for name in names[first : first + FORGOTTEN]])


def _follows_from(reference: str, decided: DecidedPlacement) -> list[tuple[str, int]]:
    compared = [
        (placement_keys.decision(reference), decided.decision_revision),
        (placement_keys.placement(reference), decided.placement_revision),
        *decided.compares,
    ]
    for one in decided.evictions:
        compared += [
            (f"{placement_keys.PLACEMENT_EVICTIONS}{one.name}", one.revision),
            (placement_keys.evicted(one.name), one.record),
        ]
    if decided.new_policy is not None:
        compared.append((placement_keys.policy(reference, decided.policy), 0))
    return compared


def _writes(request: CommitDecisionInput, time: str) -> Sequence[Operation]:
    reference, decided = request.placement, request.decided
    operations: list[Operation] = []
    if decided.decision:
        operations.append(Put(placement_keys.decision(reference), base64.b64decode(decided.decision)))
    if decided.new_policy is not None:
        record = PolicyRecord(policy=dict(decided.new_policy), digest=decided.digest, time=time)
        operations.append(Put(placement_keys.policy(reference, decided.policy), record.to_bytes()))
    operations += [Delete(placement_keys.policy(reference, number)) for number in decided.forgotten[:FORGOTTEN]]
    for one in decided.evictions:
        ended = EvictionRecord(
            identity=one.identity,
            valid=one.valid,
            executed=one.executed,
            message=one.message,
            placement=reference,
            cluster=one.cluster,
            time=time,
            workflow_id=request.workflow_id,
            run_id=request.run_id,
        )
        operations.append(Put(placement_keys.evicted(one.name), ended.to_bytes()))
    if decided.action == "remove":
        operations += [
            Delete(placement_keys.decision(reference)),
            Delete(placement_keys.rollout(reference)),
            Delete(placement_keys.losses(reference)),
            Delete(placement_keys.placement(reference)),
        ]
    return operations


def _is_ours(found: dict[str, KeyValue | None], request: CommitDecisionInput) -> bool:
    """Whether an earlier try of this commit has happened, and its answer was lost."""
    reference, decided = request.placement, request.decided
    if decided.action == "remove":
        return found[placement_keys.decision(reference)] is None and found[placement_keys.placement(reference)] is None
    if decided.decision:
        kv = found[placement_keys.decision(reference)]
        try:
            return kv is not None and DecisionRecord.from_bytes(kv.value).token == decided.token
        except ValueError:
            return False
    ended = [found[placement_keys.evicted(one.name)] for one in decided.evictions]
    try:
        records = [EvictionRecord.model_validate_json(kv.value) for kv in ended if kv is not None]
    except ValueError:
        return False
    ours = [(one.identity, request.run_id) for one in decided.evictions]
    return bool(ours) and [(record.identity, record.run_id) for record in records] == ours
