"""What a worker had assumed, where the record has a digest of it and no names.

The worker's earlier decisions say what it may have assumed, and etcd what of that had ended. What neither says is left
to the digest: a placement that was given up, or a pod that another worker decided and this one bound. As the digest is
a sum, the difference of two sums says which few pods are too many or missing. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from wharfinger.cache.assumptions import MASK, mark, parsed
from wharfinger.model.pod import PodIdentity

MOST_FOR_THREE = 400
"""Pods in question, up to which three of them are tried together: ten million sums."""


@dataclass(frozen=True, slots=True)
class Correction:
    """One pod that is to be assumed, or not to be assumed, on a node."""

    identity: PodIdentity
    node: str
    assumed: bool

    @property
    def count(self) -> int:
        """What it adds to the number of pods."""
        return 1 if self.assumed else -1

    @property
    def total(self) -> int:
        """What it adds to the sum."""
        added = mark(f"{self.identity.namespace}/{self.identity.name}", self.identity.create_revision, self.node)
        return added if self.assumed else -added


def corrections(
    ours: str, recorded: str, assumed: Iterable[tuple[PodIdentity, str]], others: Iterable[tuple[PodIdentity, str]]
) -> tuple[Correction, ...] | None:
    """What turns the one digest into the other: at most three corrections; None = it is not found.

    `assumed`: what makes our digest; `others`: what may be missing from it.
    """
    count, total = _difference(ours, recorded)
    if not count and not total:
        return ()
    possible = [Correction(*one, assumed=False) for one in assumed]
    possible += [Correction(*one, assumed=True) for one in others]
    for found in _sums(possible, total):
        if sum(one.count for one in found) == count:
            return found
    return None


def _difference(ours: str, recorded: str) -> tuple[int, int]:
    (count, total), (wanted, target) = parsed(ours), parsed(recorded)
    return wanted - count, (target - total) & MASK


def _sums(possible: Sequence[Correction], target: int) -> Iterator[tuple[Correction, ...]]:
    """The ways to reach the target by one, by two and by three of them."""
    totals = [one.total & MASK for one in possible]
    place_of = {total: place for place, total in enumerate(totals)}
    if target in place_of:
        yield (possible[place_of[target]],)
    for first, total in enumerate(totals):
        second = place_of.get((target - total) & MASK)
        if second is not None and second > first:
            yield possible[first], possible[second]
    if len(possible) > MOST_FOR_THREE:
        return
    for first, second in combinations(range(len(possible)), 2):
        third = place_of.get((target - totals[first] - totals[second]) & MASK)
        if third is not None and third > second:
            yield possible[first], possible[second], possible[third]
