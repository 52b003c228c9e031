"""In which topology domains a gang is tried, the best first.

Cheap bounds before dear tries. A domain whose free resources cannot hold what is required is not tried at all. The
others go by the points that they can have at most. Among equal ones, one evaluation of the first member, over all
nodes, shows which domain suits the gang.

The points of a domain are kube-scheduler's: the sum of two parts of at most 100, as PodGroupPodsCount and
NodeResourcesFit give them to a placement with their default weights. These are how many members it takes, and how full
it would be with them (MostAllocated over cpu and memory of all its nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wharfinger.framework.columns import IntColumn
from wharfinger.framework.domain import Domain, domain
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import Wanted
from wharfinger.objects.model.node import CPU, MEMORY, PODS
from wharfinger.objects.model.pod import Pod

MOST_DOMAINS = 64
"""Domains that are tried; those without enough room are left out before."""
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
    timed: bool = False


@dataclass(frozen=True, slots=True)
class DomainToTry:
    """A domain to try."""

    domain: Domain | None
    """None stands for anywhere."""
    bound: int = 0
    """Points that it has at most."""
    score: Callable[[Sequence[Pod]], int] = lambda _placed: 0
    """Its points with these members placed there."""


ANYWHERE = DomainToTry(None)


@dataclass(frozen=True, slots=True)
class Where:
    """Domains, the best first."""

    roomy: Sequence[DomainToTry]
    """Those that may hold the gang as they are; if none may, the roomiest, for what can be said of it."""
    every: Sequence[Domain | None]
    """Those where room may be made; None stands for anywhere."""


def domains_for(engine: Engine) -> Where:
    """The domains to try.

    Members that are bound fix it: the domain that most of them are in. Otherwise the domain goes first that takes most
    members and is fullest with them, by its free resources. Those that cannot hold what is required are left out.
    """
    wanted, snapshot = engine.wanted, engine.snapshot
    if not wanted.topology_keys:
        return Where([ANYWHERE], [None])
    fixed = _domain_of(wanted, snapshot)
    if fixed is not None:
        return Where([DomainToTry(fixed)], [fixed])
    found = _partition(snapshot, wanted.topology_keys)
    codes = np.unique(found.codes)
    codes = codes[codes != 0]
    if len(codes) == 0:
        return Where([], [])
    least = _least_requests(wanted.members)
    plain = {name: amount for name, amount in least.items() if name in _PLAIN}
    if _FIT not in engine.profile.at.get("filter", ()):
        plain = {}

    def held(least: dict[str, int], *, empty: bool = False) -> NDArray[np.float64]:
        """By domain: how many pods with these requests it holds at most."""
        capacity = _capacity(snapshot, least, empty=empty)
        return np.bincount(found.codes, weights=capacity, minlength=len(found.values)).astype(np.float64)

    free = held(least)
    likes = _likes(engine, found.codes, len(free))
    # `free` may be too low, because NodeResourcesFit may ignore some of the resources. A domain that fits holds at
    # least what is required, and a bound that is too low would end the tries before a better domain.
    holds = np.clip(free, wanted.required, len(wanted.members)).astype(np.int64)
    packs = any(_FIT in engine.profile.at.get(point, ()) for point in ("filter", "score"))
    most = int(holds[codes].max())
    packing = Packing(snapshot, found.codes, len(free), wanted.members, packs=packs, most=most)
    bounds = packing.bounds(holds).tolist()

    def suiting(code: int) -> tuple[bool, float, Sequence[str]]:
        return bool(free[code] < wanted.required), -likes[code], found.values[code]

    def candidate(code: int) -> DomainToTry:
        return DomainToTry(some([code])[0], bounds[code], lambda placed: packing.score(code, placed))

    def some(these: list[int]) -> list[Domain]:
        keys, values = wanted.topology_keys, found.values
        return [Domain(tuple(zip(keys, values[code], strict=True)), found.codes == code) for code in these]

    best_first = sorted(codes.tolist(), key=suiting)
    fits, empty = held(plain) >= wanted.required, held(plain, empty=True) >= wanted.required
    first = sorted(
        [code for code in best_first if fits[code]], key=lambda code: (free[code] < wanted.required, -bounds[code])
    )
    roomy = first[:MOST_DOMAINS] or [max(best_first, key=lambda code: free[code])]
    return Where([candidate(code) for code in roomy], some([code for code in best_first if empty[code]][:MOST_DOMAINS]))


class _Partition(NamedTuple):
    """Which domain each node is in."""

    codes: NDArray[np.int32]
    """By row; 0 = in none, because a label is missing."""
    values: Sequence[tuple[str, ...]]
    """By code: the labels' values."""


def _partition(snapshot: Snapshot, keys: Sequence[str]) -> _Partition:
    """The nodes by their values of these labels."""
    columns = [snapshot.label(key) for key in keys]
    if len(columns) == 1:
        return _Partition(columns[0].codes, [(str(value),) for value in columns[0].values])
    stacked = np.stack([column.codes for column in columns], axis=1)
    everywhere = stacked.all(axis=1)
    combined, numbers = np.unique(stacked[everywhere], axis=0, return_inverse=True)
    codes = np.zeros(len(snapshot), dtype=np.int32)
    codes[everywhere] = numbers.reshape(-1) + 1
    values = [tuple([str(column.values[code]) for column, code in zip(columns, row, strict=True)]) for row in combined]
    return _Partition(codes, [tuple([""] * len(columns)), *values])


