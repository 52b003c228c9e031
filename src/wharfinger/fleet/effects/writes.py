"""What `record_fleet` still has to write: the decisions, less what is there already. Pure.

A `ConditionalWrite` is what must be written together; parts are packed into transactions that the server takes. No key
is written twice in one round: etcd refuses that inside a transaction, and everything of one slot goes into one part.
The status is written when its digest changes. The digest leaves out the seconds that a step has waited: readers count
them on from the time of the record.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Condition, Delete, KeyValue, Operation, Put
from wharfinger.fleet.contracts.fleet_records import FleetStatusRecord, OutcomeRecord, stored
from wharfinger.fleet.contracts.fleets import RecordInput
from wharfinger.fleet.effects.fencing import decoded, mod
from wharfinger.fleet.model.fleet import OutcomeName, Slot
from wharfinger.fleet.model.rollout import WHATEVER, RolloutStatus, Writes
from wharfinger.process.names import COMMON
from wharfinger.process.transactions import PER_KEY, Limits

Found = Mapping[str, KeyValue | None]
"""Keys as they were read."""


@dataclass(frozen=True, slots=True)
class ConditionalWrite:
    """What is written together, and on what condition beside the actor's."""

    operations: tuple[Operation, ...]
    conditions: tuple[Condition, ...] = ()
    outcome: OutcomeName | None = None
    """Which is written, for the metric."""

    @property
    def size(self) -> int:
        """Bytes, about."""
        values = sum(len(one.value) for one in self.operations if isinstance(one, Put))
        return values + 2 * PER_KEY * (len(self.conditions) + len(self.operations))


def packed(parts: Sequence[ConditionalWrite], limits: Limits) -> Iterator[list[ConditionalWrite]]:
    """Parts in their order, as many together as one transaction takes beside the actor's condition."""
    together: list[ConditionalWrite] = []
    conditions = operations = size = 0
    for part in parts:
        conditions += len(part.conditions)
        operations += len(part.operations)
        size += part.size
        if together and (conditions >= limits.operations or operations > limits.operations or size > limits.size):
            yield together
            together, conditions, operations, size = [], len(part.conditions), len(part.operations), part.size
        together.append(part)
    if together:
        yield together


def looked_at(request: RecordInput) -> list[str]:
    """Every key whose state decides what is missing."""
    tenant, writes = request.tenant, request.writes
    wanted = [keys.tenant(tenant), keys.fleet_status(tenant)]
    wanted += [keys.outcome(tenant, one.revision) for one in writes.outcomes]
    for number in writes.forget_revisions:
        wanted += [keys.revision(tenant, number), keys.outcome(tenant, number)]
    for slot, incarnation in lives(request):
        wanted += [keys.grant(tenant, slot, incarnation), keys.exited(tenant, slot, incarnation)]
    wanted += [keys.slot(tenant, number) for number in (*slots(writes), *writes.forget_slots)]
    if request.registered != WHATEVER:
        wanted += [_registration(request, life) for life in request.revoke]
    if request.lost:
        wanted.append(keys.host(request.lost))
    return list(dict.fromkeys(wanted))


def lives(request: RecordInput) -> list[tuple[int, int]]:
    """Slot and incarnation of all that is cleared or revoked."""
    return sorted({*((one.slot, one.incarnation) for one in request.writes.clears), *request.revoke})


def slots(writes: Writes) -> list[int]:
    """Slots whose record may change."""
    return sorted({one.slot for one in writes.clears} | {one.slot for one in writes.assigns})


def may_serve(request: RecordInput, found: Found) -> bool:
    """Whether what is to be revoked, and was not yet, has another registration than when that was decided.

    Or its host, for whose loss it is to be revoked, is back, and reports what became of it.
    """
    if _left(request, found) and request.lost and found[keys.host(request.lost)] is not None:
        return True
    return any(mod(found[_registration(request, life)]) != request.registered for life in _judged(request, found))


def _judged(request: RecordInput, found: Found) -> list[tuple[int, int]]:
    """What is to be revoked, and was not yet, where its registration matters."""
    return _left(request, found) if request.registered != WHATEVER else []


def _left(request: RecordInput, found: Found) -> list[tuple[int, int]]:
    """What is to be revoked, and was not yet."""
    return [life for life in request.revoke if found[keys.grant(request.tenant, *life)] is not None]


def _registration(request: RecordInput, life: tuple[int, int]) -> str:
    slot, incarnation = life
    return keys.instance(request.tenant, str(slot), incarnation)


