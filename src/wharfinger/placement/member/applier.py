"""Applies the works of one member, as long as its agent is there: when they change, when what is there changes, and
again after 5 seconds to 15 minutes.

Results are written where they say something else, while the agent's name is its own. One that can be counted on no
longer rewrites `losses/<P>`, by which who rolls out notices that it may count on less.

An error that one work causes fails that work. An error of the hub's etcd puts one look back. Only errors of the
member's etcd, and another agent that takes over, end the applier.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from wharfinger.errors import AccessDenied, Compacted, InvalidObject, RequestTooLarge, RevisionWentBack, StoreError
from wharfinger.etcd.store import Compare, Operation, Put, Store
from wharfinger.objects.documents.times import rfc3339
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.delivery_records import AgentRecord, AppliedRecord, ResultRecord, WorkRecord
from wharfinger.placement.contracts.placement_records import MemberRecord
from wharfinger.placement.member.applying import WorkOnMember
from wharfinger.placement.member.joining import JoinToken
from wharfinger.placement.member.look_queue import LATEST, SOONEST, UNSETTLED, LookQueue
from wharfinger.placement.member.member_store import AgentFenced, EtcdMember
from wharfinger.placement.member.works import Works
from wharfinger.placement.model.delivery import ObjectId
from wharfinger.process.children import lives
from wharfinger.process.parts import ProcessParts

log = logging.getLogger(__name__)

AT_A_TIME = 8
"""Works of one member that are brought at the same time."""


class HubFailed(StoreError):
    """The hub's etcd did not answer, or refused."""


@contextmanager
def _of_the_hub() -> Iterator[None]:
    """Tell the hub's errors from the member's. A hub that was restored ends everything."""
    try:
        yield
    except RevisionWentBack:
        raise
    except StoreError as error:
        raise HubFailed(str(error)) from error


