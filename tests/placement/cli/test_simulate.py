"""`wharfinger placement simulate` as people run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell

EXAMPLES = str(Path(__file__).parents[3] / "examples" / "placement")
SOON = ("--now", "2026-01-01T12:00:30Z")


def member(name: str, **labels: str) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"} for kind in ("Joined", "Healthy")
    ]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": "2026-01-01T12:00:00Z", "conditions": conditions}
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"agentStatus": [agent]},
    }


def placement(name: str = "web", **policy: Any) -> dict[str, Any]:
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {"resourceSelectors": [{"version": "v1", "kind": "Namespace"}], "policy": policy},
    }


def test_the_example_is_decided_and_told_where_kubefleet_differs(outside: Shell) -> None:
    answer = outside("placement", "simulate", "-f", EXAMPLES, *SOON)
    assert (answer.code, answer.err) == (0, "")
    shop, monitoring = answer.out.split("\n\n")
    rows = {line.split()[0]: line.split()[1] for line in shop.splitlines()[2:6]}
    assert rows == {"amsterdam": "yes", "berlin": "yes", "chicago": "no", "denver": "no"}
    assert shop.splitlines()[-1].startswith("KubeFleet would decide otherwise: D2")
    assert "found 4 cluster(s)" in monitoring
    assert "otherwise" not in monitoring


def test_kubefleet_itself_leaves_the_example_unfulfilled(outside: Shell) -> None:
    answer = outside("placement", "simulate", "-f", EXAMPLES, *SOON, "--upstream", "-o", "json")
    assert answer.code == 1
    shop, monitoring = answer.json
    assert [line["cluster"] for line in shop["decisions"] if line["selected"]] == ["berlin"]
    assert shop["condition"]["status"] == "False"
    assert monitoring["condition"]["status"] == "True"
    assert shop["deviations"] == []


def test_json_has_every_field(outside: Shell) -> None:
    file = outside.file([member("a"), placement(placementType="PickN", numberOfClusters=1)])
    answer = outside("placement", "simulate", "-f", file, *SOON, "-o", "json")
    assert answer.code == 0
    [told] = answer.json
    assert set(told) == {"placement", "numberOfClusters", "condition", "decisions", "deviations", "error"}
    assert (told["placement"], told["numberOfClusters"], told["error"]) == ("cluster/web", 1, None)
    assert set(told["decisions"][0]) == {"cluster", "selected", "affinity", "spread", "reason"}


def test_agents_that_were_heard_long_ago_take_nothing(outside: Shell) -> None:
    file = outside.file([member("a"), placement(placementType="PickN", numberOfClusters=1)])
    answer = outside("placement", "simulate", "-f", file)
    assert answer.code == 1
    assert "no recent heartbeat signals" in answer.out


def test_a_stuck_placement_of_kubefleet_says_why(outside: Shell) -> None:
    file = outside.file([member("eu.west"), placement(placementType="PickN", numberOfClusters=1)])
    answer = outside("placement", "simulate", "-f", file, *SOON, "--upstream")
    assert answer.code == 1
    assert answer.out.startswith("cluster/web: nothing is decided: failed to format a unique label name")


def test_all_mistakes_are_told_and_nothing_is_decided(outside: Shell) -> None:
    wrong = placement(placementType="PickN", clusterNames=["A"])
    file = outside.file([member("a"), wrong, {**member("b"), "status": {"agentStatus": 3}}])
    answer = outside("placement", "simulate", "-f", file, *SOON)
    assert (answer.code, answer.out) == (1, "")
    lines = [line.removeprefix(f"error: {file}: ") for line in answer.err.splitlines()]
    assert [line.split(": ")[:2] for line in lines] == [
        ["ClusterResourcePlacement web", "spec.policy.clusterNames[0]"],
        ["ClusterResourcePlacement web", "spec.policy.numberOfClusters"],
        ["MemberCluster b", "status.agentStatus is no list"],
    ]


@pytest.mark.parametrize(
    ("arguments", "content", "told"),
    [
        ((), [member("a")], "no placement found"),
        (("--now", "noon"), [placement()], "--now 'noon' is no moment such as 2026-01-31T12:00:00Z"),
        (("--now", "2026-01-01T12:00:00"), [placement()], "is no moment such as"),
        ((), "a: [", "error: "),
        ((), "kind: [ClusterResourcePlacement]", "left out"),
    ],
)
def test_what_is_used_wrongly_is_told_in_one_line(
    outside: Shell, arguments: tuple[str, ...], content: Any, told: str
) -> None:
    answer = outside("placement", "simulate", "-f", outside.file(content), *arguments)
    assert answer.code in (1, 2)
    assert told in answer.err
    assert "Traceback" not in answer.err


def test_objects_that_decide_nothing_are_left_out_with_a_note(outside: Shell) -> None:
    eviction = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacementEviction"}
    file = outside.file([member("a"), placement(), eviction])
    answer = outside("placement", "simulate", "-f", file, *SOON)
    assert answer.code == 0
    assert answer.err.startswith("note: ")
    assert "is left out" in answer.err
