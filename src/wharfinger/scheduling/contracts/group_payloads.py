"""Payloads of a group of pods: a lone pod's as those of a group of one, and what follows from decisions and commits.

`place`, `bind`, `record_refusal` and `evict` have flat payloads, which people read in the Temporal UI. A group's
payloads store once what its pods share. Pure; workflows, the recorder and `reading` use it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from wharfinger.scheduling.contracts.attempts import AttemptInput
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    BoundPod,
    PlacedMany,
    Reasons,
    RecordedMany,
    RecordManyInput,
    RecordReason,
    Seat,
    SeatRanking,
    Skipped,
    Stretch,
    TurnedAway,
    Unbound,
)
from wharfinger.scheduling.contracts.computation import Assumed, Computation, ScoredNode
from wharfinger.scheduling.contracts.eviction import EvictInput
from wharfinger.scheduling.contracts.scheduling import (
    BindInput,
    Bound,
    Contended,
    Gone,
    Placed,
    Recorded,
    RefusalInput,
    Refused,
    Rejected,
)

# --- decisions ------------------------------------------------------------------------------------


def placed_alone(placed: PlacedMany, index: int) -> Placed:
    """A seat as the placement of a lone pod; the seats before it are part of what its decision saw."""
    seat = placed.seats[index]
    stretch = placed.stretches[seat.stretch]
    reasons = placed.reasons[seat.reasons] if seat.reasons is not None else Reasons()
    best = (ScoredNode(node=seat.node, total=seat.score, plugins=seat.plugins),) if seat.score is not None else ()
    others = tuple(ScoredNode(node=node, total=total) for node, total in seat.others.items())
    if placed.rankings:
        told = placed.rankings[index]
    else:
        better = _better(seat, others) if stretch.computation.own_nodes is not None else None
        told = SeatRanking(passed_over=better)
    return Placed.alike(
        seat,
        node_revision=0,
        ranking=told.nodes or (*best, *others),
        passed_over=told.passed_over,
        refusals=reasons.refusals,
        computation=_seen(placed, stretch, index).model_copy(update={"feasible": seat.feasible}),
    )


def refused_alone(placed: PlacedMany, away: TurnedAway) -> Refused:
    """A pod that was turned away as the refusal of a lone pod."""
    reasons = placed.reasons[away.reasons]
    return Refused.alike(
        away,
        message=reasons.message,
        refusals=reasons.refusals,
        rejectors=reasons.rejectors,
        # What a cohort leaves to the pod's own attempt is not part of this decision.
        only_assumed=away.own_attempt or placed.only_assumed,
        computation=_seen(placed, placed.stretches[away.stretch], away.after_seat).model_copy(
            # A refused member of a gang that was placed is beyond the members that it needs: refused by itself.
            update={"feasible": 0, **({"gang": ""} if placed.seats else {})}
        ),
    )


def _better(seat: Seat, others: Sequence[ScoredNode]) -> ScoredNode | None:
    """The best runner-up, if the worker preferred its own node to it; None if that is as good."""
    best = max(others, key=lambda one: one.total, default=None)
    return best if best is not None and seat.score is not None and best.total > seat.score else None


def _seen(placed: PlacedMany, stretch: Stretch, seats: int) -> Computation:
    """What a decision after so many seats saw: the overlay of its stretch, and the seats since."""
    taken = tuple(
        Assumed(pod=f"{seat.namespace}/{seat.name}", create_revision=seat.create_revision, node=seat.node)
        for seat in placed.seats[stretch.first_seat : seats]
    )
    seen = {"assumed": stretch.computation.assumed + taken, "domain": placed.domain}
    return stretch.computation.model_copy(update=seen)


# --- a lone pod as a group ------------------------------------------------------------------------


def placed_group(pod: AttemptInput, outcome: Placed | Refused | Gone) -> PlacedMany:
    """The decision about a lone pod as that of a group; what only `place` answers is left out."""
    if isinstance(outcome, Gone):
        gone = Skipped(namespace=pod.namespace, name=pod.name, reason=outcome.line, gone=outcome.why)
        return PlacedMany(skipped=(gone,))
    stretches = (Stretch(first_seat=0, computation=outcome.computation),)
    if isinstance(outcome, Placed):
        return PlacedMany(seats=(_seat(pod.namespace, pod.name, outcome),), stretches=stretches)
    away = TurnedAway.alike(outcome, namespace=pod.namespace, name=pod.name, reasons=0)
    why = Reasons.alike(outcome)
    return PlacedMany(
        turned_away=(away,),
        reasons=(why,),
        stretches=stretches,
        only_assumed=outcome.only_assumed,
        leaving=outcome.leaving,
    )


def bound_group(pod: AttemptInput, outcome: Bound | Contended | Rejected | Gone) -> BoundMany:
    """What became of the seat of a lone pod."""
    who = {"namespace": pod.namespace, "name": pod.name}
    if isinstance(outcome, Bound):
        return BoundMany(bound=(BoundPod(**who, node=outcome.node, revision=outcome.revision, notes=outcome.notes),))
    message = outcome.line if isinstance(outcome, Gone) else outcome.message
    return BoundMany(unbound=(unbound(outcome, message, **who),))


def unbound(outcome: Contended | Rejected | Gone, message: str, **pod: Any) -> Unbound:
    """A pod that is not bound, because of this; `message`: why, within the room that there is."""
    return Unbound(
        **pod,
        kind=outcome.kind,
        plugin=outcome.plugin if isinstance(outcome, Rejected) else "",
        message=message,
        reason=outcome.why if isinstance(outcome, Gone) else "",
    )


def recorded_group(request: RefusalInput, outcome: Recorded | Gone) -> RecordedMany:
    """What became of the record of a lone pod."""
    if isinstance(outcome, Gone):
        return RecordedMany(gone=1, gone_reasons={outcome.why: 1})
    name = f"{request.namespace}/{request.name}"
    nominated = {name: outcome.revision} if request.nominated_node and outcome.nominated else {}
    return RecordedMany(
        recorded=1,
        revision=outcome.revision,
        lapsed=() if outcome.nominated else (name,),
        record_revisions=nominated,
    )


def _seat(namespace: str, name: str, placed: Placed) -> Seat:
    others = {one.node: one.total for one in placed.ranking if one.node != placed.node}
    # A bind needs no score: the history has it already, with `place`.
    return Seat.alike(placed, namespace=namespace, name=name, others=others, recorded=True, score=None)


# --- requests -------------------------------------------------------------------------------------


def bind_many_input(request: BindInput) -> BindManyInput:
    """The placement of a lone pod as a cohort of one seat."""
    seat = _seat(request.namespace, request.name, request.placed)
    seats = (seat.model_copy(update={"attempt": request.attempt}),)
    return BindManyInput.alike(request, seats=seats, computations=(request.placed.computation,))


def refusal_input(
    refused: PlacedMany | RecordManyInput,
    reason: RecordReason = "Unschedulable",
    one: TurnedAway | None = None,
    *,
    workflow_id: str,
    run_id: str,
) -> RefusalInput:
    """What to record for one pod of a group, the first one by default; the ids are those of the run it waits with."""
    one = refused.turned_away[0] if one is None else one
    reasons = refused.reasons[one.reasons]
    return RefusalInput.alike(
        one,
        reason=reason,
        message=reasons.message,
        rejectors=reasons.rejectors,
        revision=refused.revision,
        workflow_id=workflow_id,
        run_id=run_id,
    )


def evict_input(one: TurnedAway, record_revision: int, *, workflow_id: str, run_id: str) -> EvictInput:
    """The victims of the pod's nomination, for the attempt record that was just written."""
    return EvictInput.alike(
        one,
        node=one.nominated_node,
        in_record=one.victim_count > len(one.victims),
        record_revision=record_revision,
        workflow_id=workflow_id,
        run_id=run_id,
    )


