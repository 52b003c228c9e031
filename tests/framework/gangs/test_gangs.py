"""A gang is placed whole or not at all; in one domain, if it asks for that; room is made for all of it or none."""

from __future__ import annotations

from typing import Any

import pytest

from wharfinger.framework.domain import domain, terms_of
from wharfinger.framework.gangs.gangs import GangPlacement, place, seated
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.plugins.names import NODE_RESOURCES_FIT
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import GANG_SCHEDULING, Wanted, in_order
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.objects.model.selectors import LabelSelector, Operator, PodAffinityTerm, Requirement
from wharfinger.testing.builders import node, pod

DEFAULT = load_profiles()["default-scheduler"]
ZONE = "zone"


def members(count: int, *, cpu: int = 1000, **fields: Any) -> tuple[Pod, ...]:
    return tuple(
        pod(f"m{number}", cpu=cpu, create_revision=number + 1, group="team", **fields) for number in range(count)
    )


def cluster(nominated: dict[str, tuple[Pod, ...]] | None = None, **nodes: tuple[int, str, list[Pod]]) -> Snapshot:
    """By name: cpu, zone (empty for none), pods on it."""
    infos = [
        NodeInfo.of(node(name, cpu=cpu, labels={ZONE: zone} if zone else {}), pods)
        for name, (cpu, zone, pods) in nodes.items()
    ]
    return Snapshot.of(infos, nominated=nominated or {})


def running(name: str, node_name: str, *, cpu: int, **fields: Any) -> Pod:
    return pod(name, cpu=cpu, node_name=node_name, **{"create_revision": 90, **fields})


def nodes_of(placement: GangPlacement) -> dict[str, str]:
    return {one.pod.name: one.node for one in placement.seats}


def test_each_member_sees_those_before_it() -> None:
    around = cluster(a=(2000, "", []), b=(2000, "", []))

    placement = place(DEFAULT, Wanted(members(4), 4), around)

    assert placement.placed
    assert sorted(nodes_of(placement).values()) == ["a", "a", "b", "b"]
    assert placement.message == ""
    assert all(not info.pods for info in around.rows)


def test_too_little_room_for_one_is_too_little_for_all() -> None:
    placement = place(DEFAULT, Wanted(members(4), 4), cluster(a=(2000, "", []), b=(1500, "", [])))

    assert not placement.placed
    assert placement.seats == placement.nominations == ()
    assert placement.message.startswith("0/2 nodes are available: 2 Insufficient cpu. ")
    assert "gang needs 4 members placed together, 3 fit." in placement.message
    assert placement.rejectors == (NODE_RESOURCES_FIT,)
    assert [one.pod.name for one in placement.away] == ["m3"]


def test_members_beyond_those_needed_come_along_where_they_fit() -> None:
    placement = place(DEFAULT, Wanted(members(5), 2), cluster(a=(3000, "", [])))

    assert len(placement.seats) == 3
    assert [(one.pod.name, one.after) for one in placement.away] == [("m3", 3), ("m4", 3)]


def test_member_that_fits_nowhere_is_left_out_if_the_others_suffice() -> None:
    huge = pod("huge", cpu=9000, priority=5)

    placement = place(DEFAULT, Wanted(in_order((*members(2), huge)), 2), cluster(a=(2000, "", [])))

    assert set(nodes_of(placement)) == {"m0", "m1"}
    assert [one.pod.name for one in placement.away] == ["huge"]


def test_the_more_important_the_older_and_the_first_by_name_come_first() -> None:
    pods = (pod("b", create_revision=3), pod("a", create_revision=3), pod("old", create_revision=1))

    assert [one.name for one in in_order((*pods, pod("high", priority=1, create_revision=9)))] == [
        "high",
        "old",
        "a",
        "b",
    ]


# --- one domain -----------------------------------------------------------------------------------


def test_all_members_go_to_one_domain() -> None:
    around = cluster(a=(2000, "x", []), b=(2000, "y", []), c=(2000, "y", []), d=(9000, "", []))

    placement = place(DEFAULT, Wanted(members(3), 3, topology_keys=(ZONE,)), around)

    assert str(placement.domain) == "zone=y"
    assert set(nodes_of(placement).values()) == {"b", "c"}


def racks(*nodes: tuple[str, str, str, list[Pod]]) -> Snapshot:
    """Nodes of two cpus: name, zone, rack (empty for none), pods on it."""
    return Snapshot.of(
        NodeInfo.of(
            node(name, cpu=2000, labels={key: value for key, value in ((ZONE, zone), ("rack", rack)) if value}), pods
        )
        for name, zone, rack, pods in nodes
    )


