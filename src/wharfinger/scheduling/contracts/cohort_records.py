"""Derives the records and the evictions of a cohort or a gang from its decisions and commits. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from wharfinger.scheduling.contracts.cohort_scheduling import (
    BoundMany,
    PlacedMany,
    Reasons,
    RecordedMany,
    Seat,
    TurnedAway,
    Unbound,
)
from wharfinger.scheduling.contracts.eviction import EvictInput
from wharfinger.scheduling.contracts.lone import evict_input


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
    unbound = [rejected.model_copy(update=_who(seat)) for seat in placed.seats]
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
        lost.append(
            TurnedAway(
                **_who(seat),
                pod_revision=seat.pod_revision,
                reasons=at,
                stretch=seat.stretch,
                attempt=seat.attempt,
                chained=seat.chained,
                record_revision=seat.record_revision,
                own_attempt=own_attempt,
            )
        )
    return placed.model_copy(update={"turned_away": (*away, *lost), "reasons": tuple(reasons)})


def _who(seat: Seat) -> dict[str, object]:
    """The fields that identify the pod."""
    return {
        "namespace": seat.namespace,
        "name": seat.name,
        "uid": seat.uid,
        "create_revision": seat.create_revision,
    }
