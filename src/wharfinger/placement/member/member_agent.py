"""The agent of one member: joins it to the hub, is there under a lease, and reports what the member has.

::

    its MemberCluster ── there ──► join (token on the member) ──► register under a lease ──► report, again and again
        └── gone, or another life of it ──► the name is given back, and the token, once the member answers

What it writes on the hub compares its own registration, so an agent that another one replaced writes nothing. The
status has no time: it is written when it says something else, and the lease is the heart-beat.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import orjson

from wharfinger.errors import AccessDenied, RevisionWentBack, StoreError, WharfingerError
from wharfinger.etcd.store import Compare, KeyValue, Put, Store
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.texts import one_line, plain
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import MemberRecord, MemberStatusRecord
from wharfinger.placement.member.applier import Applier
from wharfinger.placement.member.folder import MemberConnection
from wharfinger.placement.member.joining import JOIN_CONFLICT, JoinToken, hub_id, join, leave, stay
from wharfinger.placement.member.presence import Presence
from wharfinger.placement.member.usage import FOLLOWED, MemberUsage
from wharfinger.placement.member.works import Works
from wharfinger.placement.spec.members import agent_status
from wharfinger.pressure import delays
from wharfinger.process.build import release
from wharfinger.process.children import lives
from wharfinger.process.following import follow
from wharfinger.process.parts import ProcessParts
from wharfinger.process.registration import LeasedName, Registration
from wharfinger.process.running import first_to_end
from wharfinger.settings import LeaseSettings

log = logging.getLogger(__name__)

LOOK_EVERY = 2.0
"""Seconds between two looks at whether the MemberCluster is there."""
SICK_AFTER = 10.0
"""Seconds without an answer of the member's etcd after which it counts as unhealthy."""
UNKNOWN_AFTER = 5.0
"""Seconds without a list of what the member has after which it is reported without that."""
GIVE_BACK_EVERY = 30.0
"""Seconds between two tries to take the token from a member that has left, and for each of them."""

