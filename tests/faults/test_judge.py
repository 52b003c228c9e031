"""A judge that cannot find a violation is worth nothing: each is made by hand here, and each innocent beside it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.judge import GROUP, MIN_AVAILABLE
from tests.faults.population import HOSTNAME, TAINT, ZONE
from tests.faults.story import Story, node, pod


def apart(app: str, key: str = ZONE) -> dict[str, Any]:
    return _required("podAntiAffinity", app, key)


def near(app: str) -> dict[str, Any]:
    return _required("podAffinity", app, ZONE)


def _required(kind: str, app: str, key: str) -> dict[str, Any]:
    term = {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def spread(app: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return {"topologySpreadConstraints": [constraint]}


def three_zones() -> Story:
    return Story().put(node("a1", "a"), node("a2", "a"), node("b1", "b"), node("c1", "c"))


def small(name: str, **more: Any) -> dict[str, Any]:
    return pod(name, cpu="10m", **more)


def test_pods_bound_where_they_fit_are_fine() -> None:
    judge = Story().put(node("n")).put(pod("p"), small("q")).bind(p="n").bind(q="n").delete("default/p").judge()

    assert (judge.violations, judge.binds, judge.excused) == ([], 2, 0)


class TestBoundOnce:
    def test_a_second_node(self) -> None:
        assert "bound-once" in Story().put(node("n"), node("m")).put(pod("p")).bind(p="n").bind(p="m").judged()

    def test_a_node_that_is_taken_away(self) -> None:
        assert Story().put(node("n")).put(pod("p")).bind(p="n").put(pod("p")).judged() == ["bound-once"]

    def test_another_life_may_have_another_node(self) -> None:
        story = Story().put(node("n"), node("m")).put(pod("p")).bind(p="n").delete("default/p")
        assert story.put(pod("p")).bind(p="m").judged() == []


class TestNode:
    def test_one_that_is_not_there(self) -> None:
        assert Story().put(pod("p")).bind(p="n").judged() == ["node-there"]

    def test_one_that_was_deleted(self) -> None:
        assert Story().put(node("n")).put(pod("p")).delete("n").bind(p="n").judged() == ["node-there"]

    @pytest.mark.parametrize("spec", [{"unschedulable": True}, {"taints": [TAINT]}])
    def test_one_that_does_not_want_it(self, spec: dict[str, Any]) -> None:
        assert Story().put(node("n", spec=spec)).put(pod("p")).bind(p="n").judged() == ["node-allows"]

    def test_one_that_was_made_again_and_does_not_want_it(self) -> None:
        story = Story().put(node("n")).put(pod("p")).delete("n").put(node("n", spec={"taints": [TAINT]}))
        assert story.bind(p="n").judged() == ["node-allows"]

    def test_one_that_was_not_selected(self) -> None:
        story = Story().put(node("n", "a")).put(pod("p", nodeSelector={ZONE: "b"}))
        assert story.bind(p="n").judged() == ["node-allows"]

    def test_one_that_is_tolerated(self) -> None:
        story = Story().put(node("n", spec={"taints": [TAINT], "unschedulable": True}))
        assert story.put(pod("p", tolerations=[{"operator": "Exists"}])).bind(p="n").judged() == []


class TestRoom:
    def test_too_much_of_a_resource(self) -> None:
        assert Story().put(node("n")).put(pod("p"), pod("q")).bind(p="n").bind(q="n").judged() == ["room"]

    def test_too_much_in_one_transaction(self) -> None:
        assert Story().put(node("n")).put(pod("p"), pod("q")).bind(p="n", q="n").judged() == ["room"]

    def test_too_many_pods(self) -> None:
        assert Story().put(node("n", pods="1")).put(small("p"), small("q")).bind(p="n").bind(q="n").judged() == ["room"]

    def test_a_node_that_shrinks_is_not_our_doing(self) -> None:
        assert Story().put(node("n")).put(pod("p")).bind(p="n").put(node("n", cpu="100m")).judged() == []

    def test_but_a_bind_onto_it_is(self) -> None:
        story = Story().put(node("n")).put(pod("p"), small("q")).bind(p="n").put(node("n", cpu="100m"))
        assert story.bind(q="n").judged() == ["room"]

    def test_pod_without_requests_may_join_an_overfull_node(self) -> None:
        story = Story().put(node("n")).put(pod("p"), pod("q", cpu="0")).bind(p="n").put(node("n", cpu="100m"))
        assert story.bind(q="n").judged() == []

    def test_what_others_put_there_is_not_our_doing(self) -> None:
        story = Story().put(node("n")).put(pod("p", nodeName="n")).put(pod("q"))
        assert story.bind(q="n").judged() == []

    @pytest.mark.parametrize("gone", ["finished", "deleted"])
    def test_room_that_was_given_back(self, gone: str) -> None:
        story = Story().put(node("n")).put(pod("p"), pod("q")).bind(p="n")
        story = story.delete("default/p") if gone == "deleted" else story.put(pod("p", nodeName="n", phase="Succeeded"))
        assert story.bind(q="n").judged() == []

    def test_a_host_port_twice(self) -> None:
        story = Story().put(node("n")).put(small("p", port=80), small("q", port=80))
        assert story.bind(p="n").bind(q="n").judged() == ["ports"]


class TestAntiAffinity:
    def test_two_in_a_zone_that_keep_apart(self) -> None:
        story = three_zones().put(small("p", app="x", **apart("x")), small("q", app="x", **apart("x")))
        assert set(story.bind(p="a1").bind(q="a2").judged()) == {"anti-affinity"}

    def test_pod_near_one_that_excludes_it_breaks_anti_affinity(self) -> None:
        story = three_zones().put(small("p", **apart("x")), small("q", app="x"))
        assert story.bind(p="a1").bind(q="a2").judged() == ["anti-affinity"]

    def test_one_that_joins_whom_it_keeps_off(self) -> None:
        story = three_zones().put(small("p", **apart("x")), small("q", app="x"))
        assert story.bind(q="a1").bind(p="a2").judged() == ["anti-affinity"]

    def test_both_in_one_transaction(self) -> None:
        story = three_zones().put(small("p", **apart("x")), small("q", app="x"))
        assert "anti-affinity" in story.bind(p="a1", q="a2").judged()

    def test_other_zones_and_other_nodes_will_do(self) -> None:
        story = three_zones().put(small("p", app="x", **apart("x")), small("q", app="x", **apart("x", HOSTNAME)))
        assert story.bind(p="a1").bind(q="b1").judged() == []

    def test_deleted_pod_excludes_no_pod(self) -> None:
        story = three_zones().put(small("p", app="x", **apart("x")), small("q", app="x", **apart("x")))
        assert story.bind(p="a1").delete("default/p").bind(q="a2").judged() == []

    def test_a_label_that_users_changed_just_now_is_an_excuse(self) -> None:
        story = three_zones().put(small("p"), small("q", **apart("x"))).bind(p="a1")
        judge = story.put(small("p", app="x", nodeName="a1")).bind(q="a2").judge()
        assert (judge.violations, judge.excused) == ([], 1)

    def test_one_that_they_changed_long_ago_is_none(self) -> None:
        story = three_zones().put(small("p"), small("q", **apart("x"))).bind(p="a1")
        story = story.put(small("p", app="x", nodeName="a1")).put(node("z")).put(small("r"))
        assert story.put(small("s")).bind(q="a2").judged() == ["anti-affinity"]


class TestAffinity:
    def test_none_of_its_kind_near(self) -> None:
        story = three_zones().put(small("p", app="x", **near("x")), small("q", app="x", **near("x")))
        assert story.bind(p="a1").bind(q="b1").judged() == ["affinity"]

    def test_two_firsts_in_one_transaction(self) -> None:
        story = three_zones().put(small("p", app="x", **near("x")), small("q", app="x", **near("x")))
        assert story.bind(p="a1", q="b1").judged() == ["affinity"]

    def test_the_first_of_its_kind_and_the_next_beside_it(self) -> None:
        story = three_zones().put(small("p", app="x", **near("x")), small("q", app="x", **near("x")))
        assert story.bind(p="a1").bind(q="a2").judged() == []

    def test_one_that_is_not_of_the_kind_it_wants(self) -> None:
        assert three_zones().put(small("p", app="y", **near("x"))).bind(p="a1").judged() == ["affinity"]

    def test_one_that_left_just_now_is_an_excuse(self) -> None:
        story = three_zones().put(small("p", app="x"), small("q", app="y", **near("x"))).bind(p="a1")
        judge = story.delete("default/p").bind(q="a2").judge()
        assert (judge.violations, judge.excused) == ([], 1)


class TestSpread:
    def test_too_many_in_a_zone(self) -> None:
        story = three_zones().put(small("p", app="x", **spread("x")), small("q", app="x", **spread("x")))
        assert story.bind(p="a1").bind(q="a2").judged() == ["spread"]

    def test_one_each(self) -> None:
        pods = [small(name, app="x", **spread("x")) for name in "pqrs"]
        assert three_zones().put(*pods).bind(p="a1").bind(q="b1").bind(r="c1").bind(s="a2").judged() == []

    def test_four_at_once_are_one_after_the_other(self) -> None:
        pods = [small(name, app="x", **spread("x")) for name in "pqrs"]
        assert three_zones().put(*pods).bind(s="a2", p="a1", q="b1", r="c1").judged() == []

    def test_three_at_once_in_two_zones(self) -> None:
        pods = [small(name, app="x", **spread("x")) for name in "pqr"]
        assert set(three_zones().put(*pods).bind(p="a1", q="b1", r="a2").judged()) == {"spread"}

    def test_a_zone_that_is_new_is_an_excuse_for_a_moment(self) -> None:
        pods = [small(name, app="x", **spread("x")) for name in "pq"]
        judge = Story().put(node("a1", "a")).put(*pods).bind(p="a1").put(node("b1", "b")).bind(q="a1").judge()
        assert (judge.violations, judge.excused) == ([], 1)


MEMBER = {GROUP: "g", MIN_AVAILABLE: "2"}


class TestGangs:
    def test_half_of_one(self) -> None:
        story = three_zones().put(small("p", labels=MEMBER), small("q", labels=MEMBER))
        assert story.bind(p="a1").bind(q="b1").judged() == ["gang"]

    def test_all_of_one(self) -> None:
        story = three_zones().put(*(small(name, labels=MEMBER) for name in "pqr"))
        assert story.bind(p="a1", q="b1").bind(r="c1").judged() == []


class TestOurs:
    @pytest.mark.parametrize(
        "spec", [{"schedulerName": "somebody-else"}, {"schedulingGates": [{"name": "not-yet"}]}, {"phase": "Failed"}]
    )
    def test_one_that_was_to_be_left_alone(self, spec: dict[str, Any]) -> None:
        assert Story().put(node("n")).put(pod("p", **spec)).bind(p="n").judged() == ["ours"]


class TestEvicted:
    @pytest.mark.parametrize(
        ("priority", "node_name", "found"), [(9, "n", []), (5, "n", ["evicted"]), (9, "m", ["evicted"])]
    )
    def test_for_a_more_important_pod_that_is_promised_the_room(
        self, priority: int, node_name: str, found: list[str]
    ) -> None:
        leaving = pod("p", nodeName="n", priority=5)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        story = Story().put(node("n"), node("m")).put(pod("p", priority=5)).bind(p="n")
        story.put(pod("q", priority=priority) | {"status": {"nominatedNodeName": node_name}})
        assert story.put(leaving).judged() == found


class TestRequeued:
    def lost(self) -> Story:
        return Story().put(node("n"), node("m")).put(pod("p")).bind(p="n").delete("n")

    def test_pod_of_a_lost_node_may_have_a_new_life(self) -> None:
        story = self.lost().take_off("p", "n").put_anew("p", "n").bind(p="m")

        assert (story.judged(), story.judge().requeues.count) == ([], 1)

    def test_node_that_is_there(self) -> None:
        assert self.lost().put(node("n")).take_off("p", "n").put_anew("p", "n").judged() == ["requeued"]

    def test_pod_of_another_node(self) -> None:
        assert self.lost().take_off("p", "gone").put_anew("p", "gone").judged() == ["requeued"]

    def test_pod_that_is_not_deleted(self) -> None:
        assert self.lost().take_off("p", "n", deleted=False).judged() == ["requeued"]

    def test_new_life_that_is_not_put(self) -> None:
        assert self.lost().take_off("p", "n").put_anew("p", "n", put=False).judged() == ["requeued"]
