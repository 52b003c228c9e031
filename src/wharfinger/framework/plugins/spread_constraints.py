"""Which spread constraints hold for a pod: its own, or the profile's defaults with a selector worked out for it.

The default selector is what the services that select the pod, and the replication controller, replica set or stateful
set that owns it, ask for together, as in kube-scheduler 1.36 (`plugins/helper/spread.go`). A pod that names no owner
belongs to whatever selects it: platforms without Kubernetes' controllers write no owner references.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wharfinger.framework.plugins.pod_counting import label_test
from wharfinger.objects.model.affinity import SpreadConstraint
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.objects.model.surroundings import PodCollection, Surroundings

_NAMESPACES = 1024
"""Namespaces whose collections are kept sorted at most."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A constraint with the selector that holds for one pod."""

    constraint: SpreadConstraint
    selector: LabelSelector | None
    """None matches nothing; one without requirements matches everything, but counts nothing."""
    matches_itself: bool
    """Whether the pod adds to what it is counted in."""

    @property
    def counts(self) -> bool:
        """Whether any pod can be counted."""
        return self.selector is not None and bool(self.selector.requirements)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod with these labels is meant."""
        return self.selector is not None and self.selector.matches(labels)


class PodSpreads:
    """Finds the constraints of pods."""

    def __init__(self, defaults: Sequence[SpreadConstraint]) -> None:
        self._defaults = {hard: tuple(each for each in defaults if each.hard is hard) for hard in (True, False)}
        self._owners = Owners()

    def of(self, pod: Pod, surroundings: Surroundings, *, hard: bool) -> tuple[Spread, ...]:
        """The pod's hard or soft constraints; the defaults only if it has no constraint at all of its own."""
        if pod.spread_constraints:
            return tuple(_own(each, pod) for each in pod.spread_constraints if each.hard is hard)
        defaults = self._defaults[hard]
        if not defaults:
            return ()
        selector = self._owners.selector(pod, surroundings)
        return () if selector is None else tuple(Spread(each, selector, matches_itself=True) for each in defaults)


def _own(constraint: SpreadConstraint, pod: Pod) -> Spread:
    selector = constraint.selector
    if selector is not None and constraint.match_label_keys:
        selector = _also(selector, constraint.match_label_keys, pod.labels)
    return Spread(constraint, selector, matches_itself=selector is not None and selector.matches(pod.labels))


def _also(selector: LabelSelector, keys: Sequence[str], labels: Mapping[str, str]) -> LabelSelector:
    """The selector, which must also agree with the values of these labels; missing labels are ignored.

    A newer API server has merged them into the selector already: that must not make it another selector.
    """
    merged = (Requirement(key, Operator.IN, (labels[key],)) for key in keys if key in labels)
    return LabelSelector(tuple(dict.fromkeys((*selector.requirements, *merged))))


class Owners:
    """Finds the collections that a pod belongs to without asking all of its namespace.

    Most of them ask for one value of some label, so they are sorted by one such pair.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Sorted] = {}

    def selector(self, pod: Pod, surroundings: Surroundings) -> LabelSelector | None:
        """What all collections of the pod ask for together; None when it belongs to none."""
        collections = surroundings.collections.get(pod.namespace)
        if not collections:
            return None
        known = self._known.get(pod.namespace)
        if known is None or known.collections is not collections:
            if len(self._known) >= _NAMESPACES:
                self._known.clear()
            known = self._known[pod.namespace] = _Sorted(collections)
        selectors = known.selecting(pod)
        if len(selectors) < 2:
            return selectors[0] if selectors else None
        requirements = dict.fromkeys(requirement for each in selectors for requirement in each.requirements)
        return LabelSelector(tuple(requirements))


class _Sorted:
    """The collections of one namespace."""

    def __init__(self, collections: tuple[PodCollection, ...]) -> None:
        self.collections = collections
        self._tests = [label_test(each.selector) for each in collections]
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        for place, collection in enumerate(collections):
            pair = _pair(collection.selector)
            (self._others if pair is None else self._by_label.setdefault(pair, [])).append(place)

    def selecting(self, pod: Pod) -> list[LabelSelector]:
        """Selectors of the collections that the pod belongs to, in their order."""
        labels = pod.labels
        places = list(self._others)
        for pair in labels.items():
            places += self._by_label.get(pair, ())
        places.sort()
        return [
            self.collections[place].selector
            for place in places
            if self._tests[place](labels) and _may_own(self.collections[place], pod)
        ]


def _may_own(collection: PodCollection, pod: Pod) -> bool:
    return collection.kind == "Service" or pod.controller in (None, (collection.kind, collection.name))


def _pair(selector: LabelSelector) -> tuple[str, str] | None:
    """A label and the one value that the selector allows for it."""
    for requirement in selector.requirements:
        if requirement.operator is Operator.IN and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