ORPHANS = 20
"""Placements that are told of what is on the member, and unknown to the hub."""

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
        give_back_every: float = GIVE_BACK_EVERY,
        works: Works | None = None,
        presence: Presence | None = None,
    ) -> None:
        """`hub.store` is the hub's; `connect` opens the member's; `..._every`: seconds. `works`: None = only report.

        `presence`: what it shares with the other agents of its process; None = nothing.
        """
        self.name = connection.name
        self._format = format_of(connection.format)
        self._hub = hub
        self._connect = connect
        self._lease = lease
        self._report_every = report_every
        self._look_every = look_every
        self._give_back_every = give_back_every
        self._works = works
        self._presence = presence
        self._applier: Applier | None = None
        self.state = "has no MemberCluster yet"
        """For people: `ok`, or what it waits for."""
        self._trouble = ""
        """Why the member cannot be joined or asked."""
        self._answered: float | None = None
        """Clock seconds at which the member's etcd answered last."""
        self._unlisted: dict[str, tuple[float, str]] = {}
        """What of the member cannot be listed: since when (clock seconds), and why."""
        self._given_back = False
        """Whether the member has no token of ours, after its MemberCluster has gone."""
        self._give_back_at = 0.0
        """Clock seconds at which that is tried again."""

    async def run(self) -> None:
        """Serve until cancelled; whatever fails is tried again."""
        again = delays(0.5, 10.0, self._hub.rng)
        while True:
            try:
                identity = await self._identity()
                if identity:
                    await self._serve(identity)
                    continue
                self.state = "has no MemberCluster yet"
                await self._give_back()
                again, pause = delays(0.5, 10.0, self._hub.rng), self._look_every
            except Exception as error:  # whatever it is, the agent goes on serving
                self.state = f"etcd: {_said(error)}"
                self._log("serving", error)
                pause = next(again)
            await asyncio.sleep(pause)

    async def _identity(self) -> int:
        """Create revision of the MemberCluster; 0 = there is none."""
        kv = (await self._hub.store.get(placement_keys.member_cluster(self.name))).kv
        return kv.create_revision if kv is not None else 0

    async def _serve(self, identity: int) -> None:
        """One life of the member, until its object is gone. Raises the store's errors."""
        record = MemberRecord(
            identity=identity,
            boot_id=lives.boot_id(),
            pid=os.getpid(),
            host=socket.gethostname(),
            version=release(),
            format=self._format.name.value,
            time=self._hub.utc_now().isoformat(timespec="milliseconds"),
        )
        named = LeasedName("member", self.name, placement_keys.member(self.name), "members-dir", stands_by=True)
        registration = Registration(self._hub, named, record, self._lease, self._presence)
        token = JoinToken(hub=await hub_id(self._hub.store), name=self.name, identity=identity)
        self._given_back, self._give_back_at = False, 0.0
        self.state = "stands by: another agent has the member"
        serving = asyncio.create_task(self._be_there(registration, identity, record, token))
        try:
            while await self._goes_on(identity):
                ended, _ = await asyncio.wait({serving}, timeout=self._look_every)
                for one in ended:
                    one.result()
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            with suppress(StoreError):
                await registration.leave()

    async def _goes_on(self, identity: int) -> bool:
        """Whether that life of the member does; while the hub's etcd gives no answer, it does."""
        seen = self._presence.seen(placement_keys.member_cluster(self.name)) if self._presence is not None else None
        if seen is not None and seen.create_revision == identity:
            return True
        try:
            return await self._identity() == identity
        except RevisionWentBack:
            raise
        except StoreError as error:
            log.debug("member_not_looked_up effect=as_it_was member=%s error=%r", self.name, str(error))
            return True

    async def _be_there(
        self, registration: Registration, identity: int, record: MemberRecord, token: JoinToken
    ) -> None:
        """Register once no other agent has the member, then report, until cancelled. Raises the store's errors."""
        await registration.claim()
        await first_to_end(registration.run(), self._report(identity, record, token))

    async def _give_back(self) -> None:
        """Without a MemberCluster: take our token from the member, where it lies there, so that others may have it.

        It is looked for once, and again while the member does not answer.
        """
        if self._given_back or self._hub.clock() < self._give_back_at:
            return
        try:
            async with asyncio.timeout(GIVE_BACK_EVERY):
                token = JoinToken(hub=await hub_id(self._hub.store), name=self.name)
                member = await self._connect()
                try:
                    await leave(member, token, self._is_gone)
                finally:
                    await member.close()
        except Exception as error:  # tried again later, and logged once
            if not self._give_back_at:
                self._log("leaving", error)
            self._give_back_at = self._hub.clock() + self._give_back_every
        else:
            self._given_back = True

    async def _is_gone(self) -> bool:
        return not await self._identity()

    async def _report(self, identity: int, record: MemberRecord, token: JoinToken) -> None:
        """Join, follow what the member has, and write what it comes to, until cancelled."""
        usage = MemberUsage(self._format)
        following = asyncio.create_task(self._follow(usage, token, record))
        began, said = self._hub.clock(), b""
        before: dict[str, object] | None = None
        try:
            while True:
                try:
                    before = await self._before(identity) if before is None else before
                    # else it is about to be known
                    if usage.in_sync or self._trouble or self._hub.clock() - began > UNKNOWN_AFTER:
                        status = self._record(identity, usage, before)
                        value = orjson.dumps(status.model_dump(), option=orjson.OPT_SORT_KEYS)
                        if value != said and await self._write(value, record):
                            said = value
                except StoreError as error:
                    if isinstance(error, RevisionWentBack):
                        raise
                    log.debug("status_not_written effect=retried member=%s error=%r", self.name, str(error))
                pause = self._report_every if said and usage.in_sync else min(0.5, self._report_every)
                ended, _ = await asyncio.wait({following}, timeout=pause)
                for one in ended:
                    one.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    def _record(self, identity: int, usage: MemberUsage, before: Mapping[str, object]) -> MemberStatusRecord:
        orphans = sorted(self._applier.orphans)[:ORPHANS] if self._applier is not None else []
        return MemberStatusRecord(identity=identity, status=self._status(usage, before), orphans=tuple(orphans))

    async def _before(self, identity: int) -> dict[str, object]:
        """The status that an earlier agent left: what the member had is told while it cannot be asked."""
        kv = (await self._hub.store.get(placement_keys.member_status(self.name))).kv
        found = MemberStatusRecord.from_bytes(kv and kv.value)
        return dict(found.status) if found is not None and found.identity == identity else {}

    async def _write(self, value: bytes, record: MemberRecord) -> bool:
        """Write the status while the member's name is ours; whether it was."""
        store = self._hub.store
        own = (await store.get(placement_keys.member(self.name))).kv
        if own is None or own.value != record.to_bytes():
            return False
        compares = [Compare(placement_keys.member(self.name), "mod", own.mod_revision)]
        return (await store.txn(compares, [Put(placement_keys.member_status(self.name), value)])).succeeded

    async def _follow(self, usage: MemberUsage, token: JoinToken, record: MemberRecord) -> None:
        """Join, and follow the member's own etcd, until cancelled."""
        for delay in delays(0.5, 10.0, self._hub.rng):
            try:
                member = await self._connect()
                try:
                    self._unlisted.clear()
                    conflict = await join(member, token)
                    self._answered = self._hub.clock()
                    self._say(conflict)
                    if not conflict:
                        await self._follow_all(member, usage, token, record)
                    log.warning("member_not_joined effect=tried_again member=%s error=%r", self.name, conflict)
                finally:
                    await member.close()
            except Exception as error:  # whatever it is, the member is tried again; logged when it is another one
                before = self._trouble
                self._say(f"its etcd: {_said(error)}")
                if self._trouble != before:
                    self._log("following", error)
            await asyncio.sleep(delay)

    def _say(self, trouble: str) -> None:
        """What keeps the member from being joined and asked; empty = it answers, and what it does not list is told."""
        self._trouble = plain(trouble or next((why for _, why in self._unlisted.values()), ""))
        self.state = self._trouble or "ok"

    def _log(self, what: str, error: Exception) -> None:
        unexpected = not isinstance(_cause(error), WharfingerError | TimeoutError | OSError)
        told = self.name, what, _said(error)
        log.warning("member_failed effect=tried_again member=%s in=%s error=%r", *told, exc_info=unexpected)

    async def _follow_all(self, member: Store, usage: MemberUsage, token: JoinToken, record: MemberRecord) -> None:
        """Until cancelled. Raises what another connection begins anew after, such as `RevisionWentBack`."""
        async with asyncio.TaskGroup() as group:
            for prefix in FOLLOWED:
                group.create_task(
                    follow(
                        member,
                        prefix,
                        listed=partial(self._listed, usage, prefix),
                        changed=partial(usage.changed, prefix),
                        failing=partial(self._not_listed, prefix),
                        survives_restore=False,
                        rng=self._hub.rng,
                    )
                )
            group.create_task(self._ask(member, token))
            if self._works is not None:
                group.create_task(self._apply(member, self._works, token, record))

    async def _apply(self, member: Store, works: Works, token: JoinToken, record: MemberRecord) -> None:
        """Apply the member's works while its name is ours, until cancelled; what fails is begun anew."""
        for delay in delays(0.5, 10.0, self._hub.rng):
            try:
                own = (await self._hub.store.get(placement_keys.member(self.name))).kv
                if own is not None and own.value == record.to_bytes():
                    self._applier = Applier(token, self._hub, works, record)
                    await self._applier.run(member)
            except RevisionWentBack:
                raise
            except Exception as error:  # whatever it is, the works are begun anew
                self._log("works_not_applied", error)
            await asyncio.sleep(delay)

    def _listed(self, usage: MemberUsage, prefix: str, found: Sequence[KeyValue]) -> None:
        usage.listed(prefix, found)
        self._unlisted.pop(prefix, None)

    def _not_listed(self, prefix: str, error: StoreError) -> None:
        since, _ = self._unlisted.get(prefix, (self._hub.clock(), ""))
        # what is not allowed does not come back by itself
        since = -math.inf if isinstance(error, AccessDenied) else since
        self._unlisted[prefix] = since, f"its etcd does not list {prefix}: {_said(error)}"
        if not self._trouble:
            self._say("")

    async def _ask(self, member: Store, token: JoinToken) -> None:
        """Ask the member's etcd for the token, so that its silence is noticed, and the token's loss."""
        while True:
            try:
                conflict = await stay(member, token)
                self._answered = self._hub.clock()
                self._say(conflict)
            except StoreError as error:
                self._say(f"its etcd: {_said(error)}")
            await asyncio.sleep(min(self._report_every, SICK_AFTER / 2))

    def _status(self, usage: MemberUsage, before: Mapping[str, object]) -> dict[str, object]:
        """The status of a MemberCluster."""
        joined = None if self._answered is None else not self._trouble.startswith(JOIN_CONFLICT)
        moments = [-math.inf if self._answered is None else self._answered, *(at for at, _ in self._unlisted.values())]
        patience = max(SICK_AFTER, 2 * self._report_every)
        healthy = self._hub.clock() - min(moments) <= patience
        known = usage.status() if usage.in_sync else {**usage.unknown(), **before}
        return {**known, **agent_status(joined=joined, healthy=healthy, why=self._trouble)}


def _cause(error: BaseException) -> BaseException:
    """The first that went wrong of several things at once."""
    return _cause(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _said(error: BaseException) -> str:
    cause = _cause(error)
    return one_line(str(cause) if isinstance(cause, WharfingerError) else repr(cause), 300)
