"""Which events a pod is tried again for that InterPodAffinity refused; old and new objects side by side."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.events import ClusterEvent, assigned_pod_event, node_event, unscheduled_pod_event
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, PodAffinityTerm, Requirement
from wharfinger.objects.model.surroundings import NOTHING_AROUND, Namespace, Surroundings
from wharfinger.testing.builders import node, pod

PROFILE = load_profiles(catalog=catalog())["default-scheduler"]


def near(key: str, **labels: str) -> PodAffinityTerm:
    selector = LabelSelector(tuple(Requirement(label, Operator.IN, (value,)) for label, value in labels.items()))
    return PodAffinityTerm(key, selector, frozenset({"default"}))


WEB, DB = pod("web", labels={"app": "web"}).on("n1"), pod("db", labels={"app": "db"}).on("n1")
BOTH = pod("both", labels={"app": "web", "tier": "gold"}).on("n1")
NEAR_WEB = pod(required_affinity=(near("zone", app="web"),))
NEAR_GOLDEN_WEB = pod(required_affinity=(near("zone", app="web"), near("rack", tier="gold")))
FAR_FROM_WEB = pod(required_anti_affinity=(near("zone", app="web"),))
PLAIN = pod(labels={"app": "plain"})


def helps(waiting: Pod, event: ClusterEvent | None) -> bool:
    """As kube-scheduler would say."""
    if event is None:
        return False
    return PROFILE.may_help(event, waiting, (names.INTER_POD_AFFINITY,), beyond=False) is not None


def pod_event(old: Pod | None, new: Pod | None, around: Surroundings = NOTHING_AROUND) -> ClusterEvent | None:
    return assigned_pod_event(old, new, 1, around)


class TestPods:
    @pytest.mark.parametrize(
        ("waiting", "placed", "expected"),
        [
            (NEAR_WEB, WEB, True),
            (NEAR_WEB, DB, False),
            (NEAR_GOLDEN_WEB, WEB, False),
            (NEAR_GOLDEN_WEB, BOTH, True),
            (FAR_FROM_WEB, WEB, False),
            (PLAIN, WEB, False),
        ],
    )
    def test_one_is_placed_that_satisfies_all_terms(self, waiting: Pod, placed: Pod, expected: bool) -> None:
        assert helps(waiting, pod_event(None, placed)) is expected

    @pytest.mark.parametrize(
        ("waiting", "gone", "expected"),
        [
            (FAR_FROM_WEB, WEB, True),
            (FAR_FROM_WEB, DB, False),
            (NEAR_WEB, WEB, False),
            (PLAIN, replace(WEB, required_anti_affinity=(near("host", app="plain"),)), True),
            (PLAIN, replace(WEB, required_anti_affinity=(near("host", app="web"),)), False),
        ],
    )
    def test_one_ends_that_repelled_or_was_repelled(self, waiting: Pod, gone: Pod, expected: bool) -> None:
        assert helps(waiting, pod_event(gone, None)) is expected

    @pytest.mark.parametrize(
        ("waiting", "old", "new", "expected"),
        [
            (NEAR_WEB, DB, WEB, True),
            (NEAR_WEB, WEB, BOTH, False),
            (NEAR_GOLDEN_WEB, WEB, BOTH, True),
            (FAR_FROM_WEB, WEB, DB, True),
            (FAR_FROM_WEB, DB, WEB, False),
            (FAR_FROM_WEB, WEB, BOTH, False),
        ],
    )
    def test_labels_come_to_satisfy_or_cease_to_offend(self, waiting: Pod, old: Pod, new: Pod, expected: bool) -> None:
        assert helps(waiting, pod_event(old, new)) is expected

    def test_namespaces_are_selected_by_the_labels_they_have_then(self) -> None:
        term = PodAffinityTerm("zone", LabelSelector(), frozenset(), near("", team="blue").selector)
        waiting = pod(required_affinity=(term,))
        blue = Surroundings({"default": Namespace("default", {"team": "blue"})})
        assert helps(waiting, pod_event(None, WEB, blue))
        assert not helps(waiting, pod_event(None, WEB))

    def test_its_own_labels_change(self) -> None:
        assert helps(PLAIN, unscheduled_pod_event(PLAIN, replace(PLAIN, labels={"app": "other"}), 1))
        assert not helps(PLAIN, unscheduled_pod_event(PLAIN, PLAIN, 1))


class TestNodes:
    ZONE_A, ZONE_B = node(labels={"zone": "a"}), node(labels={"zone": "b"})

    def test_one_appears_that_lies_in_a_topology_of_the_terms(self) -> None:
        assert helps(NEAR_WEB, node_event(None, self.ZONE_A, 1))
        assert not helps(NEAR_WEB, node_event(None, node(), 1))
        assert helps(FAR_FROM_WEB, node_event(None, node(), 1))

    def test_one_enters_a_topology_or_moves_within_it(self) -> None:
        assert helps(NEAR_WEB, node_event(node(), self.ZONE_A, 1))
        assert helps(NEAR_WEB, node_event(self.ZONE_A, self.ZONE_B, 1))
        assert not helps(NEAR_WEB, node_event(self.ZONE_A, node(), 1))
        assert not helps(NEAR_WEB, node_event(node(), node(labels={"disk": "ssd"}), 1))

    def test_node_that_leaves_or_changes_a_forbidden_topology_domain_helps(self) -> None:
        assert helps(FAR_FROM_WEB, node_event(self.ZONE_A, node(), 1))
        assert helps(FAR_FROM_WEB, node_event(self.ZONE_A, self.ZONE_B, 1))
        assert not helps(FAR_FROM_WEB, node_event(node(), self.ZONE_A, 1))
