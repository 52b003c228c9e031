"""A pod's rules across nodes, as its bind has to guard them: in which namespaces, and against what.

::

    every bind                       puts bound/<its namespace>   compares terms/<its namespace> and terms/*
    required anti-affinity           compares bound/<selected>    rewrites terms/<selected>
    hard spread, affinity to itself  compares bound/<selected>

A write of `bound` shows that pods of a namespace were placed, which may break a rule of the pod to be bound. A write
of `terms` shows that a rule was placed, which the pod to be bound may break. Another bind breaks required affinity only
where the pod relies on being the first of its kind. A spread constraint restricts only the pods that have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from weakref import WeakKeyDictionary

from wharfinger.etcd import keys
from wharfinger.etcd.keys import EVERY
from wharfinger.etcd.store import Compare, Condition, Unmoved
from wharfinger.framework.interface import offers
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import PodAffinityTerm
from wharfinger.objects.model.surroundings import Surroundings
from wharfinger.scheduling.state.cache.cache import Cache

MOST = 32
"""Namespaces guarded by name; etcd takes 128 operations in each list of a transaction."""
EVERYWHERE = frozenset({EVERY})
NOWHERE: frozenset[str] = frozenset()


@runtime_checkable
class SpreadsHard(Protocol):
    """A plugin that holds pods to hard spread constraints, their own or a profile's."""

    def spreads_hard(self, pod: Pod, surroundings: Surroundings) -> bool:
        """Whether it does with this pod."""
        ...


@dataclass(frozen=True, slots=True)
class AcrossNodes:
    """Namespaces by name, or `EVERYWHERE`."""

    looks_at: frozenset[str] = NOWHERE
    """Whose pods, placed meanwhile, may break the pod's own rules."""
    keeps_away: frozenset[str] = NOWHERE
    """Whose pods the pod's rules may keep from nodes once it is bound."""

    leans: bool = False
    """Whether other pods' being where they are may be what lets the pod in: affinity, or spreading evenly."""

    def __bool__(self) -> bool:
        return self.leans or bool(self.looks_at)


NONE = AcrossNodes()


def rules_of(pod: Pod, profile: Profile, surroundings: Surroundings) -> AcrossNodes:
    """The pod's hard rules across nodes."""
    keeps_away = _selected(pod.required_anti_affinity)
    looks_at = keeps_away
    if _may_be_first(pod, surroundings):
        looks_at = looks_at | _selected(pod.required_affinity)
    spreads = any(plugin.spreads_hard(pod, surroundings) for plugin in _spreading(profile))
    if spreads:
        looks_at = looks_at | {pod.namespace}
    leans = spreads or bool(pod.required_affinity)
    return AcrossNodes(_bounded(looks_at), _bounded(keeps_away), leans) if looks_at or leans else NONE


def conditions(pod: Pod, rules: AcrossNodes, cache: Cache) -> list[Condition]:
    """What must not have moved, as this worker last saw it."""
    found: list[Condition] = [Compare(keys.terms(name), "mod", cache.terms[name]) for name in (pod.namespace, EVERY)]
    if rules.looks_at == EVERYWHERE:
        return [*found, Unmoved(keys.BOUND, cache.progress.revision)]
    return found + [Compare(keys.bound(name), "mod", cache.bound[name]) for name in sorted(rules.looks_at)]


def rewritten(pod: Pod, rules: AcrossNodes) -> list[str]:
    """The keys that the bind puts."""
    return [keys.bound(pod.namespace), *(keys.terms(name) for name in sorted(rules.keeps_away))]


def advance(binds: Sequence[tuple[Pod, AcrossNodes]], cache: Cache, revision: int) -> None:
    """A transaction of our own bound these pods at that revision.

    A key that it compared and rewrote is known to be at this revision: no other bind came in between. A key that it
    only rewrote is not.
    """
    looked_at = {name for _, rules in binds for name in rules.looks_at}
    compared_terms = {name for pod, _ in binds for name in (pod.namespace, EVERY)}
    for pod, rules in binds:
        if pod.namespace in looked_at:
            cache.bound.set(pod.namespace, revision)
        for name in rules.keeps_away & compared_terms:
            cache.terms.set(name, revision)


def rewritten_unseen(binds: Sequence[tuple[Pod, AcrossNodes]]) -> bool:
    """Whether such a transaction rewrites keys that it does not compare: only the watch shows their versions then."""
    looked_at = {name for _, rules in binds for name in rules.looks_at}
    compared_terms = {name for pod, _ in binds for name in (pod.namespace, EVERY)}
    return any(pod.namespace not in looked_at or not rules.keeps_away <= compared_terms for pod, rules in binds)


def _selected(terms: Iterable[PodAffinityTerm]) -> frozenset[str]:
    names: set[str] = set()
    for term in terms:
        # A namespace that is made later may match a selector, so no list of names would guard the rule.
        names |= EVERYWHERE if term.namespace_selector is not None else term.namespaces
    return frozenset(names)


def _bounded(names: frozenset[str]) -> frozenset[str]:
    return EVERYWHERE if EVERY in names or len(names) > MOST else names


def _may_be_first(pod: Pod, surroundings: Surroundings) -> bool:
    """Whether the pod itself satisfies its required affinity: then, as the first one, it may go anywhere."""
    terms = pod.required_affinity
    if not terms:
        return False
    labels = surroundings.namespace_labels(pod.namespace)
    return all(term.selects(pod.namespace, labels, pod.labels) for term in terms)


def _spreading(profile: Profile) -> tuple[SpreadsHard, ...]:
    known = _SPREADING.get(profile)
    if known is None:
        known = _SPREADING[profile] = tuple(plugin for plugin in profile.plugins if offers(plugin, SpreadsHard))
    return known


_SPREADING: WeakKeyDictionary[Profile, tuple[SpreadsHard, ...]] = WeakKeyDictionary()
"""Of profiles that decide, or did: those that others took the place of are let go."""
