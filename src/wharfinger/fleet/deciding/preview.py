"""What would happen to a fleet from here on, if every step succeeded: the planner run against an ideal world.

Nothing is written and no host is called; `wharfinger fleet plan` prints it. The world's part is a few functions from
one `Observed` to the next, so the plan that is shown is made by the code that plans live fleets.

Starts and drains take no time there. Time passes only as it must: until a newcomer has been ready for as long as the
spec says, while others are brought up beside it; and until what the planner itself waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from wharfinger.fleet.deciding.actor import ActorState, StepResult
from wharfinger.fleet.deciding.draft import back_off
from wharfinger.fleet.deciding.planner import Asked, plan
from wharfinger.fleet.model.fleet import HOST_LOST, Actor, Exit, Grant, Host, Instance, Observed, Revision, Role, Slot
from wharfinger.fleet.model.rollout import EPSILON, SLICE, Drop, Memory, Plan, ReadySince, Retire, Up, Writes
from wharfinger.objects.model.names import COMMON

LINES = 1000
"""Lines of a preview at most, unless told."""
TURNS = 3
"""Plans at most, for each line that there may be."""
LOOKS = 20
"""Looks in a row without any step or write after which nothing more is expected."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that would happen."""

    at: float
    """Seconds from now on, of the actor's clock."""
    text: str


def preview(
    observed: Observed, *, lease_ttl: float, host_lost: float = HOST_LOST, tenant: str = COMMON, limit: int = LINES
) -> list[Line]:
    """Step by step what would happen; the actor's view is taken as settled, and what is ready to be so for long.

    Args:
        observed: the fleet as it is, with the object as it would be.
        lease_ttl: seconds of an instance's lease.
        host_lost: seconds without an agent after which a host may be lost.
        tenant: whose fleet.
        limit: lines at most.
    """
    ideal = IdealWorld(observed, lease_ttl, host_lost, tenant)
    quiet = turns = 0
    while len(ideal.lines) < limit and quiet < LOOKS and turns < TURNS * limit and not ideal.over:
        quiet = 0 if ideal.turn() else quiet + 1
        turns += 1
    if ideal.waits.text and len(ideal.lines) < limit:
        ideal.lines.append(ideal.waits)
    return ideal.lines[:limit]


@dataclass(frozen=True, slots=True)
class Coming:
    """An instance that is brought up: its step is open until it counts."""

    key: int
    """Of the step."""
    slot: int
    incarnation: int
    due: float
    """When it says ready, or counts, on the actor's clock."""
    settles: bool = False
    """Whether it does not say ready before it is due: the one before it crashed."""


