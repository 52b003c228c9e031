"""Reconciles the placements that a change may concern, and starts an attempt where a decision in memory differs.

Level-triggered: an event only names what to reconcile, and everything is reconciled again within five minutes, so
nothing can be forgotten. What is reconciled:

- a placement, its decision, its evictions and budget: that placement, users' edits first;
- a member's labels, taints, properties, namespaces, eligibility: that one member, for each PickAll that reads the
  field; the whole placement where its policy is not fulfilled;
- a member that is gone, leaving, cordoned or drained: the placements that have it as well;
- any of these: the placements that wait for the successor of a drained member.

An attempt that changed nothing is tried a few more times, for it may have joined a run that was ending; then it waits
for another input.

Several hubs share the placements by rendezvous. Two that disagree for a moment start the same workflow id, and one
joins the other's run.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.deciding.filters import TOO_OLD
from wharfinger.placement.effects.questions import member_needs_attempt, needs_attempt
from wharfinger.placement.model.placement import PlacementType
from wharfinger.placement.state.hub_changes import HubChange, MemberChange, Readers
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.controller import STRETCH, Controller, sweep_parts
from wharfinger.process.following import breathe
from wharfinger.process.parts import ProcessParts
from wharfinger.process.rendezvous import Ring

log = logging.getLogger(__name__)

APART = 1.0
"""Seconds between two decisions of one placement, and as much more for each hundred members that it has."""
MANY = 8
"""Members that change at once, and one in so many, from which on everything is reconciled instead."""
SLACK = 0.06
"""Seconds after which a heart-beat that becomes too old is too old, whatever was rounded."""


SWEPT = "sweep"
Stamp = tuple[int, ...]
"""Identifies the inputs with which a placement was reconciled."""


class PlacementController(Controller):
    """Reconciles, and starts attempts, for the placements of one hub."""

    failing = "starts_fail effect=retried placement=%s error=%r"
    accepted = "starts_accepted_again"

    def __init__(
        self,
        process: ProcessParts,
        view: HubView,
        start: Callable[[str, StreamRevisions, str], Awaitable[None]],
        *,
        me: str,
    ) -> None:
        """`start`: starts an attempt, or joins the open run; raises `RPCError`, `TimeoutError`, `RuntimeError`.

        `me`: the hub's name.
        """
        super().__init__(process, log, lambda: view.in_sync)
        self._view = view
        self._start_attempt = start
        self._me = me
        self._ring = Ring([me])
        self._edited: dict[str, str] = {}
        """Placements that users changed -> why they are reconciled."""
        self._members: dict[str, MemberChange] = {}
        self._aging: list[tuple[float, str]] = []
        """Members, with the clock seconds at which they become too long silent or unhealthy."""
        self._timers.append(self._aging)
        self._decided: dict[str, tuple[int, float]] = {}
        """Placement -> mod revision of its decision, and the clock seconds at which it was seen."""
        self._reconciled: dict[str, Stamp] = {}
        self._noted: dict[str, int] = {}
        """Placement -> grows with each change of it that was seen."""
        self._changes = 0
        self._readers = Readers()
        self._began = False
        """Whether everything was reconciled once."""
        self._stamps = dict.fromkeys(MemberChange, 0)
        self._edited_meanwhile: dict[str, bool] = {}
        """Placements that users changed while their start is under way."""

    @property
    def unsettled(self) -> int:
        """Placements that are to be reconciled, or whose attempt was started."""
        return len(self._edited.keys() | self._due.keys() | self._started.keys() | self._starting.keys())

    def mine(self, key: str) -> bool:
        """Whether this hub looks after a key."""
        return self._ring.owner(key) == self._me

    def note(self, changes: Iterable[HubChange]) -> None:
        """Note what has to be reconciled anew."""
        for change in changes:
            if change.delivered:
                continue
            if change.member:
                self._members[change.member] = self._members.get(change.member, MemberChange(0)) | change.fields
                for one in change.fields:
                    self._stamps[one] += 1
                self._note_aging(change.member)
            if change.placement:
                self._changes += 1
                self._noted[change.placement] = self._changes
                self._note_decided(change.placement)
                if change.own:
                    seen = self._view.placements.get(change.placement)
                    self._readers.note(change.placement, seen.placement if seen is not None else None)
                (self._edited if change.own else self._due)[change.placement] = "edited" if change.own else "changed"
        if self._view.hubs | {self._me} != self._ring.members:
            self._ring = Ring(self._view.hubs | {self._me})
            self._due |= dict.fromkeys(self._view.references, "hubs changed")
        self._news.set()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._keep_reconciling(self._sweep())

    # --- what is due ------------------------------------------------------------------------------

    def _note_decided(self, reference: str) -> None:
        decision = self._view.decisions.get(reference)
        revision = decision.revision if decision is not None else 0
        before, _ = self._decided.get(reference, (0, 0.0))
        if revision == before:
            return
        self._started.pop(reference, None)
        if decision is None:
            del self._decided[reference]
        else:
            self._decided[reference] = revision, self._clock()

    def _note_aging(self, name: str) -> None:
        member = self._view.members.get(name)
        if member is None:
            return
        if not member.there and member.heard is not None:
            heapq.heappush(self._aging, (member.heard + TOO_OLD + SLACK, name))
        if member.unhealthy is not None:
            heapq.heappush(self._aging, (member.unhealthy + TOO_OLD + SLACK, name))

    def _pass_timers(self) -> None:
        for reference in self._passed(self._later):
            self._due.setdefault(reference, "again")
        for name in self._passed(self._aging):
            self._stamps[MemberChange.ELIGIBILITY] += 1
            self._members[name] = self._members.get(name, MemberChange(0)) | MemberChange.ELIGIBILITY

    async def reconcile_due(self) -> None:
        """Reconcile everything that is due; users' edits first, also those that come meanwhile."""
        if not self._view.in_sync:
            return
        self._pass_timers()
        if not self._began:
            self._edited.clear()
            self._due.clear()
        if not self._began or len(self._members) > MANY + len(self._view.members) // MANY:
            # cheaper than each placement for each member
            cause = "many members changed" if self._began else "take-over"
            self._members.clear()
            self._due |= dict.fromkeys(self._view.references - self._due.keys() - self._edited.keys(), cause)
            self._began = True
        began = self._clock()
        while self._edited or self._members or self._due:
            if self._edited:
                reference = next(iter(self._edited))
                self._reconcile_safely(reference, self._edited.pop(reference), own=True)
            elif self._members:
                name = next(iter(self._members))
                await self._reconcile_member(name, self._members.pop(name))
            else:
                reference = next(iter(self._due))
                self._reconcile_safely(reference, self._due.pop(reference))
            began = await breathe(began, self._clock, STRETCH)

    async def _reconcile_member(self, name: str, fields: MemberChange) -> None:
        began = self._clock()
        for reference in list(self._concerned(name, fields)):
            seen = self._view.placements.get(reference)
            kind = seen.placement.policy.type if seen is not None else None
            stored = self._view.decisions.get(reference)
            if kind is not PlacementType.PICK_ALL or stored is None:
                self._due.setdefault(reference, f"member {name} changed")
            elif self._member_matters(reference, name):
                self._want(reference, f"member {name} changed")
            began = await breathe(began, self._clock, STRETCH)

    def _member_matters(self, reference: str, name: str) -> bool:
        try:
            return member_needs_attempt(self._view, reference, name, self._clock())
        except Exception:  # the whole placement is reconciled then, which says what is wrong
            self._due.setdefault(reference, f"member {name} changed")
            return False

    def _concerned(self, name: str, fields: MemberChange) -> Iterator[str]:
        """The placements of this hub that have to be reconciled after a change of a member."""
        drained = {one for one, drain in self._view.member_view.drains.items() if drain.want == "drain"}
        for reference in self._readers.of(fields):
            seen = self._view.placements.get(reference)
            if seen is None or not self.mine(reference):
                continue
            stored = self._view.decisions.get(reference)
            if stored is None:
                yield reference
                continue
            chosen = {one.name for one in stored.chosen}
            reads_all = seen.placement.policy.type is PlacementType.PICK_ALL or not stored.condition.status
            if reads_all or not drained.isdisjoint(chosen) or (fields & MemberChange.STANDING and name in chosen):
                yield reference

    # --- reconciling ------------------------------------------------------------------------------

    def _reconcile_safely(self, reference: str, cause: str, *, own: bool = False) -> None:
        """Reconcile; what one placement does must not keep the others from being reconciled."""
        try:
            self._reconcile(reference, cause, own=own)
        except Exception:  # stored objects may be wrong in any way; see the docstring
            log.exception("placement_not_judged effect=as_it_was placement=%s", reference)
            self._note_reconciled(reference)

    def _reconcile(self, reference: str, cause: str, *, own: bool = False) -> None:
        if not self.mine(reference):
            self._forget(reference)
            return
        now = self._clock()
        if not own and self._left_alone(reference, now):
            return
        if needs_attempt(self._view, reference, now):
            self._want(reference, cause, own=own)
        else:
            self._started.pop(reference, None)
            self._note_reconciled(reference)
        self._metrics.placements_unsettled.set(self.unsettled)

    def _note_reconciled(self, reference: str) -> None:
        if reference in self._view.placements or reference in self._view.decisions:
            self._reconciled[reference] = self._stamp(reference)
        else:
            self._forget(reference)

    def _forget(self, reference: str) -> None:
        """It is another hub's, or is gone."""
        self._started.pop(reference, None)
        self._reconciled.pop(reference, None)
        if reference not in self._view.placements and reference not in self._view.decisions:
            self._noted.pop(reference, None)

    def _want(self, reference: str, cause: str, *, own: bool = False) -> None:
        """Start an attempt, now or when the last decision lies long enough ago."""
        now, stamp = self._clock(), self._stamp(reference)
        if own and reference in self._starting:
            self._edited_meanwhile[reference] = True
            return
        if not own and self._left_alone(reference, now):
            return
        before = self._started.get(reference)
        if before is not None and (before.wait, before.about) == (self.again, stamp) and cause != SWEPT:
            return  # its attempts change nothing, whatever is decided here: it waits for another input
        decided, decision = self._decided.get(reference), self._view.decisions.get(reference)
        if not own and decided is not None and decision is not None:
            not_before = decided[1] + APART * (1 + len(decision.chosen) // 100)
            if now < not_before:
                self._look_at(reference, not_before)
                return
        self._starting[reference] = asyncio.create_task(self._attempt(reference, cause, stamp))

    def _left_alone(self, reference: str, now: float) -> bool:
        """Whether an attempt is being started, or was a short time ago. It is reconciled again after that time."""
        started = self._started.get(reference)
        return reference in self._starting or (started is not None and now < started.until)

    async def _attempt(self, reference: str, cause: str, stamp: Stamp) -> None:
        accepted = await self._start(
            reference, reference, lambda: self._start_attempt(reference, self._view.newest, cause), stamp
        )
        self._look_at(reference, self._started[reference].until)
        if accepted:
            self._metrics.placement_starts.labels(cause.partition(" ")[0]).inc()
        else:
            del self._started[reference]
        if self._edited_meanwhile.pop(reference, False):
            self._edited.setdefault(reference, "edited")

    # --- everything, now and then -----------------------------------------------------------------

    async def _sweep(self) -> None:
        """Reconcile everything once in five minutes, without what has the same inputs."""
        async for part in sweep_parts(lambda: self._view.references):
            self.sweep(part)

    def sweep(self, references: Iterable[str]) -> None:
        """Reconcile these again, without those that have the same inputs as when they were reconciled last."""
        for reference in references:
            if self._reconciled.get(reference) != self._stamp(reference):
                self._due.setdefault(reference, SWEPT)
                self._news.set()

    def _stamp(self, reference: str) -> Stamp:
        """What a decision for the placement depends on."""
        seen, stored = self._view.placements.get(reference), self._view.decisions.get(reference)
        fields = self._readers.reads(reference)
        return (
            seen.revision if seen is not None else 0,
            stored.revision if stored is not None else 0,
            self._noted.get(reference, 0),
            sum(count for one, count in self._stamps.items() if one & fields),
        )
