"""Stored decisions: what is read is what was written, and what is none is refused."""

from __future__ import annotations

import zlib

import orjson
import pytest

from wharfinger.placement.contracts.placement_records import DECISION_LIMIT, DecisionRecord
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.deciding import texts
from wharfinger.placement.model.placement import (
    ChosenMember,
    MemberScores,
    MemberVerdict,
    PlacementDecision,
    PolicyCondition,
)


def record(members: int = 3) -> DecisionRecord:
    chosen = ChosenMember("m", 7, 2, MemberScores(1, -2), texts.chosen("m", MemberScores(1, -2)))
    verdicts = [
        MemberVerdict(f"n{number}", "TaintToleration", "ClusterUnschedulable", "refused") for number in range(members)
    ]
    verdicts.append(MemberVerdict("s", "", "", texts.not_picked("s", MemberScores(0, 3)), MemberScores(0, 3)))
    decision = PlacementDecision(
        policy=2,
        generation=4,
        number=1,
        chosen=(chosen,),
        verdicts=tuple(verdicts),
        condition=PolicyCondition(True, "SchedulingPolicyFulfilled", "found"),
        deviations=frozenset({"D6"}),
    )
    return DecisionRecord(
        decision=decision,
        identity=5,
        placement=6,
        digest="d",
        evicted=frozenset({"x"}),
        seen=StreamRevisions(members=1, objects=2, hub=3),
        ages={"m": (0.0, None), "s": (None, None)},
        token="t",
        time="2026-01-01T00:00:00Z",
        workflow_id="w",
        run_id="r",
    )


def test_what_is_read_is_what_was_written() -> None:
    assert DecisionRecord.from_bytes(record().to_bytes()) == record()


def test_a_verdict_on_each_of_a_thousand_members_takes_few_bytes() -> None:
    assert len(record(1000).to_bytes()) < 8000


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{}",
        zlib.compress(b"[]"),
        zlib.compress(b"{}"),
        zlib.compress(orjson.dumps({"texts": 1, "pairs": 2})),
        record().to_bytes()[:-8],
        zlib.compress(b" " * (DECISION_LIMIT + 1)),
    ],
    ids=["empty", "plain", "list", "no fields", "wrong fields", "cut off", "too large"],
)
def test_what_is_no_decision_is_refused(value: bytes) -> None:
    with pytest.raises(ValueError, match="is "):
        DecisionRecord.from_bytes(value)
