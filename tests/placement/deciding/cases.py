"""Members, placements and questions for tests of deciding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.placement.deciding.deciding import decide
from wharfinger.placement.deciding.question import PlacementStanding, Question
from wharfinger.placement.model.members import AgentCondition, Ages, Member, MemberAgent, ResourceUsage
from wharfinger.placement.model.placement import (
    ChosenMember,
    ClusterSpread,
    MemberScores,
    Placement,
    PlacementDecision,
    PlacementPolicy,
    PlacementRef,
    PlacementType,
)

HEARD = Ages(5.0, 1000.0)
"""An agent that is heard."""
HEALTHY = MemberAgent(1.0, AgentCondition("True", 1.0), AgentCondition("True", 1.0))


def member(name: str, identity: int = 1, *, cpu: str = "8", agent: MemberAgent | None = HEALTHY, **more: Any) -> Member:
    """A member that takes anything; keywords are its other fields."""
    usage = ResourceUsage(capacity={"cpu": cpu}, allocatable={"cpu": cpu}, available={"cpu": cpu})
    return Member(name=name, identity=identity, agent=agent, **{"usage": usage, **more})


def in_regions(**counts: int) -> list[Member]:
    """So many members in each region, named `<region>-<number>`."""
    return [
        member(f"{region}-{number}", labels={"region": region})
        for region, count in counts.items()
        for number in range(count)
    ]


def chosen(name: str, policy: int = 0, identity: int = 1, scores: MemberScores | None = MemberScores()) -> ChosenMember:  # noqa: B008
    """A member that was chosen earlier."""
    return ChosenMember(name, identity, policy, scores, "chosen earlier")


def question(
    policy: PlacementPolicy,
    members: Iterable[Member],
    *,
    number: int = 0,
    before: Iterable[ChosenMember] = (),
    ages: dict[str, Ages] | None = None,
    ref: PlacementRef = PlacementRef("", "web"),  # noqa: B008
    standing: dict[str, Any] | None = None,
    **more: Any,
) -> Question:
    """A question; every member that `ages` does not name is heard."""
    known = tuple(sorted(members, key=lambda one: one.name))
    return Question(
        placement=Placement(ref, 1, policy),
        number=number,
        members=known,
        ages={one.name: (ages or {}).get(one.name, HEARD) for one in known},
        standing=PlacementStanding(tuple(before), **(standing or {})),
        **more,
    )


def decided(policy: PlacementPolicy, members: Iterable[Member], **more: Any) -> PlacementDecision:
    """The decision on such a question."""
    return decide(question(policy, members, **more))


def names(decision: PlacementDecision) -> list[str]:
    """The chosen."""
    return [one.name for one in decision.chosen]


def reasons(decision: PlacementDecision) -> dict[str, str]:
    """Why each of the others is not chosen."""
    return {one.name: one.reason for one in decision.verdicts}


def pick(number: int, **more: Any) -> PlacementPolicy:
    """A PickN."""
    return PlacementPolicy(PlacementType.PICK_N, number, **more)


def fixed(*wanted: str) -> PlacementPolicy:
    """A PickFixed."""
    return PlacementPolicy(PlacementType.PICK_FIXED, names=wanted)


def evenly(max_skew: int = 1, *, hard: bool = True) -> tuple[ClusterSpread, ...]:
    """Over regions."""
    return (ClusterSpread("region", max_skew, hard),)
