"""In which topology domains a gang is tried, the best first.

Cheap bounds before dear tries: a domain whose free resources cannot hold what is required is not tried at all; and one
evaluation of the first member, over all nodes, tells which domain the whole gang will like.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.domain import Domain, domain, domains
from wharfinger.framework.profile import Profile
from wharfinger.framework.scoring import Preference
from wharfinger.framework.snapshot import Snapshot
from wharfinger.model.gang import Wanted
from wharfinger.model.node import CPU, MEMORY, PODS
from wharfinger.model.pod import Pod

_FIT = "NodeResourcesFit"
_PLAIN = (CPU, MEMORY, PODS)
"""Resources that no argument of NodeResourcesFit takes out of its sight."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What every try has in common."""

    profile: Profile
    wanted: Wanted
    snapshot: Snapshot
    preference: Preference | None


@dataclass(frozen=True, slots=True)
class Where:
    """Domains, the best first; None stands for anywhere."""

    roomy: Sequence[Domain | None]
    """Those that may hold the gang as they are; if none may, the roomiest, for what can be said of it."""
    every: Sequence[Domain | None]
    """Those where room may be made."""


@dataclass(frozen=True, slots=True)
class _Ranked:
    domain: Domain
    room: int
    """Members that its free resources hold, at most."""
    roomy: bool
    """Whether that is enough."""
    possible: bool
    """Whether it is as far as resources go that no profile leaves out."""
    likes: float
    """Mean total of its best nodes for the first member, as many as are required; -1 = none is feasible."""

    @property
    def key(self) -> tuple[bool, float, str]:
        """Sorts the best first."""
        return not self.roomy, -self.likes, self.domain.value


def domains_for(engine: Engine) -> Where:
    """The domains to try.

    Members that are bound fix it: the domain that most of them are in. Otherwise the nodes that are best for the first
    member tell which domain the whole gang will like; those whose free resources cannot hold it are left out.
    """
    wanted, snapshot = engine.wanted, engine.snapshot
    fixed = _domain_of(wanted, snapshot)
    found = [fixed] if fixed is not None else domains(snapshot, wanted.topology_key)
    if len(found) <= 1:
        return Where(found, found)
    least = _least_requests(wanted.members)
    capacity = _capacity(snapshot, least)
    plain = _capacity(snapshot, {name: amount for name, amount in least.items() if name in _PLAIN})
    checked = _FIT in engine.profile.at.get("filter", ())
    first = engine.profile.evaluate(wanted.members[0], snapshot, preempt=False, preference=engine.preference)
    rows, totals = first.totals()
    every = []
    for one in found:
        likes = np.sort(totals[one.rows[rows]])[::-1][: wanted.required]
        every.append(
            _Ranked(
                one,
                room=int(capacity[one.rows].sum()),
                roomy=int(capacity[one.rows].sum()) >= wanted.required,
                possible=not checked or int(plain[one.rows].sum()) >= wanted.required,
                likes=float(likes.mean()) if len(likes) else -1.0,
            )
        )
    every.sort(key=lambda one: one.key)
    possible = [one.domain for one in every if one.possible]
    return Where(possible or [max(every, key=lambda one: one.room).domain], [one.domain for one in every])


def _domain_of(wanted: Wanted, snapshot: Snapshot) -> Domain | None:
    """Where most of the bound members are; of equally many, the first by name."""
    there: dict[str, int] = {}
    for pod in wanted.bound:
        node = snapshot.node(pod.node_name)
        value = node.labels.get(wanted.topology_key) if node is not None else None
        if value is not None:
            there[value] = there.get(value, 0) + 1
    if not there:
        return None
    return domain(snapshot, wanted.topology_key, min(there, key=lambda value: (-there[value], value)))


def _least_requests(members: Sequence[Pod]) -> dict[str, int]:
    """What each member requests at least."""
    least = {name: min(pod.requests.get(name, 0) for pod in members) for name in members[0].requests}
    return {name: amount for name, amount in least.items() if amount > 0} | {PODS: 1}


def _capacity(snapshot: Snapshot, least: dict[str, int]) -> IntColumn:
    """By row: how many pods with these requests fit beside those that are there, at most."""
    room = [
        np.maximum(snapshot.allocatable(name) - snapshot.requested(name), 0) // amount for name, amount in least.items()
    ]
    most: IntColumn = np.minimum.reduce(room)
    return most
