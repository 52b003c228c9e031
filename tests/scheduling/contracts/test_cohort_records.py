"""From what became of a cohort's seats to who is recorded as waiting."""

from __future__ import annotations

from wharfinger.scheduling.contracts.cohort_scheduling import (
    BoundMany,
    BoundPod,
    PlacedMany,
    Reasons,
    Seat,
    TurnedAway,
    Unbound,
)
from wharfinger.scheduling.contracts.group_payloads import contended, turned_away

WHO = {"namespace": "default", "create_revision": 1, "pod_revision": 1}
PLACED = PlacedMany(
    seats=tuple(Seat(name=f"seat-{number}", uid=f"u{number}", node=f"n{number}", **WHO) for number in range(4)),
    turned_away=tuple(
        TurnedAway(name=f"away-{after}", uid=f"a{after}", reasons=0, after_seat=after, **WHO) for after in range(5)
    ),
    reasons=(Reasons(message="0/4 nodes are available"),),
)


def bound(*numbers: int, **elsewhere: str) -> tuple[BoundPod, ...]:
    return tuple(
        BoundPod(namespace="default", name=f"seat-{number}", node=elsewhere.get(f"n{number}", f"n{number}"), revision=9)
        for number in numbers
    )


def urgent(answer: BoundMany) -> list[str]:
    away = turned_away(PLACED, answer)
    assert away is not None
    return [one.name for one in away.turned_away if one.own_attempt]


def test_no_refused_pod_is_urgent_when_all_seats_are_taken() -> None:
    assert urgent(BoundMany(bound=bound(0, 1, 2, 3))) == []


def test_room_that_was_only_assumed_makes_those_decided_after_it_urgent() -> None:
    lost = Unbound(namespace="default", name="seat-2", kind="gone")

    assert urgent(BoundMany(bound=bound(0, 1, 3), unbound=(lost,))) == ["away-3", "away-4"]


def test_a_seat_taken_elsewhere_left_its_room_to_others() -> None:
    assert urgent(BoundMany(bound=bound(0, 1, 2, 3, n0="n9"))) == ["away-1", "away-2", "away-3", "away-4"]


def test_rejected_seat_keeps_its_own_reason_and_contended_one_retries() -> None:
    rejected = Unbound(namespace="default", name="seat-1", kind="rejected", plugin="Volumes", message="no disk")
    lost = Unbound(namespace="default", name="seat-3", kind="contended", message="taken")
    answer = BoundMany(bound=bound(0, 2), unbound=(rejected, lost))

    away, again = turned_away(PLACED, answer), contended(PLACED, answer)

    assert away is not None
    assert again is not None
    waiting = away.turned_away[-1]
    assert (waiting.name, waiting.own_attempt) == ("seat-1", False)
    assert away.reasons[waiting.reasons] == Reasons(message="no disk", rejectors=("Volumes",))
    assert [(one.name, one.own_attempt) for one in again.turned_away] == [("seat-3", True)]
