"""The grants of instances: one lets an instance live, and asks it to leave. Each change is one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wharfinger.errors import Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Condition, Operation, Put, Store
from wharfinger.fleet.contracts.fleet_records import stored
from wharfinger.fleet.contracts.fleets import (
    Drained,
    DrainInput,
    DrainOutcome,
    Granted,
    GrantInput,
    GrantOutcome,
    Moved,
    StillThere,
)
from wharfinger.fleet.effects.fencing import (
    TRIES,
    Asker,
    acting,
    decoded,
    mod,
    read_patiently,
    read_together,
    unchanged,
)
from wharfinger.fleet.model.fleet import HOST_LOST, Grant, Slot
from wharfinger.fleet.model.rollout import LATE
from wharfinger.process.following import watching

TICK = 2.0
"""Seconds between two readings when nothing happens; each sends a heartbeat."""
AT_A_TIME = 30
"""Instances that are counted on and for which a transaction has three compares each; of more, two are read only."""


class Granting:
    """Lets an instance live: the slot's counter goes up and the grant is put, in one transaction.

    A response that got lost is resolved by reading: the grant carries the token of the activity that put it, so a later
    try of the same activity finds its own grant. A try that is so late that its grant has come and gone finds another
    number than the one that it was to follow. The number comes from the slot's counter in etcd, so it is given once,
    whatever Temporal remembers.
    """

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


class Draining:
    """Asks an instance to leave: one transaction, then a wait for the agent to report that it has ended.

    The transaction compares, key by key, every ready record that must still serve when this one stops. It fails, and
    the actor looks again, if such a record was rewritten or has vanished, or if its process has ended. It also fails
    after a later decision about the rollout: no instance leaves for a rollout that was aborted.
    Draining is final: a grant that says drain already is not compared again.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float], host_lost: float = HOST_LOST) -> None:
        """`clock`: seconds, monotonic; `host_lost`: seconds without an agent after which no end is reported."""
        self._store = store
        self._clock = clock
        self._host_lost = host_lost

    async def drain(self, request: DrainInput, asker: Asker, beat: Callable[[], None]) -> DrainOutcome:
        """Ask, and wait; safe to run again. Raises `Fenced`, and the store's errors."""
        for _ in range(TRIES):
            beat()
            done = await self._ask(request, asker)
            if isinstance(done, Moved | Drained):
                return done
            if done:
                return await self._wait(request, beat)
        raise Unavailable(f"slot {request.slot} of {request.tenant} changed during {TRIES} transactions")

    async def _ask(self, request: DrainInput, asker: Asker) -> Moved | Drained | bool:
        """Whether the grant says drain now; False = look again."""
        tenant = request.tenant
        life = (tenant, request.slot, request.incarnation)
        wanted = [keys.actor(tenant), keys.grant(*life), keys.slot(tenant, request.slot), keys.exited(*life)]
        wanted += [keys.instance(tenant, str(one.slot), one.incarnation) for one in request.counted]
        (actor_kv, grant_kv, slot_kv, exit_kv, *counted), _ = await read_together(self._store, wanted)
        actor = acting(tenant, actor_kv, request.epoch)
        if grant_kv is None:
            return Moved(what="the grant is gone")
        grant = decoded(grant_kv, Grant)
        conditions: list[Condition] = [unchanged(tenant, actor), Compare(grant_kv.key, "mod", grant_kv.mod_revision)]
        writes: list[Operation] = []
        if grant.want != "drain":
            if exit_kv is not None:
                return Moved(what="it has ended by itself")
            if grant_kv.mod_revision != request.grant_mod_revision:
                return Moved(what="its grant changed")
            decided = actor.decisions
            if decided is not None and decided.number > request.decisions >= 0:
                return Moved(what="something else was decided about the rollout meanwhile")
            moved = [one for one, kv in zip(request.counted, counted, strict=True) if mod(kv) != one.mod_revision]
            if moved:
                return Moved(what=f"slot {moved[0].slot} is not what was counted on")
            conditions += [
                Compare(key, "mod", one.mod_revision) for key, one in zip(wanted[4:], request.counted, strict=True)
            ]
            alive = await self._alive(request)
            if isinstance(alive, Moved):
                return alive
            conditions += alive
            draining = replace(grant, want="drain", token=asker.token)
            writes.append(Put(grant_kv.key, stored(draining)))
        if request.assign and slot_kv is not None:
            slot = decoded(slot_kv, Slot)
            if slot.revision != request.assign:
                conditions.append(Compare(slot_kv.key, "mod", slot_kv.mod_revision))
                writes.append(Put(slot_kv.key, stored(replace(slot, revision=request.assign))))
        return not writes or (await self._store.txn(conditions, writes)).succeeded

    async def _alive(self, request: DrainInput) -> Moved | list[Condition]:
        """Whether none of those that are counted on has ended or was asked to leave: a record outlives its process.

        What is to be compared so that it stays so, where a transaction has room for it.
        """
        conditions: list[Condition] = []
        others = [one for one in request.counted if (one.slot, one.incarnation) != (request.slot, request.incarnation)]
        for begin in range(0, len(others), AT_A_TIME):
            some = others[begin : begin + AT_A_TIME]
            lives = [(request.tenant, one.slot, one.incarnation) for one in some]
            marks = [key for life in lives for key in (keys.grant(*life), keys.exited(*life))]
            read, _ = await read_together(self._store, marks)
            for one, grant_kv, exit_kv in zip(some, read[::2], read[1::2], strict=True):
                if exit_kv is not None or grant_kv is None or decoded(grant_kv, Grant).want != "run":
                    return Moved(what=f"slot {one.slot} has ended or leaves, and was counted on")
                exited = keys.exited(request.tenant, one.slot, one.incarnation)
                conditions += [
                    Compare(grant_kv.key, "mod", grant_kv.mod_revision),
                    Compare(exited, "create", 0),
                ]
        return conditions if len(others) <= AT_A_TIME else []

    async def _wait(self, request: DrainInput, beat: Callable[[], None]) -> DrainOutcome:
        """Until the agent reports its end, or the time is over: at the latest when no process is left to report it.

        That is when it gave its lease back, or lost it, and its host has had no agent for as long as makes one lost.
        """
        life = (request.tenant, request.slot, request.incarnation)
        wanted = [keys.exited(*life), keys.grant(*life), keys.instance(life[0], str(life[1]), life[2])]
        left, unheard, at = request.timeout, 0.0, self._clock()
        async with watching(self._store, wanted[:1]) as watch:
            while True:
                beat()
                exit_kv, grant_kv, record, *host = await read_patiently(self._store, wanted, watch, beat)
                if exit_kv is not None:
                    return Drained()
                if grant_kv is None:  # fenced off, or cleared away: the next look shows which
                    return Moved(what="the grant is gone")
                now = self._clock()
                passed, at = min(now - at, LATE), now
                left -= passed
                unheard = unheard + passed if record is None and host and host[0] is None else 0.0
                if left <= 0 or unheard >= self._host_lost:
                    return StillThere()
                if not host:
                    wanted.append(keys.host(decoded(grant_kv, Grant).host))
                await watch.changed(min(TICK, left))