class IdealWorld:
    """Where every step succeeds, and time passes only when it is waited for."""

    def __init__(self, observed: Observed, lease_ttl: float, host_lost: float, tenant: str) -> None:
        self.observed = observed
        self.lines: list[Line] = []
        self.over = False
        self.waits = Line(0.0, "")
        """What an open rollout stands at, in one sentence, and since when; no text when none is open."""
        self._lease_ttl = lease_ttl
        self._host_lost = host_lost
        self._tenant = tenant
        self._generation = 0
        self._actor = ActorState("fleet", settled(observed, lease_ttl))
        self._began = self._actor.memory.clock
        self._coming: list[Coming] = []
        self._held = held_back(observed)

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return self._actor.memory.clock - self._began

    def turn(self) -> bool:
        """One plan and what follows of it; whether it was anything."""
        memory, busy = self._actor.look()
        role: Role = self._actor.role
        asked = Asked(role, self._tenant, self._generation, busy, self._lease_ttl, host_lost=self._host_lost)
        decided = self._actor.looked(plan(self.observed, memory, asked), 0.0)
        self.observed = written(self.observed, decided.writes)
        self.lines.extend(Line(self.now, text) for text in _lines(decided, decided.writes, self._held))
        if (told := decided.writes.status) is not None:
            text = told.phase if told.rollout in ("running", "paused") else ""
            self.waits = self.waits if text == self.waits.text else Line(self.now, text)
        for coming in [coming for coming in self._coming if coming.slot in decided.give_up]:
            self._ended(coming, StepResult("cancelled", incarnation=coming.incarnation))
        for step, key in [(step, self._actor.begun(step)) for step in decided.steps]:
            self._take(step, key)
        if decided.rollout:
            self._generation = decided.rollout
            self._actor = ActorState("rollout", self._actor.memory)
        elif decided.done is not None:
            self._generation = 0
            self._actor = ActorState("fleet", self._actor.memory)
        self.over = decided.ended
        acted = bool(decided.steps or decided.give_up or decided.rollout) or decided.done is not None
        acted = acted or not replace(decided.writes, status=None).empty
        if not acted:  # otherwise it is looked again at once: what was done shows
            self._pass(decided.wait)
        return acted or bool(self._coming)

    def _take(self, step: Up | Retire | Drop, key: int) -> None:
        """A drain is over at once; an instance that is brought up takes until it counts."""
        if not isinstance(step, Up):
            self.observed = ended(self.observed, step)
            self._actor.ended(key, StepResult("gone"))
            return
        asked_only = is_ready(self.observed, step.slot, step.incarnation)  # its host was missing, and answers
        self.observed, incarnation = brought_up(self.observed, step)
        due = self._actor.memory.clock + (0.0 if asked_only else self._min_ready)
        settles = not is_ready(self.observed, step.slot, incarnation)
        self._actor.granted(key, incarnation)
        self._coming.append(Coming(key, step.slot, incarnation, due, settles))
        self._arrive()

    @property
    def _min_ready(self) -> float:
        spec = self._actor.memory.spec
        return spec.min_ready if spec is not None else 0.0

    def _pass(self, seconds: float) -> None:
        """Time passes until something is due."""
        clock = self._actor.memory.clock
        left = min([seconds, *(coming.due - clock for coming in self._coming)])
        while left > 0:  # in slices: a single long one would count once
            self._actor.slept(min(left, SLICE), min(left, SLICE))
            left -= SLICE
        self._arrive()

    def _arrive(self) -> None:
        """Instances that are due get ready, or count."""
        clock = self._actor.memory.clock
        for coming in [coming for coming in self._coming if coming.due <= clock + EPSILON]:
            if coming.settles:
                self.observed = said_ready(self.observed, coming.slot, coming.incarnation)
                self._coming.remove(coming)
                self._coming.append(replace(coming, due=clock + self._min_ready, settles=False))
            else:
                record = record_of(self.observed, coming.slot, coming.incarnation)
                at = record.mod_revision if record is not None else 0
                result = StepResult("ready", mod_revision=at, incarnation=coming.incarnation)
                self._ended(coming, result)

    def _ended(self, coming: Coming, result: StepResult) -> None:
        self._coming.remove(coming)
        self._actor.ended(coming.key, result)


def settled(observed: Observed, lease_ttl: float) -> Memory:
    """Of an actor that has seen all this for long: what is ready counts."""
    spec = observed.desired.spec if observed.desired is not None else None
    counted = 1.0 + (spec.min_ready if spec is not None else 0.0)
    clock = max(lease_ttl + 60.0, counted + (spec.soak if spec is not None else 0.0))
    ready = (record for record in observed.instances if record.state == "ready")
    return Memory(
        clock=clock,
        ready=tuple(ReadySince(r.slot, r.incarnation, r.mod_revision, 0.0, counted_since=counted) for r in ready),
    )


def held_back(observed: Observed) -> dict[tuple[int, int], str]:
    """What to say when a slot gets a revision that may be in back-off there: etcd shows how often it ended, not when.

    A new revision is tried at once, what ends before our eyes waits in earnest, and what runs has waited.
    """
    ending = {exited.slot for exited in observed.exits}
    occupied = {grant.slot for grant in observed.grants}
    running = {(grant.slot, grant.revision) for grant in observed.grants}
    found = {}
    for slot in observed.slots:
        if not slot.crashes or slot.number in ending:
            continue
        text = f"{slot.crashes} ends in a row: it may be up to {back_off(slot.crashes):.0f} s later"
        for revision in observed.revisions:
            key = slot.number, revision.number
            if key not in running and (slot.number not in occupied or revision.outcome is None):
                found[key] = text
    return found