class Applier:
    """Brings works to one member."""

    def __init__(self, token: JoinToken, hub: ProcessParts, works: Works, record: MemberRecord) -> None:
        """`token`: whose member it is; `record`: by which the member's name is this agent's."""
        self._name = token.name
        self._identity = record.identity
        self._life = f"{token.hub}/{token.name}/{record.identity}"
        self._hub = hub
        self._works = works
        self._own = record.to_bytes()
        self._looks = LookQueue(hub.clock, hub.rng)
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        """Placements whose work changed while they were worked on."""
        self._again_there: set[str] = set()
        """Placements of which an object changed meanwhile: most likely by the look itself."""
        self._unlisted: set[str] = set()
        """Placements that are here, and seemed to have no work before the works were listed."""
        self._keys: dict[str, tuple[str, ...]] = {}
        """Key of an object -> placements that have it here."""
        self._keys_of: dict[str, frozenset[str]] = {}
        """Placement -> the keys of what it has here."""
        self.orphans: set[str] = set()
        """Placements that are here, and unknown to the hub."""
        self._news = asyncio.Event()

    async def run(self, store: Store) -> None:
        """Apply until cancelled. `store` is the member's. Raises the member's errors and `AgentFenced`."""
        member = EtcdMember(store, now=self._now)
        boot = AgentRecord(boot_id=lives.boot_id(), pid=os.getpid(), token=uuid.uuid4().hex)
        await member.take_over(boot)
        self._works.listen(self._name, self._changed, self._listed)
        watching = asyncio.create_task(self._watch(member))
        watching.add_done_callback(lambda _: self._news.set())
        try:
            there = await member.placements()
            for placement, record in there.items():
                self._note_keys(member, placement, record)
            for placement in {*self._works.of(self._name), *there}:
                self._changed(placement)
            while True:
                if watching.done():
                    watching.result()
                for placement, task in list(self._busy.items()):
                    if task.done():
                        del self._busy[placement]
                        task.result()
                        if placement in self._again:
                            self._looks.due.add(placement)
                        elif placement in self._again_there:
                            self._looks.after_change(placement)
                        self._again.discard(placement)
                        self._again_there.discard(placement)
                self._start(member)
                await self._wait()
        finally:
            self._works.listen(self._name, None)
            tasks = [watching, *self._busy.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self, placement: str) -> None:
        self._looks.at_once(placement)
        self._news.set()

    def _listed(self) -> None:
        """All works are known now, so what is here without one is an orphan."""
        for placement in self._unlisted:
            self._changed(placement)
        self._unlisted.clear()

    def _start(self, member: EtcdMember) -> None:
        self._looks.come()
        while self._looks.due and len(self._busy) < AT_A_TIME:
            placement = self._looks.due.pop()
            if placement in self._busy:
                self._again.add(placement)
                continue
            task = asyncio.create_task(self._look(member, placement))
            task.add_done_callback(lambda _: self._news.set())
            self._busy[placement] = task

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(min(self._looks.pause(), SOONEST)):
                await self._news.wait()
        except TimeoutError:
            pass
        self._news.clear()

    async def _look(self, member: EtcdMember, placement: str) -> None:
        """Bring one work, and say how that ended. Raises the member's errors, which end the agent's connection."""
        try:
            found = self._works.of(self._name).get(placement)
            if found is None or found[0].identity != self._identity:
                await self._orphan(member, placement)
            else:
                await self._look_at(member, placement, *found)
        except HubFailed as error:
            wait = self._looks.put_back(placement)
            told = wait, self._name, placement, str(error)
            log.debug("work_put_back effect=looked_at_later seconds=%.0f member=%s placement=%s error=%r", *told)

    async def _look_at(self, member: EtcdMember, placement: str, work: WorkRecord, revision: int) -> None:
        self.orphans.discard(placement)
        try:
            result = await self._bring(member, placement, work)
        except (RequestTooLarge, AccessDenied) as error:
            if isinstance(error, AccessDenied):
                await member.revision()  # raises where the member denies everything
            result = self._failed(work, error)
        except (StoreError, AgentFenced):
            raise
        except InvalidObject as error:
            result = self._failed(work, error)
        except Exception as error:  # what one work does must not keep the others from being brought
            log.exception("work_not_brought effect=tried_again member=%s placement=%s", self._name, placement)
            result = self._failed(work, error, passing=True)
        with _of_the_hub():
            async with self._works.asking:
                changed = await self._say(placement, revision, result)
        settled = result.gone or (result.available and not result.told) or result.reported
        self._looks.again(placement, changed=changed, longest=LATEST if settled else UNSETTLED, rests=settled)

    def _failed(self, work: WorkRecord, error: Exception, *, passing: bool = False) -> ResultRecord:
        of_it = {"counter": work.counter, "since": work.since, "identity": work.identity}
        reason = str(error)[:500] or type(error).__name__
        return ResultRecord(**of_it, failed=True, passing=passing, reason=reason, time=self._now())

    async def _orphan(self, member: EtcdMember, placement: str) -> None:
        """What is there without a work: the hub is told, if it knows the placement; else it is only shown."""
        if not self._works.in_sync:
            self._unlisted.add(placement)
            return
        applied = await member.applied(placement)
        if not applied.version or applied.record.identity != self._identity:
            self.orphans.discard(placement)
            self._looks.forget(placement)
            return
        with _of_the_hub():
            changed = await self._say_orphan(placement, applied.record)
        self._looks.again(placement, changed=changed, longest=LATEST)

    async def _say_orphan(self, placement: str, applied: AppliedRecord) -> bool:
        """Whether that is something else than before."""
        if (await self._hub.store.get(placement_keys.placement(placement))).kv is None:
            self.orphans.add(placement)
            return False
        self.orphans.discard(placement)
        told = ResultRecord(
            counter=applied.counter,
            identity=self._identity,
            objects=len(applied.objects),
            reason="it is on the member without a work of the hub's",
            time=self._now(),
        )
        return await self._say(placement, 0, told)

    async def _bring(self, member: EtcdMember, placement: str, work: WorkRecord) -> ResultRecord:
        contents: Sequence[Mapping[str, Any]] = ()
        if work.want == "present":
            with _of_the_hub():
                contents = await self._works.contents(placement, work.snapshot, work.placement)
        doing = WorkOnMember(member, placement, work, self._life, self._now())
        try:
            return await doing.bring(contents)
        finally:
            self._looks.looked(placement, work.counter, wrote=doing.wrote)
            self._note_keys(member, placement, doing.known)

    def _note_keys(self, member: EtcdMember, placement: str, record: AppliedRecord) -> None:
        found: set[str] = set()
        for one in record.objects:
            with suppress(InvalidObject):
                found.add(member.key(ObjectId(*one)))
        before, now = self._keys_of.get(placement, frozenset()), self._works.shared(frozenset(found))
        for key in before - now:
            others = tuple(one for one in self._keys.pop(key) if one != placement)
            if others:
                self._keys[key] = others
        alone = (placement,)  # one for all its keys
        for key in now - before:
            self._keys[key] = (*self._keys[key], placement) if key in self._keys else alone
        if now:
            self._keys_of[placement] = now
        else:
            self._keys_of.pop(placement, None)

    async def _say(self, placement: str, revision: int, result: ResultRecord) -> bool:
        """Write a result that says something else; whether it does."""
        store, key = self._hub.store, placement_keys.result(placement, self._name)
        found = (await store.get(key)).kv
        before = ResultRecord.from_bytes(found and found.value)
        if before is not None and before.model_copy(update={"time": result.time}) == result:
            return False
        own = (await store.get(placement_keys.member(self._name))).kv
        if own is None or own.value != self._own:
            return True
        operations: list[Operation] = [Put(key, result.to_bytes())]
        if before is not None and ceases(before, result):
            operations.append(Put(placement_keys.losses(placement), f"{self._name} {result.counter}".encode()))
        await store.txn(
            [
                Compare(placement_keys.member(self._name), "mod", own.mod_revision),
                Compare(placement_keys.work(placement, self._name), "mod", revision),
                Compare(key, "mod", found.mod_revision if found is not None else 0),
            ],
            operations,
        )
        return True

    async def _watch(self, member: EtcdMember) -> None:
        """Notice changes of objects that are placed here."""
        while True:
            revision = await member.revision()
            for placement in list(self._keys_of):
                self._changed(placement)
            try:
                async with member.watch(revision + 1) as batches:
                    async for batch in batches:
                        for event in member.others(batch):
                            for placement in self._keys.get(event.kv.key, ()):
                                self._later_than_now(placement)
            except Compacted:
                log.info("member_watch_compacted effect=looks_again member=%s", self._name)

    def _later_than_now(self, placement: str) -> None:
        if placement in self._busy:
            self._again_there.add(placement)
        elif placement in self._works.of(self._name):  # an orphan's objects do not matter
            self._looks.after_change(placement)
            self._news.set()

    def _now(self) -> str:
        return rfc3339(self._hub.utc_now())


def ceases(before: ResultRecord, now: ResultRecord) -> bool:
    """Whether a member that may have been counted on may be counted on no longer."""
    counted, counts = (one.available or one.reported for one in (before, now))
    waits_anew = now.available and now.untrackable and (not before.untrackable or before.since != now.since)
    return counted and (not counts or waits_anew)
