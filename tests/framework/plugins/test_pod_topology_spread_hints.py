"""Which events wake a pod that hard spread constraints refused."""

from __future__ import annotations

from dataclasses import replace

from wharfinger.framework.hints import HintTable
from wharfinger.framework.plugins import names
from wharfinger.framework.plugins.arguments import PodTopologySpreadArgs
from wharfinger.framework.plugins.pod_topology_spread import PodTopologySpread
from wharfinger.objects.model.events import ClusterEvent, assigned_pod_event, node_event, unscheduled_pod_event
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, SpreadConstraint, Taint, Toleration
from wharfinger.objects.model.surroundings import NOTHING_AROUND, PodCollection
from wharfinger.testing.builders import node, pod

WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
ZONE_AND_HOST = (SpreadConstraint(1, "zone", True, WEB), SpreadConstraint(1, "host", True, WEB))
WAITING = pod(labels={"app": "web"}, spread_constraints=ZONE_AND_HOST)
OTHER = pod("other", labels={"app": "web"}).on("n1")
STRANGER = replace(OTHER, labels={"app": "db"})
BOTH = node(labels={"zone": "a", "host": "h"})
TAINTED = replace(BOTH, taints=(Taint("k", "", "NoSchedule"),))


def helps(waiting: Pod, event: ClusterEvent | None, args: PodTopologySpreadArgs | None = None) -> bool:
    assert event is not None
    table = HintTable([PodTopologySpread(args or PodTopologySpreadArgs())])
    return table.may_help(event, waiting, (names.POD_TOPOLOGY_SPREAD,)) is not None


class TestOtherPods:
    def test_a_pod_that_counts_is_bound(self) -> None:
        assert helps(WAITING, assigned_pod_event(None, OTHER, 1))
        assert not helps(WAITING, assigned_pod_event(None, STRANGER, 1))

    def test_a_pod_that_counts_ends(self) -> None:
        assert helps(WAITING, assigned_pod_event(OTHER, None, 1))
        assert not helps(WAITING, assigned_pod_event(STRANGER, None, 1))

    def test_pods_of_other_namespaces_do_not_matter(self) -> None:
        assert not helps(WAITING, assigned_pod_event(replace(OTHER, namespace="elsewhere"), None, 1))

    def test_a_pod_that_was_only_nominated_was_never_counted(self) -> None:
        nominated = replace(OTHER, node_name="", nominated_node_name="n1")
        assert not helps(WAITING, assigned_pod_event(nominated, None, 1))

    def test_a_pod_begins_or_ceases_to_match(self) -> None:
        assert helps(WAITING, assigned_pod_event(OTHER, STRANGER, 1))
        assert helps(WAITING, assigned_pod_event(STRANGER, OTHER, 1))
        assert not helps(WAITING, assigned_pod_event(OTHER, replace(OTHER, labels={"app": "web", "x": "y"}), 1))

    def test_tolerations_of_others_do_not_matter(self) -> None:
        tolerant = replace(OTHER, tolerations=(Toleration(operator="Exists"),))
        assert not helps(WAITING, assigned_pod_event(OTHER, tolerant, 1))

    def test_soft_constraints_refuse_nothing_and_wait_for_nothing(self) -> None:
        waiting = replace(WAITING, spread_constraints=(SpreadConstraint(1, "zone", False, WEB),))
        assert not helps(waiting, assigned_pod_event(OTHER, None, 1))


class TestThePodItself:
    def test_its_labels_make_it_match_or_not(self) -> None:
        assert helps(WAITING, unscheduled_pod_event(WAITING, replace(WAITING, labels={"app": "db"}), 1))
        more = replace(WAITING, labels={"app": "web", "x": "y"})
        assert not helps(WAITING, unscheduled_pod_event(WAITING, more, 1))

    def test_its_tolerations_count_where_a_constraint_honours_taints(self) -> None:
        tolerant = (Toleration(operator="Exists"),)
        event = unscheduled_pod_event(WAITING, replace(WAITING, tolerations=tolerant), 1)
        assert not helps(WAITING, event)
        honouring = replace(WAITING, spread_constraints=(replace(ZONE_AND_HOST[0], honor_node_taints=True),))
        assert helps(honouring, unscheduled_pod_event(honouring, replace(honouring, tolerations=tolerant), 1))


class TestNodes:
    def test_a_node_with_all_keys_comes_or_goes(self) -> None:
        assert helps(WAITING, node_event(None, BOTH, 1))
        assert helps(WAITING, node_event(BOTH, None, 1))
        half = replace(BOTH, labels={"zone": "a"})
        assert not helps(WAITING, node_event(None, half, 1))
        assert not helps(WAITING, node_event(half, None, 1))

    def test_a_node_gets_or_loses_a_key(self) -> None:
        half = replace(BOTH, labels={"zone": "a"})
        assert helps(WAITING, node_event(half, BOTH, 1))
        assert helps(WAITING, node_event(BOTH, half, 1))

    def test_a_node_moves_to_another_domain(self) -> None:
        assert helps(WAITING, node_event(BOTH, replace(BOTH, labels={"zone": "b", "host": "h"}), 1))
        more = replace(BOTH, labels={**BOTH.labels, "x": "y"})
        assert not helps(WAITING, node_event(BOTH, more, 1))

    def test_its_taints_change(self) -> None:
        assert helps(WAITING, node_event(TAINTED, BOTH, 1))
        half = {"labels": {"zone": "a"}}
        assert not helps(WAITING, node_event(replace(TAINTED, **half), replace(BOTH, **half), 1))

    def test_more_room_is_no_help(self) -> None:
        assert not helps(WAITING, node_event(BOTH, replace(BOTH, allocatable={"cpu": 9000}), 1))


class TestDefaults:
    ARGS = PodTopologySpreadArgs.model_validate(
        {
            "defaultingType": "List",
            "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
        }
    )

    def test_the_selector_is_worked_out_from_what_was_around_at_the_event(self) -> None:
        around = NOTHING_AROUND.with_object(PodCollection("Service", "default", "web", WEB))
        waiting = pod(labels={"app": "web"})
        assert helps(waiting, assigned_pod_event(OTHER, None, 1, around), self.ARGS)
        assert not helps(waiting, assigned_pod_event(STRANGER, None, 1, around), self.ARGS)