def test_all_members_have_one_value_of_each_of_several_keys() -> None:
    around = racks(
        ("a", "x", "1", []), ("b", "x", "2", []), ("c", "y", "2", []), ("d", "x", "2", []), ("e", "x", "", [])
    )
    keys = ("rack", ZONE)

    placement = place(DEFAULT, Wanted(members(3), 3, topology_keys=keys), around)

    assert str(placement.domain) == "rack=2,zone=x"
    assert set(nodes_of(placement).values()) == {"b", "d"}
    refused = place(DEFAULT, Wanted(members(5), 5, topology_keys=keys), around)
    assert "in one domain of rack and zone, 4 fit." in refused.message
    nowhere = place(DEFAULT, Wanted(members(2), 2, topology_keys=keys), cluster(a=(9000, "x", [])))
    assert nowhere.message == "gang needs 2 members placed together, and no node has the labels rack and zone."


def test_bound_members_fix_the_domain_of_several_keys() -> None:
    bound = running("there", "c", cpu=1000, group="team")
    around = racks(("a", "x", "1", []), ("b", "x", "2", []), ("c", "y", "2", [bound]))

    placement = place(DEFAULT, Wanted(members(1), 1, (bound,), ("rack", ZONE)), around)

    assert nodes_of(placement) == {"m0": "c"}


@pytest.mark.parametrize("values", [("a", "b"), ("a,b=c", "%2C"), ("", "=")])
def test_a_domain_is_read_back_from_its_text(values: tuple[str, str]) -> None:
    terms = tuple(zip((ZONE, "rack"), values, strict=True))
    around = Snapshot.of([NodeInfo.of(node("a", labels=dict(terms))), NodeInfo.of(node("b", labels={ZONE: values[0]}))])
    found = domain(around, terms)

    assert found.rows.tolist() == [True, False]
    assert terms_of(str(found)) == terms
    assert terms_of("") == ()


def test_of_equally_full_domains_the_one_the_gang_likes_best_goes_first() -> None:
    """Each zone is half full with two pods; but in one of them both are on one node, and the other node is empty."""
    there = [running(f"r{number}", name, cpu=2000, create_revision=90 + number) for number, name in enumerate("aacd")]
    around = cluster(a=(4000, "x", there[:2]), b=(4000, "x", []), c=(4000, "y", there[2:3]), d=(4000, "y", there[3:]))

    placement = place(DEFAULT, Wanted(members(2, cpu=500), 2, topology_keys=(ZONE,)), around)

    assert str(placement.domain) == "zone=x"
    assert set(nodes_of(placement).values()) == {"b"}


def test_a_domain_that_fails_is_followed_by_the_next() -> None:
    """Free resources would do in the better domain; but there is no host port for two members on its only node."""
    port = (HostPort("TCP", "0.0.0.0", 80),)
    used = [running("used", "b", cpu=1000), running("more", "c", cpu=1000, create_revision=91)]
    around = cluster(a=(8000, "x", []), b=(8000, "y", used[:1]), c=(8000, "y", used[1:]))

    placement = place(DEFAULT, Wanted(members(2, host_ports=port), 2, topology_keys=(ZONE,)), around)

    assert str(placement.domain) == "zone=y"
    assert set(nodes_of(placement).values()) == {"b", "c"}


def test_bound_members_fix_the_domain() -> None:
    bound = running("there", "a", cpu=1000, group="team")
    around = cluster(a=(2000, "x", [bound]), b=(9000, "y", []))

    one = place(DEFAULT, Wanted(members(1), 1, (bound,), (ZONE,)), around)
    two = place(DEFAULT, Wanted(members(2), 2, (bound,), (ZONE,)), around)

    assert nodes_of(one) == {"m0": "a"}
    assert not two.placed
    assert "gang needs 2 more members placed together in one domain of zone, 1 fit." in two.message
    assert "1 node(s) outside the gang's domain zone=x" in two.message
    assert two.rejectors == (GANG_SCHEDULING, NODE_RESOURCES_FIT)


def test_without_any_domain_no_pod_is_placed_and_a_label_may_help() -> None:
    placement = place(DEFAULT, Wanted(members(2), 2, topology_keys=(ZONE,)), cluster(a=(9000, "", [])))

    assert not placement.placed
    assert placement.message == "gang needs 2 members placed together, and no node has the label zone."
    assert placement.rejectors == (GANG_SCHEDULING,)


def test_refusal_by_too_small_domains_describes_the_roomiest_one() -> None:
    around = cluster(a=(1000, "x", []), b=(2000, "y", []), c=(1000, "z", []))

    placement = place(DEFAULT, Wanted(members(3), 3, topology_keys=(ZONE,)), around)

    assert str(placement.domain) == "zone=y"
    assert "2 fit." in placement.message


