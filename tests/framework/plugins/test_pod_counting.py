"""Quick tests of labels, and how many tallies are kept."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.framework.plugins.pod_counting import PodTallies, label_test
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement
from wharfinger.testing.builders import node, pod, snapshot

VALUES = st.sampled_from(["a", "b", "1", "2", ""])
REQUIREMENTS = st.builds(
    Requirement,
    st.sampled_from(["x", "y"]),
    st.sampled_from(list(Operator)),
    st.lists(VALUES, max_size=2).map(tuple),
)
NODES = (node("n1"), node("n2"))


def selector(value: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (value,)),))


@given(
    st.builds(LabelSelector, st.lists(REQUIREMENTS, max_size=3).map(tuple)),
    st.dictionaries(st.sampled_from(["x", "y", "z"]), VALUES),
)
def test_quick_test_equals_the_selector(chosen: LabelSelector, labels: dict[str, str]) -> None:
    assert label_test(chosen)(labels) is chosen.matches(labels)


def test_the_tally_asked_for_least_recently_goes() -> None:
    tallies = PodTallies(tallies=2)
    here = snapshot(*NODES)
    first, second = (tallies.tally(here, "default", selector(name)) for name in "ab")
    assert tallies.tally(here, "default", selector("a")) is first
    tallies.tally(here, "default", selector("c"))
    assert tallies.tally(here, "default", selector("a")) is first
    assert tallies.tally(here, "default", selector("b")) is not second
    assert len(tallies) == 2


def test_large_clusters_keep_fewer_tallies() -> None:
    tallies = PodTallies(numbers=5)
    for name in "abcd":
        tallies.tally(snapshot(*NODES), "default", selector(name))
    assert len(tallies) == 2


def test_one_node_alone_is_counted_without_a_trace() -> None:
    tallies = PodTallies()
    alone = snapshot(NODES[0], n1=[pod(labels={"app": "a"})])
    assert tallies.tally(alone, "default", selector("a")).rows(alone).tolist() == [1]
    assert len(tallies) == 0
