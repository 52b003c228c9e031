"""What a change would lead to, by the code that decides in earnest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.fleet.deciding.builders import LEASE, Picture, rolling, standing
from wharfinger.fleet.deciding.preview import preview
from wharfinger.fleet.model.fleet import FleetSpec, Host
from wharfinger.objects.model.quantities import IntOrPercent


def told(picture: Picture, limit: int = 100) -> list[str]:
    """Without the reasons."""
    return [line.text.split(" (")[0] for line in preview(picture.observed(), lease_ttl=LEASE, limit=limit)]


def timed(picture: Picture) -> list[tuple[float, str]]:
    """When what happens to slots and revisions, in few words; the rest is left out."""
    words = {"bring up an instance of revision ": "up r", "drain incarnation ": "drain ", "slot ": ""}
    lines = []
    for line in preview(picture.observed(), lease_ttl=LEASE):
        text = line.text.split(" (")[0].split(" on ")[0]
        if text.startswith(("slot", "revision")) and "is wanted" not in text:
            for word, short in words.items():
                text = text.replace(word, short)
            lines.append((line.at, text))
    return lines


def test_a_fleet_comes_to_be() -> None:
    assert told(Picture(FleetSpec(replicas=2, soak=0.0))) == [
        "revision 1 is wanted, a new one",
        "a rollout begins",
        "slot 0: bring up an instance of revision 1 on a",
        "slot 1: bring up an instance of revision 1 on b",
        "revision 1: completed",
        "the rollout is over: completed",
    ]


def test_a_rolling_update_with_surge() -> None:
    assert told(standing(2).want("t2")) == [
        "revision 2 is wanted, a new one",
        "a rollout begins",
        "slot 1: bring up an instance of revision 2 on b",
        "slot 1: drain incarnation 1 on b",
        "slot 0: bring up an instance of revision 2 on a",
        "slot 0: drain incarnation 1 on a",
        "revision 2: completed",
        "the rollout is over: completed",
    ]


def test_without_surge_the_former_goes_first() -> None:
    lines = told(standing(2, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1)).want("t2"))
    assert lines[2:6] == [
        "slot 1: drain incarnation 1 on b",
        "slot 1: bring up an instance of revision 2 on b",
        "slot 0: drain incarnation 1 on a",
        "slot 0: bring up an instance of revision 2 on a",
    ]


def test_a_fleet_as_it_should_be_stays() -> None:
    assert told(standing(3)) == []


def test_a_deleted_fleet_is_gone_at_the_end() -> None:
    picture = standing(1)
    picture.deleting = True
    assert told(picture) == ["slot 0: drain incarnation 1 on a", "the fleet is gone"]


def test_preview_keeps_ready_instances_and_asks_once_for_unready_ones() -> None:
    picture = standing(2)
    del picture.hosts["b"]
    assert preview(picture.observed(), lease_ttl=LEASE) == []
    (line,) = preview(picture.without_record(1).observed(), lease_ttl=LEASE)
    assert (line.at, line.text.split(" (")[1]) == (0.0, "is granted already)")


def test_it_is_no_longer_than_asked() -> None:
    assert len(told(standing(50).want("t2"), limit=7)) == 7


@pytest.mark.parametrize("host_lost", [20.0, 300.0])
def test_a_host_is_given_up_after_the_seconds_of_the_agents(host_lost: float) -> None:
    """Two of three hosts went. One of them has an instance whose grant is deleted: its end is not confirmed."""
    picture = standing(3, min_ready=0.0, paused=True).life(2, host="a", want=None).want("t2")
    picture.hosts = {"c": Host("c")}

    last = preview(picture.observed(), lease_ttl=LEASE, host_lost=host_lost)[-1]

    assert (last.at, "1 host was lost with most others at once" in last.text) == (host_lost, True)


# --- the seconds ----------------------------------------------------------------------------------


def test_slots_one_after_the_other_take_the_sum_of_their_seconds() -> None:
    assert timed(standing(3, min_ready=3.0).want("t2")) == [
        (0.0, "2: up r2"),
        (3.0, "2: drain 1"),
        (3.0, "1: up r2"),
        (6.0, "1: drain 1"),
        (6.0, "0: up r2"),
        (9.0, "0: drain 1"),
        (9.0, "revision 2: completed"),
    ]


def test_two_beside_each_other_take_the_seconds_of_one() -> None:
    assert timed(standing(4, min_ready=3.0, max_surge=IntOrPercent(2)).want("t2")) == [
        (0.0, "3: up r2"),
        (0.0, "2: up r2"),
        (3.0, "2: drain 1"),
        (3.0, "3: drain 1"),
        (3.0, "1: up r2"),
        (3.0, "0: up r2"),
        (6.0, "0: drain 1"),
        (6.0, "1: drain 1"),
        (6.0, "revision 2: completed"),
    ]


def test_a_new_fleet_is_complete_when_its_instances_count() -> None:
    assert timed(Picture(FleetSpec(replicas=2, min_ready=2.0, soak=0.0))) == [
        (0.0, "0: up r1"),
        (0.0, "1: up r1"),
        (2.0, "revision 1: completed"),
    ]


def test_what_is_recreated_comes_back_at_once_and_counts_later() -> None:
    assert timed(
        standing(2, min_ready=3.0, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(100, percent=True)).want(
            "t2"
        )
    ) == [
        (0.0, "1: drain 1"),
        (0.0, "0: drain 1"),
        (0.0, "0: up r2"),
        (0.0, "1: up r2"),
        (3.0, "revision 2: completed"),
    ]


def test_without_surge_the_next_goes_when_the_one_before_is_back() -> None:
    assert timed(standing(2, min_ready=3.0, max_surge=IntOrPercent(0), max_unavailable=IntOrPercent(1)).want("t2")) == [
        (0.0, "1: drain 1"),
        (0.0, "1: up r2"),
        (3.0, "0: drain 1"),
        (3.0, "0: up r2"),
        (6.0, "revision 2: completed"),
    ]


def test_slots_that_come_by_scaling_are_brought_up_at_once() -> None:
    assert timed(standing(1, min_ready=3.0).want(replicas=3)) == [(0.0, "1: up r1"), (0.0, "2: up r1")]


def test_scaled_up_with_another_template_the_new_slots_count_first() -> None:
    assert timed(standing(1, min_ready=3.0).want("t2", replicas=2)) == [
        (0.0, "1: up r2"),
        (0.0, "0: up r2"),
        (3.0, "0: drain 1"),
        (3.0, "revision 2: completed"),
    ]


def test_a_canary_waits_for_a_person_once_it_counts() -> None:
    picture = standing(2, min_ready=5.0, canary=1).want("t2")
    assert timed(picture) == [
        (0.0, "1: up r2"),
        (5.0, "1: drain 1"),
        (5.0, "revision 2: 1 of 2 slots updated; waits for promote"),
    ]


def test_preview_shows_a_partition_when_the_slots_above_it_count() -> None:
    picture = standing(2, min_ready=5.0, partition=1).want("t2")
    picture.without(1)
    assert [entry[0] for entry in timed(picture)] == [0.0, 5.0]


def test_long_seconds_are_waited_for_to_their_end() -> None:
    assert timed(standing(1, min_ready=1800.0, progress_deadline=7200.0).want("t2"))[-1] == (
        1800.0,
        "revision 2: completed",
    )


def test_a_fleet_as_it_should_be_stays_however_long_its_seconds_are() -> None:
    assert timed(standing(3, min_ready=1800.0)) == []


def test_a_newcomer_that_is_not_ready_yet_counts_after_its_seconds() -> None:
    picture = rolling(2, min_ready=3.0).life(1, 2, revision=2, state="starting")
    assert timed(picture) == [
        (0.0, "1: up r2"),
        (3.0, "1: drain 1"),
        (3.0, "0: up r2"),
        (6.0, "0: drain 1"),
        (6.0, "revision 2: completed"),
    ]


def test_after_a_crash_it_waits_and_settles_before_it_is_ready() -> None:
    picture = standing(2, min_ready=3.0).died(0)
    assert timed(picture) == [(1.0, "0: up r1")]
    picture.want("t2")
    assert timed(picture) == [
        (0.0, "0: up r2"),
        (0.0, "1: up r2"),
        (3.0, "1: drain 1"),
        (6.0, "revision 2: completed"),
    ]


def reasons(picture: Picture) -> list[str]:
    """Why instances are brought up."""
    texts = [line.text for line in preview(picture.observed(), lease_ttl=LEASE)]
    return [text.split("(")[1].removesuffix(")") for text in texts if "bring up" in text]


def test_preview_marks_a_slot_that_may_be_in_back_off() -> None:
    picture = standing(1).without(0)
    picture.slots[0] = replace(picture.slots[0], crashes=9)
    assert reasons(picture) == ["its instance ended; 9 ends in a row: it may be up to 256 s later"]
    assert reasons(picture.want("t2")) == ["its instance ended"]


def test_so_it_does_of_a_newcomer_that_ends_beside_the_former_one() -> None:
    picture = rolling(1)
    picture.slots[0] = replace(picture.slots[0], incarnation=4, crashes=3)
    assert reasons(picture) == ["revision 2 is wanted; 3 ends in a row: it may be up to 4 s later"]
    picture.life(0, 5, revision=2)
    assert reasons(picture) == []