def _lines(decided: Plan, writes: Writes, held: Mapping[tuple[int, int], str]) -> Iterable[str]:
    if writes.target is not None:
        yield f"revision {writes.target} is wanted" + (", a new one" if writes.new_revision else "")
    for outcome in writes.outcomes:
        yield f"revision {outcome.revision}: {outcome.outcome}" + (f" ({outcome.why})" if outcome.why else "")
    if writes.tenant != "as-is":
        yield "pods of the tenant " + (
            "come here from now on" if writes.tenant == "present" else "go to the common pool"
        )
    if decided.rollout:
        spec = decided.memory.spec
        soak = f": each updated slot is observed for {spec.soak:.0f} s" if spec is not None and spec.soak else ""
        yield f"a rollout begins{soak}"
    for step in decided.steps:
        yield _step(step, held.get((step.slot, step.revision), "") if isinstance(step, Up) else "")
    if decided.done is not None:
        yield f"the rollout is over: {decided.done}"
    if writes.end:
        yield "the fleet is gone"


def _step(step: Up | Retire | Drop, held: str) -> str:
    why = "; ".join(part for part in (step.why, held) if part)
    why = f" ({why})" if why else ""
    match step:
        case Up():
            return f"slot {step.slot}: bring up an instance of revision {step.revision} on {step.host}{why}"
        case Retire():
            return f"slot {step.slot}: drain incarnation {step.incarnation} on {step.host}{why}"
        case Drop():
            return f"slot {step.slot}: end incarnation {step.incarnation} on {step.host}{why}"


# --- the ideal world: what etcd shows after a write, or after a step that succeeded ----------------


def written(observed: Observed, writes: Writes) -> Observed:
    """Etcd after `record_fleet`."""
    revisions = list(observed.revisions)
    desired = observed.desired
    if writes.new_revision and writes.target is not None and desired is not None:
        revisions.append(Revision(writes.target, desired.template, version=desired.version))
    for outcome in writes.outcomes:
        revisions = [
            replace(r, outcome=outcome.outcome) if r.number == outcome.revision and r.outcome is None else r
            for r in revisions
        ]
    actor = observed.actor
    if writes.target is not None:
        actor = replace(actor or Actor(1, "", "", mod_revision=1), target=writes.target)
    if writes.decisions is not None and actor is not None:
        actor = replace(actor, decisions=writes.decisions)
    cleared = {(clear.slot, clear.incarnation) for clear in writes.clears}
    crashes = {clear.slot: clear.crashes for clear in writes.clears}
    assigned = {assign.slot: assign.revision for assign in writes.assigns}
    if writes.end:
        return Observed(observed.read_at + 1, None, hosts=observed.hosts, cordons=observed.cordons)
    left = [grant.host for grant in observed.grants if (grant.slot, grant.incarnation) in cleared]
    return replace(
        observed,
        read_at=observed.read_at + 1,
        actor=actor,
        hosts=_loaded(observed, {host: -left.count(host) for host in left}),
        revisions=tuple(r for r in revisions if r.number not in writes.forget_revisions),
        grants=tuple(g for g in observed.grants if (g.slot, g.incarnation) not in cleared),
        exits=tuple(e for e in observed.exits if (e.slot, e.incarnation) not in cleared),
        slots=tuple(
            replace(
                slot,
                crashes=crashes.get(slot.number, slot.crashes),
                revision=assigned.get(slot.number, slot.revision),
            )
            for slot in observed.slots
        ),
        tenant_present={"present": True, "absent": False}.get(writes.tenant, observed.tenant_present),
    )