def victims_listed(one: TurnedAway) -> str:
    """The victims, for people."""
    more = one.victim_count - len(one.victims)
    return ", ".join(victim.pod for victim in one.victims) + (f" and {more} more" if more > 0 else "")


def turned_away(placed: PlacedMany, bound: BoundMany) -> PlacedMany | None:
    """Those that wait as unschedulable: turned away, or placed and then rejected for good; None = there are none."""
    rejected = [one for one in bound.unbound if one.kind == "rejected"]
    if not placed.turned_away and not rejected:
        return None
    return _with(placed, _freed(placed, bound), rejected, own_attempt=False)


def _freed(placed: PlacedMany, bound: BoundMany) -> tuple[TurnedAway, ...]:
    """The pods that were turned away; one decided after a seat that stayed free may fit, and no event follows."""
    nodes = {(one.namespace, one.name): one.node for one in bound.bound}
    kept = (nodes.get((seat.namespace, seat.name)) == seat.node for seat in placed.seats)
    first = next((number for number, is_kept in enumerate(kept) if not is_kept), len(placed.seats))
    return tuple(
        one.model_copy(update={"own_attempt": True}) if one.after_seat > first else one for one in placed.turned_away
    )


def contended(placed: PlacedMany, bound: BoundMany) -> PlacedMany | None:
    """Those whose room was taken: an attempt of their own follows at once; None = there are none."""
    lost = [one for one in bound.unbound if one.kind == "contended"]
    return _with(placed, (), lost, own_attempt=True) if lost else None


