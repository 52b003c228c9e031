"""Letting an instance live: the slot's counter goes up and the grant is put, in one transaction.

An answer that got lost is resolved by reading: the grant carries the token of the activity that put it, so a later try
of the same one finds its own. One that is so late that its grant has come and gone finds another number than the one
that it was to follow. The number comes from the slot's counter in etcd: given once, whatever Temporal remembers.
"""

from __future__ import annotations

from dataclasses import replace

from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Put, Store
from wharfinger.fleet.contracts.fleet_records import stored
from wharfinger.fleet.contracts.fleets import Granted, GrantInput, GrantOutcome, Moved
from wharfinger.fleet.effects.fencing import TRIES, Asker, acting, decoded, mod, read_together, unchanged
from wharfinger.fleet.model.fleet import Grant, Slot


class Granting:
    """Grants incarnations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def grant(self, request: GrantInput, asker: Asker) -> GrantOutcome:
        """Grant the slot's next incarnation; safe to run again. Raises `Fenced`, and the store's errors."""
        for _ in range(TRIES):
            outcome = await self._try(request, asker)
            if outcome is not None:
                return outcome
        raise Unavailable(f"slot {request.slot} of {request.tenant} changed during {TRIES} transactions")

    async def _try(self, request: GrantInput, asker: Asker) -> GrantOutcome | None:
        tenant, slot = request.tenant, request.slot
        wanted = (keys.actor(tenant), keys.fleet(tenant), keys.slot(tenant, slot))
        (actor_kv, fleet_kv, slot_kv), _ = await read_together(self._store, wanted)
        actor = acting(tenant, actor_kv, request.epoch)
        counter = decoded(slot_kv, Slot) if slot_kv is not None else None
        if counter is not None and await self._is_ours(request, counter.incarnation, asker):
            return Granted(incarnation=counter.incarnation)
        if fleet_kv is None or fleet_kv.create_revision != request.identity:
            return Moved(what="the fleet was deleted")
        if request.after not in (-1, counter.incarnation if counter is not None else 0):
            return Moved(what="the slot's next incarnation was granted already")
        after = counted_up(counter, request)
        record = Grant(
            revision=request.revision,
            host=request.host,
            identity=request.identity,
            settle=request.settle,
            token=asker.token,
        )
        grant = keys.grant(tenant, slot, after.incarnation)
        answer = await self._store.txn(
            [
                unchanged(tenant, actor),
                Compare(keys.slot(tenant, slot), "mod", mod(slot_kv)),
                Compare(keys.fleet(tenant), "create", request.identity),
                Compare(grant, "create", 0),
            ],
            [Put(keys.slot(tenant, slot), stored(after)), Put(grant, stored(record))],
        )
        return Granted(incarnation=after.incarnation) if answer.succeeded else None

    async def _is_ours(self, request: GrantInput, incarnation: int, asker: Asker) -> bool:
        """Whether an earlier try of this activity gave the slot's last grant."""
        read = await self._store.get(keys.grant(request.tenant, request.slot, incarnation))
        return read.kv is not None and decoded(read.kv, Grant).token == asker.token


def counted_up(counter: Slot | None, request: GrantInput) -> Slot:
    """The slot's record with one incarnation more."""
    if counter is None:
        return Slot(incarnation=1, revision=request.revision)
    revision = request.revision if request.assign else counter.revision
    return replace(counter, incarnation=counter.incarnation + 1, revision=revision)