def missing(request: RecordInput, found: Found, now: str) -> Iterator[ConditionalWrite]:
    """What is to be written, in order. `now`: RFC 3339, UTC."""
    tenant, writes = request.tenant, request.writes
    for one in writes.outcomes:
        key = keys.outcome(tenant, one.revision)
        if found[key] is None:  # written once: the first one counts
            record = OutcomeRecord(outcome=one.outcome, why=one.why, generation=request.generation, time=now)
            yield ConditionalWrite((Put(key, record.to_bytes()),), (Compare(key, "create", 0),), one.outcome)
    for slot in sorted({slot for slot, _ in lives(request)} | set(slots(writes))):
        part = _of_slot(request, slot, found)
        if part.operations:
            yield part
    for number in sorted(set(writes.forget_slots) - set(slots(writes))):
        if found[keys.slot(tenant, number)] is not None:
            yield ConditionalWrite((Delete(keys.slot(tenant, number)),))
    if tenant != COMMON:
        yield from _tenant(request, found)
    for number in writes.forget_revisions:
        both = (keys.revision(tenant, number), keys.outcome(tenant, number))
        if any(found[key] is not None for key in both):
            yield ConditionalWrite(tuple(Delete(key) for key in both))
    yield from _status(request, found, now)


def _of_slot(request: RecordInput, slot: int, found: Found) -> ConditionalWrite:
    """All that changes in one slot: ended incarnations go, revoked ones lose their grant, its record follows."""
    tenant, writes = request.tenant, request.writes
    clears = [one for one in writes.clears if one.slot == slot]
    cleared = {one.incarnation for one in clears}
    gone = [keys.exited(tenant, slot, incarnation) for incarnation in sorted(cleared)]
    gone += [keys.grant(tenant, slot, incarnation) for of, incarnation in lives(request) if of == slot]
    present = [kv for key in gone if (kv := found[key]) is not None]
    operations: list[Operation] = [Delete(kv.key) for kv in present]
    conditions: list[Condition] = [Compare(kv.key, "mod", kv.mod_revision) for kv in present]
    conditions += [
        Compare(_registration(request, life), "mod", request.registered)
        for life in _judged(request, found)
        if life[0] == slot
    ]
    if request.lost and any(life[0] == slot for life in _left(request, found)):
        conditions.append(Compare(keys.host(request.lost), "create", 0))
    changes: dict[str, int] = {}
    if clears:
        changes["crashes"] = clears[-1].crashes
    for one in writes.assigns:
        if one.slot == slot:
            changes["revision"] = one.revision
    kv = found.get(keys.slot(tenant, slot))
    if kv is not None:
        before = decoded(kv, Slot)
        after = replace(before, **changes)
        if after != before:
            operations.append(Put(kv.key, stored(after)))
            conditions.append(Compare(kv.key, "mod", mod(kv)))
    return ConditionalWrite(tuple(operations), tuple(conditions))


def _tenant(request: RecordInput, found: Found) -> Iterator[ConditionalWrite]:
    key = keys.tenant(request.tenant)
    present = found[key] is not None
    if request.writes.tenant == "present" and not present:
        yield ConditionalWrite((Put(key, b"{}"),), (Compare(key, "create", 0),))
    elif request.writes.tenant == "absent" and present:
        yield ConditionalWrite((Delete(key),))


def _status(request: RecordInput, found: Found, now: str) -> Iterator[ConditionalWrite]:
    status, key = request.writes.status, keys.fleet_status(request.tenant)
    if status is None:
        return
    kv = found[key]
    try:
        before = decoded(kv, FleetStatusRecord) if kv is not None else None
    except InvalidObject:
        before = None
    if before is None or before.digest != digest(status):
        yield ConditionalWrite((Put(key, status_record(status, before, now).to_bytes()),))


_STATUS = TypeAdapter(RolloutStatus)


def digest(status: RolloutStatus) -> str:
    """SHA-256 of all of it but the seconds."""
    still = replace(status, running=tuple(replace(one, seen=0.0) for one in status.running))
    return hashlib.sha256(_STATUS.dump_json(still)).hexdigest()


def status_record(status: RolloutStatus, before: FleetStatusRecord | None, now: str) -> FleetStatusRecord:
    """The record of a status. `now`: RFC 3339, UTC."""
    known = {one.type: one.status for one in before.status.conditions} if before is not None else {}
    times = before.condition_times if before is not None else {}
    return FleetStatusRecord(
        status=status,
        digest=digest(status),
        time=now,
        condition_times={
            one.type: times.get(one.type, now) if known.get(one.type) is one.status else now
            for one in status.conditions
        },
    )
