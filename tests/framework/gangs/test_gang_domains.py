"""Groups in one topology domain: which rack is chosen, alone and one group after the other, as kube-scheduler does.

Each node has two CPUs. A group of the policy `gang` needs some members at once; one of the policy `basic` needs none,
and takes as many as fit into one rack.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from wharfinger.framework.gangs.gang_domains import Packing
from wharfinger.framework.gangs.gangs import GangPlacement, place, seated
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import Gang, GangKey, Wanted, in_order
from wharfinger.objects.model.node import Taint
from wharfinger.objects.model.pod import HostPort, Pod
from wharfinger.testing.builders import GIB, node, pod

DEFAULT = load_profiles()["default-scheduler"]
RACK, ZONE = "rack", "zone"


class Cluster:
    """Nodes in racks, and groups that are placed on them one after the other."""

    def __init__(self, *racks: tuple[str, str, int], used: dict[str, int] | None = None, **fields: Any) -> None:
        """Each rack: name, zone, number of nodes, which are called `<rack>-<number>`; `used`: CPUs in use, by node."""
        infos = []
        for rack, zone, count in racks:
            for number in range(count):
                name = f"{rack}-{number}"
                there = [running(name, cpu=1000 * cpu) for cpu in [(used or {}).get(name, 0)] if cpu]
                room = {"cpu": 2000, "pods": 110, **fields}
                infos.append(NodeInfo.of(node(name, allocatable=room, labels={RACK: rack, ZONE: zone}), there))
        self.snapshot = Snapshot.of(infos)
        self.bound: dict[str, dict[str, Pod]] = {}
        self.waiting: dict[str, list[Pod]] = {}

    def arrive(self, group: str, *pods: Pod, least: int = 0, key: str = RACK) -> dict[str, str]:
        """These pods of a group come; all of it that waits is decided. Returns where its pods are, by their names."""
        there = self.bound.setdefault(group, {})
        pending = self.waiting.setdefault(group, [])
        pending.extend(pods)
        gang = Gang(GangKey("default", group), least, (key,))
        placement = place(DEFAULT, wanted(gang, pending, there), self.snapshot, preempt=False)
        for seat in placement.seats:
            self.snapshot = seated(self.snapshot, seat.pod, seat.node)
            there[seat.pod.name] = on(seat.pod, seat.node)
        self.waiting[group] = [one for one in pending if one.name not in there]
        return {name: one.node_name for name, one in there.items()}

    def end(self, node_name: str) -> None:
        """The pod that runs there from the start ends."""
        row = self.snapshot.index[node_name]
        info = self.snapshot.rows[row].without_pods([running(node_name, cpu=0).identity])
        self.snapshot = self.snapshot.with_pods_changed({row: info})


def wanted(gang: Gang, pending: list[Pod], there: dict[str, Pod]) -> Wanted:
    return Wanted(in_order(pending), gang.required(len(there)), tuple(there.values()), gang.topology_keys)


def running(node_name: str, *, cpu: int) -> Pod:
    return pod(f"on-{node_name}", cpu=cpu, node_name=node_name, create_revision=90, priority=100)


def on(one: Pod, node_name: str) -> Pod:
    return pod(one.name, cpu=one.requests["cpu"], node_name=node_name, create_revision=one.create_revision)


def members(*names: str, cpu: int = 1, **fields: Any) -> tuple[Pod, ...]:
    """Pods of one CPU each, in the order of their names."""
    return tuple(
        pod(name, cpu=1000 * cpu, create_revision=int(name[1:]), group="g", priority=100, **fields) for name in names
    )


def racks_of(found: dict[str, str]) -> set[str]:
    return {name.partition("-")[0] for name in found.values()}


# --- which rack -----------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [3, 0], ids=["gang", "basic"])
@pytest.mark.parametrize(
    ("racks", "used", "chosen"),
    [
        ([("r1", "z1", 2)], {}, "r1"),
        ([("r1", "z1", 2), ("r2", "z2", 3)], {}, "r1"),
        ([("r1", "z1", 2), ("r2", "z2", 3), ("r3", "z2", 1)], {}, "r1"),
        ([("r1", "z1", 2), ("r2", "z2", 3), ("r3", "z2", 3), ("r4", "z2", 1)], {"r2-0": 2, "r3-2": 1}, "r2"),
        ([("r1", "z1", 3), ("r2", "z2", 3), ("r3", "z2", 4)], {"r1-0": 1, "r2-1": 1, "r2-2": 1}, "r2"),
    ],
    ids=["only one", "smaller one", "too small one", "in use most", "in use on two nodes"],
)
def test_the_fullest_rack_that_takes_all_is_chosen(
    racks: list[tuple[str, str, int]], used: dict[str, int], chosen: str, least: int
) -> None:
    found = Cluster(*racks, used=used).arrive("g", *members("p1", "p2", "p3"), least=least)

    assert len(found) == 3
    assert racks_of(found) == {chosen}


def test_a_rack_that_is_too_full_for_a_gang_is_left_out() -> None:
    cluster = Cluster(("r1", "z1", 3), ("r2", "z1", 2), used={"r2-0": 2})

    assert racks_of(cluster.arrive("g", *members("p1", "p2", "p3"), least=3)) == {"r1"}


def test_equal_racks_are_not_mixed() -> None:
    found = Cluster(("r1", "z1", 2), ("r2", "z1", 2), ("r3", "z2", 2)).arrive("g", *members("p1", "p2", "p3"))

    assert len(found) == 3
    assert len(racks_of(found)) == 1


def test_cpu_and_memory_count_alike() -> None:
    """Cpu alone would choose the first rack: it is half full. The other one is full of memory."""
    half = NodeInfo.of(node("a-0", cpu=4000, memory=8 * GIB, labels={RACK: "a"}), [running("a-0", cpu=2000)])
    memory = pod("big", cpu=1000, memory=6 * GIB, node_name="b-0", create_revision=91)
    full = NodeInfo.of(node("b-0", cpu=4000, memory=8 * GIB, labels={RACK: "b"}), [memory])
    gang = Wanted(members("p1", "p2"), 2, (), (RACK,))

    assert str(place(DEFAULT, gang, Snapshot.of([half, full])).domain) == "rack=b"


def test_points_are_those_of_kube_scheduler() -> None:
    """Percents are rounded down, a resource that no node offers does not count, and use ends at the capacity."""
    infos = [
        NodeInfo.of(node("a-0", allocatable={"cpu": 3000, "pods": 9}), [running("a-0", cpu=1000)]),
        NodeInfo.of(node("b-0", cpu=1000, memory=1000 << 20), []),
    ]
    snapshot = Snapshot.of(infos)
    codes = np.array([1, 2], dtype=np.int32)
    three = members("p1", "p2", "p3")
    packing = Packing(snapshot, codes, 3, three, packs=True, most=3)

    assert packing.score(1, three[:1]) == 33 + 66
    assert packing.score(1, three) == packing.bounds(np.array([0, 3, 1]))[1] == 100 + 100
    assert packing.score(2, three[:1]) == 33 + (100 + 20) // 2
    bare = Packing(snapshot, codes, 3, three, packs=False, most=3)
    assert (bare.score(1, three), bare.bounds(np.array([0, 3, 1])).tolist()) == (100, [0, 100, 33])


# --- too little room ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pods", "placed"),
    [
        (members("p1", "p2", "p3"), {"p1", "p2"}),
        (members("p1", "p2", cpu=3), set()),
        ((*members("p1", cpu=3), *members("p2")), {"p2"}),
    ],
    ids=["in the rack", "anywhere", "for some"],
)
def test_of_a_basic_group_as_many_as_fit_go_to_one_rack(pods: tuple[Pod, ...], placed: set[str]) -> None:
    cluster = Cluster(("r1", "z1", 1), ("r2", "z1", 1))

    found = cluster.arrive("g", *pods)

    assert found.keys() == placed
    assert len(racks_of(found)) <= 1
    assert {one.name for one in cluster.waiting["g"]} == {one.name for one in pods} - placed


@pytest.mark.parametrize(
    ("racks", "used", "chosen", "placed"),
    [
        ([("r1", "z1", 4), ("r2", "z1", 1)], {"r1-0": 2}, "r2", 2),
        ([("r1", "z1", 4), ("r2", "z1", 1)], {"r2-0": 1}, "r1", 3),
        ([("r1", "z1", 8), ("r2", "z1", 1)], {"r2-0": 1}, "r2", 1),
    ],
)
def test_a_full_rack_may_count_more_than_room_for_all(
    racks: list[tuple[str, str, int]], used: dict[str, int], chosen: str, placed: int
) -> None:
    """A rack that some members fill has more points than one that all of them leave nearly empty."""
    found = Cluster(*racks, used=used).arrive("g", *members("p1", "p2", "p3"))

    assert (racks_of(found), len(found)) == ({chosen}, placed)


def test_a_rack_that_took_fewer_than_its_room_is_compared_with_the_next() -> None:
    """Free resources let the smaller rack take all three; but its only node gives each host port once."""
    port = (HostPort("TCP", "0.0.0.0", 80),)
    cluster = Cluster(("r1", "z1", 1), ("r2", "z1", 3))
    big = NodeInfo.of(node("r0-0", allocatable={"cpu": 3000, "pods": 9}, labels={RACK: "r0"}), [])
    cluster.snapshot = Snapshot.of([big, *cluster.snapshot.rows])

    found = cluster.arrive("g", *members("p1", "p2", "p3", host_ports=port))

    assert (racks_of(found), len(found)) == ({"r2"}, 3)


def test_a_rack_whose_nodes_refuse_the_group_is_not_chosen() -> None:
    cluster = Cluster(("r1", "z1", 2), ("r2", "z1", 3))
    tainted = [
        NodeInfo.of(node(f"r0-{number}", cpu=2000, labels={RACK: "r0"}, taints=(Taint("own", "", "NoSchedule"),)), [])
        for number in range(2)
    ]
    cluster.snapshot = Snapshot.of([*tainted, *cluster.snapshot.rows])

    assert racks_of(cluster.arrive("g", *members("p1", "p2", "p3"))) == {"r1"}


# --- two groups, one after the other --------------------------------------------------------------


@pytest.mark.parametrize("least", [2, 0], ids=["gang", "basic"])
def test_the_second_group_goes_elsewhere_when_the_rack_is_full(least: int) -> None:
    cluster = Cluster(("r1", "z1", 3), ("r2", "z1", 1))

    assert racks_of(cluster.arrive("one", *members("p1", "p2"), least=least)) == {"r2"}
    second = cluster.arrive("two", *members("p3", "p4"), least=least)

    assert (len(second), racks_of(second)) == (2, {"r1"})


@pytest.mark.parametrize("least", [2, 0], ids=["gang", "basic"])
def test_two_groups_share_the_only_rack(least: int) -> None:
    cluster = Cluster(("r1", "z1", 3))

    assert len(cluster.arrive("one", *members("p1", "p2"), least=least)) == 2
    assert len(cluster.arrive("two", *members("p3", "p4", "p5"), least=least)) == 3


@pytest.mark.parametrize("least", [2, 0], ids=["gang", "basic"])
def test_two_groups_with_different_keys_each_find_their_domain(least: int) -> None:
    cluster = Cluster(("r1", "z1", 1), ("r2", "z2", 2), ("r3", "z2", 2))

    first = cluster.arrive("one", *members("p1", "p2"), least=least)
    second = cluster.arrive("two", *members("p3", "p4", "p5", cpu=2), least=least, key=ZONE)

    assert racks_of(first) == {"r1"}
    assert (len(second), racks_of(second)) == (3, {"r2", "r3"})


def test_a_gang_waits_whole_where_the_one_before_left_too_little_room() -> None:
    cluster = Cluster(("r1", "z1", 2), ("r2", "z1", 1))

    assert racks_of(cluster.arrive("one", *members("p1", "p2", "p3"), least=3)) == {"r1"}
    assert cluster.arrive("two", *members("p4", "p5", "p6"), least=3) == {}


# --- members that come one by one -----------------------------------------------------------------


def test_basic_members_that_come_one_by_one_keep_to_the_rack_of_the_first() -> None:
    """The first member chooses the rack that is fullest with it alone, as in kube-scheduler."""
    cluster = Cluster(("r1", "z1", 2), ("r2", "z1", 1))

    for one in members("p1", "p2", "p3"):
        first = cluster.arrive("one", one)
    for one in members("p4", "p5", "p6"):
        second = cluster.arrive("two", one)

    assert first == dict.fromkeys(["p1", "p2"], "r2-0")
    assert [one.name for one in cluster.waiting["one"]] == ["p3"]
    assert (len(second), racks_of(second)) == (3, {"r1"})


def test_the_rest_of_a_basic_group_follows_when_room_appears_in_its_rack() -> None:
    cluster = Cluster(("r1", "z1", 1), ("r2", "z1", 1), used={"r1-0": 1})
    first, second = members("p1", "p2")

    assert cluster.arrive("g", first) == {"p1": "r1-0"}
    assert cluster.arrive("g", second) == {"p1": "r1-0"}  # there is room, but in the other rack
    cluster.end("r1-0")

    assert cluster.arrive("g") == {"p1": "r1-0", "p2": "r1-0"}


def test_later_members_of_a_gang_wait_when_its_smaller_rack_is_full() -> None:
    cluster = Cluster(("r1", "z1", 3), ("r2", "z1", 2))

    found = cluster.arrive("g", *members("p1", "p2", "p3"), least=3)
    assert racks_of(found) == {"r2"}
    later = cluster.arrive("g", *members("p4", "p5"), least=3)

    assert (len(later), racks_of(later)) == (4, {"r2"})
    assert [one.name for one in cluster.waiting["g"]] == ["p5"]


# --- preemption -----------------------------------------------------------------------------------


def preempting(*pods: Pod, used: dict[str, int], key: tuple[str, ...] = (RACK,)) -> GangPlacement:
    """What a basic group comes to in two racks of one node each, whose pods are less important."""
    snapshot = Cluster(("r1", "z1", 1), ("r2", "z1", 1), used=used).snapshot
    high = tuple(pod(one.name, cpu=one.requests["cpu"], priority=200, create_revision=1, group="g") for one in pods)
    return place(DEFAULT, Wanted(high, 1, (), key), snapshot)


def test_a_basic_group_makes_room_for_one_member_at_a_time() -> None:
    """Each member preempts as an ordinary pod would; the others follow into the rack when it is bound."""
    found = preempting(*members("p1", "p2"), used={"r1-0": 2, "r2-0": 2})

    assert found.seats == ()
    [nomination] = found.nominations
    assert nomination.pod.name == "p1"
    assert [victim.node_name for victim in nomination.victims] == [nomination.node]


def test_a_basic_group_that_fits_in_part_evicts_no_pod() -> None:
    found = preempting(*members("p1", "p2"), used={"r1-0": 2, "r2-0": 1})

    assert [seat.node for seat in found.seats] == ["r2-0"]
    assert found.nominations == ()
    assert [one.pod.name for one in found.away] == ["p2"]
