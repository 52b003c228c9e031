"""A plan in the making: its steps, and the floor and the ceiling as they are after the steps chosen so far.

The floor counts slots with a counted instance, the ceiling counts incarnations whose end is not confirmed; both are
computed from the present replicas. What this plan takes away is reserved at once, so that two drains of one plan never
count on each other; and while a drain of an earlier plan is not committed, nothing that it may count on is drained.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from wharfinger.fleet.deciding.lives import Life, Look
from wharfinger.fleet.deciding.progress import Proof
from wharfinger.fleet.deciding.targets import Target, alike
from wharfinger.fleet.model.fleet import FleetSpec, Revision
from wharfinger.fleet.model.rollout import (
    EPSILON,
    FIRST_BACK_OFF,
    LONGEST_BACK_OFF,
    WHATEVER,
    Assign,
    Clear,
    Counted,
    Crashed,
    Drop,
    Retire,
    Up,
)


@dataclass(frozen=True, slots=True)
class Budget:
    """How few slots may be available, and how many incarnations may live."""

    floor: int
    ceiling: int

    @property
    def exposed(self) -> int:
        """Slots that may have lost their former instance and not be proven yet: surge and unavailable together."""
        return max(1, self.ceiling - self.floor)

    @classmethod
    def of(cls, spec: FleetSpec) -> Budget:
        """Surge is rounded up, unavailable down; when both come to 0, one surges.

        Percentages may come to 0. Both as 0 are refused at every door, and may be stored by an earlier release.
        """
        surge = spec.max_surge.of(spec.replicas, up=True)
        unavailable = spec.max_unavailable.of(spec.replicas, up=False)
        if surge == 0 and unavailable == 0:
            surge = 1
        return cls(floor=max(spec.replicas - unavailable, 0), ceiling=spec.replicas + surge)


class Draft:
    """What has been decided so far."""

    def __init__(self, view: Look, revisions: Mapping[int, Revision]) -> None:
        """`revisions`: by number."""
        self.view = view
        self.budget = Budget.of(view.spec)
        self.versions = {revision.number: revision.version for revision in revisions.values()}
        """By number of the revision, the install that it needs."""
        self._revisions = revisions
        self.steps: list[Up | Drop | Retire] = []
        self.give_up: dict[int, str] = {}
        self.clears: list[Clear] = []
        self.assigns: list[Assign] = []
        self.notes: dict[int, str] = {}
        self.no_host: dict[int, str] = {}
        self.moments: list[float] = []
        self.crashed: dict[int, Crashed] = {crash.slot: crash for crash in view.memory.crashed}
        self.probed: set[tuple[int, int]] = set()
        self.asked: set[tuple[int, int]] = set()
        """Missing instances whose host is asked by this plan: not again at once."""
        self.begun: set[int] = set()
        """Slots whose former instance this plan ends for the target."""
        self.complete_at = 0.0
        """When what is everywhere will have been observed for long enough; 0 = it is not everywhere."""
        self.proof: Proof | None = None
        """Of the open rollout; None = none is."""
        self.reserved = 0
        """Room under the ceiling that slots in back-off will need."""
        self.living = sum(life.living for life in view.lives)
        self._counted: dict[int, list[Life]] = {}
        for life in view.lives:
            if life.counted:
                self._counted.setdefault(life.slot, []).append(life)
        self._on_floor: list[int] = []
        """Places in `steps` of drains that count on the floor."""
        self.slow: set[str] = set()
        """Hosts that went with most others, and whose slots wait for each other."""
        self._uncommitted = any(
            life.busy is not None
            and life.busy.kind == "retire"
            and life.grant is not None
            and life.grant.want == "run"
            and life.ready
            for life in view.lives
        )
        self._moving = sum(_moves(life) for life in view.lives if life.busy or not view.hosts.lost(life.host))
        """Incarnations that come or go; what a lost host had does neither by itself."""

    # --- what is known -------------------------------------------------------------------------

    @property
    def available(self) -> int:
        """Slots that are available after the steps chosen so far."""
        return len(self._counted)

    def counted(self, slot: int) -> list[Life]:
        """Counted instances of a slot that nothing was decided against, oldest first."""
        return self._counted.get(slot, [])

    @property
    def room(self) -> bool:
        """Whether one more may be brought up."""
        return self.calm and self.living + self.reserved < self.budget.ceiling

    @property
    def calm(self) -> bool:
        """Whether another slot may be worked on: after many vanished at once, one at a time."""
        return not (self.view.memory.careful and self._moving)

    @property
    def may_lose_one(self) -> bool:
        """Whether one available slot less keeps the floor, and nothing uncommitted counts on it."""
        return not self._uncommitted and self.available - 1 >= self.budget.floor

    def held_back(self, life: Life) -> bool:
        """Whether it waits for another slot's repair, because its host went with most others at once; says so."""
        if life.host not in self.view.hosts.together:
            return False
        self.slow.add(life.host)
        if not self._repairing():
            return False
        self.note(life.slot, f"host {life.host} was lost with most others: one slot is repaired at a time")
        return True

    def _repairing(self) -> bool:
        """Whether a slot is on its way back, or will be by this plan."""
        view = self.view
        if any(isinstance(step, Drop) or (isinstance(step, Up) and not step.incarnation) for step in self.steps):
            return True
        if any(_comes(life) and life.host not in view.hosts.together for life in view.lives):
            return True
        if any(life.busy is not None and life.busy.kind == "drop" for life in view.lives):
            return True
        waiting = {slot for slot, crash in self.crashed.items() if crash.not_before > view.clock + EPSILON}
        empty = [slot for slot in range(view.spec.replicas) if not view.living(slot) and slot not in waiting]
        has_room = self.living + self.reserved < self.budget.ceiling
        return has_room and any(self._has_a_host(slot) for slot in empty)

    def _has_a_host(self, slot: int) -> bool:
        """Whether some host may take what an empty slot would be filled with: what it is assigned, or the target."""
        actor = self.view.observed.actor
        fitting = self.versions.keys() & {self.view.assigned(slot), actor.target if actor is not None else 0}
        return any(self.view.hosts.choose(self.versions[number], slot=slot) for number in fitting)

    def observed(self, proof: Proof) -> None:
        """Take in what the updated slots have shown; the next look is when one of them is proven."""
        self.proof = proof
        self.moments.extend(proof.due.values())

    def may_update(self, target: Target, slot: int) -> bool:
        """Whether a slot may get the target now: not the next one, while another has to be observed anew."""
        proof = self.proof
        return target.may_update(slot) and (proof is None or not proof.held or slot in proof.begun)

    def may_end_former(self, slot: int) -> bool:
        """Whether what serves in a slot may end for the target; why not is noted."""
        if self.proof is None:
            return True
        exposed = frozenset(self.begun)
        if self.proof.allows(slot, exposed):
            self.begun.add(slot)
            return True
        self.note(slot, self.proof.waits(exposed))
        return False

    def taken(self, slot: int) -> bool:
        """Whether a step is being taken in a slot, or was chosen just now."""
        return self.view.busy(slot) or any(step.slot == slot for step in self.steps)

    def decided(self, life: Life) -> bool:
        """Whether a step of this plan is about this incarnation."""
        return any((step.slot, step.incarnation) == (life.slot, life.incarnation) for step in self.steps)

    # --- steps ---------------------------------------------------------------------------------

    def bring_up(self, slot: int, revision: int, *, assign: bool, settle: bool, why: str) -> bool:
        """A new incarnation, on the best host; False when there is none."""
        crash = self.crashed.get(slot)
        version = self.versions.get(revision, "")
        host = self.view.hosts.choose(version, slot=slot, shunned=crash.host if crash is not None else "")
        if not host:
            self.no_host[slot] = self.view.hosts.why_none(version)
            self.note(slot, self.no_host[slot])
            return False
        self.view.hosts.take(host, slot)
        record = self.view.records.get(slot)
        last = record.incarnation if record is not None else 0
        self.steps.append(Up(slot, revision, host, after=last, settle=settle, assign=assign, why=why))
        self.living += 1
        self._moving += 1
        return True

    def adopt(self, life: Life, why: str) -> None:
        """Go on bringing up an incarnation that is granted already."""
        if not self.view.busy(life.slot) and not self.decided(life):
            self.steps.append(Up(life.slot, life.revision, life.host, incarnation=life.incarnation, why=why))

    def retire(self, life: Life, why: str, *, assign: int = 0, free: bool = False) -> None:
        """Drain an instance. Whether it may be is the caller's question; what it counts on is added by `finished`.

        Args:
            life: which one.
            why: for readers.
            assign: the revision that its slot has from then on.
            free: the floor does not matter (the fleet goes).
        """
        if life.grant is None or life.busy is not None:
            return
        counted: tuple[Counted, ...] = ()
        if life.counted:
            remaining = [other for other in self.counted(life.slot) if other is not life]
            if remaining:
                self._counted[life.slot] = remaining
                counted = (_record(remaining[-1]),)
            else:
                self._counted.pop(life.slot, None)
                if not free:
                    self._on_floor.append(len(self.steps))
        elif not free and life.grant.want == "run":
            # It goes because it does not serve: not if it does by then.
            record = life.instance.mod_revision if life.instance is not None else 0
            counted = (Counted(life.slot, life.incarnation, record),)
        self._moving += 1
        mod_revision, waited = life.grant.mod_revision, self.view.waited(life)
        self.steps.append(
            Retire(life.slot, life.incarnation, life.host, mod_revision, counted, assign, waited=waited, why=why)
        )

    def drop(self, life: Life, why: str, *, kill: bool = True, free: bool = False) -> None:
        """Fence an instance off at once: one that does not serve, nor does by then; or whatever it does (`free`)."""
        if life.grant is not None and life.busy is None:
            record = life.instance.mod_revision if life.instance is not None else 0
            registered = WHATEVER if free else record
            self.steps.append(Drop(life.slot, life.incarnation, life.host, kill, registered, why=why))

    def abandon(self, slot: int, why: str) -> None:
        """Give up the busy `up` of a slot."""
        self.give_up.setdefault(slot, why)

    def crash(self, life: Life, why: str, *, host: str = "", first: bool = False) -> int:
        """One crash more in a slot: it waits longer. The number of them in a row, of one template.

        Args:
            life: what crashed.
            why: for readers.
            host: where not to try again, if the host may be the reason.
            first: whether it had lived long enough for its crash to count as the first.
        """
        slot, known = life.slot, self.crashed.get(life.slot)
        record = self.view.records.get(slot)
        if known is None:
            before = record.crashes if record is not None else 0
        else:
            before = known.times if self._crashes_alike(known, life.revision) else 0
        times = 1 if first else before + 1
        moment = self.view.clock + back_off(times)
        self.crashed[slot] = Crashed(slot, moment, times, why, host, life.revision)
        return times

    def backing_off(self, slot: int, revision: int) -> bool:
        """Whether a slot has to wait before it gets a revision, because that one crashed there; says so."""
        crash = self.crashed.get(slot)
        if crash is None or crash.not_before <= self.view.clock + EPSILON:
            return False
        if not self._crashes_alike(crash, revision):
            return False
        self.moments.append(crash.not_before)
        what = f"CrashLoop: {crash.times} ends in a row" if crash.times > 1 else "ended unasked"
        self.note(slot, f"{what} ({crash.why}); waits {back_off(crash.times):.0f} s")
        return True

    def _crashes_alike(self, crash: Crashed, revision: int) -> bool:
        """Whether a crash counts against a revision: it had the same template, or an unknown one."""
        return crash.revision == 0 or alike(self._revisions, crash.revision, revision)

    def note(self, slot: int, text: str) -> None:
        """What readers should know of a slot; the first note stays."""
        self.notes.setdefault(slot, text)

    # --- the end -------------------------------------------------------------------------------

    def finished(self) -> tuple[Up | Retire | Drop, ...]:
        """The steps; each drain that the floor allows names the ready records that it counts on.

        What ends at once comes first: who follows the plan may have places for its first steps only, and slots that are
        filled again and again would leave none for ending what failed. Drains stay where they are: they take long.
        """
        if not self.steps:
            return ()
        relied = tuple(_record(self._counted[slot][-1]) for slot in sorted(self._counted)[: self.budget.floor])
        steps = list(self.steps)
        for place in self._on_floor:
            step = steps[place]
            assert isinstance(step, Retire)
            steps[place] = replace(step, counted=relied)
        return tuple(sorted(steps, key=lambda step: not isinstance(step, Drop)))


def back_off(times: int) -> float:
    """Seconds before a slot that crashed so many times in a row is filled again."""
    return min(LONGEST_BACK_OFF, FIRST_BACK_OFF * 2.0 ** min(max(times - 1, 0), 30))


def _comes(life: Life) -> bool:
    """Whether it is to serve, and does not yet."""
    return life.living and life.runs and (life.newcomer or life.grant is None)


def _moves(life: Life) -> bool:
    """Whether it comes or goes. One whose host is only asked whether it still runs may stay so for long."""
    stepped = life.busy is not None and (life.busy.kind != "up" or life.grant is None)
    return life.living and (life.newcomer or stepped or not life.runs)


def _record(life: Life) -> Counted:
    assert life.instance is not None
    return Counted(life.slot, life.incarnation, life.instance.mod_revision)
