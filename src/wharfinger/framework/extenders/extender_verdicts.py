"""What extenders are asked about a pod, and what they answered: facts that travel between two halves of a decision.

A decision with extenders is made in steps: `consulting` finds the nodes that the plugins leave and makes a question,
the extenders are called elsewhere (`extender_chain` says in which order, and with which nodes), and `consulting`
decides on their verdicts.

A workflow's history carries each as one short text: names of nodes and reasons occur once, nodes are bits of a bitmap,
and the whole is deflated. A verdict on 5,000 nodes takes some tens of kilobytes. What would be larger than
`PACKED_LIMIT` is a stated failure, because a history holds 50 MB and one payload 2 MB. The texts are versioned; every
release reads those of the release before.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from wharfinger.objects.model.pod import PodKey

MAX_EXTENDER_SCORE = 10
"""What the best node gets from an extender; plugins give 100."""


@dataclass(frozen=True, slots=True)
class ExtenderQuestion:
    """The nodes that the plugins leave, about which the extenders are to be asked."""

    revision: int
    """Of the snapshot."""
    nodes: tuple[str, ...]
    """In the order in which they are sent."""
    extenders: tuple[str, ...]
    """Names of those that the pod concerns, in the order of the calls."""
    start: int = 0
    """Where the search of a sampling profile began: the decision on the answer begins there too."""


@dataclass(frozen=True, slots=True)
class NodeRefusals:
    """Nodes that one extender refused for one reason."""

    reason: str | None
    """As it is counted in the message; None = the extender left the nodes out without a word."""
    resolvable: bool
    """Whether evicting pods might help."""
    nodes: int
    """A bitmap: bit i stands for node i of the question."""


@dataclass(frozen=True, slots=True)
class ExtenderVerdict:
    """What one extender said."""

    extender: str
    refusals: tuple[NodeRefusals, ...] = ()
    scores: Mapping[int, int] = field(default_factory=dict)
    """Number of the node -> what the extender gave it, as it came; nodes that are not named get nothing."""
    weight: int = 1
    """By which its scores were to be multiplied."""
    failure: str = ""
    """Why it was left out, or gave no scores; empty for no failure."""


@dataclass(frozen=True, slots=True)
class ExtenderVerdicts:
    """What all extenders said about the nodes of one question."""

    revision: int
    nodes: tuple[str, ...]
    verdicts: tuple[ExtenderVerdict, ...]
    """In the order of the calls."""
    start: int = 0


@dataclass(frozen=True, slots=True)
class ExtenderFailure:
    """An extender failed that may not be ignored: there is no decision, and the attempt is repeated later."""

    extender: str
    verb: str
    message: str


@dataclass(frozen=True, slots=True)
class VictimPod:
    """A pod that would have to leave."""

    key: PodKey
    uid: str
    create_revision: int


@dataclass(frozen=True, slots=True)
class CandidateVictims:
    """A node where evicting would make room, and who would have to leave it."""

    node: str
    victims: tuple[VictimPod, ...]
    """Most important first, where the scheduler chose them."""
    violations: int
    """How many of them a disruption budget protects."""


@dataclass(frozen=True, slots=True)
class PreemptionQuestion:
    """The candidates for preemption, which extenders may drop or change."""

    revision: int
    candidates: tuple[CandidateVictims, ...]
    extenders: tuple[str, ...]
    """Names of those with a verb for it that the pod concerns, in the order of the calls."""


@dataclass(frozen=True, slots=True)
class PreemptionVerdicts:
    """What the extenders left of the candidates."""

    candidates: tuple[CandidateVictims, ...]
    error: str = ""
    """Why no pod is evicted: an extender failed that may not be ignored. Empty for none."""


def numbers_in(bitmap: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending. Quick for few of them."""
    while bitmap:
        lowest = bitmap & -bitmap
        yield lowest.bit_length() - 1
        bitmap ^= lowest


PACKED_LIMIT = 256 * 1024
"""Bytes of one text."""
MOST_INFLATED = 64 * PACKED_LIMIT
"""Bytes that a text may have once it is inflated."""
FEW_BITS = 8
"""Nodes of one reason that are written by their numbers: each node may have a reason of its own."""
_VERSION = 1

Packable = ExtenderQuestion | ExtenderVerdicts | PreemptionQuestion | PreemptionVerdicts


