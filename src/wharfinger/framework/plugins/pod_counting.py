"""How many pods of a namespace match a label selector on each node, kept from one decision to the next.

A selector is made into a quick test once; then only the pods of nodes that changed are looked at again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.row_memo import DomainSums
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement

LabelTest: TypeAlias = "Callable[[Mapping[str, str]], bool]"
_LISTS = (Operator.IN, Operator.NOT_IN)
_PRESENCE = (Operator.EXISTS, Operator.DOES_NOT_EXIST)
_ABSENT: frozenset[str | None] = frozenset({None})
_MANY = 8
"""Requirements; with more of them the labels are gone through instead."""
_TALLIES = 1024
_NUMBERS = 2_000_000
"""Numbers per node that are kept at most, in all tallies together (16 MB; sums and stamps come on top)."""


def label_test(selector: LabelSelector) -> LabelTest:
    """The selector's `matches`, several times faster; with thousands of requirements, as fast as with a few."""
    requirements = selector.requirements
    if any(each.operator not in (*_LISTS, *_PRESENCE) for each in requirements):
        return selector.matches
    tests = [_among(each) for each in requirements]
    if len(tests) == 1 and tests[0][2]:
        key, values, _ = tests[0]
        return lambda labels: labels.get(key) in values
    if len(tests) > _MANY:
        return _label_by_label(tests)

    def matches(labels: Mapping[str, str]) -> bool:
        for key, values, wanted in tests:  # noqa: SIM110 - a loop is faster than a generator
            if (labels.get(key) in values) is not wanted:
                return False
        return True

    return matches


def _label_by_label(tests: Sequence[tuple[str, frozenset[str | None], bool]]) -> LabelTest:
    """All tests at once, asked of the labels that there are."""
    allowed: dict[str, frozenset[str | None]] = {}
    refused: dict[str, set[str | None]] = {}
    for key, values, wanted in tests:
        if wanted:
            allowed[key] = allowed[key] & values if key in allowed else values
        else:
            refused.setdefault(key, set()).update(values)
    needed = {key for key, values in allowed.items() if None not in values}
    needed.update(key for key, values in refused.items() if None in values)

    def matches(labels: Mapping[str, str]) -> bool:
        if len(needed) > len(labels) or not labels.keys() >= needed:
            return False
        for key, value in labels.items():
            if key in allowed and value not in allowed[key]:
                return False
            if key in refused and value in refused[key]:
                return False
        return True

    return matches


def _among(requirement: Requirement) -> tuple[str, frozenset[str | None], bool]:
    """The requirement as: the value (None where there is none) must, or must not, be among these."""
    values: frozenset[str | None] = _ABSENT if requirement.operator in _PRESENCE else frozenset(requirement.values)
    return requirement.key, values, requirement.operator in (Operator.IN, Operator.DOES_NOT_EXIST)


def pods_matching(namespace: str, selector: LabelSelector) -> Callable[[NodeInfo], int]:
    """Counts a node's pods of the namespace that match and are not being deleted."""
    matches = label_test(selector)

    def count(info: NodeInfo) -> int:
        found = 0
        for pod in info.pods.values():
            if pod.namespace == namespace and not pod.deletion_timestamp and matches(pod.labels):
                found += 1
        return found

    return count


class PodTallies:
    """Tallies by namespace and selector; those asked for least recently are dropped."""

    def __init__(self, tallies: int = _TALLIES, numbers: int = _NUMBERS) -> None:
        """At most so many tallies, and so many numbers per node in all of them together (one tally always stays)."""
        self._most_tallies = tallies
        self._most_numbers = numbers
        self._tallies: OrderedDict[tuple[str, LabelSelector], DomainSums] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tallies)

    def tally(self, snapshot: Snapshot, namespace: str, selector: LabelSelector) -> DomainSums:
        """The tally of matching pods; for a snapshot of one node, which is gone again at once, a passing one."""
        if len(snapshot) <= 1:
            return DomainSums(pods_matching(namespace, selector))
        key = namespace, selector
        tally = self._tallies.get(key)
        if tally is not None:
            self._tallies.move_to_end(key)
            return tally
        most = max(1, min(self._most_tallies, self._most_numbers // len(snapshot)))
        while len(self._tallies) >= most:
            self._tallies.popitem(last=False)
        tally = self._tallies[key] = DomainSums(pods_matching(namespace, selector))
        return tally
