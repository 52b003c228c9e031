"""What spread constraints refuse and score, case by case."""

from __future__ import annotations

from typing import Any

import numpy as np

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.arguments import HOSTNAME, ZONE, PodTopologySpreadArgs
from wharfinger.framework.plugins.pod_topology_spread import PodTopologySpread, rounded
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, Requirement, SpreadConstraint, Taint
from wharfinger.objects.model.surroundings import NOTHING_AROUND, PodCollection, Surroundings
from wharfinger.testing.builders import node, pod

WEB = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
EVERYTHING = LabelSelector()
TOO_MANY = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{TOO_MANY} (missing required label)"
SYSTEM = PodTopologySpreadArgs()


def spread(key: str = "zone", max_skew: int = 1, selector: LabelSelector | None = WEB, **more: Any) -> SpreadConstraint:
    return SpreadConstraint(max_skew, key, more.pop("hard", True), selector, **more)


def soft(key: str = "zone", max_skew: int = 1, **more: Any) -> SpreadConstraint:
    return spread(key, max_skew, hard=False, **more)


def web(*constraints: SpreadConstraint, **fields: Any) -> Pod:
    return pod(labels=fields.pop("labels", {"app": "web"}), spread_constraints=constraints, **fields)


def on(where: Node, pods: int = 0, **fields: Any) -> NodeInfo:
    """The node with so many pods of the app."""
    labels = fields.pop("labels", {"app": "web"})
    return NodeInfo.of(where, (pod(f"{where.name}-{n}", labels=labels, **fields) for n in range(pods)))


def in_zone(name: str, zone: str, **labels: str) -> Node:
    return node(name, labels={"zone": zone, **labels})


def refusals(subject: Pod, *infos: NodeInfo, args: PodTopologySpreadArgs = SYSTEM, **around: Any) -> dict[str, str]:
    """Reason by node, of those refused."""
    plugin, state, snapshot = PodTopologySpread(args), CycleState(), Snapshot.of(infos, **around)
    if plugin.pre_filter(state, subject, snapshot).status.code is Code.SKIP:
        return {}
    verdicts = plugin.filter(state, subject, snapshot)
    if verdicts is None:
        return {}
    found = {name: verdicts.at(row).message for row, name in enumerate(snapshot.names)}
    return {name: reason for name, reason in found.items() if reason}


def scores(
    subject: Pod,
    *infos: NodeInfo,
    args: PodTopologySpreadArgs = SYSTEM,
    feasible: list[int] | None = None,
    around: Surroundings = NOTHING_AROUND,
) -> list[int] | None:
    """Scores of the feasible rows; None = skipped."""
    plugin, state, snapshot = PodTopologySpread(args), CycleState(), Snapshot.of(infos, surroundings=around)
    rows = slice(None) if feasible is None else np.array(feasible, dtype=np.intp)
    if plugin.pre_score(state, subject, snapshot, rows).code is Code.SKIP:
        return None
    found: list[int] = plugin.score(state, subject, snapshot, rows).tolist()
    return found


def service(name: str = "web", selector: LabelSelector = WEB, kind: str = "Service") -> PodCollection:
    return PodCollection(kind, "default", name, selector)


