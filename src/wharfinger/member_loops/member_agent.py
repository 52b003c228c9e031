"""The agent of one member: joins it to the hub, is there under a lease, and reports what the member has.

::

    its MemberCluster ── there ──► join (token on the member) ──► register under a lease ──► report, again and again
        └── gone, or another life of it ──► the name is given back, and the token, once the cluster has left

What it writes on the hub compares its own registration, so an agent that another one replaced writes nothing. The
status has no time: it is written when it says something else, and the lease is the heart-beat.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial

import orjson
from pydantic import ValidationError

from wharfinger.config.member_files import MemberConnection
from wharfinger.contracts.placement_records import MemberRecord, MemberStatusRecord
from wharfinger.engine.parts import ProcessParts
from wharfinger.errors import RevisionWentBack, StoreError
from wharfinger.manifests.formats import format_of
from wharfinger.manifests.members import agent_status
from wharfinger.member_loops.joining import JOIN_CONFLICT, JoinToken, hub_id, join, leave
from wharfinger.member_loops.usage import FOLLOWED, MemberUsage
from wharfinger.process.backoff import delays
from wharfinger.process.connecting import release
from wharfinger.process.following import follow
from wharfinger.process.registration import LeasedName, Registration
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Put, Store
from wharfinger.runtime import lives
from wharfinger.settings import LeaseSettings

log = logging.getLogger(__name__)

LOOK_EVERY = 2.0
"""Seconds between two looks at whether the MemberCluster is there."""
SICK_AFTER = 10.0
"""Seconds without an answer of the member's etcd after which it counts as unhealthy."""

Connect = Callable[[], Awaitable[Store]]


