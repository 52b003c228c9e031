"""The judge: reads along at every commit, knows what is really so, and holds each act against the rules.

What faults do to a fleet is no violation. A drain or a fence that takes an available slot away is judged where it is
committed: as many must be left as either the spec that it was decided by or the present one asks for. So harm done by
faults needs no book-keeping: an act that makes it worse is a violation, an act that does not is none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.properties.fleet_world.etcd import Life, Shelf
from tests.properties.fleet_world.newcomers import NewcomerRules, Newcomers
from wharfinger.fleet.deciding.lives import LOOK_AGAIN
from wharfinger.fleet.deciding.status import FAILURES, OVERDUE
from wharfinger.fleet.model.fleet import HOST_LOST, FleetSpec, Grant, OutcomeName
from wharfinger.fleet.model.rollout import SLICE, Memory, RolloutStatus

if TYPE_CHECKING:
    from tests.properties.fleet_world.process import Process
    from tests.properties.fleet_world.world import World


@dataclass(slots=True)
class Basis:
    """What an act was decided by: etcd at the moment of the plan."""

    read_at: int
    spec: FleetSpec | None
    identity: int
    generation: int
    deleting: bool
    target: int
    cordoned: frozenset[str]
    draining: frozenset[str]
    hosts: frozenset[str]
    decisions: int = 0
    """Number of the last ones that were known."""


@dataclass(slots=True)
class Record:
    """What the judge remembers of a fleet."""

    incarnations: dict[int, int] = field(default_factory=dict)
    granted_at: dict[Life, float] = field(default_factory=dict)
    was_ready: set[Life] = field(default_factory=set)
    refused: set[Life] = field(default_factory=set)
    canaries: dict[int, set[int]] = field(default_factory=dict)
    """Revision -> slots that got it before it was promoted."""
    canary_limit: dict[int, int] = field(default_factory=dict)
    promoted: set[int] = field(default_factory=set)
    halted: dict[int, int] = field(default_factory=dict)
    """Revision -> etcd's revision when users were told that its rollout stands still; until they resume it."""
    decided: dict[int, int] = field(default_factory=dict)
    """Revision -> etcd's revision of its outcome."""
    grants: int = 0
    drains: int = 0
    fences: int = 0
    crashes: int = 0
    revisions: int = 0
    killed: set[tuple[Life, int]] = field(default_factory=set)
    given_up: tuple[int, float] = (-1, -1_000.0)
    """The slot that was fenced off last because its host was lost with most others, and when."""
    forgotten: bool = False
    """Whether the workflows were lost: they do not know any more which hosts there were."""
    made: dict[Life, int] = field(default_factory=dict)
    """Incarnation -> the revision that it was granted."""
    newcomers: Newcomers = field(default_factory=Newcomers)
    """What the open rollout's have shown."""
    sight_lost: float = -1_000.0
    """When the view of who acts broke last."""
    sight_lost_at: int = 0
    """etcd's revision then."""


def floor(spec: FleetSpec) -> int:
    """Slots that must stay available."""
    return spec.replicas - spec.max_unavailable.of(spec.replicas, up=False)


def ceiling(spec: FleetSpec) -> int:
    """Instances that may live when another is created."""
    surge = spec.max_surge.of(spec.replicas, up=True)
    if surge == 0 and spec.max_unavailable.of(spec.replicas, up=False) == 0:
        surge = 1
    return spec.replicas + surge


