"""A gang's placement against a plain reading: whole, within each node's room, in one domain; refused only for room."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from wharfinger.framework.gangs.gangs import place
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import Wanted, in_order
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod

DEFAULT = load_profiles()["default-scheduler"]
ZONES = ("x", "y", "z", "")


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Nodes of some cpu in some zone, with pods of lower or higher priority on them."""
    infos = []
    for number in range(draw(st.integers(1, 6))):
        cpu, zone = draw(st.integers(0, 6)), draw(st.sampled_from(ZONES))
        name, there = f"n{number}", []
        for each in range(draw(st.integers(0, cpu))):
            priority = draw(st.sampled_from([0, 50]))
            there.append(
                pod(
                    f"{name}-{each}",
                    cpu=1000,
                    priority=priority,
                    node_name=name,
                    create_revision=90 + 10 * number + each,
                )
            )
        labels = {"zone": zone} if zone else {}
        rack = draw(st.sampled_from(["1", "2", ""]))
        labels |= {"rack": rack} if rack else {}
        infos.append(NodeInfo.of(node(name, cpu=cpu * 1000, labels=labels, pods=draw(st.integers(3, 9))), there))
    return Snapshot.of(infos)


@st.composite
def gangs(draw: st.DrawFn) -> Wanted:
    """Equal members, so that greedy is best; some of them are needed."""
    cpu, count = draw(st.sampled_from([1000, 2000])), draw(st.integers(1, 7))
    members = [pod(f"m{each}", cpu=cpu, priority=10, create_revision=each + 1, group="g") for each in range(count)]
    return Wanted(
        in_order(members), draw(st.integers(1, count)), (), draw(st.sampled_from([(), ("zone",), ("rack", "zone")]))
    )


def room(info: NodeInfo, wanted: Wanted, *, evicting: bool) -> int:
    """Members that the node holds."""
    stay: list[Pod] = [one for one in info.pods.values() if not (evicting and one.priority < 10)]
    cpu = info.node.allocatable["cpu"] - sum(one.requests["cpu"] for one in stay)
    return max(0, min(cpu // wanted.members[0].requests["cpu"], info.node.allocatable["pods"] - len(stay)))


def domain_of(info: NodeInfo, wanted: Wanted) -> tuple[str | None, ...]:
    """The node's values of the gang's topology keys."""
    return tuple(info.node.labels.get(key) for key in wanted.topology_keys)


def most(around: Snapshot, wanted: Wanted, *, evicting: bool) -> int:
    """Members that fit together, in the domain that takes most."""
    held: Counter[tuple[str | None, ...]] = Counter()
    for info in around.rows:
        where = domain_of(info, wanted)
        if None not in where:
            held[where] += room(info, wanted, evicting=evicting)
    return max(held.values(), default=0)


@settings(max_examples=150)
@given(clusters(), gangs())
def test_it_is_placed_whole_where_it_fits_and_only_there(around: Snapshot, wanted: Wanted) -> None:
    placement = place(DEFAULT, wanted, around)

    assert placement.placed == (most(around, wanted, evicting=False) >= wanted.required)
    if placement.placed:
        assert len(placement.seats) >= wanted.required
        assert placement.nominations == ()
        on = Counter(one.node for one in placement.seats)
        assert all(count <= room(around.info(name), wanted, evicting=False) for name, count in on.items())
        assert len({domain_of(around.info(name), wanted) for name in on}) == 1
        return
    assert placement.seats == ()
    assert placement.message
    assert placement.rejectors
    possible = most(around, wanted, evicting=True) >= wanted.required
    assert bool(placement.nominations) == possible
    victims = [victim for one in placement.nominations for victim in one.victims]
    assert all(victim.priority < 10 for victim in victims)
    assert len({victim.key for victim in victims}) == len(victims)
    if possible:
        assert len(placement.nominations) == wanted.required
        gone = {victim.identity for victim in victims}
        assert len({domain_of(around.info(one.node), wanted) for one in placement.nominations}) == 1
        for name, count in Counter(one.node for one in placement.nominations).items():
            left = around.info(name).without_pods(gone)
            assert count <= room(left, wanted, evicting=False)
