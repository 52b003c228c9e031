"""What counts as a new decision."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.placement.deciding.cases import decided, member, pick
from wharfinger.objects.model.selectors import Taint
from wharfinger.placement.deciding.question import counting
from wharfinger.placement.model.placement import MemberScores, PlacementDecision

STORED = decided(pick(2), [member("a"), member("b", taints=(Taint("t", "", "NoSchedule"),)), member("c")])
FIRST, *OTHERS = STORED.chosen
(REFUSED,) = STORED.verdicts


def is_settled(stored: PlacementDecision | None, decided: PlacementDecision) -> bool:
    """Whether the stored decision says the same in all that counts."""
    return stored is not None and counting(stored) == counting(decided)


def test_nothing_stored_is_not_settled() -> None:
    assert not is_settled(None, STORED)
    assert is_settled(STORED, STORED)


@pytest.mark.parametrize(
    "other",
    [
        replace(STORED, chosen=(replace(FIRST, scores=MemberScores(5, 5), reason="other"), *OTHERS)),
        replace(STORED, verdicts=(replace(REFUSED, reason="last received 9.00 minutes ago"),)),
        replace(STORED, condition=replace(STORED.condition, message="other")),
        replace(STORED, deviations=frozenset({"D6"})),
    ],
    ids=["scores", "age", "message", "deviations"],
)
def test_scores_ages_and_texts_are_nothing_new(other: PlacementDecision) -> None:
    assert is_settled(STORED, other)


@pytest.mark.parametrize(
    "other",
    [
        replace(STORED, chosen=tuple(OTHERS)),
        replace(STORED, chosen=(replace(FIRST, identity=9), *OTHERS)),
        replace(STORED, chosen=(replace(FIRST, policy=1), *OTHERS)),
        replace(STORED, number=3),
        replace(STORED, generation=2),
        replace(STORED, verdicts=(replace(REFUSED, plugin="ClusterEligibility"),)),
        replace(STORED, verdicts=()),
        replace(STORED, condition=replace(STORED.condition, status=False)),
    ],
    ids=["member", "identity", "policy", "number", "generation", "plugin", "verdict", "condition"],
)
def test_whatever_counts_is_a_new_decision(other: PlacementDecision) -> None:
    assert not is_settled(STORED, other)