def pack(fact: Packable) -> str | ExtenderFailure:
    """The text of a question or of verdicts; a failure where it is too large."""
    document = json.dumps([_VERSION, _KINDS[type(fact)], _fields(fact)], separators=(",", ":"), ensure_ascii=False)
    content = document.encode(errors="surrogatepass")
    text = base64.b64encode(zlib.compress(content, 1)).decode()
    if len(text) <= PACKED_LIMIT and len(content) <= MOST_INFLATED:
        return text
    said = f"the answers of the extenders take {len(text)} bytes packed, and at most {PACKED_LIMIT} are kept"
    return ExtenderFailure("", "", f"{said}: an extender must give fewer different reasons")


def unpack(text: str) -> Packable:
    """The question or the verdicts of a text that `pack` made. ValueError for any other text."""
    inflating = zlib.decompressobj()
    try:
        content = inflating.decompress(base64.b64decode(text, validate=True), MOST_INFLATED)
    except zlib.error as error:
        raise ValueError("is not deflated") from error
    if not inflating.eof:
        raise ValueError(f"inflates to more than {MOST_INFLATED} bytes, or is cut")
    version, kind, fields = json.loads(content.decode(errors="surrogatepass"))
    read = _read(kind, fields) if version == _VERSION else None
    if read is None:
        raise ValueError(f"is of an unknown kind or version: {kind} {version}")
    return read


def _fields(fact: Packable) -> list[Any]:
    match fact:
        case ExtenderQuestion():
            return [fact.revision, fact.start, fact.extenders, fact.nodes]
        case ExtenderVerdicts():
            return [fact.revision, fact.start, fact.nodes, [_verdict(one) for one in fact.verdicts]]
        case PreemptionQuestion():
            return [fact.revision, fact.extenders, [_candidate(one) for one in fact.candidates]]
        case PreemptionVerdicts():
            return [fact.error, [_candidate(one) for one in fact.candidates]]


def _verdict(one: ExtenderVerdict) -> list[Any]:
    refusals = [[each.reason, each.resolvable, _bitmap(each.nodes)] for each in one.refusals]
    numbers = sorted(one.scores)
    scored = _bitmap(sum(1 << number for number in numbers))
    return [one.extender, one.weight, one.failure, refusals, scored, [one.scores[number] for number in numbers]]


def _bitmap(nodes: int) -> str | list[int]:
    """Few nodes by their numbers, many as a bitmap in hex."""
    return list(numbers_in(nodes)) if nodes.bit_count() <= FEW_BITS else f"{nodes:x}"


def _read_bitmap(written: str | list[int]) -> int:
    return int(written, 16) if isinstance(written, str) else sum(1 << number for number in written)


def _candidate(one: CandidateVictims) -> list[Any]:
    victims = [[each.key.namespace, each.key.name, each.uid, each.create_revision] for each in one.victims]
    return [one.node, one.violations, victims]


def _read(kind: str, fields: Any) -> Packable | None:
    """What `_fields` made; None for a kind that is not known."""
    match kind:
        case "ask":
            revision, start, extenders, nodes = fields
            return ExtenderQuestion(revision, tuple(nodes), tuple(extenders), start)
        case "verdicts":
            revision, start, nodes, verdicts = fields
            return ExtenderVerdicts(revision, tuple(nodes), tuple(map(_read_verdict, verdicts)), start)
        case "ask-preemption":
            revision, extenders, candidates = fields
            return PreemptionQuestion(revision, tuple(_read_candidate(*one) for one in candidates), tuple(extenders))
        case "preemption":
            error, candidates = fields
            return PreemptionVerdicts(tuple(_read_candidate(*one) for one in candidates), error)
    return None


def _read_verdict(fields: Any) -> ExtenderVerdict:
    name, weight, failure, refusals, scored, scores = fields
    read = tuple(NodeRefusals(reason, resolvable, _read_bitmap(nodes)) for reason, resolvable, nodes in refusals)
    points = dict(zip(numbers_in(_read_bitmap(scored)), scores, strict=True))
    return ExtenderVerdict(name, read, points, weight, failure)


def _read_candidate(node: str, violations: int, victims: Any) -> CandidateVictims:
    pods = (VictimPod(PodKey(namespace, name), uid, revision) for namespace, name, uid, revision in victims)
    return CandidateVictims(node, tuple(pods), violations)


_KINDS: Mapping[type, str] = {
    ExtenderQuestion: "ask",
    ExtenderVerdicts: "verdicts",
    PreemptionQuestion: "ask-preemption",
    PreemptionVerdicts: "preemption",
}