def _likes(engine: Engine, codes: NDArray[np.int32], size: int) -> NDArray[np.float64]:
    """By code: the mean total of a domain's best nodes for the first member, as many as are required; -1 for none."""
    first = engine.profile.evaluate(
        engine.wanted.members[0], engine.snapshot, preempt=False, preference=engine.preference
    )
    rows, totals = first.totals()
    domain_of = codes[rows]
    order = np.lexsort((-totals, domain_of))
    domain_of, totals = domain_of[order], totals[order]
    places = np.arange(len(order)) - np.searchsorted(domain_of, domain_of)  # 0 for the best of each domain
    best = places < engine.wanted.required
    counts = np.bincount(domain_of[best], minlength=size)
    sums = np.bincount(domain_of[best], weights=totals[best], minlength=size)
    return np.where(counts > 0, sums / np.maximum(counts, 1), -1.0)


def _domain_of(wanted: Wanted, snapshot: Snapshot) -> Domain | None:
    """Where most of the bound members are; of equally many, the first by name."""
    there: dict[tuple[str, ...], int] = {}
    for pod in wanted.bound:
        node = snapshot.node(pod.node_name)
        if node is not None and all(key in node.labels for key in wanted.topology_keys):
            values = tuple([node.labels[key] for key in wanted.topology_keys])
            there[values] = there.get(values, 0) + 1
    if not there:
        return None
    most = min(there, key=lambda values: (-there[values], values))
    return domain(snapshot, zip(wanted.topology_keys, most, strict=True))


def _least_requests(members: Sequence[Pod]) -> dict[str, int]:
    """What each member requests at least."""
    least = {name: min(pod.requests.get(name, 0) for pod in members) for name in members[0].requests}
    return {name: amount for name, amount in least.items() if amount > 0} | {PODS: 1}


def _capacity(snapshot: Snapshot, least: dict[str, int], *, empty: bool = False) -> IntColumn:
    """By row: how many pods with these requests fit at most, beside those that are there or on the node alone.

    A resource that no node offers is left out: it is either judged in another way, or fits nowhere.
    """
    most: IntColumn = np.full(len(snapshot), np.iinfo(np.int32).max, dtype=np.int64)
    for name, amount in least.items():
        allocatable = snapshot.allocatable(name)
        if name not in _PLAIN and not allocatable.any():
            continue
        room = allocatable - (0 if empty else snapshot.requested(name))
        most = np.minimum(most, np.maximum(room, 0) // amount)
    return most


_ALL_POINTS = 100
_RESOURCES: Mapping[str, Callable[[Pod], int]] = {
    CPU: lambda pod: pod.scoring_cpu,
    MEMORY: lambda pod: pod.scoring_memory,
}
"""Resources by whose use it is judged how full a domain is, and what a pod counts for."""


class Packing:
    """Scores for all domains of one decision."""

    def __init__(
        self, snapshot: Snapshot, codes: NDArray[np.int32], size: int, members: Sequence[Pod], *, packs: bool, most: int
    ) -> None:
        """`codes`: each node's domain, below `size`. `packs`: whether it counts how full a domain would be.

        `most`: the number of members that counts as all points, the most that any domain can take.
        """
        self._most = max(1, most)
        self._resources = [
            _Resource(
                request,
                members,
                capacity=_sums(snapshot.allocatable(name), codes, size),
                used=_sums(snapshot.requested_for_scoring(name), codes, size),
            )
            for name, request in (_RESOURCES.items() if packs else ())
        ]

    def score(self, code: int, placed: Sequence[Pod]) -> int:
        """The points of a domain with these members."""
        shares = [one.share(code, sum(map(one.request, placed))) for one in self._resources if one.capacity[code] > 0]
        full = sum(shares) // len(shares) if shares else 0
        return _ALL_POINTS * len(placed) // self._most + full

    def bounds(self, counts: IntColumn) -> IntColumn:
        """By domain: the points that it has at most with so many of the members, whichever they are."""
        points = np.zeros_like(counts)
        offered = np.zeros_like(counts)
        for one in self._resources:
            there = one.capacity > 0
            # Whichever members are placed there, they request no more than the largest ones.
            use = np.minimum(one.used + one.largest[counts], one.capacity)
            points += np.where(there, _ALL_POINTS * use // np.maximum(one.capacity, 1), 0)
            offered += there
        return _ALL_POINTS * counts // self._most + points // np.maximum(offered, 1)


class _Resource:
    """One resource, summed over each domain."""

    def __init__(
        self, request: Callable[[Pod], int], members: Sequence[Pod], *, capacity: IntColumn, used: IntColumn
    ) -> None:
        """`request`: what a pod counts for. `capacity` and `used`: by domain."""
        self.request = request
        self.largest: IntColumn = np.cumsum([0, *sorted(map(request, members), reverse=True)], dtype=np.int64)
        """By number of members: what so many request at most."""
        self.capacity = capacity
        self.used = used

    def share(self, code: int, request: int) -> int:
        """Percent of the capacity in use with this request, rounded down; at most 100."""
        capacity = int(self.capacity[code])
        return _ALL_POINTS * min(int(self.used[code]) + request, capacity) // capacity


def _sums(column: IntColumn, codes: NDArray[np.int32], size: int) -> IntColumn:
    sums: IntColumn = np.zeros(size, dtype=np.int64)
    np.add.at(sums, codes, column)
    return sums
