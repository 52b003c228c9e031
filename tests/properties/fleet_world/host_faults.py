"""What breaks on hosts, by chance: agents that crash, alone or all at once, hosts that crash, ways that are cut.

Each act is a method, drawn by `Story`; the host that it strikes is drawn here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.properties.fleet_world.machines import Machine
    from tests.properties.fleet_world.world import World


class HostFaults:
    """Of one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rng = world.rng
        self.lasts_until = 0.0
        """When the last agent that is away by now comes back."""

    def crash_agent(self, tenant: str) -> None:
        self._lose_agents([self._rng.choice(list(self._world.machines.values()))])

    def crash_agents(self, tenant: str) -> None:
        """All of the fleet at once; the instances know nothing of it, and fleets may be controlled from elsewhere."""
        self._lose_agents(list(self._world.machines.values()))

    def _lose_agents(self, machines: list[Machine]) -> None:
        """For seconds, or for minutes: a host counts as lost meanwhile."""
        rng, timeline = self._rng, self._world.timeline
        usual = rng.choice((0.5, 5.0, 20.0, 40.0, 105.0, 240.0))
        for machine in machines:
            away = usual * rng.uniform(0.9, 1.1)
            self._world.tell(f"fault: agent of {machine.name} crashes, for {away:.0f} s")
            machine.stop_agent()
            timeline.after(away, machine.start_agent)
            self.lasts_until = max(self.lasts_until, timeline.now + away)

    def crash_host(self, tenant: str) -> None:
        machine = self._rng.choice(list(self._world.machines.values()))
        self._world.tell(f"fault: {machine.name} crashes")
        machine.crash()
        away = self._rng.choice((5.0, 30.0, 90.0, 200.0))
        if self._rng.random() < 0.4:
            self._world.tell(f"fault: {machine.name} comes back with another disk")
            machine.lose_disk()
        self._world.timeline.after(away, machine.reboot)

    def cut_host(self, tenant: str) -> None:
        machine = self._rng.choice(list(self._world.machines.values()))
        self._world.tell(f"fault: {machine.name} is cut off")
        machine.cut_off()
        self._world.timeline.after(self._rng.choice((5.0, 30.0, 90.0, 200.0)), machine.rejoin)

    def cut_hosts(self, tenant: str) -> None:
        """All but one at once, as when a network breaks in two."""
        away = self._rng.choice((30.0, 90.0, 200.0))
        machines = list(self._world.machines.values())
        kept = self._rng.choice(machines)
        for machine in machines:
            if machine is not kept:
                self._world.tell(f"fault: {machine.name} is cut off with the others, for {away:.0f} s")
                machine.cut_off()
                self._world.timeline.after(away, machine.rejoin)
        self.lasts_until = max(self.lasts_until, self._world.timeline.now + away)
