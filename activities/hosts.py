"""What a host's agent does for fleets: start the process of a granted incarnation, and make sure that one is gone.

Create and kill of one incarnation run one after the other. Create looks for the grant and for the exit record right
before the fork and again behind it; kill answers only when the grant is gone or the exit record written. So whatever
Temporal delivers late or twice, no process begins after a kill has answered, and none twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.errors import ServerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Get, Store
from wharfinger.fleet.contracts.fleet_records import R, RevisionRecord, read_value
from wharfinger.fleet.contracts.fleets import (
    Created,
    CreateInput,
    CreateOutcome,
    Ended,
    FleetFailure,
    FleetHost,
    Incarnation,
    Killed,
    KillInput,
    NotGranted,
)
from wharfinger.fleet.effects import instance_command
from wharfinger.fleet.model.fleet import Grant
from wharfinger.fleet.spec.agent_settings import AgentSettings
from wharfinger.process.children.runtime import InstanceId, Process, Runtime

log = logging.getLogger(__name__)

KILLED_WITHIN = 5.0
"""Seconds from SIGKILL until a process must be gone."""
BEAT = 3.0
"""Seconds between heartbeats."""


class Exits(Protocol):
    """Where ends become exit records; `fleet.agent.host_exits`."""

    def pending(self, instance: InstanceId) -> bool:
        """Whether it has ended and etcd does not know yet."""

    async def settle(self, instance: InstanceId) -> None:
        """Return once its grant is gone or its exit record is there; one that never lived gets one. `StoreError`."""


class HostActivities(FleetHost):
    """Runs on the host's own queue."""

    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        exits: Exits,
        settings: AgentSettings,
        *,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """`settings.temporal` is what instances are told; `environ`: what `--allow-env` chooses from."""
        self._store = store
        self._runtime = runtime
        self._exits = exits
        self._settings = settings
        self._environ = environ
        self._turns: dict[InstanceId, _Turn] = {}
        self._creating = 0
        self._ports: dict[InstanceId, int] = {}
        """Health ports that instances were told; they may not listen yet."""

    @property
    def all(self) -> list[Callable[..., Any]]:
        """For the Temporal worker."""
        return [self.create_instance, self.kill_instance]

    @activity.defn(name="create_instance")
    async def create_instance(self, request: CreateInput) -> CreateOutcome:
        """Read the grant, resolve version and secrets, fork. Idempotent: a running process is adopted."""
        instance = _instance(request)
        async with _beating(), self._turn(instance):
            return await self._create(instance)

    @activity.defn(name="kill_instance")
    async def kill_instance(self, request: KillInput) -> Killed:
        """End a process through its pidfd, its lock checked. Idempotent."""
        instance = _instance(request)
        async with _beating(), self._turn(instance):
            found = self._runtime.find(instance) is not None
            await self._end(instance, request.timeout)
            await self._exits.settle(instance)
            return Killed(found=found)

    async def _create(self, instance: InstanceId) -> CreateOutcome:
        look = await self._look(instance)
        if isinstance(look, NotGranted) and self._runtime.find(instance) is None:
            await self._exits.settle(instance)  # where it is to drain: no step has to wait for it
        if not isinstance(look, Grant):
            return look
        if (process := self._runtime.find(instance)) is not None:
            return Created(pid=process.pid, adopted=True)
        if self._exits.pending(instance) or self._runtime.lived(instance):
            return Ended(detail="it has ended, and the record is being written")
        self._check_room()
        self._creating += 1
        try:
            return await self._start(instance, look)
        finally:
            self._creating -= 1

    async def _start(self, instance: InstanceId, grant: Grant) -> CreateOutcome:
        revision = await self._revision(instance.tenant, grant.revision)
        if ignored := instance_command.ignored_variables(revision, self._settings.allow_env):
            log.warning("variables_refused option=--allow-env instance=%s names=%s", instance, ",".join(ignored))
        self._ports = {known: port for known, port in self._ports.items() if self._runtime.find(known) is not None}
        command = await asyncio.to_thread(
            instance_command.compose,
            instance,
            grant,
            revision,
            settings=self._settings,
            folder=self._runtime.folder(instance),
            lock=self._runtime.lock(instance),
            environ=self._environ,
            taken=tuple(self._ports.values()),
        )
        look = await self._look(instance)  # right before the fork
        if not isinstance(look, Grant):
            return look
        self._ports[instance] = instance_command.told_port(command)
        starting = asyncio.ensure_future(self._runtime.start(instance, command))
        try:
            process = await asyncio.shield(starting)
            look = await self._look(instance)
            vanished = isinstance(look, NotGranted) and not await self._wanted(instance)
        except asyncio.CancelledError:
            await _to_its_end(self._undo(instance, starting))
            raise
        except ServerError as error:
            raise ApplicationError(str(error), type=FleetFailure.CANNOT_START, non_retryable=True) from None
        if isinstance(look, NotGranted) and vanished:
            log.info("instance_ended reason=grant_deleted_during_start instance=%s", instance)
            await self._end(instance, 0.0)
            return look
        log.info("instance_started instance=%s pid=%d revision=%d", instance, process.pid, grant.revision)
        return Created(pid=process.pid, adopted=process.adopted)

    async def _look(self, instance: InstanceId) -> Grant | NotGranted | Ended:
        """The grant, if it allows a start here now."""
        grant_key, exit_key = keys.grant(*instance), keys.exited(*instance)
        read = await self._store.txn([], [Get(grant_key), Get(exit_key)])
        grant_kv, exit_kv = read.reads
        grant = _decoded(grant_kv.value, Grant, grant_key) if grant_kv is not None else None
        if grant is None or grant.want != "run" or grant.host != self._settings.host:
            return NotGranted()
        return grant if exit_kv is None else Ended(detail="it has an exit record")

    async def _wanted(self, instance: InstanceId) -> bool:
        """Whether it still has a grant for this host: one that says drain is followed by the instance itself."""
        kv = (await self._store.get(keys.grant(*instance))).kv
        return kv is not None and _decoded(kv.value, Grant, kv.key).host == self._settings.host

    async def _revision(self, tenant: str, number: int) -> RevisionRecord:
        key = keys.revision(tenant, number)
        kv = (await self._store.get(key)).kv
        if kv is None:
            raise ApplicationError(f"there is no {key}", type=FleetFailure.FLEET_ERROR)
        return _decoded(kv.value, RevisionRecord, key)

    def _check_room(self) -> None:
        settings, running = self._settings, len(self._runtime.running())
        if settings.capacity and running + self._creating >= settings.capacity:
            raise _no_room(f"host {settings.host} runs {running} of {settings.capacity} instances")
        if self._creating >= settings.concurrent_creates:
            raise _no_room(f"host {settings.host} starts {self._creating} instances at the moment")

    async def _end(self, instance: InstanceId, timeout: float) -> None:
        """SIGTERM, after `timeout` seconds SIGKILL; 0 = SIGKILL at once. Returns when it is gone."""
        if timeout > 0:
            await self._runtime.terminate(instance)
            if await self._runtime.wait(instance, timeout):
                return
        await self._runtime.kill(instance)
        if not await self._runtime.wait(instance, KILLED_WITHIN):
            raise ApplicationError(f"instance {instance} survives SIGKILL", type=FleetFailure.FLEET_ERROR)

    async def _undo(self, instance: InstanceId, starting: asyncio.Future[Process]) -> None:
        """No step waits for it any more: end it once it has begun, unless this agent is leaving."""
        await asyncio.wait({starting})
        if activity.in_activity() and activity.is_worker_shutdown():
            return
        log.info("instance_ended reason=start_given_up instance=%s", instance)
        await self._end(instance, 0.0)

    @asynccontextmanager
    async def _turn(self, instance: InstanceId) -> AsyncIterator[None]:
        """One activity an incarnation at a time."""
        turn = self._turns.setdefault(instance, _Turn())
        turn.wanted += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.wanted -= 1
            if not turn.wanted:
                del self._turns[instance]


@dataclass(slots=True)
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    wanted: int = 0


def _instance(request: Incarnation) -> InstanceId:
    return InstanceId(request.tenant, request.slot, request.incarnation)


def _decoded(value: bytes, record: type[R], key: str) -> R:
    try:
        return read_value(record, value)
    except ValueError:
        raise ApplicationError(f"{key} cannot be read", type=FleetFailure.FLEET_ERROR) from None


async def _to_its_end(undoing: Coroutine[Any, Any, None]) -> None:
    """Run it whatever happens to the caller: a second cancellation (the agent stops) must not leave it half done."""
    task = asyncio.create_task(undoing)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    task.result()


def _no_room(message: str) -> ApplicationError:
    return ApplicationError(message, type=FleetFailure.NO_ROOM, category=ApplicationErrorCategory.BENIGN)


@asynccontextmanager
async def _beating() -> AsyncIterator[None]:
    """Heartbeats for the length of the block, where there is an activity around it."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(BEAT)

    task = asyncio.create_task(beat()) if activity.in_activity() else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
