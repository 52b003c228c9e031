"""Questions and verdicts as texts: they come back as they went, and are small."""

from __future__ import annotations

import base64
import random
import zlib

import pytest

from wharfinger.framework.extenders.extender_verdicts import (
    PACKED_LIMIT,
    CandidateVictims,
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdict,
    ExtenderVerdicts,
    NodeRefusals,
    Packable,
    PreemptionQuestion,
    PreemptionVerdicts,
    VictimPod,
    numbers_in,
    pack,
    unpack,
)
from wharfinger.objects.model.pod import PodKey

CANDIDATE = CandidateVictims("n1", (VictimPod(PodKey("ns", "p"), "uid", 7),), 2)
NODES = tuple(f"ip-10-0-{number >> 8}-{number & 255}.eu-central-1.compute.internal" for number in range(5000))


def packed(fact: Packable) -> str:
    text = pack(fact)
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    "fact",
    [
        ExtenderQuestion(5, ("b", "a"), ("http://a",), 3),
        ExtenderVerdicts(5, (), ()),
        ExtenderVerdicts(
            5,
            ("a", "b", "c"),
            (
                ExtenderVerdict(
                    "http://a",
                    (NodeRefusals("kein Platz für \ud800", True, 0b101), NodeRefusals(None, False, 0b010)),
                    {0: -3, 2: 2**40},
                    9,
                    "no answer",
                ),
                ExtenderVerdict("http://b"),
            ),
            1,
        ),
        PreemptionQuestion(5, (CANDIDATE,), ("http://a", "http://b")),
        PreemptionVerdicts((CANDIDATE, CandidateVictims("n2", (), 0))),
        PreemptionVerdicts((), "no answer"),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_what_is_packed_comes_back(fact: Packable) -> None:
    assert unpack(packed(fact)) == fact


def test_verdicts_on_5000_nodes_are_far_below_the_limit() -> None:
    rng = random.Random(1)
    some = sum(1 << number for number in range(5000) if rng.random() < 0.5)
    scored = {number: rng.randrange(11) for number in numbers_in(some)}
    refused = NodeRefusals("no licence", True, (1 << 5000) - 1 & ~some)
    verdicts = tuple(ExtenderVerdict(f"http://extender-{number}", (refused,), scored) for number in range(2))
    text = packed(ExtenderVerdicts(5, NODES, verdicts))
    assert len(text) < PACKED_LIMIT // 8
    assert len(packed(ExtenderQuestion(5, NODES, ("http://a",)))) < PACKED_LIMIT // 8


def test_as_many_reasons_as_nodes_are_kept_where_they_are_alike() -> None:
    reasons = tuple(NodeRefusals(f"{name}: no licence is left", True, 1 << at) for at, name in enumerate(NODES))
    assert len(packed(ExtenderVerdicts(5, NODES, (ExtenderVerdict("http://a", reasons),)))) < PACKED_LIMIT


def test_verdicts_beyond_the_limit_are_a_stated_failure() -> None:
    rng = random.Random(1)
    reasons = tuple(NodeRefusals(rng.randbytes(200).hex(), True, 1 << number) for number in range(1500))
    failure = pack(ExtenderVerdicts(5, NODES, (ExtenderVerdict("http://a", reasons),)))
    assert isinstance(failure, ExtenderFailure)
    assert f"at most {PACKED_LIMIT} are kept: an extender must give fewer different reasons" in failure.message


def deflated(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


@pytest.mark.parametrize(
    "text",
    ["", "!", base64.b64encode(b"plain").decode(), deflated(b"{"), deflated(b'[2,"ask",[]]'), deflated(b'[1,"x",[]]'),
     deflated(b"0" * (64 * PACKED_LIMIT + 1))],
    ids=["empty", "no base64", "not deflated", "no JSON", "newer", "unknown", "bomb"],
)  # fmt: skip
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        unpack(text)


@pytest.mark.parametrize("numbers", [[], [0], [7, 8], [0, 63, 64, 4999]])
def test_bits_are_numbers(numbers: list[int]) -> None:
    assert list(numbers_in(sum(1 << number for number in numbers))) == numbers
