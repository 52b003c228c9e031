"""What would happen to gangs: they are placed whole, room is made for all of one, or they say what is short."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.whatif.objects import ask, node, nodes_of, pod
from wharfinger.errors import UsageError
from wharfinger.objects.documents.documents import objects
from wharfinger.whatif.outcome import Result
from wharfinger.whatif.simulator.simulator import Simulator

LABEL = "pod-group.scheduling.sigs.k8s.io/"
EXAMPLE = Path(__file__).parents[2] / "examples/gangs/training.yaml"


def team(members: int, *, least: int | None = None, name: str = "team", **more: Any) -> list[dict[str, Any]]:
    labels = {LABEL + "name": name, LABEL + "min-available": str(least or members)}
    return [pod(f"{name}-{number}", labels=labels, **more) for number in range(members)]


def test_a_gang_is_placed_whole_or_not_at_all() -> None:
    answer = ask(node("n", cpu="5"), *team(3), *team(3, name="other"), pod("last"))

    assert nodes_of(answer) == {
        **{f"team-{number}": "n" for number in range(3)},
        **{f"other-{number}": None for number in range(3)},
        "last": "n",
    }
    refused = next(one for one in answer.pods if one.pod.name == "other-0")
    assert refused.result is Result.REFUSED
    assert "gang needs 3 members placed together, 2 fit." in refused.message
    assert refused.refusals == {"NodeResourcesFit": {"Insufficient cpu": 1}}


@pytest.mark.parametrize("label", ["scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io"])
def test_pod_group_of_the_scheduler_plugins_binds_its_members_together(label: str) -> None:
    members = [pod(f"m-{number}", labels={label: "g"}) for number in range(3)]
    group = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"minMember": 3, "minResources": {"cpu": "3"}, "scheduleTimeoutSeconds": 10},
    }

    small = ask(node("n", cpu="2"), group, *members)
    assert set(nodes_of(small).values()) == {None}
    assert "gang needs 3 members placed together, 2 fit." in small.pods[0].message
    assert set(nodes_of(ask(node("n", cpu="3"), group, *members)).values()) == {"n"}
    alone = ask(node("n", cpu="8"), *members)
    assert {one.message for one in alone.pods} == {"SchedulingGated: PodGroup default/g does not exist"}


def test_too_few_members_are_held() -> None:
    answer = ask(node("n", cpu="8"), *team(2, least=3))

    assert {one.result for one in answer.pods} == {Result.GATED}
    assert answer.pods[0].message == "SchedulingGated: PodGroup: 2 of 3 members exist"


def test_room_is_made_for_all_members() -> None:
    low = [pod(f"low-{name}", cpu="2", nodeName=name) for name in "ab"]

    answer = ask(node("a", cpu="2"), node("b", cpu="2"), *low, *team(4, priority=10))

    gang = [one for one in answer.pods if one.pod.name.startswith("team")]
    assert sorted(str(one.node) for one in gang) == ["a", "a", "b", "b"]
    assert [one.result for one in gang].count(Result.PREEMPTING) == 2
    assert sorted(one.pod.name for one in answer.evictions) == ["low-a", "low-b"]


def test_the_example_is_a_gang_in_one_rack() -> None:
    racks = [node(f"n{number}", cpu="8", labels={"example.com/rack": f"r{number // 2}"}) for number in range(4)]
    racks[0]["status"]["allocatable"]["cpu"] = "4"
    for each in racks:
        each["status"]["allocatable"]["memory"] = "64Gi"

    answer = ask(*racks, *objects(EXAMPLE.read_text()))

    assert set(nodes_of(answer).values()) == {"n2", "n3"}


def test_simulator_reports_a_gang_and_pods_without_one() -> None:
    simulator = Simulator()
    for obj in (node("n", cpu="2", labels={"zone": "x"}), pod("lone"), *team(2)):
        simulator.add(obj)

    assert simulator.decide_gang(("default", "lone")) is None
    gang = simulator.decide_gang(("default", "team-1"))
    assert gang is not None
    assert (dict(gang.nodes), gang.message, gang.domain, gang.gated) == (
        {("default", "team-0"): "n", ("default", "team-1"): "n"},
        "",
        "",
        False,
    )
    simulator.bind(("default", "lone"), "n")
    short = simulator.decide_gang(("default", "team-0"))
    assert short is not None
    assert (short.nodes, short.nominations, short.victims, short.rejectors) == ({}, {}, {}, ["NodeResourcesFit"])
    simulator.park(("default", "team-0"), short)
    assert simulator.delete("Pod", "lone") == [("default", "team-0")]
    with pytest.raises(UsageError, match="no Pod default/none"):
        simulator.decide_gang(("default", "none"))
