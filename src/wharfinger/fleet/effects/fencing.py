"""The actor of a fleet: each of its writes compares the record of its epoch, and fails where another actor took over.

`actors/<tenant>` is rewritten only by a new actor, and by its actor when the target, or what was decided about it,
changes; so comparing its mod revision, read together with the epoch, is comparing the epoch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.errors import InvalidObject, StoreError, Unavailable, WharfingerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Condition, Get, KeyValue, Operation, Store
from wharfinger.fleet.contracts.fleet_records import R, read_value
from wharfinger.fleet.contracts.fleets import FleetFailure
from wharfinger.fleet.model.fleet import Actor
from wharfinger.process.failures import Failures
from wharfinger.process.following import KeyWatch

FLEETS = Failures(FleetFailure.UNAVAILABLE, FleetFailure.FLEET_ERROR, retried=True, speaking=WharfingerError)
"""Maps errors to what activities of fleets fail with."""


ANSWER = 3.0
"""Seconds that etcd may take for a reading of one who waits; a heartbeat is due before."""
MISSES = 3
"""Such readings in a row without an answer after which the activity fails."""
TRIES = 8
"""Transactions of one activity that may fail because something moved; then the activity does."""


def fenced(tenant: str, why: str) -> ApplicationError:
    """Another workflow acts on the fleet now, so the caller stops; never retried."""
    return ApplicationError(
        f"the fleet of {tenant} has another actor: {why}",
        type=FleetFailure.FENCED,
        non_retryable=True,
        category=ApplicationErrorCategory.BENIGN,
    )


@dataclass(frozen=True, slots=True)
class Asker:
    """The run that asked for the activity."""

    workflow_id: str
    run_id: str
    activity_id: str

    @property
    def token(self) -> str:
        """The same in every try of one activity, and in no other's."""
        return f"{self.workflow_id}@{self.run_id}/{self.activity_id}"

    @property
    def run(self) -> tuple[str, str]:
        """Its workflow's id, and its own."""
        return self.workflow_id, self.run_id

    @classmethod
    def of_this(cls) -> Asker:
        """The caller of the running activity."""
        info = activity.info()
        return cls(info.workflow_id or "", info.workflow_run_id or "", info.activity_id)


def unchanged(tenant: str, actor: Actor) -> Condition:
    """What every write of an actor compares."""
    return Compare(keys.actor(tenant), "mod", actor.mod_revision)


def acting(tenant: str, kv: KeyValue | None, epoch: int) -> Actor:
    """The actor of that epoch, as its key was read. Raises `Fenced` when it is another one, or none."""
    if kv is None:
        raise fenced(tenant, "none is recorded any more")
    actor = decoded(kv, Actor, mod_revision=kv.mod_revision)
    if actor.epoch != epoch:
        raise fenced(tenant, f"{actor.workflow_id} acts under epoch {actor.epoch}, and not {epoch}")
    return actor


async def read_together(store: Store, wanted: Sequence[str]) -> tuple[list[KeyValue | None], int]:
    """Some keys as of one moment, and etcd's revision then."""
    reads: list[Operation] = [Get(key) for key in wanted]
    answer = await store.txn((), reads)
    return list(answer.reads), answer.revision


async def read_patiently(
    store: Store, wanted: Sequence[str], watch: KeyWatch, missed: Callable[[], None]
) -> list[KeyValue | None]:
    """The same, tried again while etcd does not answer; `missed` is called each time that it did not.

    Raises `Unavailable` after `MISSES` times: another agent may have more luck.
    """
    for left in reversed(range(MISSES)):
        try:
            async with asyncio.timeout(ANSWER):
                return (await read_together(store, wanted))[0]
        except (StoreError, TimeoutError) as error:
            missed()
            if not left:
                raise Unavailable(f"etcd did not answer: {error}") from error
            await watch.changed(ANSWER / MISSES)
    raise AssertionError("not reached")


def decoded(kv: KeyValue, kind: type[R], **from_key: int) -> R:
    """The record in a key. Raises `InvalidObject`, naming the key."""
    try:
        return read_value(kind, kv.value, **from_key)
    except ValueError as error:
        raise InvalidObject(f"{kv.key} cannot be read: {' '.join(str(error).split())[:200]}") from None


def mod(kv: KeyValue | None) -> int:
    """The mod revision to compare: 0 = there is no such key."""
    return kv.mod_revision if kv is not None else 0
