"""What a pod's terms about other pods select, and a way to find the terms that select a given pod.

Namespaces are looked up as kube-scheduler does it: those that the terms of the pod to be placed select are known by
name before anything is counted, so counts stay true when a namespace gets other labels.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, PodAffinityTerm
from wharfinger.objects.model.surroundings import Namespace, Surroundings

K = TypeVar("K")
_NOWHERE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Selection:
    """Pods of some namespaces whose labels match."""

    selector: LabelSelector
    namespaces: frozenset[str] | None
    """By name; None = every namespace."""

    def selects(self, pod: Pod) -> bool:
        """Whether the pod is meant."""
        return (self.namespaces is None or pod.namespace in self.namespaces) and self.selector.matches(pod.labels)


Selections: TypeAlias = tuple[Selection, ...]
"""ANDed: pods that all of them mean."""


class Resolver:
    """Turns terms into selections; remembers which namespaces a selector selects while they stay the same."""

    def __init__(self) -> None:
        self._namespaces: Mapping[str, Namespace] | None = None
        self._selected: dict[LabelSelector, frozenset[str]] = {}

    def selection(self, term: PodAffinityTerm, surroundings: Surroundings) -> Selection | None:
        """What the term of a pod to be placed means; None when it means nothing (it has no selector)."""
        if term.selector is None:
            return None
        if term.namespace_selector is None:
            return Selection(term.selector, term.namespaces)
        if not term.namespace_selector.requirements:
            return Selection(term.selector, None)
        return Selection(term.selector, term.namespaces | self._selected_by(term.namespace_selector, surroundings))

    def selections(self, terms: Iterable[PodAffinityTerm], surroundings: Surroundings) -> Selections | None:
        """All terms at once, ANDed; None when one of them means nothing."""
        found: list[Selection] = []
        for term in terms:
            selection = self.selection(term, surroundings)
            if selection is None:
                return None
            found.append(selection)
        return tuple(found)

    def _selected_by(self, selector: LabelSelector, surroundings: Surroundings) -> frozenset[str]:
        if self._namespaces is not surroundings.namespaces:
            self._namespaces = surroundings.namespaces
            self._selected.clear()
        names = self._selected.get(selector)
        if names is None:
            spaces = surroundings.namespaces.values()
            names = frozenset(space.name for space in spaces if selector.matches(space.labels)) or _NOWHERE
            self._selected[selector] = names
        return names


class SelectorIndex(Generic[K]):
    """Finds, among many selectors, the few that may match given labels.

    A selector that names values of a label (`In`, `matchLabels`) is filed under these; of several such labels, under
    the one where the fewest others lie. The rest may match anything.
    """

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[K, None]] = {}
        self._anywhere: dict[K, None] = {}
        self._places: dict[K, tuple[str, tuple[str, ...]] | None] = {}

    def add(self, key: K, selectors: Iterable[LabelSelector]) -> None:
        """File a key under selectors that must all match."""
        places = [
            (requirement.key, requirement.values)
            for selector in selectors
            for requirement in selector.requirements
            if requirement.operator is Operator.IN
        ]
        place = min(places, key=self._crowd) if places else None
        self._places[key] = place
        for pile in self._piles(place):
            pile[key] = None

    def remove(self, key: K) -> None:
        """Take a key out again; KeyError when it was never filed."""
        place = self._places.pop(key)
        for pile in self._piles(place):
            del pile[key]
        if place is not None:
            for value in set(place[1]):
                if not self._by_label.get((place[0], value), True):
                    del self._by_label[place[0], value]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[K]:
        """Keys whose selectors may match these labels; every key whose selectors do match is among them, once."""
        yield from self._anywhere
        for item in labels.items():
            pile = self._by_label.get(item)
            if pile is not None:
                yield from pile

    def _crowd(self, place: tuple[str, tuple[str, ...]]) -> int:
        label, values = place
        return sum(len(self._by_label.get((label, value), ())) for value in values)

    def _piles(self, place: tuple[str, tuple[str, ...]] | None) -> Iterator[dict[K, None]]:
        if place is None:
            yield self._anywhere
            return
        for value in set(place[1]):
            yield self._by_label.setdefault((place[0], value), {})
