"""Hosts and their agents: the host's queue, forks, kills, words on how processes ended.

An agent that crashes leaves its processes alive and finds them again by their locks; a host that crashes takes them
along. What was ever started is on the host's disk. Neighbours: `process`, and `control`, whose steps end here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.properties.fleet_world.etcd import Away, Life
from tests.properties.fleet_world.process import Process
from wharfinger.fleet.model.fleet import Exit, Host

if TYPE_CHECKING:
    from tests.properties.fleet_world.timeline import Handle
    from tests.properties.fleet_world.world import World

Ended = tuple[str, str, float]
"""(how, detail, lived)"""
HOST_CRASHED = "host crashed"


class Refused(Exception):
    """The host cannot start it, and says why; trying again there is no use."""


class NoRoom(Exception):
    """Not now."""


class Machine:
    """One host."""

    def __init__(self, world: World, name: str, *, installs: tuple[str, ...] = (), capacity: int = 0) -> None:
        self._world = world
        self.name = name
        self.installs = installs
        self.capacity = capacity
        self.up = True
        self.agent = False
        self.polling = False
        self.cut = False
        """Whether it is cut off in both directions."""
        self.running: dict[tuple[str, Life], Process] = {}
        self.finished: dict[tuple[str, Life, int], Ended] = {}
        """On its disk: lives that were started here and are over, by their grant's create revision too."""
        self.queue: list[Callable[[], object]] = []
        self._record: Handle | None = None
        """When the agent's lease ends, once it is not renewed."""

    # --- the agent ----------------------------------------------------------------------------

    def start_agent(self) -> None:
        """Take the name as soon as it is free, report what ended meanwhile, then serve."""
        if self.agent or self.cut or not self.up:
            return
        self.agent = True
        self._world.agent_started()
        self._serve()

    def _serve(self) -> None:
        if not self.agent or self.polling:
            return
        etcd = self._world.etcd
        if etcd.down or self.name in etcd.hosts:
            self._world.timeline.after(1.0, self._serve)
            return
        etcd.put_host(Host(self.name, self.installs, self.capacity), self.name)
        self.polling = True
        for tenant, shelf in etcd.shelves.items():
            for life, grant in list(shelf.grants.items()):
                ended = self.finished.get((tenant, life, shelf.born[life]))
                if grant.host == self.name and ended is not None:
                    self._tell(tenant, life, shelf.born[life], ended)
        waiting, self.queue = self.queue, []
        for task in waiting:
            self._world.timeline.after(self._world.rng.uniform(0.0, 0.5), task)

    def stop_agent(self) -> None:
        """It is gone without a word; its record as soon as its lease is."""
        if not self.agent:
            return
        self.agent = False
        if self.polling:
            self.polling = False
            ttl = self._world.lease_ttl
            self._record = self._world.timeline.after(self._world.rng.uniform(0.66, 1.0) * ttl, self._expire)

    def _expire(self) -> None:
        if self._world.etcd.down:
            self._record = self._world.timeline.after(self._world.lease_ttl, self._expire)
            return
        self._world.etcd.put_host(None, self.name)

    # --- the host -----------------------------------------------------------------------------

    def crash(self) -> None:
        """Everything on it is gone."""
        if self.up:
            self.up = False
            self.stop_agent()
            for process in list(self.running.values()):
                process.die(HOST_CRASHED, "signal")

    def lose_disk(self) -> None:
        """No file shows what ever ran here."""
        self.finished.clear()

    def reboot(self) -> None:
        """It is back, and its agent."""
        self.up = True
        self.start_agent()

    def cut_off(self) -> None:
        """It is cut off in both directions; what runs there runs on."""
        self.cut = True
        self.stop_agent()
        for process in self.running.values():
            process.cut_off()

    def rejoin(self) -> None:
        """The network is back."""
        self.cut = False
        self.start_agent()
        for process in list(self.running.values()):
            process.come_back()

    # --- what the host's queue asks -----------------------------------------------------------

    def create(self, tenant: str, life: Life) -> str:
        """Fork, or find that it runs: `created`, `not-granted` or `ended`. Raises `Away`, `Refused`, `NoRoom`."""
        self._world.etcd.check()
        shelf = self._world.etcd.shelf(tenant)
        if (tenant, life) in self.running and self.running[tenant, life].born == shelf.born.get(life):
            return "created"
        grant = shelf.grants.get(life)  # read right before the fork
        if grant is None or grant.want != "run" or grant.host != self.name:
            return "not-granted"
        born = shelf.born[life]
        ended = self.finished.get((tenant, life, born))
        if ended is not None:
            self._tell(tenant, life, born, ended)
            return "ended"
        if self._world.behaviour(tenant, grant.revision).kind == "cannot-start":
            self._world.judge.refused(tenant, life)
            raise Refused("the executable cannot be run")
        if self.capacity and len(self.running) >= self.capacity:
            raise NoRoom
        if (tenant, life) in self.running:  # of a fleet that was deleted and made again: its own watch ends it
            raise NoRoom
        self.running[tenant, life] = Process(
            self._world,
            self,
            tenant,
            life,
            revision=grant.revision,
            settle=self._world.settle_of(tenant) if grant.settle else 0.0,
            born=born,
        )
        self._world.judge.forked(tenant, life, grant)
        return "created"

    def kill(self, tenant: str, life: Life) -> bool:
        """SIGKILL to that incarnation, if it runs. Raises `Away`."""
        self._world.etcd.check()
        process = self.running.get((tenant, life))
        if process is not None:
            self._world.judge.killed(tenant, life, process)
            process.die("killed", "signal")
            return True
        born = self._world.etcd.shelf(tenant).born.get(life)
        if born is not None:  # a create that comes later finds its end
            ended = self.finished.setdefault((tenant, life, born), ("never-started", "", 0.0))
            self._tell(tenant, life, born, ended)
        return False

    # --- how processes end --------------------------------------------------------------------

    def ended(self, process: Process, how: str, detail: str) -> None:
        """Its child is gone."""
        del self.running[process.tenant, process.life]
        ended: Ended = (how, detail, self._world.timeline.now - process.forked)
        key = (process.tenant, process.life, process.born)
        self.finished[key] = ended
        if self.agent:
            self._world.timeline.after(self._world.rng.uniform(0.01, 0.5), self._tell, *key, ended)

    def hanging(self, process: Process) -> None:
        """Its probe fails three times, if it does not come back before."""
        self._world.timeline.after(30.0, self._probe, process)

    def _probe(self, process: Process) -> None:
        if process.alive and process.hung:
            if self.agent:
                process.die("probe failed", "probe")
            else:
                self._world.timeline.after(10.0, self._probe, process)

    def _tell(self, tenant: str, life: Life, born: int, ended: Ended) -> None:
        """The exit record, while the grant is there."""
        if not self.polling:
            return  # the next agent tells
        etcd = self._world.etcd
        shelf = etcd.shelf(tenant)
        grant = shelf.grants.get(life)
        if grant is None or grant.host != self.name or shelf.born[life] != born:
            return
        how, detail, lived = ended
        planned = grant.want == "drain" or how == "drained"
        record = Exit(
            *life, how=how, detail=detail, lived=lived, planned=planned, host_restarted=detail == HOST_CRASHED
        )  # type: ignore[arg-type]
        try:
            if etcd.put_exit(tenant, life, record):
                self._world.judge.newcomers.reported(shelf, record)
        except Away:
            self._world.timeline.after(1.0, self._tell, tenant, life, born, ended)
