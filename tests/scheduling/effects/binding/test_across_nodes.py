"""What binds compare and rewrite so that rules across nodes hold whichever worker binds."""

from __future__ import annotations

from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Unmoved
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, PodAffinityTerm, Requirement, SpreadConstraint
from wharfinger.objects.model.surroundings import NOTHING_AROUND
from wharfinger.scheduling.effects.binding.across_nodes import (
    EVERYWHERE,
    MOST,
    NONE,
    AcrossNodes,
    conditions,
    rewritten,
    rules_of,
)
from wharfinger.scheduling.state.cache.cache import Cache

WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
DB = LabelSelector((Requirement("app", Operator.IN, ("db",)),))
PROFILE = load_profiles()["default-scheduler"]


def pod(**more: object) -> Pod:
    return Pod("shop", "web", "uid", labels={"app": "web"}, **more)  # type: ignore[arg-type]


def term(selector: LabelSelector = WEB, *names: str, everywhere: bool = False) -> PodAffinityTerm:
    return PodAffinityTerm("zone", selector, frozenset(names or ("shop",)), LabelSelector() if everywhere else None)


def rules(**more: object) -> AcrossNodes:
    return rules_of(pod(**more), PROFILE, NOTHING_AROUND)


def known(**versions: int) -> Cache:
    cache = Cache(clock=lambda: 0.0)
    for name, revision in versions.items():
        cache.terms.set(name, revision)
        cache.bound.set(name, revision + 1)
    cache.progress.advance(99)
    return cache


def test_plain_bind_compares_the_terms_of_its_namespace_and_puts_bound() -> None:
    assert rules() == NONE
    assert conditions(pod(), NONE, known(shop=7)) == [
        Compare(keys.terms("shop"), "mod", 7),
        Compare(keys.terms("*"), "mod", 0),
    ]
    assert rewritten(pod(), NONE) == [keys.bound("shop")]


def test_anti_affinity_compares_its_namespaces_and_writes_their_terms() -> None:
    found = rules(required_anti_affinity=(term(WEB, "shop", "other"),))

    assert found == AcrossNodes(frozenset({"shop", "other"}), frozenset({"shop", "other"}))
    assert conditions(pod(), found, known(shop=7, other=8))[2:] == [
        Compare(keys.bound("other"), "mod", 9),
        Compare(keys.bound("shop"), "mod", 8),
    ]
    assert rewritten(pod(), found) == [keys.bound("shop"), keys.terms("other"), keys.terms("shop")]


def test_hard_spread_compares_its_namespace_and_excludes_no_pod() -> None:
    assert rules(spread_constraints=(SpreadConstraint(1, "zone", True, WEB),)) == AcrossNodes(
        frozenset({"shop"}), leans=True
    )
    assert rules(spread_constraints=(SpreadConstraint(1, "zone", False, WEB),)) == NONE


def test_affinity_is_compared_only_for_a_pod_that_may_be_first_of_its_kind() -> None:
    assert rules(required_affinity=(term(WEB),)) == AcrossNodes(frozenset({"shop"}), leans=True)
    assert rules(required_affinity=(term(DB),)) == AcrossNodes(leans=True)


def test_preferences_delay_no_bind() -> None:
    assert rules(preferred_affinity=(), preferred_anti_affinity=()) == NONE


def test_a_namespace_selector_means_every_namespace() -> None:
    found = rules(required_anti_affinity=(term(WEB, everywhere=True),))

    assert found == AcrossNodes(EVERYWHERE, EVERYWHERE)
    assert conditions(pod(), found, known())[2:] == [Unmoved(keys.BOUND, 99)]
    assert rewritten(pod(), found) == [keys.bound("shop"), keys.terms("*")]


def test_transaction_stays_within_etcds_limit_for_any_number_of_namespaces() -> None:
    names = [f"space-{number}" for number in range(MOST + 1)]

    assert rules(required_anti_affinity=(term(WEB, *names),)) == AcrossNodes(EVERYWHERE, EVERYWHERE)
    assert len(rules(required_anti_affinity=(term(WEB, *names[:MOST]),)).looks_at) == MOST