class TestRefusing:
    def test_a_domain_that_would_be_too_far_ahead(self) -> None:
        infos = [on(in_zone("a", "a"), 1), on(in_zone("b", "b"), 2), on(in_zone("c", "c"), 1)]
        assert refusals(web(spread()), *infos) == {"b": TOO_MANY}
        assert refusals(web(spread(max_skew=2)), *infos) == {}

    def test_all_nodes_of_the_domain_count_together(self) -> None:
        infos = [on(in_zone("a1", "a"), 1), on(in_zone("a2", "a"), 1), on(in_zone("b", "b"), 1)]
        assert refusals(web(spread()), *infos) == {"a1": TOO_MANY, "a2": TOO_MANY}

    def test_a_pod_that_does_not_match_itself_does_not_add(self) -> None:
        infos = [on(in_zone("a", "a"), 2), on(in_zone("b", "b"), 1)]
        assert refusals(web(spread()), *infos) == {"a": TOO_MANY}
        assert refusals(web(spread(), labels={"app": "db"}), *infos) == {}

    def test_a_node_without_the_key_for_good(self) -> None:
        infos = [on(node("bare"), 5), on(in_zone("a", "a"), 1)]
        assert refusals(web(spread()), *infos) == {"bare": NO_LABEL}
        plugin, state, snapshot = PodTopologySpread(SYSTEM), CycleState(), Snapshot.of(infos)
        plugin.pre_filter(state, web(spread()), snapshot)
        verdicts = plugin.filter(state, web(spread()), snapshot)
        assert verdicts is not None
        assert verdicts.at(0).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def test_the_first_constraint_that_refuses_gives_the_reason(self) -> None:
        infos = [on(in_zone("a", "a"), 2), on(in_zone("b", "b", host="b"))]
        assert refusals(web(spread("zone"), spread("host")), *infos)["a"] == NO_LABEL  # it is not counted at all
        infos.append(on(in_zone("a2", "a", host="a2"), 2))
        assert refusals(web(spread("zone"), spread("host")), *infos)["a"] == TOO_MANY
        assert refusals(web(spread("host"), spread("zone")), *infos)["a"] == NO_LABEL

    def test_nodes_that_lack_a_key_of_another_constraint_are_not_counted(self) -> None:
        infos = [on(in_zone("a", "a"), 9), on(in_zone("a2", "a", host="a2")), on(in_zone("b", "b", host="b"))]
        assert refusals(web(spread("zone"), spread("host")), *infos) == {"a": NO_LABEL}

    def test_pods_of_other_namespaces_and_pods_that_end_do_not_count(self) -> None:
        infos = [on(in_zone("a", "a"), 3, namespace="other"), on(in_zone("b", "b"))]
        assert refusals(web(spread()), *infos) == {}
        infos = [on(in_zone("a", "a"), 3, deletion_timestamp="2026-01-01T00:00:00Z"), on(in_zone("b", "b"))]
        assert refusals(web(spread()), *infos) == {}

    def test_too_few_domains_count_as_if_there_was_an_empty_one(self) -> None:
        infos = [on(in_zone("a", "a"), 1), on(in_zone("b", "b"), 1)]
        assert refusals(web(spread(min_domains=2)), *infos) == {}
        assert refusals(web(spread(min_domains=3)), *infos) == {"a": TOO_MANY, "b": TOO_MANY}

    def test_an_empty_selector_counts_nothing_and_none_at_all_matches_nothing(self) -> None:
        infos = [on(in_zone("a", "a"), 5), on(in_zone("b", "b"))]
        assert refusals(web(spread(selector=EVERYTHING)), *infos) == {}
        assert refusals(web(spread(selector=None)), *infos) == {}

    def test_a_domain_whose_nodes_the_pod_cannot_use_is_left_out(self) -> None:
        infos = [on(in_zone("a", "a", disk="ssd"), 2), on(in_zone("b", "b", disk="hdd"))]
        picky = {"node_selector": {"disk": "ssd"}}
        assert refusals(web(spread(), **picky), *infos) == {}
        assert refusals(web(spread(honor_node_affinity=False), **picky), *infos) == {"a": TOO_MANY}

    def test_taints_matter_only_when_the_constraint_honors_them(self) -> None:
        tainted = node("b", labels={"zone": "b"}, taints=(Taint("k", "", "NoSchedule"),))
        infos = [on(in_zone("a", "a"), 1), on(tainted)]
        assert refusals(web(spread()), *infos) == {"a": TOO_MANY}
        assert refusals(web(spread(honor_node_taints=True)), *infos) == {}

    def test_match_label_keys_narrow_the_selector_to_pods_like_this_one(self) -> None:
        infos = [on(in_zone("a", "a"), 2, labels={"app": "web", "rev": "1"}), on(in_zone("b", "b"))]
        constraint = spread(match_label_keys=("rev", "absent"))
        assert refusals(web(constraint, labels={"app": "web", "rev": "1"}), *infos) == {"a": TOO_MANY}
        assert refusals(web(constraint, labels={"app": "web", "rev": "2"}), *infos) == {}

    def test_nothing_without_hard_constraints(self) -> None:
        plugin, snapshot = PodTopologySpread(SYSTEM), Snapshot.of([on(in_zone("a", "a"))])
        assert plugin.pre_filter(CycleState(), web(soft()), snapshot).status.code is Code.SKIP
        assert plugin.pre_filter(CycleState(), web(), snapshot).status.code is Code.SKIP


