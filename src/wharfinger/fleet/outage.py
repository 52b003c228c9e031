"""Whether many hosts were lost at once, which is more often a cut network than so many broken machines.

What is behind the cut may live on, and be back in a moment with all of its instances: what is given up meanwhile ends.
So what such hosts had is repaired one slot at a time, until a person says of a host that it is gone for good.
Neighbours: `fleet.seeing` remembers which hosts there were, `fleet.leaving` goes slowly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wharfinger.fleet.lives import EPSILON
from wharfinger.model.fleet import Observed
from wharfinger.model.rollout import HOST_LOST, KnownHost, Memory

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
    for begin, _ in gone:
        together = {host for moment, host in gone if begin <= moment <= begin + HOST_LOST + EPSILON}
        if 2 * len(together) > len(known):
            found |= together
    return frozenset(found)
