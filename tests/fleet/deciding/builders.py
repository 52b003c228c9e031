"""Fleets as etcd would show them, in a few readable words; and plans of them.

::

    picture = standing(3)                       # three slots, ready for long, on revision 1, which was completed
    picture.want("t2")                          # the spec names another template
    roll(picture).steps                         # what RollingUpdate would start
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from wharfinger.fleet.deciding.planner import Asked, plan
from wharfinger.fleet.model.fleet import (
    Actor,
    Cordon,
    Decisions,
    Desired,
    Exit,
    FleetSpec,
    Grant,
    Host,
    Instance,
    InstanceState,
    Observed,
    OutcomeName,
    Revision,
    Role,
    Slot,
    Want,
)
from wharfinger.fleet.model.rollout import Busy, Drop, Memory, Plan, ReadySince, Retire, Up

LEASE = 15.0
IDENTITY = 5
CLOCK = 1000.0
"""Of a memory that has seen the fleet for long."""


@dataclass
class Picture:
    """An `Observed` in the making."""

    spec: FleetSpec = field(default_factory=FleetSpec)
    template: str = "t1"
    version: str = ""
    generation: int = 100
    deleting: bool = False
    problems: tuple[str, ...] = ()
    there: bool = True
    """Whether the object exists."""
    target: int = 0
    decisions: Decisions | None = None
    tenant_present: bool = False
    revisions: dict[int, Revision] = field(default_factory=dict)
    slots: dict[int, Slot] = field(default_factory=dict)
    grants: dict[tuple[int, int], Grant] = field(default_factory=dict)
    instances: dict[tuple[int, int], Instance] = field(default_factory=dict)
    exits: dict[tuple[int, int], Exit] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=lambda: {"a": Host("a"), "b": Host("b")})
    cordons: tuple[Cordon, ...] = ()
    lost: tuple[str, ...] = ()
    """Hosts of which a person says so."""
    counter: int = 1000
    """Etcd's revision."""

    def want(self, template: str | None = None, **spec: Any) -> Picture:
        """The object is written once more."""
        self.template = template or self.template
        self.spec = replace(self.spec, **spec)
        self.generation = self.tick()
        return self

    def revision(self, number: int, template: str, outcome: OutcomeName | None = None, version: str = "") -> Picture:
        """There is this revision."""
        self.revisions[number] = Revision(number, template, outcome, version)
        return self

    def life(
        self,
        slot: int,
        incarnation: int = 1,
        *,
        revision: int = 1,
        host: str = "a",
        state: InstanceState | None = "ready",
        want: Want | None = "run",
        identity: int = IDENTITY,
        assign: bool | None = None,
    ) -> Picture:
        """An incarnation lives: with a record unless `state` is None, with a grant unless `want` is None."""
        key, at = (slot, incarnation), self.tick()
        self.grants.pop(key, None)
        self.instances.pop(key, None)
        if want is not None:
            self.grants[key] = Grant(
                slot, incarnation, revision=revision, host=host, want=want, identity=identity, mod_revision=at
            )
        if state is not None:
            self.instances[key] = Instance(slot, incarnation, state, host, revision, at)
        known = self.slots.get(slot)
        assign = known is None if assign is None else assign
        assigned = revision if assign or known is None else known.revision
        last = max(incarnation, known.incarnation if known is not None else 0)
        self.slots[slot] = Slot(
            slot, incarnation=last, revision=assigned, mod_revision=at,
            crashes=known.crashes if known is not None else 0,
        )  # fmt: skip
        return self

    def died(self, slot: int, incarnation: int = 1, *, lived: float = 5.0, planned: bool = False) -> Picture:
        """The agent says that it ended; its record went with its lease."""
        self.instances.pop((slot, incarnation), None)
        self.exits[slot, incarnation] = Exit(
            slot, incarnation, how="code", detail="exit 1", lived=lived, planned=planned
        )
        return self

    def without(self, slot: int, incarnation: int = 1) -> Picture:
        """Nothing is left of it."""
        for there in (self.grants, self.instances, self.exits):
            there.pop((slot, incarnation), None)
        return self

    def without_record(self, slot: int, incarnation: int = 1) -> Picture:
        """Its lease is lost."""
        self.instances.pop((slot, incarnation), None)
        return self

    def tick(self) -> int:
        """Etcd counts on."""
        self.counter += 1
        return self.counter

    def observed(self) -> Observed:
        """As it is read."""
        spec = None if self.problems else self.spec
        desired = Desired(IDENTITY, self.generation, spec, self.template, self.version, self.deleting, self.problems)
        return Observed(
            read_at=self.counter,
            desired=desired if self.there else None,
            actor=Actor(1, "fleet", "run", self.target, self.decisions, mod_revision=1) if self.target else None,
            revisions=tuple(self.revisions[number] for number in sorted(self.revisions)),
            slots=tuple(self.slots[number] for number in sorted(self.slots)),
            grants=tuple(self.grants[key] for key in sorted(self.grants)),
            instances=tuple(self.instances[key] for key in sorted(self.instances)),
            exits=tuple(self.exits[key] for key in sorted(self.exits)),
            hosts=tuple(
                replace(host, instances=sum(grant.host == name for grant in self.grants.values()))
                for name, host in sorted(self.hosts.items())
            ),
            cordons=self.cordons,
            lost=self.lost,
            tenant_present=self.tenant_present,
        )

    def memory(self, **changes: Any) -> Memory:
        """Of an actor that has seen all this for long: whatever is ready is counted."""
        return replace(
            Memory(
                clock=CLOCK,
                spec=self.spec,
                replicas=self.spec.replicas,
                target=self.target,
                promoted=self.spec.canary == 0,
                progress_at=CLOCK,
                progress_mark=(0, 1000),
                ready=tuple(
                    ReadySince(*key, record.mod_revision, 0.0)
                    for key, record in sorted(self.instances.items())
                    if record.state == "ready"
                ),
            ),
            **changes,
        )


