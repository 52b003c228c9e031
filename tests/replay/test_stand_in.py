"""Few pods too many or missing are told by the difference of two digests."""

from __future__ import annotations

import random

import pytest

from wharfinger.objects.model.pod import PodIdentity
from wharfinger.replay.stand_in import Correction, corrections
from wharfinger.scheduling.state.cache.assumptions import (
    OverlayChanges,
    digest_of,
    parsed_change,
    parsed_digest,
    parsed_lost,
)


def pods(count: int) -> list[tuple[PodIdentity, str]]:
    return [(PodIdentity("default", f"pod-{number}", number), f"node-{number % 7}") for number in range(count)]


def digest(these: list[tuple[PodIdentity, str]]) -> str:
    return digest_of((f"{one.namespace}/{one.name}", one.create_revision, node) for one, node in these)


@pytest.mark.parametrize(("missing", "extra"), [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (1, 2), (3, 0)])
def test_up_to_three_pods_are_found(missing: int, extra: int) -> None:
    every = pods(60)
    recorded, others = every[:40], every[40:]
    ours = recorded[missing:] + others[:extra]

    found = corrections(digest(ours), digest(recorded), ours, [*recorded[:missing], *others[extra:]])

    assert found is not None
    expected = {Correction(*one, assumed=True) for one in recorded[:missing]}
    expected |= {Correction(*one, assumed=False) for one in others[:extra]}
    assert set(found) == expected


def test_a_pod_on_another_node_is_two_corrections() -> None:
    recorded = pods(5)
    moved = [(recorded[0][0], "elsewhere"), *recorded[1:]]

    found = corrections(digest(moved), digest(recorded), moved, recorded[:1])

    assert found is not None
    assert {(one.node, one.assumed) for one in found} == {("elsewhere", False), ("node-0", True)}


def test_more_than_three_are_not_guessed() -> None:
    every = pods(50)

    assert corrections(digest(every[:40]), digest(every[:44]), every[:40], every[44:]) is None
    assert corrections(digest(every[:40]), digest(every[:44]), every[:40], every[40:]) is None


def test_what_nobody_knows_is_not_found() -> None:
    every = pods(10)

    assert corrections(digest(every[:8]), digest(every[:9]), every[:8], []) is None


def test_a_digest_does_not_depend_on_the_order() -> None:
    every = pods(100)
    shuffled = random.Random(1).sample(every, 100)

    assert digest(every) == digest(shuffled)
    assert parsed_digest(digest(every))[0] == 100
    assert digest([]) == "0-0000000000000000"


def test_changes_are_told_once_and_only_the_last_of_each_pod() -> None:
    changes = OverlayChanges()
    (one, _), (two, _), (three, _) = pods(3)
    changes.note(one, "a")
    changes.note(two, "a")
    changes.note(one, None)
    changes.note(three, "b")
    changes.explained(three)

    begun, ended = changes.take(lambda _told: True)

    assert [parsed_change(told) for told in (*begun, *ended)] == [(two, "a"), (one, "")]
    assert changes.take(lambda _told: True) == ((), ())


def test_placements_that_were_not_sent_are_told_once_they_are_over() -> None:
    changes = OverlayChanges(number=3)
    (kept, _), (bound, _), (gone, _), (again, _) = pods(4)
    for identity in (kept, bound, gone, again):
        changes.decided(identity, "a")
    changes.sent(bound)
    changes.explained(bound)
    changes.explained(gone)
    changes.number = 4
    changes.decided(again, "b")

    told = [parsed_lost(one) for one in changes.take_lost(lambda _told: True)]

    assert told == [(gone, "a", 3), (again, "a", 3)]
    assert changes.take_lost(lambda _told: True) == ()
    changes.note(again, None)
    assert changes.take_lost(lambda _told: False) == (), "there is no room"
    assert [parsed_lost(one) for one in changes.take_lost(lambda _told: True)] == [(again, "b", 4)]


def test_what_a_lost_decision_told_is_told_again() -> None:
    changes, every = OverlayChanges(number=1), pods(5)
    (first, _), (second, _), (third, _), *_ = every
    changes.decided(first, "a")
    changes.explained(first)
    told = changes.take_lost(lambda _told: True)
    changes.number = 2
    changes.decided(second, "b")
    changes.explained(second)  # and so the decision that told of the first is lost as well
    again = changes.take_lost(lambda _told: True)
    changes.number = 3
    changes.decided(third, "c")
    changes.sent(third)
    changes.explained(third)

    assert [parsed_lost(one) for one in told] == [(first, "a", 1)]
    assert [parsed_lost(one) for one in again] == [(second, "b", 2), (first, "a", 1)]
    assert changes.take_lost(lambda _told: True) == (), "the third decision is recorded, and with it what it told"
