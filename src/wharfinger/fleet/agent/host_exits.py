"""Exit records of a host's instances: every end becomes one, written once, as long as its grant is there.

An end is kept until etcd has taken it, or shows that no actor needs it (the grant is gone). The next agent reports
again what ended while no agent watched, because the lock file stays until the grant is gone.
An agent usually leaves its instances running. Where an option makes it end them, `end_instances` waits a moment for
these records.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable
from datetime import datetime

from pydantic import ValidationError

from wharfinger.errors import StoreError, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get, Put
from wharfinger.fleet.contracts.fleet_records import read_value, stored
from wharfinger.fleet.model.fleet import Exit, Grant
from wharfinger.pressure import delays
from wharfinger.process.children.runtime import Ending, InstanceId, Runtime
from wharfinger.process.parts import ProcessParts

log = logging.getLogger(__name__)

TRIES = 5
"""Transactions for one record: the grant may change between the reading and the writing."""
TOLD_WITHIN = 2.0
"""Seconds from a process's end until the runtime reports it."""


class HostExits:
    """Takes ends in, and writes them until etcd has them."""

    def __init__(self, process: ProcessParts, runtime: Runtime, host: str) -> None:
        self._metrics = process.metrics
        self._store = process.store
        self._runtime = runtime
        self._host = host
        self._rng = process.rng
        self._utc_now = process.utc_now
        self._pending: dict[InstanceId, Ending] = {}
        self._blamed: dict[InstanceId, str] = {}
        self._expected: set[InstanceId] = set()
        self._told = asyncio.Condition()
        self._news = asyncio.Event()

    def pending(self, instance: InstanceId) -> bool:
        """Whether it has ended and etcd does not know yet."""
        return instance in self._pending

    @property
    def waiting(self) -> int:
        """Ends that etcd does not know yet."""
        return len(self._pending)

    def blame(self, instance: InstanceId, why: str) -> None:
        """It is about to be killed because probes failed."""
        self._blamed[instance] = why

    def expect(self, instances: Iterable[InstanceId]) -> None:
        """They are about to be ended together with their agent: that is no crash."""
        self._expected.update(instances)

    def add(self, endings: Iterable[Ending]) -> None:
        """Take ends in."""
        for ending in endings:
            self._pending[ending.id] = ending
        self._news.set()

    async def run(self) -> None:
        """Take the runtime's ends in, and write them, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._listen())
            group.create_task(self._write_all())

    async def settle(self, instance: InstanceId) -> None:
        """Return once its grant is gone or its exit record is there; one that never lived gets one.

        Raises `StoreError`. Only for one that does not run.
        """
        if instance not in self._pending and self._runtime.lived(instance):
            if await self._known(instance):
                return
            try:
                async with asyncio.timeout(TOLD_WITHIN), self._told:
                    await self._told.wait_for(lambda: instance in self._pending)
            except TimeoutError:
                log.warning("exit_unexplained instance=%s", instance)
        await self._record(instance, self._pending.get(instance))
        self._done(instance)

    async def _known(self, instance: InstanceId) -> bool:
        grant, exited = (await self._store.txn([], [Get(keys.grant(*instance)), Get(keys.exited(*instance))])).reads
        return grant is None or exited is not None

    async def _listen(self) -> None:
        async for ending in self._runtime.endings():
            log.info("instance_ended instance=%s how=%s number=%d", ending.id, ending.how, ending.number)
            self.add([ending])
            async with self._told:
                self._told.notify_all()

    async def _write_all(self) -> None:
        waits = delays(0.2, 5.0, self._rng)
        while True:
            await self._news.wait()
            self._news.clear()
            for instance, ending in list(self._pending.items()):
                try:
                    await self._record(instance, ending)
                except StoreError as error:
                    log.debug("exit_not_recorded effect=retried instance=%s error=%r", instance, str(error))
                    self._news.set()
                else:
                    self._done(instance)
            if self._news.is_set() and self._pending:
                await asyncio.sleep(next(waits))
            else:
                waits = delays(0.2, 5.0, self._rng)

    def _done(self, instance: InstanceId) -> None:
        self._pending.pop(instance, None)
        self._blamed.pop(instance, None)

    async def _record(self, instance: InstanceId, ending: Ending | None) -> None:
        """Write the record while the grant is there and none is."""
        grant_key, exit_key = keys.grant(*instance), keys.exited(*instance)
        registration = keys.instance(instance.tenant, str(instance.slot), instance.incarnation)
        for _ in range(TRIES):
            grant_kv, exit_kv = (await self._store.txn([], [Get(grant_key), Get(exit_key)])).reads
            if grant_kv is None or exit_kv is not None:
                return
            try:
                grant = read_value(Grant, grant_kv.value)
            except ValidationError:
                log.error("grant_unreadable key=%s", grant_key)
                return
            if grant.host != self._host:
                return
            record = exit_record(
                ending,
                planned=grant.want == "drain" or instance in self._expected,
                lived=self._runtime.lived(instance),
                blamed=self._blamed.get(instance, ""),
                time=self._utc_now(),
            )
            result = await self._store.txn(
                [Compare(grant_key, "mod", grant_kv.mod_revision), Compare(exit_key, "create", 0)],
                # Its registration must not count until the lease is over: its pods change hands at once.
                [Put(exit_key, stored(record)), Delete(registration)],
            )
            if result.succeeded:
                self._metrics.host_ended.labels(record.how).inc()
                log.info("exit_recorded instance=%s how=%s planned=%s", instance, record.how, record.planned)
                return
        raise Unavailable(f"{grant_key} changed {TRIES} times")


def exit_record(ending: Ending | None, *, planned: bool, lived: bool, blamed: str, time: datetime) -> Exit:
    """What is written of an end; `blamed`: why probes had it killed."""
    when = time.isoformat(timespec="seconds")
    if ending is None and not lived:
        return Exit(how="never-started", detail="it was ended before it began", planned=planned, time=when)
    if ending is None:
        return Exit(how="signal", detail="it ended while no agent looked", planned=planned, time=when)
    words = f": {ending.last_words}" if ending.last_words else ""
    if blamed:
        return Exit(how="probe", detail=blamed + words, lived=ending.lived, planned=planned, time=when)
    if planned and (ending.how == "unknown" or (ending.how == "code" and not ending.number)):
        return Exit(how="drained", lived=ending.lived, planned=True, time=when)
    return Exit(
        how="code" if ending.how == "code" else "signal",
        detail=_said(ending) + words,
        lived=ending.lived,
        planned=planned,
        host_restarted=ending.host_restarted,
        time=when,
    )


def _said(ending: Ending) -> str:
    if ending.how == "code":
        return f"exit code {ending.number}"
    if ending.how == "unknown":
        return "it ended while no agent looked"
    try:
        return signal.Signals(ending.number).name
    except ValueError:
        return f"signal {ending.number}"


RECORDED_WITHIN = 2.0
"""Seconds in which etcd may take the ends of instances; then the next agent writes them."""


async def end_instances(runtime: Runtime, exits: HostExits, timeout: float) -> None:
    """SIGTERM to all, SIGKILL after `timeout` seconds, and a moment for their exit records."""
    running = [process.id for process in runtime.running()]
    exits.expect(running)

    async def end(instance: InstanceId) -> None:
        await runtime.terminate(instance)
        if not await runtime.wait(instance, timeout):
            log.warning("instance_killed reason=did_not_end_in_time instance=%s", instance)
            await runtime.kill(instance)
            await runtime.wait(instance, RECORDED_WITHIN)

    await asyncio.gather(*map(end, running))
    try:
        async with asyncio.timeout(RECORDED_WITHIN):
            while exits.waiting:  # noqa: ASYNC110 - the end is near
                await asyncio.sleep(0.05)
    except TimeoutError:
        log.warning("exits_not_recorded effect=left_to_the_next_agent instances=%d", exits.waiting)
