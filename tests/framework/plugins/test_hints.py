"""Which events the built-in plugins want a refused pod to be tried again for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.builtin import catalog
from wharfinger.framework.profiles import load_profiles
from wharfinger.objects.model.events import (
    Action,
    ClusterEvent,
    Resource,
    assigned_pod_event,
    node_event,
    unscheduled_pod_event,
)
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.objects.model.selectors import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    Requirement,
    Taint,
    Toleration,
)
from wharfinger.testing.builders import node, pod

PROFILE = load_profiles(catalog=catalog())["default-scheduler"]
TAINT = Taint("k", "v", "NoSchedule")
GATED = pod(scheduling_gates=("a",))
SSD = pod(required_node_terms=(NodeSelectorTerm((Requirement("disk", Operator.IN, ("ssd",)),)),))
PORT = pod(host_ports=(HostPort("TCP", "0.0.0.0", 80),))
BIG = pod(cpu=3000)


def helps(plugin: str, waiting: Pod, event: ClusterEvent | None) -> bool:
    assert event is not None
    found = PROFILE.may_help(event, waiting, (plugin,))
    assert found in (plugin, None)
    return found is not None


def appears(new: Node) -> ClusterEvent | None:
    return node_event(None, new, 1)


def changes(old: Node, new: Node) -> ClusterEvent | None:
    return node_event(old, new, 1)


def ends(old: Pod) -> ClusterEvent | None:
    return assigned_pod_event(old, None, 1)


class TestSchedulingGates:
    def test_its_own_gates_go(self) -> None:
        assert helps(
            names.SCHEDULING_GATES, GATED, unscheduled_pod_event(GATED, replace(GATED, scheduling_gates=()), 1)
        )

    def test_nothing_else_helps(self) -> None:
        assert not helps(names.SCHEDULING_GATES, GATED, appears(node()))


class TestNodeUnschedulable:
    def test_a_schedulable_node_appears(self) -> None:
        assert helps(names.NODE_UNSCHEDULABLE, pod(), appears(node()))
        assert not helps(names.NODE_UNSCHEDULABLE, pod(), appears(node(unschedulable=True)))

    def test_a_node_is_uncordoned(self) -> None:
        assert helps(names.NODE_UNSCHEDULABLE, pod(), changes(node(unschedulable=True), node()))
        assert not helps(names.NODE_UNSCHEDULABLE, pod(), changes(node(taints=(TAINT,)), node()))

    def test_its_own_tolerations_now_cover_the_cordon(self) -> None:
        tolerant = pod(tolerations=(Toleration(operator="Exists"),))
        elsewhere = pod(tolerations=(Toleration("other", "Exists"),))
        assert helps(names.NODE_UNSCHEDULABLE, pod(), unscheduled_pod_event(pod(), tolerant, 1))
        assert not helps(names.NODE_UNSCHEDULABLE, pod(), unscheduled_pod_event(pod(), elsewhere, 1))


class TestTaintToleration:
    def test_a_tolerated_node_appears(self) -> None:
        assert helps(names.TAINT_TOLERATION, pod(), appears(node()))
        assert not helps(names.TAINT_TOLERATION, pod(), appears(node(taints=(TAINT,))))

    def test_the_taint_goes(self) -> None:
        assert helps(names.TAINT_TOLERATION, pod(), changes(node(taints=(TAINT,)), node()))

    def test_a_node_that_was_tolerated_already_is_no_news(self) -> None:
        prefer = node(taints=(Taint("k", "", "PreferNoSchedule"),))
        assert not helps(names.TAINT_TOLERATION, pod(), changes(prefer, node()))

    def test_its_own_tolerations_always_count(self) -> None:
        other = pod(tolerations=(Toleration("x", "Exists"),))
        assert helps(names.TAINT_TOLERATION, pod(), unscheduled_pod_event(pod(), other, 1))


class TestNodeAffinity:
    def test_a_matching_node_appears(self) -> None:
        assert helps(names.NODE_AFFINITY, SSD, appears(node(labels={"disk": "ssd"})))
        assert not helps(names.NODE_AFFINITY, SSD, appears(node(labels={"disk": "hdd"})))

    def test_a_node_begins_to_match(self) -> None:
        assert helps(names.NODE_AFFINITY, SSD, changes(node(), node(labels={"disk": "ssd"})))
        matching = node(labels={"disk": "ssd"})
        assert not helps(
            names.NODE_AFFINITY, SSD, changes(matching, replace(matching, labels={"disk": "ssd", "x": "y"}))
        )

    def test_a_node_that_wants_new_nodes_hears_of_taints_too(self) -> None:
        """Nodes often appear tainted, refused by TaintToleration first; then the taint goes."""
        assert helps(names.NODE_AFFINITY, SSD, changes(node(taints=(TAINT,)), node()))

    def test_more_room_is_no_help(self) -> None:
        assert not helps(names.NODE_AFFINITY, SSD, changes(node(cpu=1), node(cpu=2)))


class TestNodePorts:
    def test_a_pod_ends_that_held_the_port(self) -> None:
        assert helps(names.NODE_PORTS, PORT, ends(replace(PORT, name="other", node_name="n1")))

    def test_a_pod_ends_that_held_another_port(self) -> None:
        other = pod("other", host_ports=(HostPort("UDP", "0.0.0.0", 80),), node_name="n1")
        assert not helps(names.NODE_PORTS, PORT, ends(other))

    def test_any_node_appears(self) -> None:
        assert helps(names.NODE_PORTS, PORT, appears(node()))


class TestNodeResourcesFit:
    def test_any_placed_pod_ends(self) -> None:
        assert helps(names.NODE_RESOURCES_FIT, BIG, ends(pod("other").on("n1")))

    def test_a_node_appears_on_which_it_fits_alone(self) -> None:
        assert helps(names.NODE_RESOURCES_FIT, BIG, appears(node(cpu=4000)))
        assert not helps(names.NODE_RESOURCES_FIT, BIG, appears(node(cpu=2000)))
        assert not helps(names.NODE_RESOURCES_FIT, BIG, appears(node(pods=0)))

    def test_a_node_grows_in_what_it_asks_for(self) -> None:
        assert helps(names.NODE_RESOURCES_FIT, BIG, changes(node(cpu=3500), node(cpu=4000)))
        assert helps(names.NODE_RESOURCES_FIT, BIG, changes(node(pods=1), node(pods=2)))
        assert not helps(names.NODE_RESOURCES_FIT, BIG, changes(node(memory=1), node(memory=2)))
        assert not helps(names.NODE_RESOURCES_FIT, BIG, changes(node(cpu=4000), node(cpu=3500)))

    def test_another_pod_shrinks_in_what_it_asks_for(self) -> None:
        before = pod("other", cpu=2000, memory=2000).on("n1")
        assert helps(names.NODE_RESOURCES_FIT, BIG, assigned_pod_event(before, replace(before, requests={"cpu": 1}), 1))
        less_memory = replace(before, requests={"cpu": 2000, "memory": 1})
        assert not helps(names.NODE_RESOURCES_FIT, BIG, assigned_pod_event(before, less_memory, 1))

    def test_it_shrinks_itself(self) -> None:
        assert helps(names.NODE_RESOURCES_FIT, BIG, unscheduled_pod_event(BIG, replace(BIG, requests={"cpu": 1}), 1))


class TestNodeDeclaredFeatures:
    WAITING = pod(required_features=frozenset({"A"}))
    PLAIN, DECLARING = node(), node(declared_features=frozenset({"B"}))

    def test_any_node_appears(self) -> None:
        assert helps(names.NODE_DECLARED_FEATURES, self.WAITING, appears(self.PLAIN))

    def test_a_node_declares_others_than_before(self) -> None:
        assert helps(names.NODE_DECLARED_FEATURES, self.WAITING, changes(self.PLAIN, self.DECLARING))
        assert helps(names.NODE_DECLARED_FEATURES, self.WAITING, changes(self.DECLARING, self.PLAIN))

    def test_other_changes_of_a_node_do_not_help(self) -> None:
        assert changes(self.DECLARING, replace(self.DECLARING)) is None
        bigger = replace(self.PLAIN, allocatable={"cpu": 9000})
        assert not helps(names.NODE_DECLARED_FEATURES, self.WAITING, changes(self.PLAIN, bigger))

    def test_it_requires_something_else_itself(self) -> None:
        event = unscheduled_pod_event(self.WAITING, pod(), 1)
        assert helps(names.NODE_DECLARED_FEATURES, self.WAITING, event)
        shrunk = unscheduled_pod_event(pod(cpu=2), pod(cpu=1), 1)
        assert not PROFILE.may_help(shrunk, pod(), (names.NODE_DECLARED_FEATURES,))


class TestUnsupportedFeatures:
    def test_only_a_changed_pod_helps(self) -> None:
        claiming = pod(unsupported=("resource claims",), requests={"example.com/gpu": 1})
        assert not helps(names.UNSUPPORTED_FEATURES, claiming, appears(node()))
        assert helps(names.UNSUPPORTED_FEATURES, claiming, unscheduled_pod_event(claiming, pod(), 1))


class TestAllTogether:
    def test_update_of_another_waiting_pod_helps_no_pod(self) -> None:
        event = unscheduled_pod_event(pod("other", cpu=2), pod("other", cpu=1), 1)
        assert not helps(names.NODE_RESOURCES_FIT, BIG, event)

    def test_only_the_plugins_that_refused_are_asked(self) -> None:
        event = appears(node(cpu=2000, labels={"disk": "ssd"}))
        assert event is not None
        assert PROFILE.may_help(event, BIG, (names.NODE_RESOURCES_FIT,)) is None
        assert PROFILE.may_help(event, BIG, (names.NODE_NAME, names.NODE_RESOURCES_FIT)) == names.NODE_NAME

    def test_to_cordon_a_node_is_no_event(self) -> None:
        """As in kube-scheduler: else pods that wait for new nodes would be tried again for a node that fits none."""
        assert changes(node(), node(unschedulable=True)) is None
        assert changes(node(unschedulable=True), node()) is not None

    @pytest.mark.parametrize(
        "other", [{"labels": {"a": "b"}}, {"tolerations": (Toleration("x", "Exists"),)}, {"requests": {"cpu": 1}}]
    )
    def test_a_changed_selector_counts_whatever_else_changed_with_it(self, other: dict[str, Any]) -> None:
        before = pod(cpu=2, node_selector={"disk": "ssd"})
        after = replace(before, node_selector={}, **other)
        assert helps(names.NODE_AFFINITY, before, unscheduled_pod_event(before, after, 1))

    def test_a_pod_that_only_asks_for_less_concerns_the_resources_alone(self) -> None:
        before = pod(cpu=2)
        assert not helps(names.NODE_AFFINITY, before, unscheduled_pod_event(before, pod(cpu=1), 1))

    def test_a_pod_refused_because_there_was_no_node_is_helped_by_any_node(self) -> None:
        event = appears(node())
        assert event is not None
        assert PROFILE.may_help(event, BIG, ()) is not None

    def test_a_plugin_that_is_no_longer_there_may_be_helped_by_everything(self) -> None:
        event = ends(pod("other").on("n1"))
        assert event is not None
        assert PROFILE.may_help(event, pod(), ("Retired",)) == "Retired"

    @pytest.mark.parametrize("rejectors", [(names.NODE_AFFINITY,), ()])
    def test_wildcard_event_helps_every_pod(self, rejectors: tuple[str, ...]) -> None:
        event = ClusterEvent(Resource.ANY, Action.ALL, 1)
        assert PROFILE.may_help(event, pod(), rejectors) is not None


def test_room_of_a_nominated_pod_helps_only_pods_it_was_kept_from() -> None:
    promised = replace(pod("nominated"), nominated_node_name="n1", priority=5)

    assert helps(names.NODE_RESOURCES_FIT, replace(BIG, priority=5), ends(promised))
    assert helps(names.NODE_RESOURCES_FIT, BIG, ends(promised))
    assert not helps(names.NODE_RESOURCES_FIT, replace(BIG, priority=6), ends(promised))
    assert helps(names.NODE_RESOURCES_FIT, replace(BIG, priority=6), ends(promised.on("n1")))


class TestInterPodAffinityBeyondKubeScheduler:
    """What its hints forget, ours do not; but who asks what it would do is not told."""

    SELF = PodAffinityTerm("zone", LabelSelector((Requirement("app", Operator.IN, ("db",)),)), frozenset({"default"}))
    FIRST = pod(labels={"app": "db"}, required_affinity=(SELF,))

    @pytest.mark.parametrize(
        ("waiting", "event"),
        [
            (pod(), appears(node())),
            (pod(), changes(node(labels={"zone": "a"}), node(labels={"zone": "b"}))),
            (FIRST, ends(pod("last", labels={"app": "db"}).on("n1"))),
        ],
        ids=["repelled, new node", "repelled, relabelled node", "first of a series"],
    )
    def test_helps_only_beyond(self, waiting: Pod, event: ClusterEvent) -> None:
        assert helps(names.INTER_POD_AFFINITY, waiting, event)
        assert PROFILE.may_help(event, waiting, (names.INTER_POD_AFFINITY,), beyond=False) is None
