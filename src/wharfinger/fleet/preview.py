"""What would happen to a fleet from here on, if every step succeeded: the planner run against an ideal world.

Nothing is written and nobody is asked; `wharfinger fleet plan` prints it. The world's part is a few functions from one
`Observed` to the next, so that what is shown is decided by the code that decides in earnest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from wharfinger.fleet.actor import Actor, StepResult
from wharfinger.fleet.planner import Asked, plan
from wharfinger.model.fleet import Actor as ActorFacts
from wharfinger.model.fleet import Exit, Grant, Host, Instance, Observed, Revision, Role, Slot
from wharfinger.model.names import COMMON
from wharfinger.model.rollout import SLICE, Drop, Memory, Plan, Retire, Up, Writes

LINES = 1000
"""Lines of a preview at most, unless told."""
LOOKS = 20
"""Looks in a row without any step or write after which nothing more is expected."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that would happen."""

    at: float
    """Seconds on the actor's clock."""
    text: str


def preview(observed: Observed, *, lease_ttl: float, tenant: str = COMMON, limit: int = LINES) -> list[Line]:
    """Step by step what would happen; the actor's view is taken as settled.

    Args:
        observed: the fleet as it is, with the object as it would be.
        lease_ttl: seconds of an instance's lease.
        tenant: whose fleet.
        limit: lines at most.
    """
    ideal = IdealWorld(observed, lease_ttl, tenant)
    quiet = 0
    while len(ideal.lines) < limit and quiet < LOOKS and not ideal.over:
        quiet = 0 if ideal.turn() else quiet + 1
    if ideal.waits and len(ideal.lines) < limit:
        ideal.lines.append(Line(ideal.lines[-1].at if ideal.lines else 0.0, ideal.waits))
    return ideal.lines[:limit]


class IdealWorld:
    """Where every step succeeds at once, and time passes only when it is waited for."""

    def __init__(self, observed: Observed, lease_ttl: float, tenant: str = COMMON) -> None:
        self.observed = observed
        self.lines: list[Line] = []
        self.over = False
        self.waits = ""
        """What an open rollout stands at, in one sentence; empty when none is open."""
        self._lease_ttl = lease_ttl
        self._tenant = tenant
        self._generation = 0
        settled = Memory(clock=lease_ttl + 60.0)
        self._actor = Actor("fleet", settled)

    def turn(self) -> bool:
        """One plan and what follows of it; whether it was anything."""
        memory, busy = self._actor.look()
        role: Role = self._actor.role
        asked = Asked(role, self._tenant, self._generation, busy, self._lease_ttl)
        decided = self._actor.looked(plan(self.observed, memory, asked), 0.0)
        self.observed = written(self.observed, decided.writes)
        self._say(decided)
        if (told := decided.writes.status) is not None:
            self.waits = told.phase if told.rollout in ("running", "paused") else ""
        keys = [(self._actor.begun(step), step) for step in decided.steps]
        for key, step in keys:
            self.observed, result = taken(self.observed, step)
            self._actor.ended(key, result)
        if decided.rollout:
            self._generation = decided.rollout
            self._actor = Actor("rollout", self._actor.memory)
        elif decided.done is not None:
            self._generation = 0
            self._actor = Actor("fleet", self._actor.memory)
        elif not decided.steps:
            left = decided.wait
            while left > 0:  # in slices: a single long one would count once
                self._actor.slept(min(left, SLICE), min(left, SLICE))
                left -= SLICE
        self.over = decided.ended
        quiet = replace(decided.writes, status=None).empty and not decided.steps
        return not quiet or bool(decided.rollout) or decided.done is not None

    def _say(self, decided: Plan) -> None:
        at, writes = self._actor.memory.clock, decided.writes
        for line in _lines(decided, writes):
            self.lines.append(Line(at, line))


def _lines(decided: Plan, writes: Writes) -> Iterable[str]:
    if writes.target is not None:
        yield f"revision {writes.target} is wanted" + (", a new one" if writes.new_revision else "")
    for outcome in writes.outcomes:
        yield f"revision {outcome.revision}: {outcome.outcome}" + (f" ({outcome.why})" if outcome.why else "")
    if writes.tenant != "as-is":
        yield "pods of the tenant " + (
            "come here from now on" if writes.tenant == "present" else "go to the common pool"
        )
    if decided.rollout:
        yield "a rollout begins"
    for step in decided.steps:
        yield _step(step)
    if decided.done is not None:
        yield f"the rollout is over: {decided.done}"
    if writes.end:
        yield "the fleet is gone"


def _step(step: Up | Retire | Drop) -> str:
    why = f" ({step.why})" if step.why else ""
    match step:
        case Up():
            return f"slot {step.slot}: bring up an instance of revision {step.revision} on {step.host}{why}"
        case Retire():
            return f"slot {step.slot}: drain incarnation {step.incarnation} on {step.host}{why}"
        case Drop():
            return f"slot {step.slot}: end incarnation {step.incarnation} on {step.host}{why}"


# --- the ideal world ------------------------------------------------------------------------------


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
        actor = replace(actor or ActorFacts(1, "", "", 0, 1), target=writes.target)
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


def taken(observed: Observed, step: Up | Retire | Drop) -> tuple[Observed, StepResult]:
    """Etcd after a step that succeeded, and how it ended."""
    if isinstance(step, Up):
        return _brought_up(observed, step)
    key = step.slot, step.incarnation
    grants = observed.grants
    exits = observed.exits
    slots = observed.slots
    if isinstance(step, Retire):
        grants = tuple(replace(g, want="drain") if (g.slot, g.incarnation) == key else g for g in grants)
        exits = (*exits, Exit(*key, "drained", planned=True))
        slots = tuple(replace(s, revision=step.assign) if step.assign and s.number == step.slot else s for s in slots)
    else:
        grants = tuple(grant for grant in grants if (grant.slot, grant.incarnation) != key)
    seen = replace(
        observed,
        read_at=observed.read_at + 1,
        grants=grants,
        exits=exits,
        slots=slots,
        instances=tuple(record for record in observed.instances if (record.slot, record.incarnation) != key),
        hosts=observed.hosts if isinstance(step, Retire) else _loaded(observed, {step.host: -1}),
    )
    return seen, StepResult("gone")


def _loaded(observed: Observed, more: dict[str, int]) -> tuple[Host, ...]:
    """The hosts with so many instances more (or less)."""
    return tuple(replace(host, instances=max(host.instances + more.get(host.name, 0), 0)) for host in observed.hosts)


def _brought_up(observed: Observed, step: Up) -> tuple[Observed, StepResult]:
    at = observed.read_at + 1
    slot = next((slot for slot in observed.slots if slot.number == step.slot), Slot(step.slot, 0, 0, at))
    incarnation = step.incarnation or slot.incarnation + 1
    identity = observed.desired.identity if observed.desired is not None else 0
    grants = observed.grants
    if not step.incarnation:
        grants = (*grants, Grant(step.slot, incarnation, step.revision, step.host, "run", identity, at, step.settle))
        slot = replace(slot, incarnation=incarnation, revision=step.revision if step.assign else slot.revision)
    others = tuple(r for r in observed.instances if (r.slot, r.incarnation) != (step.slot, incarnation))
    seen = replace(
        observed,
        read_at=at,
        grants=grants,
        slots=(*(s for s in observed.slots if s.number != step.slot), slot),
        instances=(*others, Instance(step.slot, incarnation, "ready", step.host, step.revision, at)),
        hosts=observed.hosts if step.incarnation else _loaded(observed, {step.host: 1}),
    )
    return seen, StepResult("ready", mod_revision=at, incarnation=incarnation)
