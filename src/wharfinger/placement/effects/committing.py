"""Stores a decision by one transaction that compares all that it follows from.

So a member is chosen once, never more than N are, and one policy is active, whoever else decides at the same time. The
decision's token tells whether a commit whose answer was lost has happened.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from wharfinger.etcd.store import Compare, Delete, Get, KeyValue, Operation, Put, Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DecisionRecord, EvictionRecord, PolicyRecord
from wharfinger.placement.contracts.placements import (
    CommitDecisionInput,
    CommittedPlacement,
    DecidedPlacement,
    StreamRevisions,
)

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
    return CommittedPlacement(outcome="contended", seen=_shown(found), moved=", ".join(moved[:3]))


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
    """Whether an earlier try of this commit has happened, though nobody was told."""
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
    told = [(one.identity, request.run_id) for one in decided.evictions]
    return bool(told) and [(record.identity, record.run_id) for record in records] == told


def _shown(found: dict[str, KeyValue | None]) -> StreamRevisions:
    """What the next attempt must have seen: the newest of what was read in each stream."""
    newest = {"objects": 0, "hub": 0}
    for key, kv in found.items():
        stream = "hub" if key.startswith(placement_keys.HUB) else "objects"
        newest[stream] = max(newest[stream], kv.mod_revision if kv is not None else 0)
    return StreamRevisions(**newest)
