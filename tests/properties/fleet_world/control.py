"""What an agent's control part does, on the tiny etcd: plan, grant, await, drain, record.

Each follows its contract (`fleet.contracts.fleets`): one linearizable read, transactions that compare the actor's
epoch, repeated attempts that recognise their own work. Every commit is shown to the judge first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from tests.properties.fleet_world.etcd import Away, Life, Shelf
from tests.properties.fleet_world.judge import Basis
from tests.properties.fleet_world.temporal import Done, Fenced, Stop
from wharfinger.fleet.deciding.planner import Asked, plan
from wharfinger.fleet.model.fleet import Actor, Desired, Grant, Host, Observed, Revision, Slot
from wharfinger.fleet.model.rollout import WHATEVER, Drop, Memory, Plan, Retire, RolloutStatus, Up, Writes

if TYPE_CHECKING:
    from tests.properties.fleet_world.world import World

MOVED = "moved"


@dataclass(slots=True)
class Looked:
    """The answer of a plan."""

    plan: Plan
    basis: Basis
    epoch: int
    """Of the actor, as in etcd."""
    min_ready: float
    drain_timeout: float
    kill_timeout: float


@dataclass(slots=True)
class Write:
    """What `record_fleet` is asked for."""

    writes: Writes
    basis: Basis
    epoch: int
    take: bool
    asker: str
    """The run: an attempt that is repeated recognises it."""


def still(status: RolloutStatus) -> RolloutStatus:
    """Without the seconds that go on by themselves."""
    if not any(one.seen for one in status.running):
        return status
    return replace(status, running=tuple(replace(one, seen=0.0) if one.seen else one for one in status.running))


class Control:
    """The activities of the control queue."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._etcd = world.etcd

    # --- plan ---------------------------------------------------------------------------------

    def observe(self, tenant: str) -> Observed:
        """Everything of a fleet, of one read."""
        self._etcd.check()
        shelf = self._etcd.shelf(tenant)
        complete = self._world.complete
        desired = None
        fleet = shelf.fleet
        if fleet is not None:
            desired = Desired(
                fleet.create_revision,
                fleet.mod_revision,
                fleet.spec,
                complete(fleet.template),
                "",
                fleet.deleting,
                () if fleet.spec is not None else ("spec: invalid",),
            )
        on_hosts = [grant.host for other in self._etcd.shelves.values() for grant in other.grants.values()]
        return Observed(
            self._etcd.revision,
            desired,
            shelf.actor,
            tuple(Revision(n, complete(written), shelf.outcomes.get(n)) for n, written in shelf.revisions.items()),
            tuple(shelf.slots.values()),
            tuple(shelf.grants.values()),
            tuple(shelf.instances.values()),
            tuple(shelf.exits.values()),
            tuple(
                Host(name, host.installs, host.capacity, on_hosts.count(name))
                for name, host in self._etcd.hosts.items()
            ),
            tuple(self._etcd.cordons.values()),
            shelf.present,
            "written" if shelf.status is not None else "",
            lost=tuple(sorted(self._etcd.lost)),
        )

    def basis(self, observed: Observed, planned: Plan) -> Basis:
        """What the judge needs of a plan."""
        desired = observed.desired
        target = observed.actor.target if observed.actor is not None else 0
        if planned.writes.target is not None:
            target = planned.writes.target
        return Basis(
            observed.read_at,
            planned.memory.spec,
            desired.identity if desired is not None else 0,
            desired.generation if desired is not None else 0,
            desired.deleting if desired is not None else False,
            target,
            frozenset(self._etcd.cordons),
            frozenset(cordon.host for cordon in observed.cordons if cordon.action == "drain"),
            frozenset(self._etcd.hosts),
            planned.memory.decisions,
        )

    def plan(self, asked: Asked, memory: Memory, done: Done) -> None:
        """Look and decide."""
        observed = self.observe(asked.tenant)
        self._world.plans += 1
        planned = plan(observed, memory, asked)
        status = planned.writes.status
        written = self._etcd.shelf(asked.tenant).status
        if status is not None and written is not None and written.phase == status.phase and still(status) == written:
            planned = replace(planned, writes=replace(planned.writes, status=None))
        spec = planned.memory.spec
        done(
            Looked(
                planned,
                self.basis(observed, planned),
                observed.actor.epoch if observed.actor is not None else 0,
                spec.min_ready if spec is not None else 0.0,
                spec.drain_timeout if spec is not None else 60.0,
                spec.kill_timeout if spec is not None else 10.0,
            )
        )

    # --- writes -------------------------------------------------------------------------------

    def _fence(self, shelf: Shelf, epoch: int) -> Actor:
        self._etcd.check()
        if shelf.actor is None or (shelf.actor.epoch != epoch and not self._world.broken("epoch")):
            raise Fenced
        self._world.judge.wrote(shelf, epoch)
        return shelf.actor

    def _take(self, shelf: Shelf, seen: int, asker: str, generation: int) -> int:
        """Become the actor behind the one that the plan saw; an attempt that is repeated finds that it is."""
        self._etcd.check()
        old = shelf.actor
        epoch = old.epoch if old is not None else 0
        if old is not None and seen in (0, epoch - 1) and old.run_id == asker:
            return epoch
        if epoch != seen:
            raise Fenced
        if old is None and generation != (shelf.fleet.mod_revision if shelf.fleet is not None else 0):
            raise Fenced  # a late attempt must not leave a key of a fleet that is no more
        target, decisions = (old.target, old.decisions) if old is not None else (0, None)
        revision = self._etcd.next()
        epoch = seen + 1 if seen else revision - 1
        shelf.actor = Actor(epoch, asker, asker, target, decisions, mod_revision=revision)
        self._world.tell(f"{shelf.tenant}: {asker} takes epoch {epoch}")
        return epoch

    def record(self, tenant: str, write: Write, done: Done) -> None:
        """Write what was decided: the epoch, or `MOVED` where a target was planned for another object."""
        shelf = self._etcd.shelf(tenant)
        writes, basis = write.writes, write.basis
        if writes.end and shelf.actor is None and not write.take:
            self._etcd.check()
            done(write.epoch)  # an earlier attempt removed everything
            return
        epoch = self._take(shelf, write.epoch, write.asker, basis.generation) if write.take else write.epoch
        actor = self._fence(shelf, epoch)
        judge = self._world.judge
        tell = self._world.tell
        if writes.target is not None and writes.target != actor.target:
            fleet = shelf.fleet
            if writes.new_revision:
                if fleet is None or fleet.mod_revision != basis.generation or writes.target in shelf.revisions:
                    done(MOVED)
                    return
                shelf.revisions[writes.target] = fleet.template
                judge.of(tenant).revisions += 1
                tell(f"{tenant}: revision {writes.target} = {fleet.template}")
            judge.targeted(shelf, writes.target)
            shelf.actor = replace(actor, target=writes.target, mod_revision=self._etcd.next())
            tell(f"{tenant}: target {writes.target}")
        self._decide(shelf, writes)
        for outcome in writes.outcomes:
            if outcome.revision not in shelf.outcomes:
                shelf.outcomes[outcome.revision] = outcome.outcome
                judge.outcome(shelf, outcome.revision, outcome.outcome)
                tell(f"{tenant}: revision {outcome.revision} {outcome.outcome}: {outcome.why}")
        for clear in writes.clears:
            life = (clear.slot, clear.incarnation)
            tell(f"{tenant}: clears {life}, crashes {clear.crashes}")
            if life in shelf.grants:
                judge.clearing(shelf, life)
                self._etcd.remove_grant(tenant, life)
            if life[0] in shelf.slots:
                slot = shelf.slots[life[0]]
                shelf.slots[life[0]] = replace(slot, crashes=clear.crashes, mod_revision=self._etcd.next())
        for assign in writes.assigns:
            slot = shelf.slots[assign.slot]
            tell(f"{tenant}: slot {assign.slot} returns on r{assign.revision}")
            shelf.slots[assign.slot] = replace(slot, revision=assign.revision, mod_revision=self._etcd.next())
        if writes.tenant != "as-is":
            shelf.present = writes.tenant == "present"
        for number in writes.forget_revisions:
            judge.forgetting(shelf, number)
            shelf.revisions.pop(number, None)
            shelf.outcomes.pop(number, None)
        if writes.status is not None:
            shelf.status = still(writes.status)
            judge.told(shelf, writes.status)
        self._etcd.next()
        if writes.end:
            self._end(shelf)
        done(epoch)

    def _decide(self, shelf: Shelf, writes: Writes) -> None:
        """What was decided about the target lies beside it; a late attempt changes nothing."""
        actor, said = shelf.actor, writes.decisions
        if actor is None or said is None or said.target != actor.target or self._world.broken("decisions"):
            return
        if actor.decisions is None or actor.decisions.number < said.number:
            self._world.judge.newcomers.decided(shelf, said)
            shelf.actor = replace(actor, decisions=said, mod_revision=self._etcd.next())
            self._world.tell(f"{shelf.tenant}: decided {said}")

    def _end(self, shelf: Shelf) -> None:
        if shelf.grants or (shelf.fleet is not None and not shelf.fleet.deleting):
            return
        self._world.judge.ended(shelf)
        self._world.tell(f"{shelf.tenant}: gone")
        shelf.fleet = shelf.actor = shelf.status = None
        shelf.present = False
        shelf.revisions.clear()
        shelf.outcomes.clear()
        shelf.slots.clear()
        self._etcd.on_change(shelf.tenant)

    def grant(self, tenant: str, epoch: int, step: Up, basis: Basis, token: object, done: Done) -> None:
        """Count the slot's incarnations up and let the next one live."""
        self._etcd.check()
        shelf = self._etcd.shelf(tenant)
        for life, theirs in shelf.tokens.items():
            if theirs is token:
                done(life[1])
                return
        self._fence(shelf, epoch)
        if shelf.fleet is None or shelf.fleet.create_revision != basis.identity:
            done(MOVED)
            return
        slot = shelf.slots.get(step.slot) or Slot(step.slot, incarnation=0, revision=step.revision)
        if step.after not in (-1, slot.incarnation) and not self._world.broken("late-grant"):
            done(MOVED)
            return
        incarnation = slot.incarnation + (0 if self._world.broken("reuse") and slot.incarnation else 1)
        life = (step.slot, incarnation)
        if life in shelf.grants:
            done(MOVED)
            return
        mod = self._etcd.next()
        grant = Grant(
            *life, revision=step.revision, host=step.host, identity=basis.identity,
            settle=float(step.settle), mod_revision=mod,
        )  # fmt: skip
        self._world.judge.granted(shelf, grant, basis)
        shelf.grants[life] = grant
        shelf.tokens[life] = token
        shelf.born[life] = mod
        assigned = step.revision if step.assign else slot.revision
        shelf.slots[step.slot] = replace(slot, incarnation=incarnation, revision=assigned, mod_revision=mod)
        self._world.tell(f"{tenant}: grants {life} r{step.revision} on {step.host} ({step.why})")
        done(incarnation)

    def revoke(self, tenant: str, epoch: int, step: Drop, basis: Basis, done: Done) -> None:
        """Delete a grant: the fence."""
        shelf = self._etcd.shelf(tenant)
        self._fence(shelf, epoch)
        life = (step.slot, step.incarnation)
        if life in shelf.grants:
            instance = shelf.instances.get(life)
            mod = instance.mod_revision if instance is not None else 0
            if step.registered not in (WHATEVER, mod) and not self._world.broken("registered"):
                done(MOVED)
                return
            if not step.kill and step.host in self._etcd.hosts and not self._world.broken("host-back"):
                done(MOVED)
                return
            self._world.tell(f"{tenant}: fences {life} off ({step.why})")
            self._world.judge.fencing(shelf, life, basis)
            if not step.kill:
                self._world.judge.lost(tenant, step.host, step.slot, asked=shelf.grants[life].want == "drain")
            self._etcd.remove_grant(tenant, life)
        done(None)

    def drain(self, tenant: str, epoch: int, step: Retire, basis: Basis, timeout: float, done: Done) -> Stop | None:
        """Set a grant to drain while what is counted on is unchanged, and wait for the end."""
        shelf = self._etcd.shelf(tenant)
        self._fence(shelf, epoch)
        life = (step.slot, step.incarnation)
        grant = shelf.grants.get(life)
        if grant is None:
            done(MOVED)
            return None
        if grant.want == "run":
            if life in shelf.exits or grant.mod_revision != step.grant_mod_revision:
                done(MOVED)
                return None
            decided = shelf.actor.decisions if shelf.actor is not None else None
            if decided is not None and decided.number > basis.decisions and not self._world.broken("late-drain"):
                done(MOVED)
                return None
            for counted in step.counted:
                instance = shelf.instances.get((counted.slot, counted.incarnation))
                changed = (instance.mod_revision if instance is not None else 0) != counted.mod_revision
                other = (counted.slot, counted.incarnation)
                theirs = shelf.grants.get(other)
                ended = other != life and (theirs is None or theirs.want != "run" or other in shelf.exits)
                if (changed or ended) and not self._world.broken("counted"):
                    done(MOVED)
                    return None
            self._world.tell(f"{tenant}: drains {life} r{grant.revision} ({step.why})")
            self._world.judge.draining(shelf, life, basis)
            mod = self._etcd.next()
            shelf.grants[life] = replace(grant, want="drain", mod_revision=mod)
            if step.assign:
                shelf.slots[step.slot] = replace(shelf.slots[step.slot], revision=step.assign, mod_revision=mod)
            self._etcd.changed(tenant, life)
        return self._await(
            tenant, life, lambda: "gone" if life in shelf.exits or life not in shelf.grants else None, timeout, done
        )

    def await_ready(self, tenant: str, life: Life, min_ready: float, done: Done) -> Stop:
        """Wait until an instance has been ready for long enough."""
        shelf = self._etcd.shelf(tenant)

        def look() -> Any:
            grant = shelf.grants.get(life)
            if life in shelf.exits:
                return "ended"
            if grant is None or grant.want != "run":
                return "not-granted"
            instance = shelf.instances.get(life)
            if instance is None or instance.state != "ready":
                return None
            since = max(shelf.since[life], self._world.sight_since)
            if self._world.timeline.now < since + min_ready and not self._world.broken("min-ready"):
                self._world.timeline.after(since + min_ready - self._world.timeline.now + 1e-6, check)
                return None
            return instance.mod_revision

        stop, check = self._watching(tenant, life, look, done)
        check()
        return stop

    def _await(self, tenant: str, life: Life, look: Callable[[], Any], timeout: float, done: Done) -> Stop:
        stop, check = self._watching(tenant, life, look, done)
        self._world.timeline.after(timeout, lambda: check("still-there"))
        check()
        return stop

    def _watching(
        self, tenant: str, life: Life, look: Callable[[], Any], done: Done
    ) -> tuple[Stop, Callable[..., None]]:
        over = False

        def stop() -> None:
            nonlocal over
            over = True
            self._etcd.unwatch(tenant, life, check)

        def check(otherwise: Any = None) -> None:
            if over:
                return
            if self._etcd.down:
                stop()
                done(Away())
                return
            seen = look() or otherwise
            if seen is not None:
                stop()
                done(seen)

        self._etcd.watch(tenant, life, check)
        return stop, check
