"""The log of recent events: what it holds, and what it knows that it does not."""

from __future__ import annotations

from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.scheduling.loops.candidacy import EventLog


def event(revision: int) -> ClusterEvent:
    return ClusterEvent(Resource.NODE, Action.ADD, revision)


def revisions(events: object) -> list[int]:
    return [one.revision for one in events]  # type: ignore[attr-defined]


def test_events_after_a_revision_are_found() -> None:
    log = EventLog()
    for revision in (3, 5, 5, 9):
        log.append(event(revision))

    assert revisions(log.after_revision(3)) == [5, 5, 9]
    assert revisions(log.after_revision(9)) == []
    assert log.floor == 0


def test_what_fell_out_raises_the_floor() -> None:
    log = EventLog(capacity=2)
    for revision in (3, 5, 9):
        log.append(event(revision))

    assert log.floor == 3
    assert revisions(log.after_revision(log.floor)) == [5, 9]


def test_a_list_raises_the_floor() -> None:
    log = EventLog()
    log.append(event(3))
    log.append(event(12))
    log.begin(10)

    assert log.floor == 10
    assert revisions(log.after_revision(10)) == [12]


def test_a_reader_goes_on_where_it_was_and_learns_what_it_missed() -> None:
    log = EventLog(capacity=2)
    log.append(event(1))
    position = log.position
    log.append(event(2))
    log.append(event(3))

    assert revisions(log.after_position(position)) == [2, 3]
    assert not log.missed(position)

    log.append(event(4))

    assert log.missed(position)
