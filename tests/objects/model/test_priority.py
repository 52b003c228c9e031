"""Which priority and preemption policy a pod has, by its own fields and the classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wharfinger.objects.model.pod import ClassTerms, Pod
from wharfinger.objects.model.priority import NO_CLASSES, PriorityClass, PriorityClasses, missing, resolve
from wharfinger.testing.builders import pod

HIGH = PriorityClass("high", 1000, preemption_policy="Never")
CLASSES = NO_CLASSES.with_class(HIGH)
LOWER = "PreemptLowerPriority"


def of(terms: ClassTerms | None, classes: PriorityClasses = CLASSES) -> Pod:
    return resolve(replace(pod("p"), class_terms=terms), classes)


@pytest.mark.parametrize(
    ("terms", "priority", "policy"),
    [
        (ClassTerms("high"), 1000, "Never"),
        (ClassTerms("high", preemption_policy=LOWER), 1000, LOWER),
        (ClassTerms("high", priority=3), 3, "Never"),
        (ClassTerms("high", priority=0), 0, "Never"),
        (ClassTerms("nobody", priority=3), 3, LOWER),
        (ClassTerms("system-cluster-critical"), 2_000_000_000, LOWER),
        (ClassTerms("system-node-critical"), 2_000_001_000, LOWER),
        (ClassTerms(), 0, LOWER),
    ],
)
def test_fields_of_the_pod_go_before_those_of_its_class(terms: ClassTerms, priority: int, policy: str) -> None:
    found = of(terms)

    assert (found.priority, found.preemption_policy, found.class_missing) == (priority, policy, False)
    assert missing(found) == ""


def test_a_pod_that_leaves_nothing_to_a_class_stays_as_it_is() -> None:
    own = pod("p", priority=7)

    assert resolve(own, CLASSES.with_class(PriorityClass("base", 5, global_default=True))) is own


def test_a_pod_without_a_class_has_the_global_default_if_there_is_one() -> None:
    base = PriorityClass("base", 5, global_default=True, preemption_policy="Never")

    found = of(ClassTerms(), CLASSES.with_class(base))

    assert (found.priority, found.preemption_policy) == (5, "Never")
    assert of(ClassTerms(), CLASSES.with_class(base).without("base")).priority == 0
    assert of(ClassTerms(priority=1), CLASSES.with_class(base)).priority == 1


def test_global_default_gives_no_policy_to_a_pod_with_its_own_priority() -> None:
    never = CLASSES.with_class(PriorityClass("base", 5, global_default=True, preemption_policy="Never"))

    found = of(ClassTerms(priority=7), never)

    assert (found.priority, found.preemption_policy) == (7, LOWER)
    assert of(ClassTerms(priority=7, preemption_policy="Never"), never).preemption_policy == "Never"
    assert of(ClassTerms(preemption_policy=LOWER), never).priority == 5


def test_lowest_global_default_counts_and_among_equals_the_first_by_name() -> None:
    defaults = [("b", 5, "Never"), ("a", 5, LOWER), ("lowest", -3, "Never"), ("z", 9, LOWER)]
    classes = NO_CLASSES
    for name, value, policy in defaults:
        classes = classes.with_class(PriorityClass(name, value, global_default=True, preemption_policy=policy))

    assert of(ClassTerms(), classes).priority == -3
    assert of(ClassTerms(), classes.without("lowest")).preemption_policy == LOWER


def test_unknown_class_is_missing_unless_the_pod_has_a_priority() -> None:
    base = PriorityClass("base", 5, global_default=True)

    found = of(ClassTerms("nobody"), CLASSES.with_class(base))

    assert (found.priority, found.class_missing) == (0, True)
    assert missing(found) == "no PriorityClass with name nobody was found, or it is invalid"
    assert not of(ClassTerms("nobody", priority=0)).class_missing


def test_what_is_resolved_is_resolved_anew_by_other_classes() -> None:
    found = of(ClassTerms("high"))

    again = resolve(found, CLASSES.with_class(replace(HIGH, value=2)))

    assert again.priority == 2
    assert resolve(again, NO_CLASSES).class_missing
    assert resolve(resolve(again, NO_CLASSES), CLASSES) == found
    assert resolve(found, CLASSES) is found


def test_classes_differ_by_what_pods_find_under_a_name() -> None:
    base = PriorityClass("base", 5, global_default=True)

    assert CLASSES.differ(CLASSES) == frozenset()
    assert CLASSES.with_class(base).differ(CLASSES) == {"base", ""}
    assert CLASSES.with_class(replace(base, global_default=False)).differ(CLASSES) == {"base"}
    assert CLASSES.without("high").differ(CLASSES) == {"high"}
    stored = CLASSES.with_class(PriorityClass("system-node-critical", 2_000_001_000))
    assert stored.differ(CLASSES) == frozenset()
