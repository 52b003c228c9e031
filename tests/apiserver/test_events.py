from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest

from wharfinger.apiserver.events import (
    EventReporter,
    ObjectReference,
    cut_note,
    event_name,
    micro_time,
    pod_reference,
)
from wharfinger.objects.model.names import is_dns_subdomain

NOW = datetime(2026, 3, 1, 12, 0, 5, 123_456, tzinfo=UTC)
REPORTER = partial(EventReporter, "default-scheduler", "w-1")
POD = pod_reference("shop", "web", "u-1", 41)


def test_scheduled_event_is_kube_schedulers() -> None:
    event = REPORTER("run-1", NOW, POD).scheduled("n1")

    assert event.body() == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "shop", "name": event.name},
        "eventTime": "2026-03-01T12:00:05.123456Z",
        "type": "Normal",
        "reason": "Scheduled",
        "action": "Binding",
        "note": "Successfully assigned shop/web to n1",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-w-1",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web",
            "uid": "u-1",
            "resourceVersion": "41",
        },
    }


def test_failed_scheduling_event_is_kube_schedulers() -> None:
    body = REPORTER("run-1", NOW, POD).failed_scheduling("0/3 nodes are available: 100% full").body()

    assert (body["type"], body["reason"], body["action"]) == ("Warning", "FailedScheduling", "Scheduling")
    assert body["note"] == "0/3 nodes are available: 100% full"


def test_preempted_event_names_the_preemptor_by_uid_and_related() -> None:
    preemptor = pod_reference("vip", "big", "u-9")

    body = REPORTER("run-1", NOW, POD).preempted(preemptor, "n1").body()

    assert (body["type"], body["reason"], body["action"]) == ("Normal", "Preempted", "Preempting")
    assert body["note"] == "Preempted by pod u-9 on node n1"
    assert body["regarding"]["name"] == "web"
    assert body["related"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "vip", "name": "big", "uid": "u-9"}
    assert body["metadata"]["namespace"] == "shop"


def test_own_events_say_what_happened_to_the_gang() -> None:
    torn = REPORTER("r", NOW, POD).gang_torn("shop/g", bound=5, members=8, cause="pod web-6 was deleted", policy="Keep")
    dry = REPORTER("r", NOW, POD).dry_run_unsupported("shop/g", 'webhook "x" does not support dry run')

    assert torn.note == "gang shop/g is torn: 5 of 8 members are bound, tornPolicy Keep: pod web-6 was deleted"
    assert (torn.type, torn.reason, torn.action) == ("Warning", "GangTorn", "Binding")
    assert dry.note.endswith(
        'without a dry run, because the API server refuses one: webhook "x" does not support dry run'
    )
    assert (dry.type, dry.reason) == ("Warning", "DryRunUnsupported")


def test_repeats_are_a_series_in_the_body() -> None:
    body = REPORTER("run-1", NOW, POD).failed_scheduling("no").body(count=3)

    assert body["series"] == {"count": 3, "lastObservedTime": "2026-03-01T12:00:05.123456Z"}


def test_event_about_a_node_lies_in_the_default_namespace() -> None:
    node = ObjectReference("v1", "Node", "n1", "", "u-n", "7")

    event = REPORTER("r", NOW, node).failed_scheduling("x")

    assert event.namespace == "default"
    assert "namespace" not in event.body()["regarding"]


def test_name_is_the_same_for_a_retry_and_another_for_all_else() -> None:
    name = event_name(POD, "run-1", "Scheduled")

    assert name == event_name(POD._replace(revision="99"), "run-1", "Scheduled")
    assert name.startswith("web.")
    others = {
        event_name(POD, "run-2", "Scheduled"),
        event_name(POD, "run-1", "FailedScheduling"),
        event_name(POD._replace(uid="u-2"), "run-1", "Scheduled"),
    }
    assert len(others | {name}) == 4


@pytest.mark.parametrize("name", ["w", "a" * 253, "a" * 235 + "." + "b" * 17, "system:node", "", "Ä"])
def test_name_is_a_dns_subdomain_whatever_the_object_is_called(name: str) -> None:
    made = event_name(POD._replace(name=name), "run-1", "Scheduled")

    assert is_dns_subdomain(made)
    assert len(made) <= 253


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        ("short", "short"),
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1020 + " ..."),
        ("é" * 512, "é" * 512),
        ("x" + "é" * 512, "x" + "é" * 509 + " ..."),
        ("bad \ud800", "bad ?"),
    ],
)
def test_note_is_cut_to_1024_bytes_between_characters(text: str, cut: str) -> None:
    assert cut_note(text) == cut
    assert len(cut_note(text).encode()) <= 1024


def test_instance_fits_its_limit() -> None:
    event = EventReporter("default-scheduler", "w" * 200, "r", NOW, POD).scheduled("n1")

    assert len(event.instance) == 128


def test_key_is_that_of_events_that_say_the_same() -> None:
    first = REPORTER("run-1", NOW, POD).failed_scheduling("no")
    again = REPORTER("run-2", NOW + timedelta(seconds=9), POD).failed_scheduling("no")

    assert first.key == again.key
    others = [
        REPORTER("run-1", NOW, POD).failed_scheduling("other"),
        REPORTER("run-1", NOW, POD._replace(revision="42")).failed_scheduling("no"),
        EventReporter("default-scheduler", "w-2", "run-1", NOW, POD).failed_scheduling("no"),
    ]
    assert first.key not in {other.key for other in others}


def test_times_are_utc_with_microseconds() -> None:
    east = timezone(timedelta(hours=2))

    assert micro_time(datetime(2026, 3, 1, 14, 0, tzinfo=east)) == "2026-03-01T12:00:00.000000Z"
