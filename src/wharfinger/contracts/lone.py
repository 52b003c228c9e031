"""The group of one: maps a pod's part in a cohort or a gang to the flat contracts of a lone pod, and back to requests.

`place`, `bind`, `record_refusal` and `evict` have flat payloads, which people read in the Temporal UI. A group's
payloads store once what its pods share. Pure; workflows, the recorder and `observe` use it.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.contracts.attempts import AttemptInput
from wharfinger.contracts.cohort_scheduling import (
    BindManyInput,
    PlacedMany,
    Reasons,
    RecordManyInput,
    Seat,
    Stretch,
    TurnedAway,
)
from wharfinger.contracts.computation import Assumed, Computation, ScoredNode
from wharfinger.contracts.eviction import EvictInput
from wharfinger.contracts.extenders import NO_ANSWERS, ExtenderAnswers
from wharfinger.contracts.scheduling import BindInput, Placed, RefusalInput, Refused, Rejected

# --- decisions ------------------------------------------------------------------------------------


def placed_alone(placed: PlacedMany, index: int) -> Placed:
    """A seat as the placement of a lone pod; the seats before it are part of what its decision saw."""
    seat = placed.seats[index]
    stretch = placed.stretches[seat.stretch]
    reasons = placed.reasons[seat.reasons] if seat.reasons is not None else Reasons()
    best = (ScoredNode(node=seat.node, total=seat.score, plugins=seat.plugins),) if seat.score is not None else ()
    others = tuple(ScoredNode(node=node, total=total) for node, total in seat.others.items())
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


def refused_alone(placed: PlacedMany, away: TurnedAway) -> Refused:
    """A pod that was turned away as the refusal of a lone pod."""
    reasons = placed.reasons[away.reasons]
    return Refused(
        uid=away.uid,
        create_revision=away.create_revision,
        pod_revision=away.pod_revision,
        message=reasons.message,
        refusals=reasons.refusals,
        rejectors=reasons.rejectors,
        # What a cohort leaves to the pod's own attempt is not part of this decision.
        only_assumed=away.own_attempt or placed.only_assumed,
        nominated_node=away.nominated_node,
        victims=away.victims,
        late=away.late,
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


def rejection(placed: Placed, rejected: Rejected) -> Refused:
    """The refusal that a placement becomes when it can never be committed."""
    return Refused(
        uid=placed.uid,
        create_revision=placed.create_revision,
        pod_revision=placed.pod_revision,
        message=rejected.message,
        rejectors=(rejected.plugin,),
        computation=placed.computation,
    )


# --- requests -------------------------------------------------------------------------------------


def bind_many_input(request: BindInput) -> BindManyInput:
    """The placement of a lone pod as a cohort of one seat."""
    placed = request.placed
    seat = Seat(
        namespace=request.namespace,
        name=request.name,
        uid=placed.uid,
        create_revision=placed.create_revision,
        pod_revision=placed.pod_revision,
        node=placed.node,
        others={one.node: one.total for one in placed.ranking if one.node != placed.node},
        attempt=request.attempt,
        recorded=True,
        plugin_data=placed.plugin_data,
    )
    return BindManyInput(
        seats=(seat,), computations=(placed.computation,), workflow_id=request.workflow_id, run_id=request.run_id
    )


def refusal_input(
    pod: AttemptInput,
    refused: Refused,
    held: Placed | None,
    *,
    attempt: int,
    workflow_id: str,
    run_id: str,
    answers: ExtenderAnswers = NO_ANSWERS,
) -> RefusalInput:
    """What to record while the pod waits.

    `held`: the placement that a Permit plugin held and did not permit; `answers`: of extenders, by which was decided.
    """
    return RefusalInput(
        namespace=pod.namespace,
        name=pod.name,
        uid=refused.uid,
        create_revision=refused.create_revision,
        pod_revision=refused.pod_revision,
        attempt=attempt,
        message=refused.message,
        rejectors=refused.rejectors,
        revision=refused.computation.revision,
        nominated_node=refused.nominated_node,
        victims=refused.victims,
        victim_count=refused.victim_count,
        victims_digest=refused.victims_digest,
        reserved_node=held.node if held is not None else "",
        plugin_data=held.plugin_data if held is not None else {},
        answers=answers if refused.victims else NO_ANSWERS,
        workflow_id=workflow_id,
        run_id=run_id,
    )


def member_refusal_input(request: RecordManyInput, one: TurnedAway, *, workflow_id: str, run_id: str) -> RefusalInput:
    """What to record for one pod of a group; the ids are those of the run that the pod waits with."""
    reasons = request.reasons[one.reasons]
    return RefusalInput(
        namespace=one.namespace,
        name=one.name,
        uid=one.uid,
        create_revision=one.create_revision,
        pod_revision=one.pod_revision,
        attempt=one.attempt,
        reason=request.reason,
        message=reasons.message,
        rejectors=reasons.rejectors,
        revision=request.revision,
        nominated_node=one.nominated_node,
        victims=one.victims,
        workflow_id=workflow_id,
        run_id=run_id,
    )


def evict_input(
    pod: AttemptInput | TurnedAway,
    refused: Refused | TurnedAway,
    record_revision: int,
    *,
    workflow_id: str,
    run_id: str,
) -> EvictInput:
    """The victims of the pod's nomination, for the attempt record that was just written."""
    return EvictInput(
        namespace=pod.namespace,
        name=pod.name,
        uid=refused.uid,
        create_revision=refused.create_revision,
        node=refused.nominated_node,
        victims=refused.victims,
        in_record=isinstance(refused, Refused) and refused.victim_count > len(refused.victims),
        record_revision=record_revision,
        workflow_id=workflow_id,
        run_id=run_id,
    )


def victims_listed(refused: Refused) -> str:
    """The victims, for people."""
    more = refused.victim_count - len(refused.victims)
    return ", ".join(one.pod for one in refused.victims) + (f" and {more} more" if more > 0 else "")