def ended(observed: Observed, step: Retire | Drop) -> Observed:
    """Etcd after an instance has left."""
    key = step.slot, step.incarnation
    grants = observed.grants
    exits = observed.exits
    slots = observed.slots
    if isinstance(step, Retire):
        grants = tuple(replace(g, want="drain") if (g.slot, g.incarnation) == key else g for g in grants)
        exits = (*exits, Exit(*key, how="drained", planned=True))
        slots = tuple(replace(s, revision=step.assign) if step.assign and s.number == step.slot else s for s in slots)
    else:
        grants = tuple(grant for grant in grants if (grant.slot, grant.incarnation) != key)
    return replace(
        observed,
        read_at=observed.read_at + 1,
        grants=grants,
        exits=exits,
        slots=slots,
        instances=tuple(record for record in observed.instances if (record.slot, record.incarnation) != key),
        hosts=observed.hosts if isinstance(step, Retire) else _loaded(observed, {step.host: -1}),
    )


def brought_up(observed: Observed, step: Up) -> tuple[Observed, int]:
    """Etcd after an instance was granted and has registered, and its incarnation.

    It is ready at once, but not where the one before it crashed. One that was ready stays as it is. A host that is
    asked answers, and is there again if it was missing.
    """
    at = observed.read_at + 1
    slot = next(
        (slot for slot in observed.slots if slot.number == step.slot),
        Slot(step.slot, incarnation=0, revision=0, mod_revision=at),
    )
    incarnation = step.incarnation or slot.incarnation + 1
    identity = observed.desired.identity if observed.desired is not None else 0
    grants = observed.grants
    if not step.incarnation:
        given = Grant(
            step.slot, incarnation, revision=step.revision, host=step.host, identity=identity,
            settle=float(step.settle), mod_revision=at,
        )  # fmt: skip
        grants = (*grants, given)
        slot = replace(slot, incarnation=incarnation, revision=step.revision if step.assign else slot.revision)
    before = record_of(observed, step.slot, incarnation)
    settles = any(g.settle for g in grants if (g.slot, g.incarnation) == (step.slot, incarnation))
    seen = replace(
        observed,
        read_at=at,
        grants=grants,
        slots=(*(s for s in observed.slots if s.number != step.slot), slot),
        hosts=_answered(observed, step.host) if step.incarnation else _loaded(observed, {step.host: 1}),
    )
    if before is None and settles:
        starting = Instance(step.slot, incarnation, "starting", step.host, step.revision, at)
        return replace(seen, instances=(*seen.instances, starting)), incarnation
    if before is None or before.state != "ready":
        record = before or Instance(step.slot, incarnation, "ready", step.host, step.revision, at)
        return _with(seen, replace(record, state="ready", mod_revision=at)), incarnation
    return seen, incarnation


def said_ready(observed: Observed, slot: int, incarnation: int) -> Observed:
    """Etcd after an instance that was starting is ready."""
    record = record_of(observed, slot, incarnation)
    if record is None:
        return observed
    at = observed.read_at + 1
    return _with(replace(observed, read_at=at), replace(record, state="ready", mod_revision=at))


def is_ready(observed: Observed, slot: int, incarnation: int) -> bool:
    """Whether its record says so."""
    record = record_of(observed, slot, incarnation)
    return record is not None and record.state == "ready"


def record_of(observed: Observed, slot: int, incarnation: int) -> Instance | None:
    """An instance's registration."""
    return next((r for r in observed.instances if (r.slot, r.incarnation) == (slot, incarnation)), None)


def _with(observed: Observed, record: Instance) -> Observed:
    """That registration instead of the former one."""
    key = record.slot, record.incarnation
    others = (other for other in observed.instances if (other.slot, other.incarnation) != key)
    return replace(observed, instances=(*others, record))


def _answered(observed: Observed, name: str) -> tuple[Host, ...]:
    """The hosts, with one that was asked: what it has besides its instances is not known."""
    if any(host.name == name for host in observed.hosts):
        return observed.hosts
    return (*observed.hosts, Host(name, instances=sum(grant.host == name for grant in observed.grants)))


def _loaded(observed: Observed, more: dict[str, int]) -> tuple[Host, ...]:
    """The hosts with so many instances more (or less)."""
    return tuple(replace(host, instances=max(host.instances + more.get(host.name, 0), 0)) for host in observed.hosts)
