"""Waiting until an instance is ready, and has been for `min_ready` seconds of unbroken sight.

What counts is the mod revision of its record: whatever happens to the instance (its lease is lost, it withdraws, it
registers again) rewrites or removes it. Time is counted between two readings that show the same one, by a monotonic
clock; an interval longer than `LATE`, or one in which etcd did not answer, counts nothing and begins the count anew.
The count travels in the heartbeats: a later try goes on where the record is still the same one.
"""

from __future__ import annotations

from collections.abc import Callable

from wharfinger.errors import InvalidObject
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.fleet.contracts.fleets import AwaitInput, AwaitProgress, Ended, NotGranted, Ready, ReadyOutcome
from wharfinger.fleet.effects.fencing import decoded, read_patiently
from wharfinger.fleet.model.fleet import Exit, Grant
from wharfinger.fleet.model.rollout import LATE
from wharfinger.process.following import watching
from wharfinger.process.records import InstanceRecord

TICK = 2.0
"""Seconds between two readings when nothing happens; each sends a heartbeat."""
NEVER_CAME = "its registration"

Beat = Callable[[AwaitProgress], None]


class AwaitingReady:
    """Waits for instances."""

    def __init__(self, store: Store, *, clock: Callable[[], float]) -> None:
        """`clock`: seconds, monotonic."""
        self._store = store
        self._clock = clock

    async def wait(self, request: AwaitInput, progress: AwaitProgress, beat: Beat) -> ReadyOutcome:
        """Ready, or why that will not come; waits for ever. `progress`: of an earlier try.

        Raises the store's errors after some silence.
        """
        life = (request.tenant, request.slot, request.incarnation)
        record = keys.instance(request.tenant, str(request.slot), request.incarnation)
        wanted = (record, keys.exited(*life), keys.grant(*life))
        count = Count(progress, request.min_ready)
        async with watching(self._store, wanted[:2]) as watch:
            while True:
                read = await read_patiently(self._store, wanted, watch, lambda: beat(count.missed()))
                outcome = ended(read[1], read[2])
                if outcome is not None:
                    return outcome
                count.looked(read[0], self._clock())
                beat(count.progress)
                if count.left <= 0:
                    return Ready(mod_revision=count.progress.mod_revision)
                await watch.changed(min(TICK, count.left))


class Count:
    """For how long a ready record has not changed."""

    def __init__(self, progress: AwaitProgress, min_ready: float) -> None:
        self.progress = progress
        self._min_ready = min_ready
        self._at: float | None = None
        """When it was last seen, of this try."""

    @property
    def left(self) -> float:
        """Seconds that are missing; infinite while it is not ready."""
        return self._min_ready - self.progress.seconds if self.progress.mod_revision else float("inf")

    def missed(self) -> AwaitProgress:
        """No answer came: what happened meanwhile is unknown."""
        self.progress, self._at = AwaitProgress(waiting_for="etcd's answer"), None
        return self.progress

    def looked(self, kv: KeyValue | None, now: float) -> None:
        """The record was read."""
        waiting_for = missing(kv)
        if kv is None or waiting_for:
            self.progress = AwaitProgress(waiting_for=waiting_for)
        elif kv.mod_revision != self.progress.mod_revision or (self._at is not None and now - self._at > LATE):
            self.progress = AwaitProgress(mod_revision=kv.mod_revision, waiting_for="min-ready time")
        elif self._at is not None:
            seconds = self.progress.seconds + (now - self._at)
            self.progress = self.progress.model_copy(update={"seconds": seconds})
        self._at = now


def missing(kv: KeyValue | None) -> str:
    """What the instance is waiting for; empty when its record says ready."""
    if kv is None:
        return NEVER_CAME
    try:
        record = decoded(kv, InstanceRecord)
    except InvalidObject as error:
        return str(error)
    return "" if record.state == "ready" else record.waiting_for or f"it is {record.state}"


def ended(exited: KeyValue | None, grant: KeyValue | None) -> Ended | NotGranted | None:
    """Why it will not become ready; None = it may."""
    if exited is not None:
        return Ended(detail=told(exited))
    if grant is None or decoded(grant, Grant).want != "run":
        return NotGranted()
    return None


def told(exited: KeyValue) -> str:
    """How it ended, for people."""
    try:
        record = decoded(exited, Exit)
    except InvalidObject:
        return ""
    return f"{record.how}: {record.detail}" if record.detail else record.how
