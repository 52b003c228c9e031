"""The domain of a gang against a plain reading of kube-scheduler: members placed, and how full it is with them."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings

from tests.properties.test_gangs_whole import DEFAULT, clusters, domain_of, gangs, room
from wharfinger.framework.gangs.gangs import place
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import Wanted

MOST = 100


def percent(infos: Sequence[NodeInfo], wanted: Wanted, placed: int) -> int:
    """How full these nodes are with so many members: the mean of cpu and memory, each rounded down."""
    one = wanted.members[0]
    found = []
    for name, used, request in (
        ("cpu", sum(info.scoring_cpu for info in infos), one.scoring_cpu),
        ("memory", sum(info.scoring_memory for info in infos), one.scoring_memory),
    ):
        capacity = sum(info.node.allocatable[name] for info in infos)
        if capacity:
            found.append(MOST * min(used + placed * request, capacity) // capacity)
    return sum(found) // len(found)


@settings(max_examples=75)
@given(clusters(), gangs())
def test_no_other_domain_has_more_points_than_the_chosen_one(around: Snapshot, wanted: Wanted) -> None:
    domains: dict[tuple[str | None, ...], list[NodeInfo]] = {}
    for info in around.rows:
        where = domain_of(info, wanted)
        if None not in where:
            domains.setdefault(where, []).append(info)
    holds = {
        where: min(len(wanted.members), sum(room(info, wanted, evicting=False) for info in infos))
        for where, infos in domains.items()
    }
    enough = {where for where, count in holds.items() if count >= wanted.required}
    most = max([wanted.required, *holds.values()])
    points = {where: MOST * holds[where] // most + percent(domains[where], wanted, holds[where]) for where in enough}

    placement = place(DEFAULT, wanted, around, preempt=False)

    assert placement.placed == bool(enough)
    if placement.placed and wanted.topology_keys:
        chosen = domain_of(around.info(placement.seats[0].node), wanted)
        assert points[chosen] == max(points.values())
        assert len(placement.seats) == holds[chosen]
