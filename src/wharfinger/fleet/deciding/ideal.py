"""What etcd shows of a fleet after something was written, or a step was taken that succeeded.

Neighbour: `deciding.preview` runs the planner on it, and lets time pass.
"""

from __future__ import annotations

from dataclasses import replace

from wharfinger.fleet.model.fleet import Actor, Exit, Grant, Host, Instance, Observed, Revision, Slot
from wharfinger.fleet.model.rollout import Drop, Retire, Up, Writes


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
