"""A worker process of a fleet: registers under its grant, drains when it says so, ends when it is gone.

What it does wrong is its template's `Behaviour` or a fault that strikes it: it crashes, hangs, is cut off from etcd,
loses its lease, cannot reach Temporal, comes back late. Neighbours: `machines` forks, watches and kills it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from tests.properties.fleet_world.etcd import Away, Life
from wharfinger.fleet.model.fleet import Instance, InstanceState

if TYPE_CHECKING:
    from tests.properties.fleet_world.machines import Machine
    from tests.properties.fleet_world.timeline import Handle
    from tests.properties.fleet_world.world import World

DRAINED, STOPPED, CRASHED, NO_GRANT = 0, 130, 1, 3
"""Exit codes."""


@dataclass(frozen=True, slots=True)
class Behaviour:
    """What instances of a template do."""

    kind: Literal["good", "crashes", "never-ready", "flaps", "cannot-start"] = "good"
    start: float = 1.0
    """Seconds from the fork to its registration."""
    sync: float = 1.0
    """Seconds from there until it is ready."""
    drain: float = 1.0
    """Seconds that it takes to drain."""
    flap: float = 20.0
    """Seconds after it became ready at which a flapping one dies."""


class Process:
    """One life."""

    __slots__ = (
        "_expiry",
        "_looking",
        "_world",
        "alive",
        "behaviour",
        "born",
        "cut",
        "forked",
        "hung",
        "life",
        "machine",
        "ready_before",
        "registered",
        "revision",
        "settle",
        "state",
        "tenant",
    )

    def __init__(
        self, world: World, machine: Machine, tenant: str, life: Life, *, revision: int, settle: float, born: int
    ) -> None:
        self._world = world
        self.machine = machine
        self.tenant = tenant
        self.life = life
        self.revision = revision
        self.settle = settle
        self.born = born
        self.behaviour: Behaviour = world.behaviour(tenant, revision)
        self.alive = True
        self.hung = False
        self.cut = False
        self.registered = False
        self.state: InstanceState = "starting"
        self.ready_before = False
        self.forked = world.timeline.now
        self._expiry: Handle | None = None
        self._looking = False
        world.etcd.watch(tenant, life, self._told)
        world.timeline.after(self.behaviour.start * world.rng.uniform(0.5, 1.5), self._register)

    # --- its own doings -----------------------------------------------------------------------

    @property
    def mute(self) -> bool:
        """Whether it does nothing that others see."""
        return not self.alive or self.hung or self.cut

    def _later(self, act: object) -> None:
        self._world.timeline.after(self._world.rng.uniform(0.5, 1.5), act)  # type: ignore[arg-type]

    def _put(self, state: InstanceState) -> bool:
        """Write its record, comparing its grant; it ends when there is none. False: not now."""
        etcd = self._world.etcd
        shelf = etcd.shelf(self.tenant)
        etcd.check()
        grant = shelf.grants.get(self.life)
        if grant is None or shelf.born[self.life] != self.born:
            self.end(NO_GRANT)
            return False
        if state in ("starting", "ready") and grant.want != "run":
            self._drain()
            return False
        self.state = state
        self.registered = True
        slot, incarnation = self.life
        etcd.put_instance(
            self.tenant,
            self.life,
            Instance(slot, incarnation, state, self.machine.name, self.revision, 0),
            self._world.timeline.now,
            self,
        )
        return True

    def _register(self) -> None:
        if self.mute:
            if self.alive:
                self._later(self._register)
            return
        if self.state == "draining" or self.registered:
            return
        try:
            if not self._put("starting"):
                return
        except Away:
            self._later(self._register)
            return
        kind = self.behaviour.kind
        if kind == "crashes":
            self._later(lambda: self.end(CRASHED))
        elif kind != "never-ready":
            # One whose predecessor crashed stays `starting` for as long as its grant says.
            self._world.timeline.after(self.behaviour.sync + self.settle, self._become_ready)

    def _become_ready(self) -> None:
        if not self.alive or self.state in ("draining", "ready"):
            return
        if self.hung or self.cut or self._world.etcd.down or self._world.temporal.away:
            self._later(self._become_ready)
            return
        if self._put("ready"):
            if self.behaviour.kind == "flaps" and not self.ready_before:
                self._world.timeline.after(self.behaviour.flap, lambda: self.end(CRASHED))
            self.ready_before = True

    def withdraw(self, seconds: float = 0.0) -> None:
        """Temporal cannot be reached: it stops polling, and says so. `seconds`: for how long; 0 = a few."""
        if self.mute or self.state != "ready" or self._world.etcd.down:
            return
        if self._put("withdrawn"):
            self._world.timeline.after(seconds or self._world.rng.uniform(1, 4), self._return)

    def _return(self) -> None:
        if not self.alive or self.state != "withdrawn":
            return
        if self.mute or self._world.etcd.down or self._world.temporal.away:
            self._later(self._return)
            return
        self._put("ready")

    def write_again(self) -> None:
        """It lost its lease while etcd was away, and has another one: its record is written anew."""
        if self.mute or not self.registered or self.life not in self._world.etcd.shelf(self.tenant).instances:
            return
        with suppress(Away):
            self._put(self.state)

    # --- its grant ----------------------------------------------------------------------------

    def _told(self) -> None:
        if not self._looking:
            self._looking = True
            self._world.timeline.after(self._world.rng.uniform(0.01, 0.3), self._look)

    def _look(self) -> None:
        self._looking = False
        if self.mute:
            return
        if self._world.etcd.down:
            self._looking = True
            self._later(self._look)
            return
        shelf = self._world.etcd.shelf(self.tenant)
        grant = shelf.grants.get(self.life)
        if grant is None or shelf.born[self.life] != self.born:
            self.end(NO_GRANT)
        elif grant.want == "drain" and self.state != "draining":
            self._drain()

    def _drain(self) -> None:
        self.state = "draining"
        if self.registered:
            slot, incarnation = self.life
            record = Instance(slot, incarnation, "draining", self.machine.name, self.revision, 0)
            self._world.etcd.put_instance(self.tenant, self.life, record, self._world.timeline.now, self)
        self._world.timeline.after(self.behaviour.drain * self._world.rng.uniform(0.5, 1.5), self._drained)

    def _drained(self) -> None:
        if not self.alive:
            return
        if self.mute or self._world.etcd.down:
            self._later(self._drained)
            return
        self.end(DRAINED)

    # --- its end ------------------------------------------------------------------------------

    def end(self, code: int) -> None:
        """It exits by itself. A clean one gives its lease back."""
        if not self.alive:
            return
        clean = code in (DRAINED, NO_GRANT) and not self._world.etcd.down and not self.cut
        self.die(f"code {code}", "drained" if code == DRAINED else "code", clean=clean)

    def die(self, detail: str, how: str, *, clean: bool = False) -> None:
        """The process is gone; its record as soon as its lease is."""
        if not self.alive:
            return
        self.alive = False
        self._world.etcd.unwatch(self.tenant, self.life, self._told)
        if clean:
            self._world.timeline.cancel(self._expiry)
            self._world.etcd.remove_instance(self.tenant, self.life, self)
        else:
            self._stop_renewing()
        self.machine.ended(self, how, detail)

    def hang(self) -> None:
        """It stops in the middle of everything."""
        if self.alive and not self.hung:
            self.hung = True
            self._stop_renewing()
            self.machine.hanging(self)

    def cut_off(self) -> None:
        """Neither etcd nor Temporal can be reached from it."""
        if self.alive and not self.cut:
            self.cut = True
            self._stop_renewing()

    def come_back(self) -> None:
        """It goes on after a hang or a cut: registers anew, if its grant is still there."""
        if not self.alive or not (self.hung or self.cut):
            return
        self.hung, self.cut = False, self.machine.cut
        if self.cut:
            return
        kept = self._world.etcd.shelf(self.tenant).owners.get(self.life) is self
        self._world.timeline.cancel(self._expiry)
        self._told()
        if kept or not self.registered:
            return  # its lease outlived the trouble
        if self.state in ("ready", "withdrawn"):
            self.state = "withdrawn"
            self._later(self._return)
        elif self.state == "starting" and self.behaviour.kind in ("good", "flaps"):
            self._later(self._become_ready)

    def _stop_renewing(self) -> None:
        if self._expiry is None or self._expiry[2] is None:
            ttl = self._world.lease_ttl
            self._expiry = self._world.timeline.after(self._world.rng.uniform(0.66, 1.0) * ttl, self._expire)

    def _expire(self) -> None:
        if self._world.etcd.down:  # leases live on while etcd is down
            self._expiry = self._world.timeline.after(self._world.lease_ttl, self._expire)
            return
        self._expiry = None
        self._world.etcd.remove_instance(self.tenant, self.life, self)