class Judge:
    """All rules."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.violations: list[str] = []
        self.notes: list[str] = []
        self.records: dict[str, Record] = {}
        self.newcomers = NewcomerRules(world, self)

    def of(self, tenant: str) -> Record:
        """What is remembered of a fleet."""
        found = self.records.get(tenant)
        if found is None:
            found = self.records[tenant] = Record()
        return found

    def violated(self, tenant: str, rule: str, why: str) -> None:
        """A component broke a rule."""
        text = f"{rule}: {tenant}: {why}"
        self.violations.append(text)
        self._world.tell(f"!!! {text}")

    def acts(self, tenant: str) -> int:
        """How many grants, drains and fences there were."""
        record = self.of(tenant)
        return record.grants + record.drains + record.fences

    # --- what is so ---------------------------------------------------------------------------

    def available(self, shelf: Shelf, basis: Basis | None = None, without: Life | None = None) -> set[int]:
        """Slots with an instance that has been ready for long enough, by etcd's records."""
        return {life[0] for life in self.serving(shelf, basis) if life != without}

    def serving(self, shelf: Shelf, basis: Basis | None) -> list[Life]:
        """Instances that have been ready for long enough, by etcd's records."""
        since = self._world.timeline.now - self._world.min_ready(shelf.tenant) + 1e-6
        identity = shelf.fleet.create_revision if shelf.fleet is not None else 0
        read_at = basis.read_at if basis is not None else self._world.etcd.revision
        return [
            life
            for life, instance in shelf.instances.items()
            if instance.state == "ready"
            and shelf.since[life] <= since
            and (grant := shelf.grants.get(life)) is not None
            and grant.want == "run"
            and grant.identity == identity
            and shelf.exited.get(life, read_at + 1) > read_at
        ]

    def specs(self, shelf: Shelf, basis: Basis) -> list[FleetSpec]:
        """Those that may justify an act: of the plan, and of now."""
        now = shelf.fleet.spec if shelf.fleet is not None else None
        return [spec for spec in (basis.spec, now) if spec is not None]

    def leaving(self, shelf: Shelf, basis: Basis) -> bool:
        """Whether the whole fleet goes: then no floor holds."""
        fleet = shelf.fleet
        return basis.deleting or basis.identity == 0 or fleet is None or fleet.deleting

    def lost_sight(self, tenant: str) -> None:
        """The actor has noticed that its view was broken."""
        record = self.of(tenant)
        record.sight_lost, record.sight_lost_at = self._world.timeline.now, self._world.etcd.revision

    def _sees(self, shelf: Shelf, life: Life, basis: Basis) -> None:
        record = self.of(shelf.tenant)
        unbroken = self._world.timeline.now - record.sight_lost
        if basis.read_at >= record.sight_lost_at and unbroken < self._world.lease_ttl + LOOK_AGAIN - 1e-6:
            self.violated(shelf.tenant, "sight", f"{life} is ended {unbroken:.1f} s after the view broke")

    def _keeps_floor(self, shelf: Shelf, life: Life, basis: Basis, act: str) -> None:
        before = self.available(shelf, basis)
        after = self.available(shelf, basis, life)
        if len(after) < len(before) and not self.leaving(shelf, basis):
            specs = self.specs(shelf, basis)
            if specs and all(len(after) < floor(spec) for spec in specs):
                least = min(floor(spec) for spec in specs)
                self.violated(shelf.tenant, "floor", f"{act} of {life} leaves slots {sorted(after)}, floor {least}")

    def _matches(self, shelf: Shelf, grant: Grant, basis: Basis) -> bool:
        """Whether an instance is what is wanted: then only another like it in its slot may replace it."""
        wanted = basis.target
        decided = shelf.actor.decisions if shelf.actor is not None else None
        # Of a rollout back to a revision that was completed before, no outcome tells that it was given up.
        frozen = decided is not None and decided.frozen == wanted != 0
        if frozen or shelf.outcomes.get(wanted) in ("failed", "aborted"):  # each slot stays on what it has
            wanted = shelf.slots[grant.slot].revision
        reached = decided is not None and (decided.promoted or grant.slot in decided.canary)
        reached = reached or not any(spec.canary for spec in self.specs(shelf, basis))
        # A new number has a canary of its own: what is not in it need not have the template any more.
        return (
            (shelf.alike(grant.revision, wanted) if reached else grant.revision == wanted)
            and all(grant.slot >= spec.partition for spec in self.specs(shelf, basis))
            and grant.identity == basis.identity
            and all(grant.slot < spec.replicas for spec in self.specs(shelf, basis))
            and grant.host not in basis.draining
            and not self.leaving(shelf, basis)
        )

    # --- acts ---------------------------------------------------------------------------------

    def granted(self, shelf: Shelf, grant: Grant, basis: Basis) -> None:
        """Before the grant is put."""
        tenant, life = shelf.tenant, (grant.slot, grant.incarnation)
        record = self.of(tenant)
        record.grants += 1
        if grant.incarnation <= record.incarnations.get(grant.slot, 0):
            self.violated(tenant, "reused", f"incarnation {life}")
        record.incarnations[grant.slot] = grant.incarnation
        record.granted_at[life] = self._world.timeline.now
        record.made[life] = grant.revision
        living = [other for other in shelf.grants if other not in shelf.exits]
        living += [
            other
            for other in shelf.instances
            if other not in shelf.grants and self._world.process(tenant, other) is not None
        ]
        specs = self.specs(shelf, basis)
        if specs and all(len(living) + 1 > ceiling(spec) for spec in specs):
            self.violated(tenant, "ceiling", f"{life} beside {sorted(living)}")
        if specs and all(grant.slot >= spec.replicas for spec in specs):
            self.violated(tenant, "beyond", f"{life} is beyond the replicas")
        if self.leaving(shelf, basis) and basis.deleting:
            self.violated(tenant, "deleted", f"{life} is granted in a fleet that is being deleted")
        if grant.host in basis.cordoned:
            self.violated(tenant, "cordon", f"{life} is granted on {grant.host}")
        for other in living:
            if other[0] != grant.slot:
                continue
            theirs = shelf.grants.get(other)
            if theirs is None:
                self.violated(tenant, "fence", f"{life} while {other} is registered without a grant")
            elif (
                theirs.want == "run"
                and shelf.alike(theirs.revision, grant.revision)
                and theirs.host not in basis.draining
            ):
                self.violated(tenant, "replaced", f"{life} beside {other}, which is of the same template")
        self._judge_revision(shelf, grant, basis, record)

    def _judge_revision(self, shelf: Shelf, grant: Grant, basis: Basis, record: Record) -> None:
        tenant, life = shelf.tenant, (grant.slot, grant.incarnation)
        slot = shelf.slots.get(grant.slot)
        assigned = slot.revision if slot is not None else 0
        number = grant.revision
        outcome = shelf.outcomes.get(number)
        decided = record.decided.get(number, 0) <= basis.read_at
        if outcome in ("failed", "aborted") and decided and number != assigned:
            self.violated(tenant, "rolled-again", f"{life} gets revision {number}, whose rollout {outcome}")
        established = any(done == "completed" and n != number for n, done in shelf.outcomes.items())
        if outcome == "completed" or not established or number == assigned:
            return
        specs = self.specs(shelf, basis)
        if record.halted.get(number, basis.read_at) < basis.read_at:
            self.violated(tenant, "halted", f"{life} gets revision {number}, whose rollout stands still")
        if specs and all(grant.slot < spec.partition for spec in specs):
            self.violated(tenant, "partition", f"{life} gets revision {number}")
        if number in record.promoted or any(spec.canary == 0 for spec in specs):
            return
        slots = record.canaries.setdefault(number, set())
        if specs:  # what was scaled away is no canary any more: another slot is one in its place
            slots.intersection_update(range(max(spec.replicas for spec in specs)))
        slots.add(grant.slot)
        limit = max([record.canary_limit.get(number, 0), *(spec.canary for spec in specs)])
        record.canary_limit[number] = limit
        if len(slots) > limit:
            self.violated(tenant, "canary", f"slots {sorted(slots)} have revision {number}, {limit} may")

    def draining(self, shelf: Shelf, life: Life, basis: Basis) -> None:
        """Before a grant is set to drain."""
        self.of(shelf.tenant).drains += 1
        grant = shelf.grants[life]
        self._sees(shelf, life, basis)
        self._keeps_floor(shelf, life, basis, "drain")
        self.newcomers.replaced(shelf, life, basis)
        instance = shelf.instances.get(life)
        if instance is None or instance.state != "ready" or not self._matches(shelf, grant, basis):
            return
        rivals = [
            other
            for other, theirs in shelf.grants.items()
            if other != life and other[0] == life[0] and theirs.want == "run" and other not in shelf.exits
        ]
        if not any(shelf.alike(shelf.grants[other].revision, grant.revision) for other in rivals):
            self.violated(shelf.tenant, "matching", f"{life} is drained, though it is as target {basis.target}")

    def fencing(self, shelf: Shelf, life: Life, basis: Basis) -> None:
        """Before a grant is deleted while its instance may live."""
        record = self.of(shelf.tenant)
        record.fences += 1
        grant = shelf.grants[life]
        if life in shelf.exits:
            return
        self._sees(shelf, life, basis)
        self._keeps_floor(shelf, life, basis, "fence")
        instance = shelf.instances.get(life)
        if instance is not None and instance.state == "ready" and grant.want == "run" and grant.host not in basis.hosts:
            self.violated(shelf.tenant, "agent", f"{life} is fenced off for its agent's sake, and says ready")
        if grant.host not in basis.hosts:
            return  # lost, after `HOST_LOST` seconds
        self.newcomers.replaced(shelf, life, basis)
        if life in record.refused:
            return
        if life in record.was_ready and grant.want == "run" and self._matches(shelf, grant, basis):
            self.violated(shelf.tenant, "unknown", f"{life} is fenced off, though its host is there")
        age = self._world.timeline.now - record.granted_at[life]
        specs = self.specs(shelf, basis)
        outcome = shelf.outcomes.get(grant.revision)
        patience = min((spec.instance_deadline for spec in specs), default=0.0)
        alone = not any(
            other[0] == life[0] and theirs.want == "run" and shelf.alike(theirs.revision, grant.revision)
            for other, theirs in shelf.grants.items()
            if other != life
        )
        if (
            alone
            and grant.want == "run"
            and self._matches(shelf, grant, basis)
            and age < patience - SLICE
            and outcome != "aborted"
        ):
            self.violated(shelf.tenant, "hasty", f"{life} is fenced off after {age:.0f} s, deadline {patience:.0f} s")

    def lost(self, tenant: str, host: str, slot: int, *, asked: bool) -> None:
        """A fence because of a lost host. `asked`: the instance was to leave anyway."""
        record, now = self.of(tenant), self._world.timeline.now
        if not asked and self._world.gone_with_most(host) and host not in self._world.etcd.lost:
            before, moment = record.given_up
            if before != slot and now - moment < 1.0 and not record.forgotten:
                self.violated(tenant, "at-once", f"slots {before} and {slot} are given up {now - moment:.1f} s apart")
            record.given_up = (slot, now)
        gone = self._world.host_gone_for(host)
        if gone < HOST_LOST:
            self.violated(tenant, "host-lost", f"{host} is taken for lost after {gone:.0f} s")

    def learned(self, tenant: str, memory: Memory) -> None:
        """The actor took a plan in: every instance that it counted has been ready."""
        awaited = {(entry.slot, entry.incarnation) for entry in memory.waiting}
        self.of(tenant).was_ready = {(entry.slot, entry.incarnation) for entry in memory.ready} - awaited

    def refused(self, tenant: str, life: Life) -> None:
        """A host cannot start it, whatever the time."""
        self.of(tenant).refused.add(life)

    def forked(self, tenant: str, life: Life, grant: Grant) -> None:
        """A process starts."""
        if grant.want != "run":
            self.violated(tenant, "forked", f"{life} without permission")

    def killed(self, tenant: str, life: Life, process: Process) -> None:
        """A process gets SIGKILL from its agent, because an activity asked for it."""
        shelf = self._world.etcd.shelf(tenant)
        grant = shelf.grants.get(life)
        if grant is not None and grant.want == "run" and shelf.born[life] == process.born:
            self.violated(tenant, "kill", f"{life} is killed, though it may live")
        if (life, process.born) in self.of(tenant).killed:
            self.violated(tenant, "kill", f"{life} is killed twice")
        self.of(tenant).killed.add((life, process.born))

    def wrote(self, shelf: Shelf, epoch: int) -> None:
        """An actor's write passed its fence."""
        if shelf.actor is not None and shelf.actor.epoch != epoch:
            self.violated(shelf.tenant, "stale", f"epoch {epoch} writes, and {shelf.actor.epoch} acts")

    def targeted(self, shelf: Shelf, number: int) -> None:
        """Another revision is wanted."""
        outcome = shelf.outcomes.get(number)
        if outcome in ("failed", "aborted"):
            self.violated(shelf.tenant, "rolled-again", f"revision {number} is wanted again after it {outcome}")
        self.newcomers.begin(shelf.tenant)

    def outcome(self, shelf: Shelf, number: int, outcome: OutcomeName) -> None:
        """The end of a revision's rollout is told."""
        self.of(shelf.tenant).decided[number] = self._world.etcd.revision + 1
        if outcome == "completed":
            fleet = shelf.fleet
            spec = fleet.spec if fleet is not None else None
            lacking = {
                slot
                for slot in range(spec.replicas if spec is not None else 0)
                if not any(life[0] == slot and shelf.alike(g.revision, number) for life, g in shelf.grants.items())
            }
            if lacking and spec is not None and spec.replicas <= len(shelf.slots):
                self.notes.append(f"{shelf.tenant}: revision {number} completed without slots {sorted(lacking)}")

    def told(self, shelf: Shelf, status: RolloutStatus) -> None:
        """The status is written."""
        if any(one.status and one.reason in (OVERDUE, FAILURES) for one in status.conditions):
            self.of(shelf.tenant).halted.setdefault(status.target, self._world.etcd.revision + 1)

    def clearing(self, shelf: Shelf, life: Life) -> None:
        """Before the grant of an ended incarnation is removed."""
        process = self._world.process(shelf.tenant, life)
        if process is not None and process.born == shelf.born[life]:
            self.violated(shelf.tenant, "cleared", f"{life} is cleared away, and lives")

    def forgetting(self, shelf: Shelf, number: int) -> None:
        """Before a revision beyond the history is removed."""
        replicas = shelf.fleet.spec.replicas if shelf.fleet is not None and shelf.fleet.spec is not None else 0
        used = {slot.revision for slot in shelf.slots.values() if slot.number < replicas} | {
            grant.revision for grant in shelf.grants.values()
        }
        if number in used or (shelf.actor is not None and shelf.actor.target == number):
            self.violated(shelf.tenant, "history", f"revision {number} is forgotten and used")

    def ended(self, shelf: Shelf) -> None:
        """Before all keys of a fleet are removed."""
        if shelf.grants:
            self.violated(shelf.tenant, "left", f"grants {sorted(shelf.grants)} at the fleet's end")
        self.records.pop(shelf.tenant, None)
