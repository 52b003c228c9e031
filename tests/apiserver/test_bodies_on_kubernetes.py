"""A real API server takes the bodies as they are meant, from a user with the rules of the table and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from tests.apiserver.api_server_process import ApiServerProcess, Response
from wharfinger.apiserver import bodies
from wharfinger.apiserver.access_checks import LeaseName, cluster_role_rules, needed_access, role_rules
from wharfinger.apiserver.client import EVENTS, OWN_ACCESS_REVIEWS, PODS, ApiAnswer, PatchType, uid_of
from wharfinger.apiserver.events import NOTE_LIMIT, EventReporter, ObjectReference, pod_reference, series_patch

NOW = datetime(2026, 3, 1, 12, 0, 5, 123_456, tzinfo=UTC)
LATER = datetime(2026, 3, 1, 12, 1, tzinfo=UTC)
NAMESPACE = "bodies"
NEEDS = needed_access(lease=LeaseName("kube-system", "bodies-scheduler"))
REPORTER = partial(EventReporter, "default-scheduler", "w-1")


class Scheduler:
    """What wharfinger may do, and a pod to do it to."""

    def __init__(self, server: ApiServerProcess, token: str) -> None:
        self.server = server
        self.token = token
        self.pods = 0

    def pod(self) -> Mapping[str, Any]:
        self.pods += 1
        spec = {"containers": [{"name": "main", "image": "none"}]}
        made: Mapping[str, Any] = self.server.create(
            PODS.path(NAMESPACE), {"metadata": {"name": f"web-{self.pods}"}, "spec": spec}
        )
        return made

    def read(self, pod: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self.server.request("GET", PODS.path(NAMESPACE, pod["metadata"]["name"]), token=self.token)
        assert answer.code == 200, answer
        read: Mapping[str, Any] = answer.body
        return read

    def post(self, path: str, body: object) -> Response:
        return self.server.request("POST", path, body, token=self.token)

    def patch(self, path: str, body: object) -> Response:
        return self.server.request("PATCH", path, body, token=self.token, content_type=PatchType.STRATEGIC)

    def patch_status(self, pod: Mapping[str, Any], body: object) -> Mapping[str, Any]:
        answer = self.patch(PODS.path(NAMESPACE, pod["metadata"]["name"], "status"), body)
        assert answer.code == 200, answer
        patched: Mapping[str, Any] = answer.body
        return patched

    def bind(self, pod: Mapping[str, Any]) -> Response:
        metadata = pod["metadata"]
        body = bodies.binding(
            namespace=NAMESPACE,
            name=metadata["name"],
            uid=uid_of(pod),
            revision=int(metadata["resourceVersion"]),
            node="n1",
            attempt="web@run-1",
        )
        return self.post(PODS.path(NAMESPACE, metadata["name"], "binding"), body)


def condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    (found,) = [given for given in pod["status"]["conditions"] if given["type"] == kind]
    given: Mapping[str, Any] = found
    return given


@pytest.fixture(scope="module")
def scheduler(kube_apiserver: ApiServerProcess) -> Iterator[Scheduler]:
    kube_apiserver.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    kube_apiserver.create(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    user = kube_apiserver.user("bodies-scheduler", cluster_role_rules(NEEDS), namespaced=role_rules(NEEDS))
    yield Scheduler(kube_apiserver, user.token)
    kube_apiserver.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def test_every_row_of_the_table_is_granted_by_its_rules(scheduler: Scheduler) -> None:
    answers = [(need, scheduler.post(OWN_ACCESS_REVIEWS.path(), need.body())) for need in NEEDS]

    assert {answer.code for _, answer in answers} == {201}
    assert [need for need, answer in answers if not answer.body["status"]["allowed"]] == []


def test_rows_are_not_allowed_to_a_user_without_rules(scheduler: Scheduler) -> None:
    nobody = scheduler.server.user("bodies-nobody")

    allowed = [
        need
        for need in NEEDS
        if scheduler.server.request("POST", OWN_ACCESS_REVIEWS.path(), need.body(), token=nobody.token).body["status"][
            "allowed"
        ]
    ]

    assert allowed == []


def test_binding_stores_node_and_attempt_together(scheduler: Scheduler) -> None:
    pod = scheduler.pod()

    answer = scheduler.bind(pod)

    assert answer.code == 201, answer
    bound = scheduler.read(pod)
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"wharfinger.dev/attempt": "web@run-1"}


def test_fence_makes_an_older_binding_fail_whenever_its_value_is_new(scheduler: Scheduler) -> None:
    pod = scheduler.pod()

    fenced = scheduler.patch_status(pod, bodies.fence_patch(uid_of(pod), 77))
    again = scheduler.patch_status(pod, bodies.fence_patch(uid_of(pod), 77))
    moved = scheduler.patch_status(pod, bodies.fence_patch(uid_of(pod), 78))

    revisions = [int(one["metadata"]["resourceVersion"]) for one in (pod, fenced, again, moved)]
    assert revisions[0] < revisions[1] == revisions[2] < revisions[3]
    assert scheduler.bind(pod).code == scheduler.bind(fenced).code == 409
    assert scheduler.bind(moved).code == 201


def test_expected_node_stands_in_the_status_until_the_fence_or_the_bind(scheduler: Scheduler) -> None:
    pod = scheduler.pod()
    expected = scheduler.patch_status(pod, bodies.expectation_patch(uid_of(pod), "n1"))
    fenced = scheduler.patch_status(pod, bodies.fence_patch(uid_of(pod), 77, expected=True))
    again = scheduler.patch_status(pod, bodies.expectation_patch(uid_of(pod), "n1"))

    named = [one["status"].get("nominatedNodeName", "") for one in (expected, fenced, again)]
    assert named == ["n1", "", "n1"]
    assert scheduler.bind(expected).code == 409
    assert scheduler.bind(again).code == 201
    assert "nominatedNodeName" not in scheduler.read(pod)["status"]


def test_nomination_is_cleared_of_the_state_that_was_read_alone(scheduler: Scheduler) -> None:
    pod = scheduler.pod()
    refusal = bodies.refusal_patch(pod, reason="Unschedulable", message="no room", nominated_node="n1", now=NOW)
    nominated = scheduler.patch_status(pod, refusal)
    assert nominated["status"]["nominatedNodeName"] == "n1"
    moved = scheduler.patch_status(pod, bodies.fence_patch(uid_of(pod), 1))

    path = PODS.path(NAMESPACE, pod["metadata"]["name"], "status")
    assert scheduler.patch(path, bodies.no_nomination_patch(nominated)).code == 409
    cleared = scheduler.patch_status(pod, bodies.no_nomination_patch(moved))

    assert "nominatedNodeName" not in cleared["status"]
    assert condition(cleared, "PodScheduled")["message"] == "no room"


def test_patch_of_a_pod_created_again_says_so(scheduler: Scheduler) -> None:
    pod = scheduler.pod()
    gone = {**pod, "metadata": {**pod["metadata"], "uid": "another-uid"}}
    path = PODS.path(NAMESPACE, pod["metadata"]["name"], "status")
    patches = [
        bodies.fence_patch("another-uid", 1),
        bodies.refusal_patch(gone, reason="Unschedulable", message="no room", nominated_node=None, now=NOW),
        bodies.disruption_patch(gone, scheduler="default-scheduler", now=NOW),
    ]

    answers = [scheduler.patch(path, patch) for patch in patches]

    assert [answer.code for answer in answers] == [422] * 3
    assert all(bodies.is_other_object(ApiAnswer(422, message=answer.body["message"])) for answer in answers)
    assert scheduler.read(pod)["metadata"]["resourceVersion"] == pod["metadata"]["resourceVersion"]


def test_refusal_is_merged_into_the_conditions_of_others(scheduler: Scheduler) -> None:
    pod = scheduler.pod()
    other = {"type": "example.com/ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pod = scheduler.patch_status(pod, {"status": {"conditions": [other]}})
    first = bodies.refusal_patch(pod, reason="Unschedulable", message="no room", nominated_node="n1", now=NOW)

    told = scheduler.patch_status(pod, first)

    assert {**other, "lastProbeTime": None}.items() <= condition(told, "example.com/ready").items()
    assert condition(told, "PodScheduled") == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "no room",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-03-01T12:00:05Z",
        "observedGeneration": told["metadata"]["generation"],
    }
    assert told["status"]["nominatedNodeName"] == "n1"
    same = bodies.refusal_patch(told, reason="Unschedulable", message="no room", nominated_node="n1", now=LATER)
    assert same is None


def test_second_refusal_replaces_the_first_and_clears_the_nomination(scheduler: Scheduler) -> None:
    pod = scheduler.pod()
    first = bodies.refusal_patch(pod, reason="Unschedulable", message="no room", nominated_node="n1", now=NOW)
    told = scheduler.patch_status(pod, first)
    second = bodies.refusal_patch(told, reason="SchedulerError", message="", nominated_node="", now=LATER)

    told = scheduler.patch_status(told, second)

    found = condition(told, "PodScheduled")
    assert (found["reason"], found.get("message")) == ("SchedulerError", None)
    assert found["lastTransitionTime"] == "2026-03-01T12:00:05Z"
    assert "nominatedNodeName" not in told["status"]


def test_victim_is_marked_at_its_revision_only(scheduler: Scheduler) -> None:
    pod = scheduler.pod()
    patch = bodies.disruption_patch(pod, scheduler="default-scheduler", now=NOW)

    marked = scheduler.patch_status(pod, patch)
    late = scheduler.patch(PODS.path(NAMESPACE, pod["metadata"]["name"], "status"), patch)

    assert condition(marked, "DisruptionTarget")["reason"] == "PreemptionByScheduler"
    assert late.code == 409
    assert bodies.disruption_patch(marked, scheduler="default-scheduler", now=LATER) is None


def referred(pod: Mapping[str, Any]) -> ObjectReference:
    metadata = pod["metadata"]
    return pod_reference(metadata["namespace"], metadata["name"], metadata["uid"], int(metadata["resourceVersion"]))


def test_events_are_valid_and_a_retry_meets_the_first(scheduler: Scheduler) -> None:
    pod, preemptor = (referred(scheduler.pod()) for _ in range(2))
    long = "é" * NOTE_LIMIT
    events = [
        REPORTER("r", NOW, pod).scheduled("n1"),
        REPORTER("r", NOW, pod).failed_scheduling(long),
        REPORTER("r", NOW, pod).preempted(preemptor, "n1"),
        REPORTER("r", NOW, pod).gang_torn("a/g", bound=1, members=2, cause=long, policy="Keep"),
        REPORTER("r", NOW, pod).dry_run_unsupported("a/g", "webhook"),
    ]

    answers = [scheduler.post(EVENTS.path(event.namespace), event.body()) for event in events]
    retries = [scheduler.post(EVENTS.path(event.namespace), event.body()) for event in events]

    assert [answer.code for answer in answers] == [201] * 5, answers
    assert {(retry.code, retry.body["reason"]) for retry in retries} == {(409, "AlreadyExists")}
    assert answers[0].body["eventTime"] == "2026-03-01T12:00:05.123456Z"


def test_series_of_an_event_is_patched_and_can_be_created(scheduler: Scheduler) -> None:
    pod = referred(scheduler.pod())
    first = REPORTER("1", NOW, pod).failed_scheduling("no room")
    assert scheduler.post(EVENTS.path(NAMESPACE), first.body()).code == 201

    patched = scheduler.patch(EVENTS.path(NAMESPACE, first.name), series_patch(2, LATER))
    lost = scheduler.patch(EVENTS.path(NAMESPACE, "no-such-event"), series_patch(2, LATER))
    again = REPORTER("2", LATER, pod).failed_scheduling("no room")
    created = scheduler.post(EVENTS.path(NAMESPACE), again.body(count=3))

    assert (patched.code, lost.code, created.code) == (200, 404, 201)
    assert patched.body["series"] == {"count": 2, "lastObservedTime": "2026-03-01T12:01:00.000000Z"}
    assert created.body["series"]["count"] == 3


def test_event_about_a_node_is_valid(scheduler: Scheduler) -> None:
    node = referred(scheduler.pod())._replace(kind="Node", namespace="", name="n1")

    answer = scheduler.post(EVENTS.path("default"), REPORTER("r", NOW, node).failed_scheduling("x").body())

    assert answer.code == 201, answer
