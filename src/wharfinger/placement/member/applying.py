"""Brings one work to one member: its objects applied in waves, or deleted, or released; and says what is there then.

What is going to be there is written before anything is (`AppliedRecord`), so that a crash loses no object. Objects of
the placement that the work has no more go last. A work with a lower counter than the member has seen changes nothing,
and is reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.errors import AccessDenied, InvalidObject, RequestTooLarge
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.fields import part
from wharfinger.objects.documents.merge import marked
from wharfinger.placement.applying.availability import Availability, availability
from wharfinger.placement.applying.comparing import Difference
from wharfinger.placement.applying.object_steps import ObjectStep, Owner, in_waves, step_for
from wharfinger.placement.contracts.delivery_records import (
    TOLD,
    AppliedRecord,
    MarkRecord,
    ResultRecord,
    ToldObject,
    WorkRecord,
)
from wharfinger.placement.deciding import overriding
from wharfinger.placement.deciding.enveloping import opened
from wharfinger.placement.member.member_store import AppliedThere, EtcdMember, MemberObject
from wharfinger.placement.model.delivery import ObjectId

log = logging.getLogger(__name__)

AT_A_TIME = 8
"""Objects of a wave that are applied at the same time."""
TRIES = 3
"""For an object that others write at the same time."""
DIFFERENCES = 20
"""That are told of one object."""
PENDING = ("BeingDeleted", "Contended")
"""Reasons that pass by themselves: what has them has not failed."""
HELD = "waits for its finalizers"
"""Why an object that is to be removed is left."""


@dataclass(frozen=True, slots=True)
class Deed:
    """What became of one object."""

    about: ObjectId
    step: ObjectStep
    said: Availability = Availability.FAILED
    why: str = ""


@dataclass(slots=True)
class WorkOnMember:
    """One work, as one agent brings it to one member. Raises the stores' errors, and `AgentFenced`."""

    member: EtcdMember
    placement: str
    """P."""
    work: WorkRecord
    life: str
    """Of the member: hub, name, identity."""
    now: str
    """RFC 3339, UTC."""
    known: AppliedRecord = field(default_factory=AppliedRecord)
    """What of the placement is on the member, or may be, as it was read or written last."""
    wrote: bool = False
    """Whether anything was to be written on the member."""
    others: list[ObjectId] = field(default_factory=list)
    """Objects that cannot be read, so that they were left to others instead of being deleted."""
    _places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_A_TIME))

    async def bring(self, contents: Sequence[Mapping[str, Any]]) -> ResultRecord:
        """Do it. `contents`: the objects of the work's snapshot, where it wants them present."""
        before = await self.member.applied(self.placement)
        self.known = before.record
        if before.record.identity == self.work.identity and before.record.counter > self.work.counter:
            return self._result(
                counter=before.record.counter,
                reason=f"the member has seen counter {before.record.counter} already: nothing older is applied",
            )
        same = before.record.identity == self.work.identity
        old = [ObjectId(*one) for one in before.record.objects] if same else []
        if self.work.want != "present":
            return await self._take_away(before, old)
        try:
            wanted, problems = self._wanted(contents)
        except (overriding.OverrideError, ValueError) as error:
            return self._result(failed=True, reason=str(error))
        if problems:
            return self._result(failed=True, reason="; ".join(problems[:3]))
        return await self._apply(before, old, wanted)

    # --- present ----------------------------------------------------------------------------------

    def _wanted(self, contents: Sequence[Mapping[str, Any]]) -> tuple[dict[ObjectId, Mapping[str, Any]], list[str]]:
        """The objects for this member, and what is wrong with them."""
        objects, problems = opened(contents)
        changes = overriding.by_object(overriding.from_json(list(self.work.resolved)))
        found: dict[ObjectId, Mapping[str, Any]] = {}
        for obj in objects:
            about = ObjectId.of(obj)
            try:
                self.member.key(about)
            except InvalidObject as error:
                problems.append(f"{about}: {error}")
                continue
            made = overriding.overridden(obj, about, changes.get(about, ()))
            if made is not None:
                found[about] = made
        return found, problems

    async def _apply(
        self, before: AppliedThere, old: Sequence[ObjectId], wanted: Mapping[ObjectId, Mapping[str, Any]]
    ) -> ResultRecord:
        reports = self.work.strategy.get("type") == "ReportDiff"
        everything = list(dict.fromkeys([*old, *wanted]))
        there = await self._record(before, everything if not reports else old)
        if there is None:
            return self._result(reason="the member changed meanwhile: tried again")
        deeds: list[Deed] = []
        for wave in in_waves(list(wanted), _resource):
            deeds += await asyncio.gather(*(self._apply_one(one, wanted[one], there) for one in wave))
        left: dict[ObjectId, str] = {}
        if not reports:
            left = await self._remove([one for one in old if one not in wanted], there)
            await self._record(there, [*wanted, *left])
        return self._said(deeds, left, reports=reports)

    async def _apply_one(self, about: ObjectId, wanted: Mapping[str, Any], there: AppliedThere) -> Deed:
        async with self._places:
            try:
                for _ in range(TRIES):
                    deed = await self._try(about, wanted, there)
                    if deed is not None:
                        return deed
            except (InvalidObject, RequestTooLarge, AccessDenied, ValueError) as error:
                await self._answers(error)
                return Deed(about, ObjectStep("refuse", None, "FailedToApply", str(error)[:500]))
        return Deed(about, ObjectStep("refuse", None, "Contended", "others write it all the time"))

    async def _try(self, about: ObjectId, wanted: Mapping[str, Any], there: AppliedThere) -> Deed | None:
        """None: it had moved."""
        seen = await self.member.get(about)
        if seen.unreadable:
            raise InvalidObject(seen.unreadable)
        owner = Owner(seen.mark.placement, seen.mark.life, seen.mark.last) if seen.mark is not None else None
        step = step_for(
            wanted,
            seen.obj,
            owner,
            self.work.strategy,
            placement=self.placement,
            life=self.life,
            group=about.group,
        )
        if step.reason == "BeingDeleted" and self._is_removing(seen):
            # the finalizers are gone, and no platform may delete the key
            await self._write(about, seen, None, seen.mark, there)
            return None
        if step.action in ("refuse", "report"):
            return Deed(about, step)
        mark = MarkRecord(placement=self.placement, life=self.life, counter=self.work.counter, last=dict(wanted))
        if step.action == "replace":
            return await self._make_room(about, seen, mark, there)
        obj = seen.obj if step.action == "keep" else step.obj
        marked_so = seen.mark is not None and mark == seen.mark.model_copy(update={"counter": mark.counter})
        if (step.action != "keep" or not marked_so) and not await self._write(about, seen, obj, mark, there):
            return None
        said, why = availability(obj or {}, about.group, about.kind)
        return Deed(about, step, said, why)

    def _is_ours(self, seen: MemberObject) -> bool:
        return seen.mark is not None and (seen.mark.placement, seen.mark.life) == (self.placement, self.life)

    def _is_removing(self, seen: MemberObject) -> bool:
        """Whether the agent itself began to delete it, and no finalizer holds it any more."""
        if not self._is_ours(seen) or not seen.obj or _finalizers(seen.obj):
            return False
        return seen.mark is not None and seen.mark.removing == _dying_since(seen.obj) != ""

    async def _write(
        self,
        about: ObjectId,
        seen: MemberObject,
        obj: Mapping[str, Any] | None,
        mark: MarkRecord | None,
        there: AppliedThere,
    ) -> bool:
        self.wrote = True
        return await self.member.write(about, seen, obj, mark, there)

    async def _answers(self, error: Exception) -> None:
        """Raise `AccessDenied` when the member denies everything, not only what is done about one object."""
        if isinstance(error, AccessDenied):
            await self.member.revision()

    async def _make_room(
        self, about: ObjectId, seen: MemberObject, mark: MarkRecord, there: AppliedThere
    ) -> Deed | None:
        """Delete an object that is to be created anew: with finalizers it only begins to go."""
        assert seen.obj is not None
        if not _finalizers(seen.obj):
            await self._write(about, seen, None, mark, there)
            return None
        mark = mark.model_copy(update={"removing": self.now})
        if not await self._write(about, seen, marked(seen.obj, self.now), mark, there):
            return None
        told = "it is replaced when its finalizers are gone"
        return Deed(about, ObjectStep("refuse", None, "BeingDeleted", told))

    def _said(self, deeds: Sequence[Deed], left: Mapping[ObjectId, str], *, reports: bool) -> ResultRecord:
        refused = [one for one in deeds if one.step.action == "refuse"]
        failed = [one for one in refused if one.step.reason not in PENDING]
        differing = [one for one in deeds if one.step.diffs and one.step.action != "refuse"]
        waiting = [one for one in deeds if one.step.action not in ("refuse", "report")]
        unavailable = [one for one in waiting if one.said in (Availability.NOT_YET_AVAILABLE, Availability.FAILED)]
        applied = not refused and not reports
        told = [_told(one.about, one.step.reason, one.step.message, one.step.diffs) for one in (*refused, *differing)]
        told += [_told(one.about, one.said.value, one.why) for one in unavailable]
        told += self._left_over(left)
        return self._result(
            applied=applied,
            available=applied and not unavailable,
            untrackable=any(one.said is Availability.NOT_TRACKABLE for one in waiting),
            failed=bool(failed),
            passing=bool(failed) and all(one.step.passing for one in failed),
            reported=reports and not refused,
            objects=len(deeds),
            reason=_reason(refused, differing, unavailable),
            told=tuple(told[:TOLD]),
            drifted=tuple(
                _told(one.about, "Drifted", one.step.message, one.step.drifts) for one in deeds if one.step.drifts
            )[:TOLD],
        )

    # --- absent, released -------------------------------------------------------------------------

    async def _take_away(self, before: AppliedThere, old: Sequence[ObjectId]) -> ResultRecord:
        if not before.version:
            return self._result(gone=True)
        there = await self._record(before, old)
        if there is None:
            return self._result(reason="the member changed meanwhile: tried again")
        left = await self._remove(old, there, release=self.work.want == "release")
        told = tuple(self._left_over(left)[:TOLD])
        if left:
            about, why = next(iter(left.items()))
            return self._result(objects=len(left), reason=f"{about} {why}", told=told)
        self.wrote = True
        if await self.member.record(self.placement, there, None) is not None:
            self.known = AppliedRecord()
        reason = f"{self.others[0]} cannot be read, and was left to others" if self.others else ""
        return self._result(gone=True, reason=reason, told=told)

    def _left_over(self, left: Mapping[ObjectId, str]) -> list[ToldObject]:
        told = [_told(one, "LeftOver", why) for one, why in left.items()]
        return told + [_told(one, "Unreadable", "cannot be read, and was left to others") for one in self.others]

    async def _remove(
        self, objects: Sequence[ObjectId], there: AppliedThere, *, release: bool = False
    ) -> dict[ObjectId, str]:
        """Delete these, or release them, the last wave first; answers what is not gone yet, and why."""
        left: dict[ObjectId, str] = {}
        for wave in reversed(in_waves(list(objects), _resource)):
            done = await asyncio.gather(*(self._remove_one(one, there, release=release) for one in wave))
            left |= {one: why for one, why in zip(wave, done, strict=True) if why}
        return left

    async def _remove_one(self, about: ObjectId, there: AppliedThere, *, release: bool) -> str:
        """Why it is not gone yet; empty = it is."""
        async with self._places:
            try:
                for _ in range(TRIES):
                    seen = await self.member.get(about)
                    if not self._is_ours(seen):
                        return ""
                    if await self._let_go(about, seen, there, release=release):
                        held = not release and seen.obj is not None and _finalizers(seen.obj)
                        return HELD if held else ""
            except (InvalidObject, RequestTooLarge, AccessDenied) as error:
                await self._answers(error)
                return f"cannot be removed: {error}"
        return "is written by others all the time"

    async def _let_go(self, about: ObjectId, seen: MemberObject, there: AppliedThere, *, release: bool) -> bool:
        """Whether it was as it was seen."""
        if seen.unreadable and not release:  # its writer keeps it; our mark would refuse it to other placements
            let_go = await self._write(about, seen, seen.obj, None, there)
            if let_go:
                told = self.placement, about, seen.unreadable
                log.warning("object_unreadable effect=left_to_others placement=%s object=%s error=%r", *told)
                self.others.append(about)
            return let_go
        if release or seen.obj is None:
            return await self._write(about, seen, seen.obj, None, there)
        if not _finalizers(seen.obj):
            return await self._write(about, seen, None, None, there)
        if _dying_since(seen.obj) or seen.mark is None:
            return True
        mark = seen.mark.model_copy(update={"removing": self.now})
        return await self._write(about, seen, marked(seen.obj, self.now), mark, there)

    # --- records ----------------------------------------------------------------------------------

    async def _record(self, before: AppliedThere, objects: Iterable[ObjectId]) -> AppliedThere | None:
        """Write which objects are going to be there; None when that had moved."""
        record = AppliedRecord(
            counter=self.work.counter, identity=self.work.identity, objects=tuple(tuple(one) for one in objects)
        )
        if record == before.record and before.version:
            return before
        self.wrote = True
        try:
            written = await self.member.record(self.placement, before, record)
        except RequestTooLarge as error:
            told = f"the names of its {len(record.objects)} objects are too much for one key of the member's etcd"
            raise InvalidObject(f"{told}: {error}") from error
        if written is not None:
            self.known = written.record
        return written

    def _result(self, **said: Any) -> ResultRecord:
        of_it = {"counter": self.work.counter, "since": self.work.since, "identity": self.work.identity}
        told = {**of_it, "time": self.now, **said}
        told["reason"] = str(told.get("reason", ""))[:500]
        return ResultRecord(**told)