class MemberReporter:
    """One member."""

    def __init__(
        self,
        connection: MemberConnection,
        hub: ProcessParts,
        connect: Connect,
        *,
        lease: LeaseSettings,
        report_every: float,
        look_every: float = LOOK_EVERY,
    ) -> None:
        """`hub.store` is the hub's; `connect` opens the member's. `report_every`, `look_every`: seconds."""
        self.name = connection.name
        self._format = format_of(connection.format)
        self._hub = hub
        self._connect = connect
        self._lease = lease
        self._report_every = report_every
        self._look_every = look_every
        self.state = "has no MemberCluster yet"
        """For people: `ok`, or what it waits for."""
        self._trouble = ""
        """Why the member cannot be joined or asked."""
        self._answered: float | None = None
        """Clock seconds at which the member's etcd answered last."""

    async def run(self) -> None:
        """Serve until cancelled; whatever fails is tried again."""
        for delay in delays(0.5, 10.0, self._hub.rng):
            try:
                identity = await self._identity()
                if identity:
                    await self._serve(identity)
                    continue
            except StoreError as error:
                self.state = f"etcd: {error}"
                log.warning("member_failed effect=tried_again member=%s error=%r", self.name, str(error))
                await asyncio.sleep(delay)
                continue
            self.state = "has no MemberCluster yet"
            await asyncio.sleep(self._look_every)

    async def _identity(self) -> int:
        """Create revision of the MemberCluster; 0 = there is none."""
        kv = (await self._hub.store.get(keys.member_cluster(self.name))).kv
        return kv.create_revision if kv is not None else 0

    async def _serve(self, identity: int) -> None:
        """One life of the member, until its object is gone. Raises the store's errors."""
        record = MemberRecord(
            identity=identity,
            boot_id=lives.boot_id(),
            pid=os.getpid(),
            host=socket.gethostname(),
            version=release(),
            time=self._hub.utc_now().isoformat(timespec="milliseconds"),
        )
        named = LeasedName("member", self.name, keys.member(self.name), "members-dir", stands_by=True)
        registration = Registration(
            self._hub.store, named, record, self._lease, clock=self._hub.clock, rng=self._hub.rng
        )
        token = JoinToken(hub=await hub_id(self._hub.store), name=self.name)
        self.state = "stands by: another agent has the member"
        serving = asyncio.create_task(self._be_there(registration, identity, record, token))
        try:
            while await self._identity() == identity:
                ended, _ = await asyncio.wait({serving}, timeout=self._look_every)
                for one in ended:
                    one.result()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            with suppress(StoreError):
                await registration.leave()
        if not await self._identity():
            await self._leave(token)

    async def _be_there(
        self, registration: Registration, identity: int, record: MemberRecord, token: JoinToken
    ) -> None:
        """Register once no other agent has the member, then report, until cancelled. Raises the store's errors."""
        await registration.claim()
        tasks = [
            asyncio.create_task(registration.run()),
            asyncio.create_task(self._report(identity, record, token)),
        ]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for one in ended:
                one.result()
        finally:
            for one in tasks:
                one.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _leave(self, token: JoinToken) -> None:
        """The member has left: another hub may have it."""
        log.info("member_gone member=%s effect=token_removed", self.name)
        member = await self._connect()
        try:
            await leave(member, token)
        finally:
            await member.close()

    async def _report(self, identity: int, record: MemberRecord, token: JoinToken) -> None:
        """Join, follow what the member has, and write what it comes to, until cancelled."""
        usage = MemberUsage(self._format)
        before = await self._before(identity)
        following = asyncio.create_task(self._follow(usage, token))
        said = b""
        try:
            while True:
                if usage.in_sync or self._trouble:  # else it is about to be known
                    status = MemberStatusRecord(identity=identity, status=self._status(usage, before))
                    value = orjson.dumps(status.model_dump(), option=orjson.OPT_SORT_KEYS)
                    if value != said and await self._write(value, record):
                        said = value
                await asyncio.sleep(self._report_every if said and usage.in_sync else min(0.5, self._report_every))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _before(self, identity: int) -> dict[str, object]:
        """The status that an earlier agent left: what the member had is told while it cannot be asked."""
        kv = (await self._hub.store.get(keys.member_status(self.name))).kv
        try:
            found = MemberStatusRecord.model_validate_json(kv.value) if kv is not None else None
        except ValidationError:
            return {}
        return dict(found.status) if found is not None and found.identity == identity else {}

    async def _write(self, value: bytes, record: MemberRecord) -> bool:
        """Write the status while the member's name is ours; whether it was."""
        store = self._hub.store
        own = (await store.get(keys.member(self.name))).kv
        if own is None or own.value != record.to_bytes():
            return False
        compares = [Compare(keys.member(self.name), "mod", own.mod_revision)]
        return (await store.txn(compares, [Put(keys.member_status(self.name), value)])).succeeded

    async def _follow(self, usage: MemberUsage, token: JoinToken) -> None:
        """Join, and follow the member's own etcd, until cancelled."""
        for delay in delays(0.5, 10.0, self._hub.rng):
            try:
                member = await self._connect()
            except StoreError as error:
                self._say(f"its etcd: {error}")
                await asyncio.sleep(delay)
                continue
            try:
                conflict = await join(member, token)
                self._answered = self._hub.clock()
                self._say(conflict)
                if conflict:
                    log.warning("member_not_joined effect=tried_again member=%s error=%r", self.name, conflict)
                    await asyncio.sleep(delay)
                    continue
                await self._follow_all(member, usage)
            except StoreError as error:
                self._say(f"its etcd: {error}")
                await asyncio.sleep(delay)
            finally:
                await member.close()

    def _say(self, trouble: str) -> None:
        self._trouble, self.state = trouble, trouble or "ok"

    async def _follow_all(self, member: Store, usage: MemberUsage) -> None:
        """Until cancelled. Raises `RevisionWentBack`: another connection begins anew."""
        try:
            await self._follow_each(member, usage)
        except* RevisionWentBack as errors:
            raise errors.exceptions[0] from None

    async def _follow_each(self, member: Store, usage: MemberUsage) -> None:
        async with asyncio.TaskGroup() as group:
            for prefix in FOLLOWED:
                group.create_task(
                    follow(
                        member,
                        prefix,
                        listed=partial(usage.listed, prefix),
                        changed=partial(usage.changed, prefix),
                        survives_restore=False,
                        rng=self._hub.rng,
                    )
                )
            group.create_task(self._ask(member))

    async def _ask(self, member: Store) -> None:
        """Ask the member's etcd, so that its silence is noticed."""
        while True:
            try:
                await member.get(keys.PLACED_MEMBER)
                self._answered = self._hub.clock()
                self._say("")
            except StoreError as error:
                self._say(f"its etcd: {error}")
            await asyncio.sleep(min(self._report_every, SICK_AFTER / 2))

    def _status(self, usage: MemberUsage, before: Mapping[str, object]) -> dict[str, object]:
        """The status of a MemberCluster."""
        joined = self._answered is not None and not self._trouble.startswith(JOIN_CONFLICT)
        healthy = self._answered is not None and self._hub.clock() - self._answered <= max(
            SICK_AFTER, 2 * self._report_every
        )
        known = usage.status() if usage.in_sync else before
        return {**known, **agent_status(joined=joined, healthy=healthy, why=self._trouble)}
