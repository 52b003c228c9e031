"""Where an instance goes, and which hosts are lost.

A new instance goes to a live, uncordoned host that has the install and room. Among these the planner takes the host
with the fewest slots of this fleet, so that the loss of one host costs few slots, then the host with the fewest
instances of all fleets. The instances that this plan starts count too.

A host is lost when its record has been absent for `Asked.host_lost` observed seconds *and* its task queue was silent.
One of the two alone may be a network fault. When more than half of the known hosts vanish together, a cut network is
more likely than that many broken machines, and the instances may still live. `deciding.leaving` then repairs their
slots one at a time, until an operator confirms that a host is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from wharfinger.fleet.model.fleet import HOST_LOST, Host, Observed
from wharfinger.fleet.model.rollout import EPSILON, KnownHost, Memory

FEWEST = 3
"""Known hosts below which no loss counts as one of many."""
FORGOTTEN = 3600.0
"""Seconds after which a host that is gone is not known any more, once nothing of the fleet is on any such host."""
MOST = 500
"""Hosts that are remembered."""


def known_hosts(observed: Observed, memory: Memory, occupied: Iterable[str]) -> tuple[KnownHost, ...]:
    """Hosts that are there, and those that went, each with when it did.

    Args:
        observed: the present look.
        memory: of the look before.
        occupied: hosts that have an instance of the fleet.
    """
    present = {host.name for host in observed.hosts}
    before = {one.host: one for one in memory.known}
    if before.keys() == present and present.issuperset(occupied) and all(one.gone is None for one in memory.known):
        return memory.known
    missing = (before.keys() | set(occupied)) - present - {""}
    needed = not missing.isdisjoint(occupied)
    known = [KnownHost(host) for host in present]
    for host in missing:
        gone = before[host].gone if host in before else None
        gone = memory.clock if gone is None else gone
        if needed or memory.clock - gone < FORGOTTEN:
            known.append(KnownHost(host, gone))
    return tuple(sorted(known, key=lambda one: one.host)[:MOST])


def lost_together(known: Sequence[KnownHost]) -> frozenset[str]:
    """The hosts that went within `HOST_LOST` seconds of each other, where that are more than half of all."""
    gone = sorted((one.gone, one.host) for one in known if one.gone is not None)
    found: set[str] = set()
    if len(known) < FEWEST or 2 * len(gone) <= len(known):
        return frozenset()
    for begin, _ in gone:  # hosts that went one by one over days were not cut off together
        together = {host for moment, host in gone if begin <= moment <= begin + HOST_LOST + EPSILON}
        if 2 * len(together) > len(known):
            found |= together
    return frozenset(found)


class Hosts:
    """The hosts of one look; counts what the plan puts on them."""

    def __init__(self, observed: Observed, memory: Memory, host_lost: float) -> None:
        """`host_lost`: seen seconds without its record after which a host may be lost."""
        self._observed = observed
        self._hosts = sorted(observed.hosts, key=lambda host: host.name)
        self._load = {host.name: host.instances for host in self._hosts}
        self._avoided = {cordon.host for cordon in observed.cordons}
        self._left = {cordon.host for cordon in observed.cordons if cordon.action == "drain"}
        self._missing = {missing.host: missing.since for missing in memory.hosts}
        self._silent = {silent.host for silent in memory.silent_hosts}
        self.known = len(memory.known)
        """Hosts that are there, or were not long ago."""
        self.together = lost_together(memory.known) - set(observed.lost)
        """Those that went with most others at once, and that no operator confirmed as lost."""
        self._clock = memory.clock
        self._host_lost = host_lost
        self._crowded = {host.name for host in self._hosts if 0 < host.capacity < host.instances}

    @cached_property
    def _places(self) -> dict[int, str]:
        """By slot the host of its newest instance: the one before it goes."""
        observed = self._observed
        ended = {(end.slot, end.incarnation) for end in observed.exits}
        granted = sorted(
            (grant.slot, grant.incarnation, grant.host) for grant in observed.grants if grant.want == "run"
        )
        return {slot: host for slot, incarnation, host in granted if (slot, incarnation) not in ended}

    @cached_property
    def _own(self) -> Counter[str]:
        """By host the slots of this fleet."""
        return Counter(self._places.values())

    def choose(self, version: str, *, slot: int, shunned: str = "", leaving: str = "") -> str:
        """The best host for a version, empty when there is none.

        Args:
            slot: whose newest instance it will be: where that is now does not matter.
            version: the install that it must have; empty = the agent's own, which all have.
            shunned: a host that is taken only when there is no other (the last start failed there).
            leaving: a host that will have one instance less by then.
        """
        place = self._places.get(slot)

        def order(name: str) -> tuple[bool, bool, int, int, str]:
            own = self._own[name] - (name == place)  # the slot's instance there goes, so it is no loss beside this one
            return name == shunned, name in self._silent, own, self._load[name], name

        fitting = (host.name for host in self._hosts if self._fits(host, version, leaving))
        return min(fitting, key=order, default="")

    def take(self, name: str, slot: int) -> None:
        """An instance goes there by this plan."""
        self._own[self._places.get(slot, "")] -= 1
        self._own[name] += 1
        self._places[slot] = name
        if name in self._load:
            self._load[name] += 1

    def leave(self, name: str) -> None:
        """An ended instance's grant there is cleared by this plan."""
        if name in self._load:
            self._load[name] = max(self._load[name] - 1, 0)

    def why_none(self, version: str) -> str:
        """Why there is no host for a version."""
        having = [host for host in self._hosts if not version or version in host.installs]
        if not self._hosts:
            return "no host is there"
        if not having:
            return f"no host has version {version}: start an agent with --install {version}=PATH"
        if all(host.name in self._avoided for host in having):
            return "every host that could take it is cordoned"
        return "every host that could take it is full"

    def crowded(self, name: str) -> bool:
        """Whether more is granted there than it takes: fleets do not wait for each other's grants."""
        return name in self._crowded

    def being_left(self, name: str) -> bool:
        """Whether its instances are to go elsewhere."""
        return name in self._left

    def lost(self, name: str) -> bool:
        """Whether nothing of it will answer any more."""
        return self.missing_long(name) and name in self._silent

    def missing(self, name: str) -> bool:
        """Whether it has no agent."""
        return name in self._missing

    def missing_long(self, name: str) -> bool:
        """Whether its record is absent for so long that its queue is to be asked."""
        since = self._missing.get(name)
        return since is not None and self._clock - since >= self._host_lost - EPSILON

    def silent(self, name: str) -> bool:
        """Whether its queue did not answer of late."""
        return name in self._silent

    def judged_at(self) -> list[float]:
        """Moments of the clock at which a missing host will have been missing for long."""
        return [since + self._host_lost for since in self._missing.values()]

    def _fits(self, host: Host, version: str, leaving: str) -> bool:
        load = self._load[host.name] - (host.name == leaving)
        return (
            host.name not in self._avoided
            and (not version or version in host.installs)
            and (host.capacity == 0 or load < host.capacity)
        )
