from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from wharfinger.apiserver import bodies
from wharfinger.apiserver.client import ApiAnswer
from wharfinger.objects.model import conditions

NOW = datetime(2026, 3, 1, 12, 0, 5, 999_999, tzinfo=UTC)
STAMP = "2026-03-01T12:00:05Z"
BEFORE = "2026-03-01T11:00:00Z"


def pod(*conditions: dict[str, Any], nominated: str = "", generation: int = 3) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Pending"}
    if conditions:
        status["conditions"] = list(conditions)
    if nominated:
        status["nominatedNodeName"] = nominated
    metadata = {"namespace": "shop", "name": "web", "uid": "u-1", "resourceVersion": "41", "generation": generation}
    return {"metadata": metadata, "status": status}


def scheduled(**fields: Any) -> dict[str, Any]:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available",
        "lastProbeTime": None,
        "lastTransitionTime": BEFORE,
        **fields,
    }


def refusal(read: dict[str, Any], nominated: str | None = None, **fields: Any) -> dict[str, Any] | None:
    said = {"reason": conditions.UNSCHEDULABLE, "message": "0/3 nodes are available", **fields}
    return bodies.refusal_patch(read, nominated_node=nominated, now=NOW, **said)


def test_binding_names_the_pod_as_promised_and_its_attempt() -> None:
    body = bodies.binding(namespace="shop", name="web", uid="u-1", revision=41, node="n1", attempt="web@run-1")

    assert body == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "namespace": "shop",
            "name": "web",
            "uid": "u-1",
            "resourceVersion": "41",
            "annotations": {"wharfinger.dev/attempt": "web@run-1"},
        },
        "target": {"kind": "Node", "name": "n1"},
    }


@pytest.mark.parametrize(("uid", "revision"), [("", 41), ("u-1", 0)])
def test_binding_without_uid_or_revision_is_an_error(uid: str, revision: int) -> None:
    with pytest.raises(ValueError, match="shop/web needs uid and revision"):
        bodies.binding(namespace="shop", name="web", uid=uid, revision=revision, node="n1", attempt="a")


def test_fence_changes_an_annotation_of_that_pod_only() -> None:
    assert bodies.fence_patch("u-1", 77) == {"metadata": {"uid": "u-1", "annotations": {"wharfinger.dev/fence": "77"}}}
    assert bodies.fence_patch("u-1", 78) != bodies.fence_patch("u-1", 77)


def test_first_refusal_adds_the_condition() -> None:
    assert refusal(pod()) == {
        "metadata": {"uid": "u-1"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "0/3 nodes are available",
                    "lastProbeTime": None,
                    "lastTransitionTime": STAMP,
                    "observedGeneration": 3,
                }
            ]
        },
    }


def test_refusal_that_the_pod_has_already_is_not_written() -> None:
    assert refusal(pod(scheduled())) is None
    assert refusal(pod(scheduled(observedGeneration=1), generation=9)) is None
    assert refusal(pod(scheduled(), nominated="n1"), nominated="n1") is None
    assert refusal(pod(scheduled()), nominated="") is None


def test_other_message_keeps_the_time_of_transition() -> None:
    patch = refusal(pod(scheduled()), message="0/4 nodes are available")

    assert patch is not None
    (condition,) = patch["status"]["conditions"]
    assert (condition["message"], condition["lastTransitionTime"]) == ("0/4 nodes are available", BEFORE)


def test_other_status_moves_the_time_of_transition() -> None:
    patch = refusal(pod(scheduled(status="True")))

    assert patch is not None
    assert patch["status"]["conditions"][0]["lastTransitionTime"] == STAMP


def test_time_of_probe_is_cleared_as_upstream_does() -> None:
    patch = refusal(pod(scheduled(lastProbeTime=BEFORE)))

    assert patch is not None
    assert patch["status"]["conditions"][0]["lastProbeTime"] is None


def test_scheduling_gated_condition_is_replaced_in_place() -> None:
    gated = scheduled(reason="SchedulingGated", message="Scheduling is blocked due to non-empty scheduling gates")

    patch = refusal(pod(gated), reason=conditions.SCHEDULER_ERROR, message="")

    assert patch is not None
    (condition,) = patch["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == ("SchedulerError", None)
    assert condition["lastTransitionTime"] == BEFORE


@pytest.mark.parametrize(
    ("had", "wanted", "status"),
    [
        ("", "n1", {"nominatedNodeName": "n1"}),
        ("n1", "n2", {"nominatedNodeName": "n2"}),
        ("n1", "", {"nominatedNodeName": None}),
    ],
)
def test_nomination_is_set_and_cleared_without_the_condition(had: str, wanted: str, status: dict[str, Any]) -> None:
    expected = {"metadata": {"uid": "u-1"}, "status": status}

    assert refusal(pod(scheduled(), nominated=had), nominated=wanted) == expected


def test_nomination_is_left_alone_by_a_refusal_without_one() -> None:
    patch = refusal(pod(nominated="n1"))

    assert patch is not None
    assert "nominatedNodeName" not in patch["status"]


def test_nomination_is_cleared_at_the_revision_read() -> None:
    metadata = {"uid": "u-1", "resourceVersion": "41"}

    assert bodies.no_nomination_patch(pod(scheduled(), nominated="n1")) == {
        "metadata": metadata,
        "status": {"nominatedNodeName": None},
    }
    assert bodies.no_nomination_patch(pod()) is None


def test_victim_gets_upstreams_condition_at_the_revision_read() -> None:
    patch = bodies.disruption_patch(pod(scheduled(status="True")), scheduler="default-scheduler", now=NOW)

    assert patch == {
        "metadata": {"uid": "u-1", "resourceVersion": "41"},
        "status": {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "default-scheduler: preempting to accommodate a higher priority pod",
                    "lastProbeTime": None,
                    "lastTransitionTime": STAMP,
                    "observedGeneration": 3,
                }
            ]
        },
    }


def test_marked_victim_needs_no_patch() -> None:
    patch = bodies.disruption_patch(pod(), scheduler="s", now=NOW, preemptor="podgroup")
    assert patch is not None
    (condition,) = patch["status"]["conditions"]

    assert condition["message"] == "s: preempting to accommodate a higher priority podgroup"
    assert bodies.disruption_patch(pod(condition), scheduler="s", now=NOW, preemptor="podgroup") is None


def test_pod_without_status_or_generation_can_be_refused() -> None:
    patch = refusal({"metadata": {"name": "web", "uid": "u-1"}})

    assert patch is not None
    assert "observedGeneration" not in patch["status"]["conditions"][0]


def test_only_another_uid_is_another_object() -> None:
    words = 'Pod "web" is invalid: metadata.uid: Invalid value: "u-1": field is immutable'

    assert bodies.is_other_object(ApiAnswer(422, reason="Invalid", message=words))
    assert not bodies.is_other_object(ApiAnswer(422, reason="Invalid", message='Pod "web" is invalid: spec: Forbidden'))
    assert not bodies.is_other_object(ApiAnswer(409, reason="Conflict", message=words))