class TestScoring:
    def test_fewer_pods_in_the_domain_are_better(self) -> None:
        # costs: 0, 1 x ln 4 = 1.39 -> 1, 3 x ln 4 = 4.16 -> 4; scores 100 x (4 + 0 - cost) div 4
        infos = [on(in_zone("a", "a")), on(in_zone("b", "b"), 4)]
        assert scores(web(soft()), *infos) == [100, 0]
        infos = [on(in_zone("a", "a")), on(in_zone("b", "b"), 1), on(in_zone("c", "c"), 3)]
        # costs with ln 5: 0, 1.61 -> 2, 4.83 -> 5
        assert scores(web(soft()), *infos) == [100, 60, 0]

    def test_everything_is_equal_where_nothing_matches(self) -> None:
        assert scores(web(soft()), on(in_zone("a", "a")), on(in_zone("b", "b"))) == [100, 100]

    def test_a_larger_skew_waters_differences_down(self) -> None:
        infos = [on(in_zone("a", "a")), on(in_zone("b", "b"), 1)]
        # costs: 0 + 4 and 1 x ln 4 + 4 = 5.39 -> 5; 100 x (5 + 4 - cost) div 5
        assert scores(web(soft(max_skew=5)), *infos) == [100, 80]

    def test_costs_are_rounded_half_away_from_zero(self) -> None:
        assert rounded(np.array([0.0, 0.5, 1.5, 2.5, 2.4999999])).tolist() == [0, 1, 2, 3, 2]

    def test_nodes_without_the_key_get_nothing(self) -> None:
        infos = [on(node("bare")), on(in_zone("a", "a"), 1), on(in_zone("b", "b"))]
        assert scores(web(soft()), *infos) == [0, 0, 100]
        assert scores(web(soft(), soft("host")), *infos) == [0, 0, 0]

    def test_only_domains_with_a_feasible_node_make_the_topology_large(self) -> None:
        infos = [on(in_zone("a", "a"), 1), on(in_zone("b", "b"), 3), on(in_zone("c", "c"), 9)]
        # two domains: 1 x ln 4 = 1.39 -> 1, 3 x ln 4 = 4.16 -> 4
        assert scores(web(soft()), *infos, feasible=[0, 1]) == [100, 25]

    def test_pods_on_nodes_that_are_not_feasible_count_in_their_domain(self) -> None:
        infos = [on(in_zone("a1", "a")), on(in_zone("a2", "a"), 3), on(in_zone("b", "b"), 1)]
        # 3 x ln 4 = 4.16 -> 4, 1 x ln 4 = 1.39 -> 1
        assert scores(web(soft()), *infos, feasible=[0, 2]) == [25, 100]

    def test_by_host_each_node_has_its_own_count(self) -> None:
        infos = [on(node(f"n{n}", labels={HOSTNAME: "same"}), n) for n in (0, 1, 2)]
        # costs with ln 5: 0, 1.61 -> 2, 3.22 -> 3
        assert scores(web(soft(HOSTNAME)), *infos) == [100, 33, 0]

    def test_nothing_without_soft_constraints(self) -> None:
        assert scores(web(spread()), on(in_zone("a", "a"))) is None


