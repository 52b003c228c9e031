"""What the end must look like: each thing that must not be there is found."""

from __future__ import annotations

from typing import Any

import pytest
from temporalio.client import Client

from tests.conftest import TemporalServer
from tests.faults.ending import End, lost
from tests.faults.history import Change, state_after
from tests.faults.judge import GROUP, MIN_AVAILABLE, Violation
from tests.faults.settling import PATIENCE, Undone
from tests.faults.story import Story, node, pod
from wharfinger.etcd import keys
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.records import AttemptRecord


def end(story: Story, **records: int) -> End:
    """The end of a story, with records of these lives of these pods."""
    changes = list(state_after(story.revisions).values())
    for name, life in records.items():
        record = AttemptRecord(attempt=1, create_revision=life, message="no room", workflow_id="w")
        changes.append(Change(keys.attempt("default", name), record.to_bytes(), 99, 99))
    return End(changes)


def found(end: End) -> list[str]:
    return [violation.invariant for violation in (*end.waiting_though_they_fit(), *end.left_over())]


def test_a_pod_that_waits_though_it_fits() -> None:
    assert found(end(Story().put(node("n")).put(pod("p")), p=3)) == ["waits"]


@pytest.mark.parametrize("spec", [{"cpu": "2"}, {"schedulingGates": [{"name": "g"}]}, {"schedulerName": "another"}])
def test_a_pod_that_waits_for_a_reason(spec: dict[str, Any]) -> None:
    assert found(end(Story().put(node("n")).put(pod("p", **spec)), p=3)) == []


@pytest.mark.parametrize(("room", "waiting"), [("2", 2), ("1", 0)], ids=["for both", "for one"])
def test_a_gang_that_waits_though_all_of_it_fits(room: str, waiting: int) -> None:
    labels = {GROUP: "g", MIN_AVAILABLE: "2"}
    story = Story().put(node("n", cpu=room)).put(pod("p", labels=labels), pod("q", labels=labels))
    assert found(end(story, p=3, q=3)) == ["waits"] * waiting


def test_a_gang_that_is_not_complete_waits_for_a_reason() -> None:
    alone = end(Story().put(node("n")).put(pod("p", labels={GROUP: "g", MIN_AVAILABLE: "2"})))
    assert (found(alone), alone.without_record()) == ([], [])


def test_a_record_of_a_bound_pod_and_of_one_that_is_gone() -> None:
    story = Story().put(node("n")).put(pod("p")).bind(p="n")
    assert found(end(story, p=3, q=4)) == ["left-over", "left-over"]


def test_pod_without_a_record_of_this_life_is_reported() -> None:
    story = Story().put(pod("p"), pod("q"), pod("r"), pod("g", schedulingGates=[{"name": "g"}]))
    assert [pod.key for pod in end(story, p=2, q=1).without_record()] == [
        PodKey("default", "q"),
        PodKey("default", "r"),
    ]


async def test_a_pod_that_no_chain_cares_for_is_lost(temporal_server: TemporalServer) -> None:
    silent = end(Story().put(pod("p"))).without_record()
    assert [violation.invariant for violation in await lost(silent, await Client.connect(temporal_server.address))] == [
        "lost"
    ]


def test_only_what_stays_undone_is_overdue() -> None:
    undone = Undone()
    one, other = Violation("waits", 0, "a/p fits n"), Violation("waits", 0, "a/q fits n")

    assert undone.overdue([one, other], 0.0) == []
    assert undone.overdue([one], PATIENCE) == []
    assert undone.overdue([one, other], PATIENCE + 1) == [one]
