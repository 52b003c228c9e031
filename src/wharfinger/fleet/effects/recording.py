"""Writing what was decided about a fleet: each transaction compares the actor's record, and may be sent again.

::

    take ──► target, with its revision and decisions ──► outcomes, slots, tenant, status (`writes`) ──► end

Each try reads what is there and writes what differs, so a second one, after an answer that got lost or half of the
transactions, finds the rest. Nothing here must happen together but a target with its revision and what was decided
about it, and what one slot's incarnations left.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from wharfinger.errors import ConfigurationError, InvalidObject, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Condition, Delete, KeyValue, Operation, Put, Store
from wharfinger.fleet.contracts.fleet_records import RevisionRecord, stored
from wharfinger.fleet.contracts.fleets import RecordedFleet, RecordInput
from wharfinger.fleet.effects.fencing import TRIES, Asker, acting, decoded, fenced, mod, read_together, unchanged
from wharfinger.fleet.effects.writes import ConditionalWrite, Found, looked_at, may_serve, missing, packed
from wharfinger.fleet.model.fleet import Actor
from wharfinger.fleet.spec.fleet import FleetObject, is_deleting, read_fleet
from wharfinger.framework.catalog import Catalog
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.times import rfc3339
from wharfinger.process.transactions import Limits
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)


class Recording:
    """Writes what actors decided."""

    def __init__(
        self, store: Store, catalog: Catalog, *, limits: Limits, metrics: Metrics, utc_now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._limits = limits
        self._metrics = metrics
        self._utc_now = utc_now

    async def record(self, request: RecordInput, asker: Asker) -> RecordedFleet:
        """Write; safe to run again. Raises `Fenced`, and the store's errors."""
        tenant = request.tenant
        found = await self._store.get(keys.actor(tenant))
        kv = found.kv
        if kv is None and request.writes.end and not request.take:
            return RecordedFleet(epoch=request.epoch, ended=True)  # an earlier try removed it, last of all
        actor = (
            await self._take(request, kv, found.revision, asker) if request.take else acting(tenant, kv, request.epoch)
        )
        epoch = actor.epoch
        targeted = await self._target(request, actor)
        if targeted is None:
            log.info("fleet_target_refused reason=object_changed tenant=%s", tenant)
            return RecordedFleet(epoch=epoch, target=actor.target)
        if not await self._write(request, epoch):
            lives = ",".join(f"{slot}/{incarnation}" for slot, incarnation in request.revoke)
            log.info("fleet_revoke_refused reason=may_serve tenant=%s instances=%s", tenant, lives)
            return RecordedFleet(epoch=epoch, target=targeted.target, moved=True)
        ended = request.writes.end and await self._end(tenant, epoch)
        return RecordedFleet(epoch=epoch, target=targeted.target, ended=ended)

    async def _take(self, request: RecordInput, kv: KeyValue | None, revision: int, asker: Asker) -> Actor:
        """Become the actor, once, behind the one that the plan saw.

        The first actor begins with etcd's revision, which no epoch of a former fleet of this name has reached: what
        that one's actor still sends is of another epoch.
        """
        tenant, epoch = request.tenant, request.epoch + 1 if request.epoch else revision
        present = decoded(kv, Actor, mod_revision=kv.mod_revision) if kv is not None else None
        ours = present is not None and (present.workflow_id, present.run_id) == asker.run
        if present is not None and ours and request.epoch in (0, present.epoch - 1):
            return present  # an earlier try took it
        if (present.epoch if present is not None else 0) != request.epoch:
            raise fenced(tenant, f"it was taken over from epoch {request.epoch}")
        actor = Actor(epoch, asker.workflow_id, asker.run_id)
        if present is not None:
            actor = replace(actor, target=present.target, decisions=present.decisions)
        key = keys.actor(tenant)
        conditions: list[Condition] = [Compare(key, "mod", mod(kv))]
        if kv is None and request.desired:
            # A try that comes after the fleet's end must not leave a key that no process removes.
            fleet = (await self._store.get(keys.fleet(tenant))).kv
            if fleet is None:
                raise fenced(tenant, "the fleet has ended")
            conditions.append(Compare(fleet.key, "mod", fleet.mod_revision))
        answer = await self._store.txn(conditions, [Put(key, stored(actor))])
        if not answer.succeeded:
            raise fenced(tenant, f"it is being taken over from epoch {request.epoch}")
        log.info("fleet_actor_changed tenant=%s epoch=%d workflow=%s", tenant, epoch, asker.workflow_id)
        return replace(actor, mod_revision=answer.revision)

    # --- the target ---------------------------------------------------------------------------

    async def _target(self, request: RecordInput, actor: Actor) -> Actor | None:
        """Set the target, with its revision where it is a new one, and what was decided about it.

        None when the object is not what was planned for.
        """
        target = request.writes.target
        changes: dict[str, Any] = {}
        if target is not None and target != actor.target:
            changes["target"] = target
        said = request.writes.decisions
        last = actor.decisions.number if actor.decisions is not None else 0
        if said is not None and said.number > last and said.target == changes.get("target", actor.target):
            changes["decisions"] = said  # a try that comes late, after something else was decided, has a lower number
        if not changes:
            return actor
        after = replace(actor, **changes)
        conditions: list[Condition] = [unchanged(request.tenant, actor)]
        writes: list[Operation] = [Put(keys.actor(request.tenant), stored(after))]
        if "target" in changes and target is not None and request.writes.new_revision:
            record = await self._revision(request)
            if record is None:
                return None
            key = keys.revision(request.tenant, target)
            conditions += [Compare(keys.fleet(request.tenant), "mod", request.desired), Compare(key, "create", 0)]
            writes.append(Put(key, record.to_bytes()))
        answer = await self._store.txn(conditions, writes)
        if answer.succeeded:
            return replace(after, mod_revision=answer.revision)
        acting(request.tenant, (await self._store.get(keys.actor(request.tenant))).kv, actor.epoch)
        if "target" not in changes:  # another try of it: nothing that was planned is in doubt
            raise Unavailable(f"the actor's record of {request.tenant} is being written")
        return None

    async def _revision(self, request: RecordInput) -> RevisionRecord | None:
        """The present template as a revision; None when the object is another one by now."""
        kv = (await self._store.get(keys.fleet(request.tenant))).kv
        fleet = self._fleet(request.tenant, kv) if kv is not None and kv.mod_revision == request.desired else None
        if kv is None or fleet is None:
            return None
        written = json.dumps(fleet.written_template, sort_keys=True, separators=(",", ":"))
        return RevisionRecord(
            template=fleet.written_template,
            digest=hashlib.sha256(written.encode()).hexdigest(),
            generation=kv.mod_revision,
            who=fleet.changed_by,
            why=fleet.change_cause,
            time=self._now(),
        )

    def _fleet(self, tenant: str, kv: KeyValue) -> FleetObject | None:
        try:
            return read_fleet(documents.parse(kv.value), self._catalog, name=tenant)
        except (InvalidObject, ConfigurationError) as error:
            log.warning("fleet_target_refused reason=object_invalid tenant=%s error=%r", tenant, str(error)[:500])
            return None

    # --- the rest -----------------------------------------------------------------------------

    async def _write(self, request: RecordInput, epoch: int) -> bool:
        """Everything else, until nothing of it is missing; False where what is to be revoked may serve by now."""
        for _ in range(TRIES):
            found = await self._read(looked_at(request))
            if may_serve(request, found):
                return False
            if await self._send(request.tenant, epoch, list(missing(request, found, self._now()))):
                return True
        raise Unavailable(f"the fleet of {request.tenant} changed during {TRIES} transactions")

    async def _send(self, tenant: str, epoch: int, parts: Sequence[ConditionalWrite]) -> bool:
        """Write parts in their order; False where something moved. Raises `Fenced`."""
        if not parts:
            return True
        actor = acting(tenant, (await self._store.get(keys.actor(tenant))).kv, epoch)
        for together in packed(parts, self._limits):
            conditions = [unchanged(tenant, actor), *(each for part in together for each in part.conditions)]
            operations = [each for part in together for each in part.operations]
            if not (await self._store.txn(conditions, operations)).succeeded:
                return False
            for part in together:
                if part.outcome is not None:
                    self._metrics.fleet_rollouts.labels(part.outcome).inc()
        return True

    async def _read(self, wanted: Sequence[str]) -> Found:
        """These keys, as many at a time as a transaction takes."""
        found: dict[str, KeyValue | None] = {}
        for begin in range(0, len(wanted), self._limits.operations):
            some = wanted[begin : begin + self._limits.operations]
            found.update(zip(some, (await read_together(self._store, some))[0], strict=True))
        return found

    # --- the end ------------------------------------------------------------------------------

    async def _end(self, tenant: str, epoch: int) -> bool:
        """Remove everything of a fleet without grants; False where it has some, or is wanted again."""
        for _ in range(TRIES):
            if await self._all(keys.grant.below(tenant)):
                return False
            fleet = (await self._store.get(keys.fleet(tenant))).kv
            if fleet is not None and not is_deleting(parsed(fleet)):
                return False
            of_many = (keys.SLOTS, keys.OUTCOMES, keys.REVISIONS, keys.EXITS)
            numbered = [key for prefix in of_many for key in await self._all(f"{prefix}{tenant}/")]
            single = (keys.tenant(tenant), keys.fleet_status(tenant), keys.fleet(tenant), keys.actor(tenant))
            unchanged = Compare(keys.fleet(tenant), "mod", mod(fleet))
            parts = [ConditionalWrite((Delete(key),)) for key in numbered]
            last = ConditionalWrite(tuple(Delete(key) for key in single), (unchanged,))
            # The actor's own record goes last, and in a transaction of its own: until then a later try may go on.
            if await self._send(tenant, epoch, parts) and await self._send(tenant, epoch, [last]):
                log.info("fleet_deleted tenant=%s", tenant)
                return True
        raise Unavailable(f"the fleet of {tenant} changed during {TRIES} transactions")

    async def _all(self, prefix: str) -> list[str]:
        return [kv.key async for kv in self._store.each(prefix)]

    def _now(self) -> str:
        return rfc3339(self._utc_now())


def parsed(kv: KeyValue) -> object:
    """The object in a key; empty where it cannot be read."""
    try:
        return documents.parse(kv.value)
    except InvalidObject:
        return None
