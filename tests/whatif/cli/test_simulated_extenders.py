"""`wharfinger simulate` with extenders: asked with `--extenders`, else taken to accept pods, which is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.shell import Shell
from tests.framework.extenders.extender_thread import ExtenderThread
from tests.whatif.objects import node, pod

NODES = [node("n1", cpu="2"), node("n2", cpu="2")]
NOTE = "1 pods concern extenders, which were not asked and are taken to accept them"


@pytest.fixture
def extender() -> Iterator[ExtenderThread]:
    with ExtenderThread().running() as running:
        yield running


def config(folder: Path, extender: ExtenderThread, **fields: Any) -> str:
    file = folder / "config.json"
    verbs = {"filterVerb": "filter", "preemptVerb": "preempt", "nodeCacheCapable": True}
    file.write_text(json.dumps({"extenders": [{"urlPrefix": extender.url, **verbs, **fields}]}))
    return str(file)


def simulated(outside: Shell, objects: list[Any], *options: str) -> Any:
    answer = outside("simulate", "-f", outside.file(objects), "-o", "json", *options)
    assert answer.err == ""
    return answer.json


def test_extenders_are_asked_with_the_option(outside: Shell, extender: ExtenderThread, tmp_path: Path) -> None:
    extender.refused["n1"] = "no licence"
    found = simulated(outside, [*NODES, pod("a")], "--config", config(tmp_path, extender), "--extenders")

    assert [(one["result"], one["node"]) for one in found["pods"]] == [("placed", "n2")]
    assert found["notes"] == []
    [(_, sent)] = extender.server.asked
    assert (sent["Pod"]["metadata"]["name"], sent["NodeNames"]) == ("a", ["n1", "n2"])
    assert sent["Pod"]["metadata"]["uid"]


def test_without_it_they_are_taken_to_accept_the_pod(outside: Shell, extender: ExtenderThread, tmp_path: Path) -> None:
    extender.refused |= {"n1": "no licence", "n2": "no licence"}
    found = simulated(outside, [*NODES, pod("a")], "--config", config(tmp_path, extender))

    assert [one["result"] for one in found["pods"]] == ["placed"]
    assert found["notes"] == [NOTE]
    assert extender.asked == []


def test_a_refusal_counts_the_reasons_of_extenders(outside: Shell, extender: ExtenderThread, tmp_path: Path) -> None:
    extender.refused |= {"n1": "no licence", "n2": "rack is locked"}
    found = simulated(outside, [*NODES, pod("a")], "--config", config(tmp_path, extender), "--extenders")

    [one] = found["pods"]
    assert one["message"].startswith("0/2 nodes are available: 1 no licence, 1 rack is locked.")
    assert one["refusals"] == {extender.url: {"no licence": 1, "rack is locked": 1}}


@pytest.mark.parametrize("capable", [True, False], ids=["uids", "objects"])
def test_victims_are_asked_about(outside: Shell, extender: ExtenderThread, tmp_path: Path, *, capable: bool) -> None:
    low = pod("low", cpu="2", nodeName="n1", priority=0)
    written = config(tmp_path, extender, filterVerb="", nodeCacheCapable=capable)
    found = simulated(outside, [NODES[0], low, pod("vip", cpu="2", priority=9)], "--config", written, "--extenders")

    vip = next(one for one in found["pods"] if one["pod"] == "default/vip")
    assert (vip["result"], vip["victims"]) == ("preempting", ["default/low"])
    assert extender.asked[0] == "preempt"


def test_a_failed_extender_fails_its_pod_alone(outside: Shell, extender: ExtenderThread, tmp_path: Path) -> None:
    extender.breaks.add("filter")
    written = config(tmp_path, extender, managedResources=[{"name": "example.com/gpu", "ignoredByScheduler": True}])
    card = pod("card")
    card["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": "1"}
    found = simulated(outside, [*NODES, card, pod("plain")], "--config", written, "--extenders")

    results = {one["pod"]: one["result"] for one in found["pods"]}
    assert results == {"default/card": "failed", "default/plain": "placed"}
    (card_,) = (one for one in found["pods"] if one["pod"] == "default/card")
    assert "the connection broke in the middle of the answer" in card_["message"], found


def test_a_comparison_asks_about_bound_pods_as_if_unbound(
    outside: Shell, extender: ExtenderThread, tmp_path: Path
) -> None:
    extender.refused["n1"] = "no licence"
    found = simulated(
        outside,
        [*NODES, pod("a", nodeName="n1")],
        "--compare",
        "--config",
        config(tmp_path, extender, preemptVerb=""),
        "--extenders",
    )

    assert [(one["node"], one["chosen"]) for one in found["pods"]] == [("n1", "n2")]
    assert "nodeName" not in extender.server.asked[0][1]["Pod"]["spec"]


def test_a_gang_with_such_a_member_is_refused(outside: Shell, extender: ExtenderThread, tmp_path: Path) -> None:
    group = "pod-group.scheduling.sigs.k8s.io/"
    members = [pod(f"m{number}", labels={f"{group}name": "team", f"{group}min-available": "2"}) for number in range(2)]
    found = simulated(outside, [*NODES, *members], "--config", config(tmp_path, extender), "--extenders")

    assert {one["result"] for one in found["pods"]} == {"gated"}
    assert all("extenders are not asked for gangs" in one["message"] for one in found["pods"])
    assert extender.asked == []
