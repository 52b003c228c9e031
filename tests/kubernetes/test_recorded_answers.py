"""How decisions on a Kubernetes API are compared with the recorded ones: what differs is named, and counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.conformance.scenarios import families, scenarios
from tests.kubernetes.recorded_answers import (
    ENOUGH,
    Answer,
    Difference,
    SeenCondition,
    SeenEvent,
    differences,
    failed,
    same_refusals,
    scheduled,
    table,
    tally,
    total,
)
from tests.kubernetes.recorded_objects import classes_of, one_configuration, pod, scheduler_names

NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption victims."
RECORDED_NO_ROOM = NO_ROOM.replace("preemption:", "no new claims to deallocate, preemption:")
REFUSED = SeenCondition("False", "Unschedulable", NO_ROOM)
BOUND = SeenCondition("True")


def seen(node: str = "", **fields: Any) -> Answer:
    """Of pod p1; with a node it was bound there."""
    if node:
        fields = {"bound": BOUND, "events": (scheduled("p1", "default/p1", node),), **fields}
    return Answer("mixed-1 p1", "default/p1", "uid", node, **fields)


def evicted(name: str) -> SeenEvent:
    return SeenEvent(name, "Preempted", "Preempting", "Normal", "Preempted by pod uid on node n0")


PLACED = {"pod": "p1", "node": "n0", "scores": {"n0": {"Fit": 9}, "n1": {"Fit": 4, "Image": 5}, "n2": {"Fit": 8}}}
TURNED_AWAY = {"pod": "p1", "message": RECORDED_NO_ROOM}
PREEMPTED = {"pod": "p1", "node": "n0", "nominated": "n0", "victims": ["p3", "p2"]}
GATED = {"pod": "p1", "gated": True}
AS_TURNED_AWAY = seen(refused=REFUSED, events=(failed("p1", NO_ROOM),))
AS_PREEMPTED = seen(
    "n0",
    refused=REFUSED,
    nominated="n0",
    victims=("p2", "p3"),
    events=(failed("p1", NO_ROOM), scheduled("p1", "default/p1", "n0"), evicted("p2"), evicted("p3")),
)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (seen("n0"), PLACED),
        (seen("n1"), PLACED),
        (AS_TURNED_AWAY, TURNED_AWAY),
        (AS_PREEMPTED, PREEMPTED),
        (seen(refused=SeenCondition("False", "SchedulingGated", "has gates")), GATED),
    ],
    ids=["recorded node", "another best node", "refused", "preempted", "gated"],
)
def test_what_was_recorded_does_not_differ(answer: Answer, expected: dict[str, Any]) -> None:
    assert differences(answer, expected) == []


def test_attempt_between_two_victims_does_not_count() -> None:
    again = failed("p1", "0/2 nodes are available: 2 Insufficient cpu. preemption: not eligible.")

    assert differences(replace(AS_PREEMPTED, events=(*AS_PREEMPTED.events, again)), PREEMPTED) == []


OTHER_TEXT = NO_ROOM.replace("cpu", "memory")


@pytest.mark.parametrize(
    ("answer", "expected", "aspects"),
    [
        (seen("n2"), PLACED, ["node"]),
        (seen(), PLACED, ["node", "condition", "events"]),
        (seen("n0", events=()), PLACED, ["events"]),
        (seen("n0", bound=SeenCondition("True", "Bound")), PLACED, ["condition"]),
        (seen("n0", refused=REFUSED), PLACED, ["condition"]),
        (replace(AS_TURNED_AWAY, refused=REFUSED._replace(message=OTHER_TEXT)), TURNED_AWAY, ["condition"]),
        (replace(AS_TURNED_AWAY, refused=REFUSED._replace(reason="SchedulerError")), TURNED_AWAY, ["condition"]),
        (replace(AS_TURNED_AWAY, events=(failed("p1", OTHER_TEXT),)), TURNED_AWAY, ["events"]),
        (replace(AS_TURNED_AWAY, nominated="n0"), TURNED_AWAY, ["nomination"]),
        (replace(AS_TURNED_AWAY, victims=("p2",)), TURNED_AWAY, ["victims"]),
        (replace(AS_PREEMPTED, victims=("p2",)), PREEMPTED, ["victims"]),
        (replace(AS_PREEMPTED, nominated=""), PREEMPTED, ["nomination"]),
        (replace(AS_PREEMPTED, refused=None), PREEMPTED, ["condition", "events"]),
        (replace(AS_PREEMPTED, events=AS_PREEMPTED.events[:-1]), PREEMPTED, ["events"]),
        (replace(AS_PREEMPTED, node="n1"), PREEMPTED, ["node", "events"]),
    ],
)
def test_each_aspect_that_differs_is_named(answer: Answer, expected: dict[str, Any], aspects: list[str]) -> None:
    assert [one.aspect for one in differences(answer, expected)] == aspects


def test_given_nodes_count_where_scores_were_not_recorded() -> None:
    expected = {"pod": "p1", "node": "n0"}

    assert differences(seen("n1"), expected, ["n0", "n1"]) == []
    assert [one.aspect for one in differences(seen("n1"), expected)] == ["node"]


def test_table_counts_decisions_aspect_by_aspect() -> None:
    wrong = [Difference("a-1 p1", "node", "n0", "n1"), Difference("a-1 p1", "events", "x", "y")]
    tallies = [tally("a", [[], wrong, []], apart=2), tally("b", [[]])]
    whole = total(tallies)

    assert (whole.decisions, whole.whole, whole.apart) == (4, 3, 2)
    assert whole.equal == {"node": 3, "condition": 4, "nomination": 4, "victims": 4, "events": 3}
    assert whole.share < ENOUGH
    assert table(tallies).splitlines()[1].split() == ["a", *["3", "2", "3", "3", "3", "2", "2"], "66.67", "%", "2"]
    assert tally("none", []).share < ENOUGH


def test_refusals_of_two_schedulers_are_compared_by_their_text() -> None:
    other = replace(AS_PREEMPTED, refused=REFUSED._replace(message=OTHER_TEXT))
    recorded = replace(AS_PREEMPTED, refused=REFUSED._replace(message=RECORDED_NO_ROOM))

    assert same_refusals([AS_PREEMPTED], [recorded]) == (1, 1)
    assert same_refusals([AS_PREEMPTED], [other]) == (0, 1)
    assert same_refusals([AS_PREEMPTED], [seen("n0")]) == (0, 0)


# --- objects --------------------------------------------------------------------------------------


def test_priority_and_overhead_come_from_classes() -> None:
    fields = {
        "metadata": {"name": "p1", "namespace": "default", "uid": "pod-1", "labels": {"app": "web"}},
        "spec": {"priority": 100, "preemptionPolicy": "Never", "overhead": {"cpu": "1"}, "containers": []},
    }
    (_, priority), (_, runtime) = classes_of({"pods": [fields]})
    body = pod(fields, "mine", on="n0")

    assert (priority["value"], priority["preemptionPolicy"]) == (100, "Never")
    assert runtime["overhead"] == {"podFixed": {"cpu": "1"}}
    assert body["metadata"] == {"name": "p1", "namespace": "default", "labels": {"app": "web"}}
    assert body["spec"] == {
        "overhead": {"cpu": "1"},
        "containers": [],
        "priorityClassName": priority["metadata"]["name"],
        "runtimeClassName": runtime["metadata"]["name"],
        "schedulerName": "mine",
        "nodeName": "n0",
    }


def test_each_recorded_profile_has_a_scheduler_name() -> None:
    names = scheduler_names(one.values[0] for one in scenarios(*families()))
    profiles = one_configuration(names)["profiles"]

    assert [one["schedulerName"] for one in profiles] == list(names.values())
    assert names["{}"] == "default-scheduler"
    assert len(set(names.values())) == len(names) > 10
    assert {one.get("percentageOfNodesToScore") for one in profiles} == {None, 0, 50, 100}