class TestDefaults:
    AROUND = NOTHING_AROUND.with_object(service())
    ZONED = (
        on(node("a", labels={ZONE: "a", HOSTNAME: "a"}), 1),
        on(node("b", labels={ZONE: "b", HOSTNAME: "b"})),
        on(node("bare", labels={HOSTNAME: "bare"})),
    )

    def test_a_pod_that_belongs_to_nothing_has_none(self) -> None:
        assert scores(web(), *self.ZONED) is None
        other = service("db", LabelSelector((Requirement("app", Operator.IN, ("db",)),)))
        assert scores(web(), *self.ZONED, around=NOTHING_AROUND.with_object(other)) is None

    def test_a_pod_of_a_service_is_spread_over_hosts_and_zones(self) -> None:
        # by host ln 5, by zone (a, b and none) ln 5: 1.61 + 2 + 1.61 + 4 = 9.22 -> 9; 6; without a zone only 2
        assert scores(web(), *self.ZONED, around=self.AROUND) == [22, 55, 100]

    def test_a_pod_with_any_constraint_of_its_own_has_only_those(self) -> None:
        assert scores(web(spread("host")), *self.ZONED, around=self.AROUND) is None

    def test_everything_that_selects_the_pod_counts_together(self) -> None:
        rev = LabelSelector((Requirement("rev", Operator.EXISTS),))
        around = self.AROUND.with_object(service("web-1", rev, "ReplicaSet"))
        args = PodTopologySpreadArgs.model_validate(
            {
                "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
            }
        )
        infos = [on(in_zone("a", "a"), 2), on(in_zone("b", "b"), 0)]
        subject = web(labels={"app": "web", "rev": "1"})
        assert refusals(subject, *infos, args=args, surroundings=self.AROUND) == {"a": TOO_MANY}
        assert refusals(subject, *infos, args=args, surroundings=around) == {}
        assert refusals(web(), *infos, args=args, surroundings=around) == {"a": TOO_MANY}
        owned = {"labels": {"app": "web", "rev": "1"}, "controller": ("ReplicaSet", "web-1")}
        assert refusals(web(**owned), *infos, args=args, surroundings=around) == {}
        owned["controller"] = ("ReplicaSet", "web-2")  # another one, whatever web-1 selects
        assert refusals(web(**owned), *infos, args=args, surroundings=around) == {"a": TOO_MANY}

    def test_listed_defaults_leave_out_nodes_that_lack_a_key(self) -> None:
        args = PodTopologySpreadArgs.model_validate(
            {
                "defaultingType": "List",
                "defaultConstraints": [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}],
            }
        )
        assert scores(web(), *self.ZONED, args=args, around=self.AROUND) == [0, 100, 0]

    def test_an_empty_list_means_none(self) -> None:
        args = PodTopologySpreadArgs.model_validate({"defaultingType": "List"})
        assert scores(web(), *self.ZONED, args=args, around=self.AROUND) is None

    def test_among_many_services_the_right_ones_are_found(self) -> None:
        many = tuple(
            service(f"s{n}", LabelSelector((Requirement("app", Operator.IN, (f"app-{n}",)),))) for n in range(200)
        )
        around = Surroundings(collections={"default": (*many, service())})
        assert scores(web(), *self.ZONED, around=around) == [22, 55, 100]

    def test_a_node_that_changes_its_zone_changes_how_large_the_topology_is(self) -> None:
        plugin, state = PodTopologySpread(SYSTEM), CycleState()
        snapshot = Snapshot.of(self.ZONED[:2], surroundings=self.AROUND)
        elsewhere = self.ZONED[1].with_node(node("b", labels={ZONE: "a", HOSTNAME: "b"}))
        moved = snapshot.with_nodes_changed({1: elsewhere})
        plugin.pre_score(state, web(), snapshot, slice(None))
        # hosts ln 4, zones ln 4: 1.39 + 2 + 1.39 + 4 = 8.77 -> 9; 6
        assert plugin.score(state, web(), snapshot, slice(None)).tolist() == [66, 100]
        # hosts ln 4, one zone ln 3: 1.39 + 2 + 1.10 + 4 = 8.48 -> 8; 2 + 1.10 + 4 = 7.10 -> 7
        assert plugin.score(state, web(), moved, slice(None)).tolist() == [87, 100]
