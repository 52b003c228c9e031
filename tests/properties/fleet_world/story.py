"""What users want and what breaks, by chance: each act is a method of `Story`, drawn by weight.

Users write the object (template, replicas, strategy, requests, deletion) and cordons. Faults strike processes, agents,
hosts (`HostFaults`), both stores, the ways between them and the workflows themselves. `Story.heal` ends all faults;
`Story.settle` is the last thing that a user wants, after which everything must come to rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.properties.fleet_world.host_faults import HostFaults
from tests.properties.fleet_world.process import Behaviour, Process
from wharfinger.fleet.model.fleet import Cordon, FleetSpec, RolloutRequest
from wharfinger.objects.model.quantities import IntOrPercent

if TYPE_CHECKING:
    from tests.properties.fleet_world.etcd import Fleet
    from tests.properties.fleet_world.world import World

BAD = (
    Behaviour("crashes"),
    Behaviour("never-ready"),
    Behaviour("flaps"),
    Behaviour("flaps"),
    Behaviour("cannot-start"),
)
FEW, MANY = (1, 1, 1, 2, 2, 3, 3), (5, 8, 12)
"""Replicas."""
FLAPS = (1.0, 3.0, 8.0, 15.0, 25.0, 40.0, 90.0, 240.0, 600.0)
"""Seconds after which flapping instances die, about: from a second to ten minutes."""


class Story:
    """What happens to one world."""

    def __init__(self, world: World, tenants: list[str]) -> None:
        self._world = world
        self._tenants = tenants
        self._rng = world.rng
        self._templates = 0
        self._written: dict[str, list[str]] = {tenant: [] for tenant in tenants}
        self.hosts = hosts = HostFaults(world)
        self.wishes: list[tuple[int, Callable[[str], None]]] = [
            (6, self.change_template),
            (2, self.break_template),
            (3, self.scale),
            (2, self.restrategise),
            (1, self.write_again),
            (2, self.undo),
            (1, self.pause_or_go_on),
            (3, self.ask),
            (1, self.partition),
            (1, self.canary),
            (1, self.invalid),
            (1, self.delete),
        ]
        self.faults: list[tuple[int, Callable[[str], None]]] = [
            (4, self.crash_process),
            (2, self.hang_process),
            (2, self.cut_process),
            (2, self.withdraw_process),
            (3, hosts.crash_agent),
            (2, hosts.crash_agents),
            (1, hosts.crash_host),
            (1, hosts.cut_host),
            (1, hosts.cut_hosts),
            (2, self.cordon),
            (1, self.confirm_lost),
            (2, self.etcd_away),
            (2, self.temporal_away),
            (2, self.terminate_rollout),
            (1, self.lose_fleet),
            (1, self.upgrade),
        ]

    # --- templates and specs ------------------------------------------------------------------

    def template(self, tenant: str, behaviour: Behaviour | None = None) -> str:
        """A new one."""
        self._templates += 1
        rng = self._rng
        if behaviour is None:
            behaviour = Behaviour(
                start=rng.uniform(0.2, 2.0),
                sync=rng.uniform(0.2, 3.0),
                drain=rng.choice((0.3, 1.0, 4.0, 20.0)),
            )
        if behaviour.kind == "flaps":
            behaviour = replace(behaviour, flap=rng.choice(FLAPS) * rng.uniform(0.6, 1.0))
        name = f"{behaviour.kind}-{self._templates}"
        self._world.templates[name] = behaviour
        self._written[tenant].append(name)
        return name

    def spec(self) -> FleetSpec:
        """A strategy for few replicas, with short deadlines."""
        rng = self._rng
        surge, down = rng.choice(((1, 0), (1, 0), (0, 1), (1, 1), (0, 0), (2, 1)))
        percent = rng.random() < 0.1
        return FleetSpec(
            replicas=rng.choice(FEW if rng.random() < 0.92 else MANY),
            max_surge=IntOrPercent(34 * surge, True) if percent else IntOrPercent(surge),
            max_unavailable=IntOrPercent(34 * down, True) if percent else IntOrPercent(down),
            min_ready=rng.choice((1.0, 2.0, 5.0)),
            instance_deadline=rng.choice((20.0, 40.0)),
            progress_deadline=rng.choice((60.0, 120.0)),
            on_deadline=rng.choice(("pause", "revert")),
            history_limit=rng.choice((1, 10)),
            drain_timeout=10.0,
            kill_timeout=2.0,
            soak=rng.choice((0.0, 5.0, 20.0, 30.0)),
            failure_threshold=rng.choice((1, 1, 1, 2)),
        )

    def begin(self, tenant: str, *, settled: bool) -> None:
        """The fleet at the start: running for long, or just written."""
        spec = self.spec()
        template = self.template(tenant)
        if settled:
            self._world.put_settled(tenant, spec, template)
        else:
            self._world.apply(tenant, spec, template)
        self._world.tell(f"{tenant}: begins with {spec}, {template}, settled={settled}")

    def _object(self, tenant: str) -> Fleet | None:
        fleet = self._world.etcd.shelf(tenant).fleet
        return fleet if fleet is not None and fleet.spec is not None else None

    def _write(self, tenant: str, what: str, spec: FleetSpec | None, template: str | None = None) -> None:
        """As the command line does: a request that was looked at, or was about another template, is left out."""
        if self._world.etcd.down:
            return
        shelf = self._world.etcd.shelf(tenant)
        old = shelf.fleet
        if spec is not None and old is not None and old.spec is not None and spec.request == old.spec.request:
            seen = shelf.status is not None and shelf.status.observed_generation == old.mod_revision
            if seen or template is not None:
                spec = replace(spec, request=None)
        self._world.tell(f"{tenant}: user: {what}")
        self._world.apply(tenant, spec, template)

    # --- wishes -------------------------------------------------------------------------------

    def act(self, tenant: str) -> None:
        """One wish or fault, by weight."""
        acts = self.wishes if self._rng.random() < 0.5 else self.faults
        self._rng.choices([act for _, act in acts], [weight for weight, _ in acts])[0](tenant)

    def change_template(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None:
            name = self.template(tenant)
            self._write(tenant, f"template {name}", fleet.spec, name)
        elif self._world.etcd.shelf(tenant).fleet is None and not self._world.etcd.down:
            self._write(tenant, "creates it again", self.spec(), self.template(tenant))

    def break_template(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None:
            name = self.template(tenant, self._rng.choice(BAD))
            self._write(tenant, f"template {name}", fleet.spec, name)

    def undo(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None:
            name = self._rng.choice(self._written[tenant])
            self._write(tenant, f"back to {name}", fleet.spec, name)

    def scale(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None and fleet.spec is not None:
            replicas = self._rng.choice((0, 1, 1, 2, 2, 3, 4, 4) if self._rng.random() < 0.95 else MANY)
            self._write(tenant, f"replicas {replicas}", replace(fleet.spec, replicas=replicas))

    def restrategise(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None and fleet.spec is not None:
            kept = fleet.spec
            spec = replace(self.spec(), replicas=kept.replicas, partition=kept.partition, canary=kept.canary)
            self._write(tenant, f"strategy {spec.max_surge.amount}/{spec.max_unavailable.amount}", spec)

    def write_again(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None:
            self._write(tenant, "the same again", fleet.spec)

    def pause_or_go_on(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None and fleet.spec is not None:
            self._write(tenant, f"paused {not fleet.spec.paused}", replace(fleet.spec, paused=not fleet.spec.paused))

    def ask(self, tenant: str) -> None:
        """Promote, abort or resume the open rollout, or one that is over."""
        fleet = self._object(tenant)
        rollout = self._world.tenant(tenant).rollout
        if fleet is not None and fleet.spec is not None:
            generation = rollout.generation if rollout is not None else max(fleet.mod_revision - 5, 1)
            action = self._rng.choice(("promote", "abort", "resume"))
            if self._world.etcd.down:
                return
            self._world.tell(f"{tenant}: user: {action} {generation}")
            self._world.apply(tenant, replace(fleet.spec, request=RolloutRequest(generation, action)))
            target = self._world.etcd.shelf(tenant).actor
            if action == "promote" and target is not None:
                self._world.judge.of(tenant).promoted.add(target.target)

    def partition(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None and fleet.spec is not None:
            partition = self._rng.choice((0, 1, 2))
            self._write(tenant, f"partition {partition}", replace(fleet.spec, partition=partition))

    def canary(self, tenant: str) -> None:
        fleet = self._object(tenant)
        if fleet is not None and fleet.spec is not None:
            name = self.template(tenant, self._rng.choice((*BAD, None, None)))
            self._write(tenant, f"template {name} with a canary", replace(fleet.spec, canary=1), name)

    def invalid(self, tenant: str) -> None:
        if self._world.etcd.shelf(tenant).fleet is not None:
            self._write(tenant, "an invalid spec", None)

    def delete(self, tenant: str) -> None:
        """Marked as deleting; or, by a rough hand, gone."""
        shelf = self._world.etcd.shelf(tenant)
        if shelf.fleet is None or self._world.etcd.down:
            return
        if self._rng.random() < 0.7:
            self._world.tell(f"{tenant}: user: deletes it")
            self._world.apply(tenant, shelf.fleet.spec, deleting=True)
        else:
            self._world.tell(f"{tenant}: user: removes the object")
            shelf.fleet = None
            self._world.etcd.next()
            self._world.signal_reconcile(tenant)
        if self._rng.random() < 0.7:
            self._world.timeline.after(self._rng.uniform(0.1, 30.0), self.change_template, tenant)

    # --- faults -------------------------------------------------------------------------------

    def _process(self, tenant: str) -> Process | None:
        found = [
            process
            for machine in self._world.machines.values()
            for (owner, _), process in machine.running.items()
            if owner == tenant
        ]
        return self._rng.choice(found) if found else None

    def crash_process(self, tenant: str) -> None:
        process = self._process(tenant)
        if process is not None:
            self._world.tell(f"{tenant}: fault: {process.life} crashes")
            process.die("crashed", "signal")

    def hang_process(self, tenant: str) -> None:
        process = self._process(tenant)
        if process is not None:
            self._world.tell(f"{tenant}: fault: {process.life} hangs")
            process.hang()
            if self._rng.random() < 0.6:
                self._world.timeline.after(self._rng.uniform(1.0, 40.0), process.come_back)

    def cut_process(self, tenant: str) -> None:
        process = self._process(tenant)
        if process is not None:
            self._world.tell(f"{tenant}: fault: {process.life} is cut off")
            process.cut_off()
            self._world.timeline.after(self._rng.uniform(1.0, 60.0), process.come_back)

    def withdraw_process(self, tenant: str) -> None:
        process = self._process(tenant)
        if process is not None:
            self._world.tell(f"{tenant}: fault: {process.life} withdraws")
            process.withdraw()

    def cordon(self, tenant: str) -> None:
        if self._world.etcd.down:
            return
        name = self._rng.choice(list(self._world.machines))
        action = self._rng.choice((None, "cordon", "drain"))
        self._world.tell(f"user: {name}: {action or 'uncordon'}")
        self._world.etcd.put_cordon(Cordon(name, action=action) if action is not None else None, name)

    def confirm_lost(self, tenant: str) -> None:
        """Rightly or not: what is there again is not lost."""
        if self._world.etcd.down:
            return
        name = self._rng.choice(list(self._world.machines))
        self._world.tell(f"user: {name} is lost for good")
        self._world.etcd.confirm_lost(name)

    def etcd_away(self, tenant: str) -> None:
        seconds = self._rng.choice((0.5, 3.0, 12.0, 30.0))
        self._world.tell(f"fault: etcd away for {seconds} s")
        self._world.etcd_away(seconds)

    def temporal_away(self, tenant: str) -> None:
        seconds = self._rng.choice((0.5, 3.0, 12.0, 30.0))
        self._world.tell(f"fault: Temporal away for {seconds} s")
        self._world.temporal_away(seconds)

    def terminate_rollout(self, tenant: str) -> None:
        rollout = self._world.tenant(tenant).rollout
        if rollout is not None and not rollout.closed:
            self._world.tell(f"{tenant}: fault: rollout {rollout.generation} is terminated")
            rollout.terminated()
            self._world.signal_reconcile(tenant)

    def lose_fleet(self, tenant: str) -> None:
        """An operator terminates Fleet, or Temporal's data are lost or restored: its memory is blank, or an old one."""
        workflows = self._world.tenant(tenant)
        if workflows.fleet is not None:
            restored = workflows.backup if self._rng.random() < 0.3 else None
            self._world.tell(f"{tenant}: fault: Fleet is {'terminated' if restored is None else 'restored'}")
            self._world.lose_workflows(tenant, restored, rollout=self._rng.random() < 0.5)
            self._world.signal_reconcile(tenant)

    def upgrade(self, tenant: str) -> None:
        """New code completes every template differently."""
        self._world.release += 1
        self._world.tell(f"user: upgrades to release {self._world.release}")

    # --- the end ------------------------------------------------------------------------------

    def heal(self) -> None:
        """No more faults: what was broken is mended."""
        world = self._world
        world.tell("all faults end")
        world.odds.stall = world.odds.lost = world.odds.slow = world.odds.dropped = 0.0
        world.timeline.after(31.0, self._mend)

    def _mend(self) -> None:
        for machine in self._world.machines.values():
            machine.up = True
            machine.rejoin()
        for name in list(self._world.etcd.cordons):
            self._world.etcd.put_cordon(None, name)
        for tenant in self._tenants:  # as after any list
            self._world.signal_reconcile(tenant)

    def go_on(self, tenant: str) -> None:
        """A rollout that halted because what a fault broke took long is resumed, once for each time that it halts."""
        fleet, rollout = self._object(tenant), self._world.tenant(tenant).rollout
        if fleet is None or fleet.spec is None or rollout is None or not rollout.actor.memory.halted:
            return
        request = RolloutRequest(rollout.generation, "resume")
        if fleet.spec.request != request or rollout.actor.memory.answered == fleet.mod_revision:
            self._world.tell(f"{tenant}: user: resumes {rollout.generation}")
            self._world.apply(tenant, replace(fleet.spec, request=request))

    def settle(self, tenant: str) -> None:
        """What the user wants in the end; most often what is wanted already, where that can be had."""
        shelf = self._world.etcd.shelf(tenant)
        if shelf.fleet is None or shelf.fleet.deleting:
            return
        fate = self._rng.random()
        if fate < 0.1:
            self._world.tell(f"{tenant}: user: deletes it, finally")
            self._world.apply(tenant, shelf.fleet.spec, deleting=True)
            return
        spec = shelf.fleet.spec
        over = {shelf.revisions[n] for n, how in shelf.outcomes.items() if how in ("failed", "aborted")}
        good = self._world.templates[shelf.fleet.template].kind == "good" and shelf.fleet.template not in over
        standing = spec is None or spec.paused or spec.partition > 0 or spec.canary > 0
        rollout = self._world.tenant(tenant).rollout
        decided = shelf.actor.decisions if shelf.actor is not None else None
        halted = bool(rollout.actor.memory.halted if rollout is not None else decided is not None and decided.halted)
        if good and not standing and not halted and fate < 0.8:
            return
        request = RolloutRequest(rollout.generation, "resume") if rollout is not None else None
        spec = replace(spec or self.spec(), paused=False, partition=0, canary=0, request=request)
        forgotten = halted and rollout is None  # nothing to resume yet: it stands still again as soon as it begins
        template = shelf.fleet.template if good and fate < 0.6 and not forgotten else self.template(tenant, Behaviour())
        self._world.tell(f"{tenant}: user: finally {template}")
        self._world.apply(tenant, spec, template)
