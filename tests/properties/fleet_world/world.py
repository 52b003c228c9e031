"""A world: hosts, etcd, Temporal, the fleets' workflows, in virtual time and by one seed.

`story` decides what users do and what breaks; `judge` holds every act against the rules; `run` plays a case from its
seed to its settled end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from tests.properties.fleet_world.control import Control
from tests.properties.fleet_world.etcd import Etcd, Fleet, Shelf
from tests.properties.fleet_world.judge import Judge
from tests.properties.fleet_world.machines import Machine
from tests.properties.fleet_world.process import Behaviour, Process
from tests.properties.fleet_world.shell import Fleet as FleetRun
from tests.properties.fleet_world.shell import RollingUpdate
from tests.properties.fleet_world.temporal import Temporal
from tests.properties.fleet_world.timeline import Timeline
from wharfinger.fleet.agent.fleet_watch import LOOK_EVERY
from wharfinger.fleet.model.fleet import HOST_LOST, Actor, FleetSpec, Grant, Instance, Slot
from wharfinger.fleet.model.rollout import IDLE, Memory

GOOD = Behaviour()


@dataclass(slots=True)
class Odds:
    """Of what may happen to each attempt of an activity, and to each reconcile signal."""

    stall: float = 0.0
    """It times out, and happens later."""
    lost: float = 0.0
    """It happened, and its answer is lost."""
    slow: float = 0.0
    dropped: float = 0.0
    """A reconcile signal."""
    doubled: float = 0.0
    """A reconcile signal."""


@dataclass(slots=True)
class Tenant:
    """The workflows of a tenant."""

    fleet: FleetRun | None = None
    rollout: RollingUpdate | None = None
    backup: Memory | None = None
    """What Fleet remembered before its last rollout."""
    restored: Memory | None = None
    """What it is started anew with; None = nothing."""
    signalling: bool = False
    """Whether a reconcile signal is on its way: at most one a second."""
    signalled_at: float = -1.0
    """When the last one arrived."""
    over: str = ""
    """Why the rollout that Fleet misses is not started again."""


class World:
    """Everything."""

    def __init__(self, seed: int, *, lease_ttl: float = 10.0, broken: frozenset[str] = frozenset()) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.lease_ttl = lease_ttl
        self.odds = Odds()
        self.timeline = Timeline()
        self.etcd = Etcd()
        self.etcd.on_change = self._changed
        self.temporal = Temporal()
        self.judge = Judge(self)
        self.etcd.on_record = self.judge.newcomers.rewriting
        self.control = Control(self)
        self.machines: dict[str, Machine] = {}
        self.control_queue: list[Callable[[], object]] = []
        self.tenants: dict[str, Tenant] = {}
        self.templates: dict[str, Behaviour] = {}
        self.release = 1
        """Of the running code: templates are completed differently by each."""
        self.sight_since = 0.0
        """Since when etcd has been there without a break."""
        self.apart = 1.0
        """Seconds between two reconcile signals of a tenant, at least."""
        self.controlled_elsewhere = False
        """Whether a control part polls on a machine that runs no instances, whatever becomes of the fleets' hosts."""
        self.plans = 0
        self.story: list[tuple[float, str]] = []
        self._broken = broken
        self._runs = 0
        self._gone: dict[str, float] = {}
        self._least: dict[str, float] = {}
        self._soaks: dict[str, float] = {}
        self.timeline.after(LOOK_EVERY, self._find_unsettled)

    def end(self) -> None:
        """Let go of everything: garbage collections of worlds that refer to themselves were a tenth of a case."""
        vars(self).clear()

    # --- what the others ask ------------------------------------------------------------------

    def tell(self, what: str) -> None:
        """A line of the story."""
        self.story.append((self.timeline.now, what))

    def broken(self, rule: str) -> bool:
        """Whether a rule is broken on purpose, to see the judge bite."""
        return rule in self._broken

    def complete(self, written: str) -> str:
        """The completed name of a template, by the running code."""
        return f"{self.release}:{written}"

    def behaviour(self, tenant: str, revision: int) -> Behaviour:
        """What instances of a revision do."""
        return self.templates.get(self.etcd.shelf(tenant).revisions.get(revision, ""), GOOD)

    def settle_of(self, tenant: str) -> float:
        """Seconds that an instance stays `starting` after a crash of the one before."""
        fleet = self.etcd.shelf(tenant).fleet
        return fleet.spec.min_ready if fleet is not None and fleet.spec is not None else 0.0

    def min_ready(self, tenant: str) -> float:
        """The shortest that the fleet ever asked for."""
        return self._least.get(tenant, 0.0)

    def gone_with_most(self, host: str) -> bool:
        """Whether more than half of at least three hosts went with it, within a third of the time that counts."""
        gone = [other for other in self._gone.values() if abs(other - self._gone.get(host, -1_000.0)) <= HOST_LOST / 3]
        return len(self.machines) >= 3 and 2 * len(gone) > len(self.machines)

    def soak(self, tenant: str) -> float:
        """The shortest that the fleet ever asked for."""
        return self._soaks.get(tenant, 0.0)

    def host_gone_for(self, host: str) -> float:
        """Seconds that a host's record has been absent."""
        return self.timeline.now - self._gone[host] if host in self._gone else 0.0

    def process(self, tenant: str, life: tuple[int, int]) -> Process | None:
        """The living process of an incarnation, wherever it is."""
        for machine in self.machines.values():
            found = machine.running.get((tenant, life))
            if found is not None:
                return found
        return None

    @property
    def controlled(self) -> bool:
        """Whether any control part polls."""
        return self.controlled_elsewhere or any(machine.agent for machine in self.machines.values())

    def next_run(self) -> str:
        """A run id."""
        self._runs += 1
        return f"run-{self._runs}"

    # --- machines -----------------------------------------------------------------------------

    def add_machine(self, name: str, *, capacity: int = 0) -> Machine:
        """A host with its agent."""
        machine = self.machines[name] = Machine(self, name, capacity=capacity)
        machine.start_agent()
        return machine

    def hosts_changed(self) -> None:
        """A host's record came or went."""
        for name in self.machines:
            if name in self.etcd.hosts:
                self._gone.pop(name, None)
            else:
                self._gone.setdefault(name, self.timeline.now)

    def agent_started(self) -> None:
        """The control queue is polled again."""
        waiting, self.control_queue = self.control_queue, []
        for task in waiting:
            self.timeline.after(self.rng.uniform(0.0, 0.5), task)

    # --- etcd and Temporal, away and back -----------------------------------------------------

    def etcd_away(self, seconds: float) -> None:
        """It cannot be reached; leases live on."""
        if not self.etcd.down:
            self.etcd.down = True
            self.timeline.after(seconds, self._etcd_back, seconds)

    def _etcd_back(self, seconds: float) -> None:
        self.etcd.down = False
        self.sight_since = self.timeline.now
        if seconds >= self.lease_ttl:
            for machine in self.machines.values():
                for process in machine.running.values():
                    self.timeline.after(self.rng.uniform(0.0, 3.0), process.write_again)
        for tenant in self.tenants:
            self.signal_reconcile(tenant)

    def temporal_away(self, seconds: float) -> None:
        """Nothing is scheduled, no answer arrives, no timer fires."""
        if not self.temporal.away:
            self.temporal.away = True
            self.timeline.after(seconds, self._temporal_back)
            if seconds > 10.0:
                self.timeline.after(10.0, self._all_withdraw)

    def _all_withdraw(self) -> None:
        for machine in self.machines.values():
            for process in machine.running.values():
                process.withdraw()

    def _temporal_back(self) -> None:
        for act, args in self.temporal.back():
            self.timeline.after(self.rng.uniform(0.0, 1.0), act, *args)

    # --- the workflows ------------------------------------------------------------------------

    def tenant(self, name: str) -> Tenant:
        """A tenant's workflows."""
        found = self.tenants.get(name)
        if found is None:
            found = self.tenants[name] = Tenant()
        return found

    def _changed(self, tenant: str) -> None:
        if tenant:
            self.signal_reconcile(tenant)
            return
        self.hosts_changed()
        for name in self.tenants:
            self.signal_reconcile(name)

    def signal_reconcile(self, name: str) -> None:
        """A control part saw a change: it sends the tenant's Fleet a reconcile signal, once a second at most."""
        tenant = self.tenant(name)
        if tenant.signalling:
            return
        luck = self.rng.random()
        if luck < self.odds.dropped:
            return
        tenant.signalling = True
        soonest = tenant.signalled_at + self.apart - self.timeline.now
        self.timeline.after(max(self.rng.uniform(0.02, 0.3), soonest), self._deliver_signal, name)
        if luck > 1.0 - self.odds.doubled:
            self.timeline.after(self.rng.uniform(1.0, 3.0), self._deliver_signal, name)

    def _find_unsettled(self) -> None:
        """What a control part does now and then without a change: `FleetWatch`."""
        for name in self.tenants:
            shelf = self.etcd.shelf(name)
            seen = shelf.status.observed_generation if shelf.status is not None else 0
            unseen = shelf.fleet is not None and seen < shelf.fleet.mod_revision
            if unseen or shelf.exits or shelf.grants.keys() - shelf.instances.keys():
                self._deliver_signal(name)
        self.timeline.after(LOOK_EVERY, self._find_unsettled)

    def _deliver_signal(self, name: str) -> None:
        if self.temporal.away or not self.controlled:
            self.timeline.after(1.0, self._deliver_signal, name)
            return
        tenant = self.tenant(name)
        tenant.signalling = False
        tenant.signalled_at = self.timeline.now
        if tenant.fleet is None:
            shelf = self.etcd.shelf(name)
            if shelf.empty:
                return
            memory, tenant.restored = tenant.restored, None
            tenant.fleet = FleetRun(self, name, memory or Memory())
            if memory is not None:  # long ago, for all that it knows
                tenant.fleet.again(None)
            else:
                tenant.fleet.look()
        elif tenant.rollout is not None:
            if tenant.rollout.closed:
                self._rollout_seen_closed(name)
            else:
                tenant.rollout.signalled()
        else:
            tenant.fleet.signalled()

    def acting_rollout(self, name: str) -> int:
        """The generation of the open rollout that is the actor; 0 = there is none."""
        rollout, actor = self.tenant(name).rollout, self.etcd.shelf(name).actor
        if rollout is None or rollout.closed or actor is None or actor.run_id != rollout.run_id:
            return 0
        return rollout.generation

    def start_rollout(self, fleet: FleetRun, generation: int) -> None:
        """Fleet stands aside."""
        tenant = self.tenant(fleet.tenant)
        if tenant.rollout is None or tenant.rollout.closed or tenant.rollout.generation != generation:
            self.tell(f"{fleet.tenant}: rollout {generation} begins")
            tenant.backup, tenant.over = replace(fleet.actor.memory, rollout=0), ""
            self.judge.newcomers.begin(fleet.tenant)
            tenant.rollout = RollingUpdate(self, fleet.tenant, fleet.actor.memory, generation=generation)
            tenant.rollout.look()
        fleet.aside = True

    def report(self, rollout: RollingUpdate, memory: Memory) -> None:
        """The rollout's signal to Fleet."""
        self.timeline.after(self.rng.uniform(0.01, 0.2), self._reported, rollout, memory)

    def _reported(self, rollout: RollingUpdate, memory: Memory) -> None:
        if self.temporal.away:
            self.temporal.through(self._reported, rollout, memory)
            return
        tenant = self.tenant(rollout.tenant)
        if tenant.rollout is rollout:
            tenant.rollout = None
            if tenant.fleet is not None:
                tenant.fleet.again(memory)

    def rollout_closed(self, rollout: RollingUpdate) -> None:
        """It ended without a report: Fleet sees it when it looks the next time."""
        self.timeline.after(self.rng.uniform(1.0, IDLE), self._seen_closed, rollout)

    def _seen_closed(self, rollout: RollingUpdate) -> None:
        if self.tenant(rollout.tenant).rollout is rollout:
            self._rollout_seen_closed(rollout.tenant)

    def _rollout_seen_closed(self, name: str) -> None:
        tenant = self.tenant(name)
        tenant.over = tenant.rollout.over if tenant.rollout is not None else ""
        tenant.rollout = None
        if tenant.fleet is not None:
            tenant.fleet.again(None)

    def lose_workflows(self, name: str, restored: Memory | None, *, rollout: bool) -> None:
        """Fleet is gone, and its rollout too if told; the next reconcile signal starts it with that memory, or none."""
        tenant = self.tenant(name)
        self.judge.of(name).forgotten = True
        if tenant.fleet is not None:
            tenant.fleet.stop()
        if rollout and tenant.rollout is not None:
            tenant.rollout.stop()
            tenant.rollout = None
        tenant.fleet, tenant.restored = None, restored

    def fleet_ended(self, fleet: FleetRun) -> None:
        """There was nothing left to look after."""
        tenant = self.tenant(fleet.tenant)
        if tenant.fleet is fleet:
            tenant.fleet = None
            if not self.etcd.shelf(fleet.tenant).empty:
                self.signal_reconcile(fleet.tenant)

    # --- users --------------------------------------------------------------------------------

    def apply(self, name: str, spec: FleetSpec | None, template: str | None = None, *, deleting: bool = False) -> None:
        """Write the fleet's object."""
        shelf = self.etcd.shelf(name)
        self.tenant(name)
        revision = self.etcd.next()
        old = shelf.fleet
        if old is None:
            assert template is not None
            shelf.fleet = Fleet(spec, template, revision, revision, deleting)
        else:
            written = old.template if template is None else template
            shelf.fleet = replace(
                old, spec=spec, template=written, mod_revision=revision, deleting=deleting or old.deleting
            )
        if spec is not None and spec.request is not None and spec.request.action == "resume":
            self.judge.of(name).halted.clear()
        if spec is not None:
            self._least[name] = min(self._least.get(name, spec.min_ready), spec.min_ready)
            self._soaks[name] = min(self._soaks.get(name, spec.soak), spec.soak)
        self.signal_reconcile(name)

    def put_settled(self, name: str, spec: FleetSpec, template: str) -> Shelf:
        """A fleet that has been running for a while, so that a case need not begin with its creation."""
        self.apply(name, spec, template)
        shelf = self.etcd.shelf(name)
        assert shelf.fleet is not None
        identity = shelf.fleet.create_revision
        shelf.revisions[1] = template
        shelf.outcomes[1] = "completed"
        shelf.actor = Actor(1, "fleet", "run-0", 1, mod_revision=self.etcd.next())
        shelf.present = name != "common"
        machines = list(self.machines.values())
        for number in range(spec.replicas):
            machine = machines[number % len(machines)]
            life = (number, 1)
            mod = self.etcd.next()
            shelf.slots[number] = Slot(number, incarnation=1, revision=1, mod_revision=mod)
            shelf.grants[life] = Grant(number, 1, revision=1, host=machine.name, identity=identity, mod_revision=mod)
            shelf.tokens[life] = None
            shelf.born[life] = mod
            shelf.instances[life] = Instance(number, 1, "ready", machine.name, 1, self.etcd.next())
            shelf.since[life] = -100.0
            record = self.judge.of(name)
            record.incarnations[number] = 1
            record.granted_at[life] = -100.0
            record.made[life] = 1
            process = Process(self, machine, name, life, revision=1, settle=0.0, born=mod)
            shelf.owners[life] = process
            process.registered = process.ready_before = True
            process.state = "ready"
            machine.running[name, life] = process
        return shelf