def standing(replicas: int = 3, **spec: Any) -> Picture:
    """A fleet that is as it should be: revision 1 of template t1 everywhere, on hosts a and b in turn."""
    spec = {"soak": 0.0, **spec}  # newcomers are proven as soon as they count
    picture = Picture(FleetSpec(replicas=replicas, **spec), target=1).revision(1, "t1", "completed")
    for slot in range(replicas):
        picture.life(slot, host="ab"[slot % 2])
    return picture


def rolling(replicas: int = 3, **spec: Any) -> Picture:
    """The same fleet, where revision 2 of template t2 has just become the target."""
    picture = standing(replicas, **spec).revision(2, "t2").want("t2")
    picture.target = 2
    return picture


def decide(
    picture: Picture,
    role: Role = "fleet",
    memory: Memory | None = None,
    *busy: Busy,
    generation: int = 0,
    tenant: str = "acme",
    over: str = "",
) -> Plan:
    """One plan."""
    memory = picture.memory() if memory is None else memory
    return plan(picture.observed(), memory, Asked(role, tenant, generation, busy, LEASE, over))


def keep(picture: Picture, memory: Memory | None = None, *busy: Busy, over: str = "") -> Plan:
    """What Fleet decides, with no rollout open. `over`: why the one that memory misses stays ended."""
    return decide(picture, "fleet", memory, *busy, over=over)


def roll(picture: Picture, memory: Memory | None = None, *busy: Busy) -> Plan:
    """What RollingUpdate decides, whose generation is 100."""
    return decide(picture, "rollout", memory, *busy, generation=100)


def later(decided: Plan, seconds: float) -> Memory:
    """Memory after a plan, so many seen seconds on."""
    return replace(decided.memory, clock=decided.memory.clock + seconds)


def brief(decided: Plan) -> list[str]:
    """The steps of a plan in a word each: `up 2 r2`, `retire 2.1`, `drop 2.3`."""
    words = []
    for step in decided.steps:
        match step:
            case Up():
                words.append(f"up {step.slot} r{step.revision}" + (f" .{step.incarnation}" * bool(step.incarnation)))
            case Retire():
                words.append(f"retire {step.slot}.{step.incarnation}")
            case Drop():
                words.append(f"drop {step.slot}.{step.incarnation}")
    return words
