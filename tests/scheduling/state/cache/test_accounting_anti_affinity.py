"""Which pods the anti-affinity of placed pods may keep away."""

from __future__ import annotations

from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, PodAffinityTerm, Requirement
from wharfinger.scheduling.state.cache.cache import Cache

WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
TERM = PodAffinityTerm("zone", WEB, frozenset({"shop"}))


def loner(name: str, node: str = "", **more: str) -> Pod:
    return Pod("shop", name, name, node_name=node, required_anti_affinity=(TERM,), **more)  # type: ignore[arg-type]


def cache() -> Cache:
    made = Cache(clock=lambda: 0.0)
    for name in ("n1", "n2"):
        made.set_node(Node(name))
    return made


def concerned(where: Cache, namespace: str = "shop", app: str = "web") -> bool:
    return where.anti_affinity.concerns(Pod(namespace, "plain", "plain", labels={"app": app}), {})


def test_only_pods_that_a_placed_pods_term_selects_are_concerned() -> None:
    held = cache()
    assert not concerned(held)
    held.set_pod(loner("a"))
    assert not concerned(held)

    held.set_pod(loner("a", "n1"))

    assert concerned(held)
    assert not concerned(held, namespace="other")
    assert not concerned(held, app="db")
    assert held.anti_affinity.concerns_namespace("shop")
    assert not held.anti_affinity.concerns_namespace("other")


def test_an_assumed_pod_counts_until_it_is_forgotten() -> None:
    held = cache()
    held.set_pod(loner("a"))
    held.assume(loner("a"), "n1")
    assert concerned(held)

    held.forget(loner("a").identity)

    assert not concerned(held)


def test_equal_terms_count_until_the_last_pod_with_them_is_gone() -> None:
    held = cache()
    for name in ("a", "b"):
        held.set_pod(loner(name, "n1"))
    held.remove_pod(loner("a").key)
    assert concerned(held)

    held.set_pod(loner("b", "n1", phase="Succeeded"))

    assert not concerned(held)


def test_epoch_moves_only_with_placements_of_pods_with_anti_affinity() -> None:
    held = cache()
    held.set_pod(Pod("shop", "plain", "plain", node_name="n1"))
    assert held.anti_affinity.epoch == 0
    held.set_pod(loner("a", "n1"))
    held.set_pod(loner("a", "n1", start_time="2026-03-01T12:00:00Z"))
    assert held.anti_affinity.epoch == 1

    held.set_pod(loner("b", "n2"))
    held.remove_pod(loner("b").key)

    assert held.anti_affinity.epoch == 2


def test_namespace_selector_term_concerns_each_namespace_it_selects() -> None:
    held = cache()
    selecting = PodAffinityTerm("zone", WEB, frozenset(), LabelSelector((Requirement("team", Operator.EXISTS),)))
    held.set_pod(Pod("shop", "a", "a", node_name="n1", required_anti_affinity=(selecting,)))
    plain = Pod("elsewhere", "plain", "plain", labels={"app": "web"})

    assert held.anti_affinity.concerns(plain, {"team": "red"})
    assert not held.anti_affinity.concerns(plain, {})
    held.remove_pod(Pod("shop", "a", "a").key)
    assert not held.anti_affinity.concerns(plain, {"team": "red"})
