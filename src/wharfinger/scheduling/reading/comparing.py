"""What it means that a decision is the same: to the letter, but for the time it took and what travels with it.

Node, total, every plugin's score, runners-up, counts of reasons, message, rejectors, nomination, victims in order,
gang domain and seats. Where a record was cut to what travels, what is left of it is compared. Pure. Both `explain
--nodes` (`reading.remaking`) and replay compare by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.cohort_scheduling import PlacedMany, Reasons, Seat, TurnedAway
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.contracts.scheduling import Placed, Refused
from wharfinger.scheduling.effects.placing import payload


class Sameness(StrEnum):
    """How a decision compares with the recorded one."""

    SAME = "same"
    FIGURES = "figures"
    """The same node, by other scores, or with other reasons on other nodes."""
    ELSEWHERE = "elsewhere"
    """Another node."""
    REFUSED = "refused"
    """The pod had a node, and is refused."""
    PLACED = "placed"
    """The pod was refused, and has a node."""
    OTHERWISE = "otherwise"
    """Refused as before, for other reasons, or with another nomination."""


@dataclass(frozen=True, slots=True)
class DecisionSaid:
    """One decision in short, for whoever asks why."""

    node: str = ""
    """Empty = none."""
    total: int | None = None
    """None where at most one node was feasible."""
    scores: Mapping[str, int] = field(default_factory=dict)
    """Of the node, by plugin."""
    message: str = ""
    rejectors: tuple[str, ...] = ()
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    """`namespace/name`, in order."""
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Compared:
    """A recorded decision, and the one that was made again."""

    recorded: DecisionSaid
    again: DecisionSaid
    differs: tuple[str, ...] = ()
    """What is not the same, by name."""

    @property
    def verdict(self) -> Sameness:
        """In one word."""
        before, after = self.recorded.node, self.again.node
        if before and after:
            if before != after:
                return Sameness.ELSEWHERE
            return Sameness.FIGURES if self.differs else Sameness.SAME
        if before or after:
            return Sameness.PLACED if after else Sameness.REFUSED
        return Sameness.OTHERWISE if self.differs else Sameness.SAME


# --- a lone pod -----------------------------------------------------------------------------------


def compare_alone(recorded: Placed | Refused, again: Placed | Refused) -> Compared:
    """Compare what is recorded with what was decided again, whole.

    That is cut as the recorded one was: by its size, with the overlay that the worker had before any was cut, and with
    everything else that only the record knows.
    """
    computation = recorded.computation.model_copy(
        update={name: getattr(again.computation, name) for name in _REMADE},
    )
    cut = payload.fitted(again.model_copy(update={"computation": computation}))
    wanted = _alone(recorded, recorded.computation.feasible)
    return Compared(
        said_alone(recorded), said_alone(again), _differing(wanted, _alone(cut, again.computation.feasible))
    )


_REMADE = ("assumed", "nominated", "own_nodes", "approximate", "overlay")
"""Of a computation, what a record may be without because it was cut: what was made again has it."""


def _alone(outcome: Placed | Refused, feasible: int) -> dict[str, Any]:
    found: dict[str, Any] = {"feasible": feasible, "reasons": [(one.plugin, one.reasons) for one in outcome.refusals]}
    if isinstance(outcome, Placed):
        best, others = outcome.ranking[:1], outcome.ranking[1:]
        return found | {
            "node": outcome.node,
            "total": outcome.score,
            "scores": [one.plugins for one in best],
            "runnersUp": [(one.node, one.total, one.plugins) for one in others],
            "passedOver": outcome.passed_over,
        }
    victims = _victims(outcome.victims), outcome.victim_count, outcome.victims_digest
    more = {"victims": victims, "onlyAssumed": outcome.only_assumed, "late": outcome.late}
    return found | _refused(outcome, outcome) | more


def _refused(one: Refused | TurnedAway, why: Refused | Reasons) -> dict[str, Any]:
    return {
        "node": "",
        "message": why.message,
        "rejectors": why.rejectors,
        "nomination": one.nominated_node,
        "victims": _victims(one.victims),
    }


def said_alone(outcome: Placed | Refused) -> DecisionSaid:
    """The decision for a lone pod, in short."""
    if isinstance(outcome, Placed):
        scores = outcome.ranking[0].plugins if outcome.ranking else {}
        return DecisionSaid(outcome.node, outcome.score, scores, domain=outcome.computation.domain)
    return _said_refused(outcome, outcome)


def _said_refused(one: Refused | TurnedAway, why: Refused | Reasons, domain: str = "") -> DecisionSaid:
    victims = tuple(victim.pod for victim in one.victims)
    return DecisionSaid(
        message=why.message,
        rejectors=why.rejectors,
        nominated_node=one.nominated_node,
        victims=victims,
        domain=domain,
    )


# --- a pod of a cohort or of a gang ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MemberPart:
    """A pod's part in a decision for many."""

    decision: Seat | TurnedAway
    reasons: Sequence[Reasons]
    """All that the decision's index may mean."""
    domain: str = ""
    """Of a gang."""
    shared: tuple[Any, ...] = ()
    """What a gang's members have in common beside that."""


def gang_parts(many: PlacedMany) -> dict[PodKey, MemberPart]:
    """Every member's part in the decision for its gang."""
    shared = tuple((seat.namespace, seat.name) for seat in many.seats), many.only_assumed, many.leaving
    return {PodKey(one.namespace, one.name): MemberPart(one, many.reasons, many.domain, shared) for one in many.decided}


def compare_member(recorded: MemberPart, again: MemberPart) -> Compared:
    """Compare a pod's part in what is recorded with its part in what was decided again."""
    return Compared(said_member(recorded), said_member(again), _differing(_member(recorded), _member(again)))


def _member(member: MemberPart) -> dict[str, Any]:
    one = member.decision
    why = member.reasons[one.reasons] if one.reasons is not None else Reasons()
    found: dict[str, Any] = {
        "reasons": [(each.plugin, each.reasons) for each in why.refusals],
        "domain": member.domain,
        "gang": member.shared,
    }
    if isinstance(one, Seat):
        return found | {
            "node": one.node,
            "total": one.score,
            "scores": one.plugins,
            "runnersUp": list(one.others.items()),
            "feasible": one.feasible,
        }
    return found | _refused(one, why) | {"ownAttempt": one.own_attempt, "late": one.late}


def said_member(member: MemberPart) -> DecisionSaid:
    """A pod's part in a decision for many, in short."""
    one = member.decision
    if isinstance(one, Seat):
        return DecisionSaid(one.node, one.score, one.plugins, domain=member.domain)
    return _said_refused(one, member.reasons[one.reasons], member.domain)


def in_words(differs: Iterable[str]) -> str:
    """What differs, for people."""
    return ", ".join(_WORDS.get(name, name) for name in differs)


_WORDS = {
    "feasible": "how many nodes fit",
    "runnersUp": "runners-up",
    "passedOver": "the node that was passed over",
    "onlyAssumed": "whether only assumed pods are in the way",
    "ownAttempt": "whether it was left to an attempt of its own",
    "late": "who refused at Reserve or Permit",
    "gang": "what the gang's members have in common",
}


def _victims(victims: Sequence[Victim]) -> list[tuple[str, int]]:
    return [(victim.pod, victim.create_revision) for victim in victims]


def _differing(recorded: Mapping[str, Any], again: Mapping[str, Any]) -> tuple[str, ...]:
    names = dict.fromkeys((*recorded, *again))
    return tuple(name for name in names if recorded.get(name) != again.get(name))
