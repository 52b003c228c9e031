"""What a change would lead to, by the code that decides in earnest."""

from __future__ import annotations

from tests.fleet.builders import LEASE, Picture, standing
from wharfinger.fleet.preview import preview
from wharfinger.model.fleet import FleetSpec, Share


def told(picture: Picture, limit: int = 100) -> list[str]:
    """Without the reasons."""
    return [line.text.split(" (")[0] for line in preview(picture.observed(), lease_ttl=LEASE, limit=limit)]


def test_a_fleet_comes_to_be() -> None:
    assert told(Picture(FleetSpec(replicas=2))) == [
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
        "slot 1: bring up an instance of revision 2 on a",
        "slot 1: drain incarnation 1 on b",
        "slot 0: bring up an instance of revision 2 on b",
        "slot 0: drain incarnation 1 on a",
        "revision 2: completed",
        "the rollout is over: completed",
    ]


def test_without_surge_the_former_goes_first() -> None:
    lines = told(standing(2, max_surge=Share(0), max_unavailable=Share(1)).want("t2"))
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


def test_it_is_no_longer_than_asked() -> None:
    assert len(told(standing(50).want("t2"), limit=7)) == 7