def _reason(refused: Sequence[Deed], differing: Sequence[Deed], unavailable: Sequence[Deed]) -> str:
    """The most important thing that is to be said, in one line."""
    if refused:
        first = refused[0]
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        return f"{first.about}: {first.step.reason}: {first.step.message}{more}"
    if differing:
        return f"{len(differing)} object{'s' if len(differing) != 1 else ''} with differences"
    if unavailable:
        return f"{unavailable[0].about}: {unavailable[0].why or unavailable[0].said.value}"
    return ""


def _told(about: ObjectId, reason: str, message: str, diffs: Sequence[Difference] = ()) -> ToldObject:
    shown = tuple((one.path, one.in_hub, one.in_member) for one in diffs[:DIFFERENCES])
    return ToldObject(object=str(about), reason=reason, message=message[:500], diffs=shown)


def _resource(about: ObjectId) -> tuple[str, str]:
    try:
        kind = kinds.of_object({"apiVersion": about.api_version, "kind": about.kind})
    except InvalidObject:
        return about.group, about.kind.lower()
    return about.group, kind.plural


def _finalizers(obj: Mapping[str, Any]) -> bool:
    return bool(part(obj, "metadata").get("finalizers"))


def _dying_since(obj: Mapping[str, Any]) -> str:
    return str(part(obj, "metadata").get("deletionTimestamp") or "")