def rejected_together(placed: PlacedMany, bound: BoundMany) -> PlacedMany | None:
    """A lone pod, or a gang with a member, that can never be committed as placed: none is bound, and all wait.

    None = no pod was rejected, or some are bound.
    """
    rejected = next((one for one in bound.unbound if one.kind == "rejected"), None)
    if rejected is None or bound.bound:
        return None
    unbound = [
        Unbound.alike(seat, kind=rejected.kind, plugin=rejected.plugin, message=rejected.message)
        for seat in placed.seats
    ]
    return _with(placed, placed.turned_away, unbound, own_attempt=False).model_copy(update={"seats": ()})


def numbered(away: tuple[TurnedAway, ...], attempt: int) -> tuple[TurnedAway, ...]:
    """The pods that were turned away, with the number of the run's attempt."""
    return tuple(one.model_copy(update={"attempt": attempt}) for one in away)


def evictions(
    placed: PlacedMany, recorded: RecordedMany, *, workflow_id: str, run_id: str
) -> Iterator[tuple[TurnedAway, EvictInput]]:
    """The inputs of `evict`, pod by pod, for the records that were just written."""
    for one in placed.turned_away:
        revision = recorded.record_revisions.get(f"{one.namespace}/{one.name}")
        if one.victims and revision is not None:
            yield one, evict_input(one, revision, workflow_id=workflow_id, run_id=run_id)


def gone_reasons(placed: PlacedMany, bound: BoundMany, *recorded: RecordedMany) -> dict[str, int]:
    """How many pods turned out not to be placed any more, by `bound` or `GoneReason`, most frequent first."""
    found = Counter(one.gone for one in placed.skipped if one.gone)
    found.update(one.reason for one in bound.unbound if one.kind == "gone" and one.reason)
    for one in recorded:
        found.update(one.gone_reasons)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _with(placed: PlacedMany, away: tuple[TurnedAway, ...], unbound: list[Unbound], *, own_attempt: bool) -> PlacedMany:
    """The same decisions, with the pods of lost seats as turned away, each with its own reason."""
    seats = {(seat.namespace, seat.name): seat for seat in placed.seats}
    reasons = list(placed.reasons)
    known: dict[tuple[str, str], int] = {}
    lost: list[TurnedAway] = []
    for one in unbound:
        seat = seats.get((one.namespace, one.name))
        if seat is None:
            continue
        said = Reasons(message=one.message, rejectors=(one.plugin,) if one.plugin else ())
        at = known.setdefault((one.plugin, one.message), len(reasons))
        if at == len(reasons):
            reasons.append(said)
        lost.append(TurnedAway.alike(seat, reasons=at, own_attempt=own_attempt))
    return placed.model_copy(update={"turned_away": (*away, *lost), "reasons": tuple(reasons)})
