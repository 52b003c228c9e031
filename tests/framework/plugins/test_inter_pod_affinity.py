"""InterPodAffinity's words, codes, exceptions and arguments, case by case."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.arguments import InterPodAffinityArgs
from wharfinger.framework.plugins.inter_pod_affinity import InterPodAffinity
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import (
    LabelSelector,
    Operator,
    PodAffinityTerm,
    Requirement,
    WeightedPodAffinityTerm,
)
from wharfinger.objects.model.surroundings import NOTHING_AROUND, Namespace, Surroundings
from wharfinger.testing.builders import node, pod

NODES = (
    node("n1", labels={"host": "n1", "zone": "a"}),
    node("n2", labels={"host": "n2", "zone": "a"}),
    node("n3", labels={"host": "n3", "zone": "b"}),
    node("n4", labels={"host": "n4"}),
)
ALONE = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match pod affinity rules")
REPELS = (Code.UNSCHEDULABLE, "node(s) didn't match pod anti-affinity rules")
REPELLED = (Code.UNSCHEDULABLE, "node(s) didn't satisfy existing pods anti-affinity rules")
PASSES = (Code.SUCCESS, "")


def labelled(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Requirement(key, Operator.IN, (value,)) for key, value in labels.items()))


def near(key: str, app: str = "web", **fields: Any) -> PodAffinityTerm:
    namespaces = fields.pop("namespaces", frozenset({"default"}))
    return PodAffinityTerm(key, fields.pop("selector", labelled(app=app)), namespaces, **fields)


def prefer(weight: int, term: PodAffinityTerm) -> tuple[WeightedPodAffinityTerm, ...]:
    return (WeightedPodAffinityTerm(weight, term),)


def web(name: str = "web", **fields: Any) -> Pod:
    return pod(name, labels={"app": "web"}, **fields)


def cluster(around: Surroundings = NOTHING_AROUND, nodes: tuple[Node, ...] = NODES, **bound: Pod) -> Snapshot:
    infos = [NodeInfo.of(each, [bound[each.name]] if each.name in bound else []) for each in nodes]
    return Snapshot.of(infos, surroundings=around)


def plugin(**args: Any) -> InterPodAffinity:
    return InterPodAffinity(InterPodAffinityArgs(**args))


def verdicts(subject: Pod, snapshot: Snapshot, by: InterPodAffinity | None = None) -> list[tuple[Code, str]]:
    """By node; PreFilter must not have skipped."""
    asked = plugin() if by is None else by
    assert asked.pre_filter(CycleState(), subject, snapshot).status == SUCCESS
    said = asked.filter(CycleState(), subject, snapshot)
    found = [Status(Code.SUCCESS) if said is None else said.at(row) for row in range(len(snapshot))]
    return [(status.code, status.message) for status in found]


def scores(subject: Pod, snapshot: Snapshot, **args: Any) -> list[int] | None:
    """By node, normalised; None when PreScore skips."""
    asked, state, rows = plugin(**args), CycleState(), slice(None)
    if asked.pre_score(state, subject, snapshot, rows).code is Code.SKIP:
        return None
    raw = asked.score(state, subject, snapshot, rows)
    return asked.normalize(state, subject, raw, snapshot, rows).tolist()


def test_a_pod_without_terms_among_pods_without_terms_is_skipped() -> None:
    snapshot = cluster(n1=web())
    assert plugin().pre_filter(CycleState(), pod(), snapshot).status.code is Code.SKIP
    assert scores(pod(), snapshot) is None


class TestFilter:
    def test_affinity_leaves_the_domain_of_a_matching_pod(self) -> None:
        subject = pod(required_affinity=(near("zone"),))
        assert verdicts(subject, cluster(n1=web())) == [PASSES, PASSES, ALONE, ALONE]

    def test_affinity_to_no_pod_is_refused_everywhere(self) -> None:
        assert verdicts(pod(required_affinity=(near("zone"),)), cluster()) == [ALONE] * 4

    def test_all_terms_must_be_satisfied_by_the_same_pod(self) -> None:
        subject = pod(required_affinity=(near("zone"), near("zone", selector=labelled(tier="gold"))))
        apart = cluster(n1=web(), n2=pod("gold", labels={"tier": "gold"}))
        assert verdicts(subject, apart) == [ALONE] * 4
        both = cluster(n1=pod("both", labels={"app": "web", "tier": "gold"}))
        assert verdicts(subject, both) == [PASSES, PASSES, ALONE, ALONE]

    def test_the_first_of_a_series_may_go_where_the_topology_is_known(self) -> None:
        first = web(required_affinity=(near("zone"),))
        assert verdicts(first, cluster()) == [PASSES, PASSES, PASSES, ALONE]
        assert verdicts(first, cluster(n4=web("nowhere"))) == [PASSES, PASSES, PASSES, ALONE]
        assert verdicts(first, cluster(n3=web("second"))) == [ALONE, ALONE, PASSES, ALONE]

    def test_the_own_anti_affinity_keeps_off_the_domain(self) -> None:
        subject = pod(required_anti_affinity=(near("zone"),))
        assert verdicts(subject, cluster(n1=web())) == [REPELS, REPELS, PASSES, PASSES]

    def test_whom_a_placed_pod_repels_keeps_off_its_domain(self) -> None:
        snapshot = cluster(n1=pod("hermit", required_anti_affinity=(near("host"),)))
        assert verdicts(web(), snapshot) == [REPELLED, PASSES, PASSES, PASSES]
        assert plugin().pre_filter(CycleState(), pod(), snapshot).status.code is Code.SKIP

    def test_first_checked_of_several_reasons_is_reported(self) -> None:
        hermit = web("hermit", required_anti_affinity=(near("zone"),))
        subject = web(required_affinity=(near("zone"),), required_anti_affinity=(near("host"),))
        assert verdicts(subject, cluster(n1=hermit)) == [REPELS, REPELLED, ALONE, ALONE]

    def test_term_without_a_selector_matches_no_pod_and_an_empty_one_all(self) -> None:
        snapshot = cluster(n1=web())
        to_none, to_all = near("host", selector=None), near("host", selector=LabelSelector())
        assert verdicts(pod(required_anti_affinity=(to_none,)), snapshot) == [PASSES] * 4
        assert verdicts(pod(required_anti_affinity=(to_all,)), snapshot) == [REPELS, PASSES, PASSES, PASSES]
        assert verdicts(web(required_affinity=(to_none,)), snapshot) == [ALONE] * 4


class TestNamespaces:
    TEAM = PodAffinityTerm("host", labelled(app="web"), frozenset(), labelled(team="blue"))

    def around(self, team: str) -> Surroundings:
        return Surroundings({"default": Namespace("default", {"team": team})})

    def test_other_namespaces_are_not_meant(self) -> None:
        subject = pod(required_anti_affinity=(near("host", namespaces=frozenset({"elsewhere"})),))
        assert verdicts(subject, cluster(n1=web())) == [PASSES] * 4

    def test_namespaces_are_selected_by_their_labels_as_they_are_now(self) -> None:
        subject, asked = pod(required_anti_affinity=(self.TEAM,)), plugin()
        blue = cluster(self.around("blue"), n1=web())
        assert verdicts(subject, blue, asked) == [REPELS, PASSES, PASSES, PASSES]
        red = blue.at(2, surroundings=self.around("red"))
        assert verdicts(subject, red, asked) == [PASSES] * 4
        assert verdicts(subject, blue, asked) == [REPELS, PASSES, PASSES, PASSES]

    def test_those_of_placed_pods_too(self) -> None:
        asked = plugin()
        blue = cluster(self.around("blue"), n1=pod("hermit", required_anti_affinity=(self.TEAM,)))
        assert verdicts(web(), blue, asked) == [REPELLED, PASSES, PASSES, PASSES]
        red = blue.at(2, surroundings=self.around("red"))
        assert asked.pre_filter(CycleState(), web(), red).status.code is Code.SKIP

    def test_an_empty_namespace_selector_means_all(self) -> None:
        everywhere = replace(self.TEAM, namespace_selector=LabelSelector())
        subject = pod(required_anti_affinity=(everywhere,))
        assert verdicts(subject, cluster(n2=web(namespace="unheard-of"))) == [PASSES, REPELS, PASSES, PASSES]


class TestScore:
    def test_preferences_add_up_over_pods_and_domains(self) -> None:
        subject = pod(preferred_affinity=prefer(10, near("zone")), preferred_anti_affinity=prefer(4, near("host")))
        # n1: 10 - 4, n2: 10, the others 0
        assert scores(subject, cluster(n1=web())) == [60, 100, 0, 0]

    def test_what_is_left_behind_the_point_is_cut_off(self) -> None:
        subject = pod(preferred_affinity=(*prefer(1, near("host")), *prefer(2, near("zone"))))
        assert scores(subject, cluster(n1=web(), n3=web("other"))) == [100, 66, 100, 0]

    def test_placed_pods_prefer_too_and_their_affinity_counts_a_little(self) -> None:
        keen = pod("keen", preferred_affinity=prefer(50, near("zone")))
        bound = pod("bound", required_affinity=(near("zone"),))
        shy = pod("shy", preferred_anti_affinity=prefer(3, near("host")))
        assert scores(web(), cluster(n1=keen)) == [100, 100, 0, 0]
        assert scores(web(), cluster(n1=bound, n4=shy)) == [100, 100, 75, 0]
        assert scores(web(), cluster(n1=bound)) == [100, 100, 0, 0]
        assert scores(web(), cluster(n1=bound), hard_pod_affinity_weight=0) is None
        assert scores(web(), cluster(n1=bound, n3=keen), hard_pod_affinity_weight=25) == [50, 50, 100, 0]

    def test_placed_pods_preferences_can_be_left_out_for_pods_without_any(self) -> None:
        snapshot = cluster(n1=pod("keen", preferred_affinity=prefer(50, near("zone"))))
        ignoring = {"ignore_preferred_terms_of_existing_pods": True}
        assert scores(web(), snapshot, **ignoring) is None
        choosy = web(preferred_affinity=prefer(50, near("zone", "db")))
        assert scores(choosy, snapshot, **ignoring) == [100, 100, 0, 0]

    def test_equal_sums_are_worth_nothing(self) -> None:
        subject = pod(preferred_affinity=prefer(10, near("zone")))
        assert scores(subject, cluster(nodes=NODES[:2], n1=web())) == [0, 0]


@pytest.mark.parametrize("weight", [-1, 101])
def test_the_weight_of_required_affinity_lies_between_0_and_100(weight: int) -> None:
    with pytest.raises(ValidationError):
        InterPodAffinityArgs.model_validate({"hardPodAffinityWeight": weight})


def test_defaults_of_the_arguments() -> None:
    args = InterPodAffinityArgs()
    assert (args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods) == (1, False)
