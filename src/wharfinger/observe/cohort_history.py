"""One pod's part of a cohort's recorded run, as the attempt that it was for that pod.

A cohort's history says once what its pods share. Here it is put together again, so that whoever tells an attempt, or
decides it again, need not know whether the pod was alone. Pure; histories are fetched by `observe.attempts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError
from temporalio.api.history.v1 import HistoryEvent

from wharfinger.contracts.cohort_scheduling import BoundMany, PlacedMany, Reasons, Seat, Stretch, TurnedAway
from wharfinger.contracts.computation import Assumed, Computation, NodeScore
from wharfinger.contracts.scheduling import Placed, Refused
from wharfinger.model.pod import PodKey
from wharfinger.observe.history import Attempt, read_attempt, results

CONTENDED, REFUSED, BOUND = "contended", "refused", "bound"


def read_member(workflow_id: str, run_id: str, events: Sequence[HistoryEvent], key: PodKey) -> Attempt | None:
    """The attempt that this run was for the pod; None when the run tells nothing of it."""
    attempt = read_attempt(workflow_id, run_id, events)
    if attempt is None or not attempt.placement:
        return None
    try:
        placed = PlacedMany.model_validate(attempt.placement)
        commits = [BoundMany.model_validate(answer) for answer in results(events, "bind_many")]
    except ValidationError:
        return None
    of_gang = any(one.computation.gang for one in placed.stretches)
    others = len(placed.seats) + len(placed.turned_away) - 1
    company = (f"decided together with {others} other pod{'s' if others > 1 else ''}",) if others else ()
    for index, seat in enumerate(placed.seats):
        if (seat.namespace, seat.name) == key:
            told = replace(
                attempt,
                attempt=attempt.attempt if of_gang else seat.attempt,
                placement=placed_alone(placed, index).model_dump(mode="json"),
                message="",
                notes=company + ((f"all of them in {placed.domain}",) if placed.domain else ()),
            )
            return _committed(told, seat, commits[-1] if commits else None)
    for away in placed.turned_away:
        if (away.namespace, away.name) == key:
            refused = refused_alone(placed, away)
            return replace(
                attempt,
                attempt=attempt.attempt if of_gang else away.attempt,
                placement=refused.model_dump(mode="json"),
                message=refused.message,
                node=None,
                outcome=REFUSED if attempt.ended is not None else attempt.outcome,
                notes=company,
            )
    return None


def placed_alone(placed: PlacedMany, index: int) -> Placed:
    """A seat as the placement of a pod alone; what was seated before it is part of what it saw."""
    seat = placed.seats[index]
    stretch = placed.stretches[seat.stretch]
    reasons = placed.reasons[seat.reasons] if seat.reasons is not None else Reasons()
    best = (NodeScore(node=seat.node, total=seat.score, plugins=seat.plugins),) if seat.score is not None else ()
    others = tuple(NodeScore(node=node, total=total) for node, total in seat.others.items())
    return Placed(
        uid=seat.uid,
        create_revision=seat.create_revision,
        pod_revision=seat.pod_revision,
        node=seat.node,
        node_revision=0,
        score=seat.score,
        ranking=(*best, *others),
        passed_over=_better(seat, others) if stretch.computation.own_nodes is not None else None,
        refusals=reasons.refusals,
        computation=_seen(placed, stretch, index).model_copy(update={"feasible": seat.feasible}),
        plugin_data=seat.plugin_data,
    )


def _better(seat: Seat, others: Sequence[NodeScore]) -> NodeScore | None:
    """The best of the runners-up, when the worker's own node went before it. None is told of one that is as good."""
    best = max(others, key=lambda one: one.total, default=None)
    return best if best is not None and seat.score is not None and best.total > seat.score else None


def refused_alone(placed: PlacedMany, away: TurnedAway) -> Refused:
    """A pod that was turned away as the refusal of a pod alone."""
    reasons = placed.reasons[away.reasons]
    return Refused(
        uid=away.uid,
        create_revision=away.create_revision,
        pod_revision=away.pod_revision,
        message=reasons.message,
        refusals=reasons.refusals,
        rejectors=reasons.rejectors,
        # What a cohort leaves to the pod's own attempt is not part of the decision that is told.
        only_assumed=away.own_attempt or placed.only_assumed,
        nominated_node=away.nominated_node,
        victims=away.victims,
        computation=_seen(placed, placed.stretches[away.stretch], away.after_seat).model_copy(
            # Of a gang that was placed, it is one of those beyond the needed: refused by itself.
            update={"feasible": 0, **({"gang": ""} if placed.seats else {})}
        ),
    )


def _seen(placed: PlacedMany, stretch: Stretch, seats: int) -> Computation:
    """What a decision saw that came after so many seats: the overlay of its stretch, and the seats since."""
    taken = tuple(
        Assumed(pod=f"{seat.namespace}/{seat.name}", create_revision=seat.create_revision, node=seat.node)
        for seat in placed.seats[stretch.first_seat : seats]
    )
    seen = {"assumed": stretch.computation.assumed + taken, "domain": placed.domain}
    return stretch.computation.model_copy(update=seen)


def _committed(attempt: Attempt, seat: Seat, commit: BoundMany | None) -> Attempt:
    """With what became of the seat."""
    if commit is None:
        return replace(attempt, node=seat.node)
    for bound in commit.bound:
        if (bound.namespace, bound.name) == (seat.namespace, seat.name):
            return replace(attempt, node=bound.node, outcome=BOUND, notes=(*attempt.notes, *bound.notes))
    for lost in commit.unbound:
        if (lost.namespace, lost.name) == (seat.namespace, seat.name):
            outcome = REFUSED if lost.kind == "rejected" else lost.kind
            return replace(attempt, node=None, outcome=outcome, message=lost.message)
    return replace(attempt, node=None, outcome=CONTENDED if attempt.ended else attempt.outcome)