def test_terms_about_pods_outside_the_domain_still_count() -> None:
    """A domain confines where members go, not what plugins see."""
    selector = LabelSelector((Requirement("app", Operator.IN, ("web",)),))
    term = PodAffinityTerm("rack", selector, frozenset({"default"}))
    infos = [
        NodeInfo.of(node("a", labels={ZONE: "x", "rack": "1"}), [running("web", "a", cpu=1, labels={"app": "web"})]),
        NodeInfo.of(node("b", labels={ZONE: "y", "rack": "1"})),
        NodeInfo.of(node("c", labels={ZONE: "y", "rack": "2"})),
    ]

    placement = place(
        DEFAULT, Wanted(members(2, required_anti_affinity=(term,)), 2, topology_keys=(ZONE,)), Snapshot.of(infos)
    )

    assert set(nodes_of(placement).values()) == {"c"}


# --- preemption -----------------------------------------------------------------------------------


def test_room_is_made_for_all_members_or_for_none() -> None:
    low = [running("low-a", "a", cpu=2000), running("low-b", "b", cpu=2000, create_revision=91)]
    around = cluster(a=(2000, "", low[:1]), b=(2000, "", low[1:]), c=(1000, "", []))
    gang = members(5, priority=10)

    placement = place(DEFAULT, Wanted(gang, 5), around)

    assert not placement.placed
    assert sorted(one.node for one in placement.nominations) == ["a", "a", "b", "b", "c"]
    assert sorted(victim.name for one in placement.nominations for victim in one.victims) == ["low-a", "low-b"]
    too_many = place(DEFAULT, Wanted(members(6, priority=10), 6), around)
    assert too_many.nominations == ()
    assert "preemption: 0/3 nodes are available" in too_many.message


def test_member_of_lower_priority_than_another_evicts_no_pod() -> None:
    low = [running("low", "a", cpu=2000, priority=5)]
    around = cluster(a=(2000, "", low))
    unequal = in_order((pod("high", cpu=1000, priority=10), pod("less", cpu=1000, priority=5)))

    assert place(DEFAULT, Wanted(unequal, 2), around).nominations == ()
    assert place(DEFAULT, Wanted(members(2, priority=6), 2), around).nominations


def test_bound_members_are_no_victims_of_their_own_gang() -> None:
    bound = running("there", "a", cpu=2000, priority=0, group="team")
    around = cluster(a=(2000, "", [bound]))

    assert place(DEFAULT, Wanted(members(1, priority=10), 1, (bound,)), around).nominations == ()


def test_members_beyond_the_minimum_evict_no_pod() -> None:
    low = [running("low", "a", cpu=1000)]
    around = cluster(a=(3000, "", low))

    placement = place(DEFAULT, Wanted(members(3, priority=10), 2), around)

    assert placement.placed
    assert len(placement.seats) == 2


def test_room_is_made_in_one_domain() -> None:
    low = [running("low", "b", cpu=2000)]
    around = cluster(a=(1000, "x", []), b=(2000, "y", low))

    placement = place(DEFAULT, Wanted(members(2, priority=10), 2, topology_keys=(ZONE,)), around)

    assert [one.node for one in placement.nominations] == ["b", "b"]


def test_without_preemption_no_pod_is_nominated() -> None:
    low = [running("low", "a", cpu=2000)]

    placement = place(DEFAULT, Wanted(members(2, priority=10), 2), cluster(a=(2000, "", low)), preempt=False)

    assert placement.nominations == ()
    assert "preemption" not in placement.message


def test_members_that_wait_for_victims_have_their_room_but_once() -> None:
    """Each member is nominated; when its turn has come, its nomination is spent and does not count beside it."""
    gang = members(2, nominated_node_name="a")
    around = cluster({"a": gang}, a=(2000, "", []))

    placement = place(DEFAULT, Wanted(gang, 2), around)

    assert nodes_of(placement) == {"m0": "a", "m1": "a"}
    after = seated(around, gang[0], "a")
    assert after.nominated == {"a": gang[1:]}
    assert seated(after, gang[1], "a").nominated == {}


@pytest.mark.parametrize("required", [1, 3])
def test_the_snapshot_of_a_seat_is_the_one_that_those_before_left(required: int) -> None:
    placement = place(DEFAULT, Wanted(members(3), required), cluster(a=(4000, "", [])))

    counted = [len(one.evaluation.snapshot.info("a").pods) for one in placement.seats]
    assert counted == [0, 1, 2]
