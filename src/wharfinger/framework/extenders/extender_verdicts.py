"""What extenders are asked about a pod, and what they answered: facts that travel between two halves of a decision.

A decision with extenders is made in steps: `consulting` finds the nodes that the plugins leave and makes a question,
the extenders are called elsewhere (`extender_chain` says in which order, and with which nodes), and `consulting`
decides on their verdicts. `extender_packing` makes them small enough for a history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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
    """Why nobody is evicted: an extender failed that may not be ignored. Empty for none."""


def numbers_in(bitmap: int) -> Iterator[int]:
    """The numbers of the bits that are set, ascending. Quick for few of them."""
    while bitmap:
        lowest = bitmap & -bitmap
        yield lowest.bit_length() - 1
        bitmap ^= lowest
