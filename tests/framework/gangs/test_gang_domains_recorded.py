"""Racks that a real kube-scheduler 1.36.2 chose for PodGroups with a topology key, all of whose pods existed before.

Its gates GenericWorkload, GangScheduling and TopologyAwareWorkloadScheduling were on. Each case was run twice, with one
outcome. The pods were created first and the PodGroup last, so that it decided for all of them at once.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from wharfinger.framework.gangs.gangs import place
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.gang import Gang, GangKey, Wanted
from wharfinger.objects.model.node import Node
from wharfinger.testing.builders import pod

DEFAULT = load_profiles()["default-scheduler"]
MIB = 1 << 20


class Case(NamedTuple):
    """A cluster of nodes with two CPUs each, a group of pods with one CPU each, and what became of it."""

    racks: dict[str, int]
    """Nodes in each rack."""
    there: list[tuple[str, int, int]]
    """Pods that run: node, thousandths of a CPU, MiB (0 = they ask for no memory)."""
    members: int
    rack: str
    placed: int
    least: int = 0
    """0 = the policy basic."""
    memory: int = 0
    """MiB of each node; 0 = the nodes tell of none."""


CASES = {
    "full with two of three": Case({"r1": 4, "r2": 1}, [("r1-0", 2000, 0)], 3, "r2", 2),
    "full with one of three": Case({"r1": 8, "r2": 1}, [("r2-0", 1000, 0)], 3, "r2", 1),
    "room for all": Case({"r1": 2, "r2": 1}, [], 3, "r1", 3),
    "memory": Case({"r1": 2, "r2": 2}, [("r1-0", 1000, 100), ("r2-0", 500, 3000)], 2, "r2", 2, memory=4000),
    "requests that count in scores alone": Case(
        {"r1": 2, "r2": 2}, [("r1-0", 100, 0), ("r1-0", 100, 0), ("r2-0", 200, 0)], 2, "r1", 2, memory=1000
    ),
    "gang, room for all": Case({"r1": 2, "r2": 1}, [], 3, "r1", 3, least=2),
    "gang, full with the needed ones": Case({"r1": 4, "r2": 1}, [("r1-0", 2000, 0)], 3, "r2", 2, least=2),
    "gang, the smaller rack": Case({"r1": 4, "r2": 3}, [("r1-0", 1000, 0)], 4, "r2", 4, least=4),
    "gang, the rack in use": Case({"r1": 2, "r2": 3}, [("r2-0", 2000, 0)], 3, "r2", 3, least=3),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_the_rack_is_the_one_that_kube_scheduler_chose(case: Case) -> None:
    memory = {"memory": case.memory * MIB} if case.memory else {}
    infos = []
    for rack, count in case.racks.items():
        for name in [f"{rack}-{number}" for number in range(count)]:
            there = [
                pod(f"t{number}", cpu=cpu, memory=mib * MIB, node_name=name, create_revision=50 + number)
                for number, (on, cpu, mib) in enumerate(case.there)
                if on == name
            ]
            room = {"cpu": 2000, "pods": 110, **memory}
            infos.append(NodeInfo.of(Node(name, allocatable=room, labels={"rack": rack}), there))
    members = tuple(pod(f"p{number}", cpu=1000, create_revision=number + 1) for number in range(case.members))
    gang = Gang(GangKey("default", "g"), case.least, ("rack",))

    found = place(DEFAULT, Wanted(members, gang.required(0), (), gang.topology_keys), Snapshot.of(infos))

    assert (str(found.domain), len(found.seats)) == (f"rack={case.rack}", case.placed)
