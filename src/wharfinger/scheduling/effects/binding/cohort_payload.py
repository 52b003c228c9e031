"""What travels of a cohort's decisions: far below Temporal's 2 MiB, whatever names, reasons and data there are.

Room is given out as decisions are made. What many pods share is said once; what does not fit any more is said shorter,
and a pod for which nothing is left at all is not decided. Sizes are of the JSON, measured where a text may be any.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.texts import shortened
from wharfinger.scheduling.contracts.cohort_scheduling import (
    BindManyInput,
    BoundMany,
    BoundPod,
    CohortPod,
    Reasons,
    Seat,
    SeatRanking,
    TurnedAway,
    Unbound,
)
from wharfinger.scheduling.contracts.computation import LateVerdict
from wharfinger.scheduling.contracts.group_payloads import unbound
from wharfinger.scheduling.contracts.plugin_calls import Held
from wharfinger.scheduling.contracts.scheduling import Bound
from wharfinger.scheduling.effects.binding.outcome import Failed, Outcomes, rejected, why_unbound
from wharfinger.scheduling.effects.placing.deciding import Chosen, Nomination
from wharfinger.scheduling.effects.placing.payload import (
    MESSAGE_LIMIT,
    RANKED_LIMIT,
    Overlay,
    Room,
    message,
    passed_over,
    ranking,
    refusals,
    size,
)

DECISIONS = 700_000
"""Bytes of a cohort's seats and of its pods turned away."""
REASONS = 200_000
"""Bytes of reasons as they are for single pods; beyond, they are given in a few words."""
FEW_WORDS = 100_000
"""Bytes of those; beyond, only the plugins that refused are named."""
OVERLAY = 100_000
"""Bytes of the overlays (assumed and nominated pods, other workers); beyond, decisions can be made again approximately
only."""
SMALL = 10
"""Pods of a cohort whose decisions tell as much as those of lone pods."""
RANKINGS = 30_000
"""Bytes of the scores of each plugin for runners-up; beyond, only their totals are told."""
STRETCH_OVERLAY_LIMIT = 300
"""Assumed pods that a stretch names."""
OUTCOMES = 400_000
"""Bytes of notes and messages of commits."""
LEAST = 8_192
"""Bytes that must be left for one more decision."""
PLAIN = 1_000
"""Bytes kept for each pod that is still to be decided: its names, without scores."""
UNRANKED = SeatRanking()
UNTOLD = "no node is available; its cohort has too many different reasons to tell them all"
SHORT = 200
"""Characters of a message when there is little room."""
_PER_ENTRY = 350
"""Bytes of a decision beside its names: field names, numbers, punctuation."""
_PER_NAME = 12


class Away(NamedTuple):
    """Why pods are turned away."""

    reasons: int
    """Their index."""
    own_attempt: bool = False
    late: LateVerdict | None = None
    """Who refused the node that was chosen."""


class CohortPayload:
    """The room of one cohort's decisions."""

    def __init__(self, pods: int) -> None:
        """`pods`: how many are to be decided."""
        self._to_come = pods
        self.small = pods <= SMALL
        self.reasons: list[Reasons] = []
        """In the order of their indexes."""
        self._known: dict[object, int] = {}
        self._decisions = Room(DECISIONS)
        self._reasons = Room(REASONS)
        self._few_words = Room(FEW_WORDS)
        self._rankings = Room(RANKINGS)
        self.overlay = Overlay(STRETCH_OVERLAY_LIMIT, room=Room(OVERLAY))
        """Of each of its stretches."""

    @property
    def full(self) -> bool:
        """Whether no further decision may be made."""
        return self._decisions.left < LEAST

    def seat_of(
        self,
        chosen: Chosen,
        asked: CohortPod,
        reasons: int | None,
        *,
        stretch: int = 0,
        others: Mapping[str, int] = MappingProxyType({}),
    ) -> Seat:
        """The seat of a pod that has a node; `others`: the runners-up and their totals, best first."""
        pod, best = chosen.pod, chosen.evaluation.chosen
        return self.seat(
            Seat.alike(
                asked,
                uid=pod.uid,
                create_revision=pod.create_revision,
                pod_revision=pod.mod_revision,
                node=chosen.node,
                score=best.total if best is not None else None,
                plugins=dict(best.plugins) if best is not None else {},
                others=dict(others),
                feasible=chosen.evaluation.feasible_count,
                reasons=reasons,
                stretch=stretch,
                plugin_data=chosen.evaluation.state.baggage,
            )
        )

    def ranking_of(self, chosen: Chosen) -> SeatRanking:
        """What is told of the seat in a small group; nothing in a large one."""
        if not self.small:
            return UNRANKED
        nodes = ranking(chosen.evaluation.ranking(RANKED_LIMIT))
        if not self._rankings.take(sum(size(one.node) + sum(map(size, one.plugins)) + 40 for one in nodes)):
            nodes = ()
        return SeatRanking(nodes=nodes, passed_over=passed_over(chosen.evaluation))

    def away_of(
        self,
        pod: Pod,
        asked: CohortPod,
        away: Away,
        *,
        after_seat: int = 0,
        stretch: int = 0,
        nomination: Nomination = ("", ()),
    ) -> TurnedAway:
        """The entry of a pod that was turned away."""
        self._to_come -= 1
        self._decisions.left -= _PER_ENTRY + size(f"{pod.namespace}{pod.name}{pod.uid}")
        node, victims = nomination
        return TurnedAway.alike(
            asked,
            uid=pod.uid,
            create_revision=pod.create_revision,
            pod_revision=pod.mod_revision,
            **away._asdict(),
            after_seat=after_seat,
            stretch=stretch,
            nominated_node=node,
            victims=victims,
        )

    def seat(self, seat: Seat) -> Seat:
        """The seat, with as much as there is room for."""
        names = size(seat.namespace) + size(seat.name) + size(seat.uid) + size(seat.node)
        fixed = _PER_ENTRY + names + (len(json.dumps(seat.plugin_data)) if seat.plugin_data else 0)
        told = (
            sum(map(size, seat.others)) + sum(map(size, seat.plugins)) + _PER_NAME * len((*seat.others, *seat.plugins))
        )
        self._to_come -= 1
        # The names of pods that are still to be decided go before the scores of this one: without room for its name, a
        # pod is not decided at all.
        if self._decisions.left - fixed - told < LEAST + PLAIN * self._to_come:
            seat, told = seat.model_copy(update={"plugins": {}, "others": {}}), 0
        self._decisions.left -= fixed + told
        return seat

    def because(
        self, counts: Mapping[str, Mapping[str, int]], message: str = "", rejectors: tuple[str, ...] = ()
    ) -> int:
        """The index of these reasons; shortened where there is little room."""
        key: object = (message, rejectors, tuple((plugin, tuple(each.items())) for plugin, each in counts.items()))
        if key in self._known:
            return self._known[key]
        told = Reasons(refusals=refusals(counts), rejectors=rejectors, message=shortened(message, MESSAGE_LIMIT))
        if not self._reasons.take(len(told.model_dump_json().encode())):
            short = {"refusals": refusals(counts, 0), "message": shortened(message, SHORT)}
            told = told.model_copy(update=short)
            if not self._few_words.take(len(told.model_dump_json().encode())):
                key = rejectors
                told = Reasons(rejectors=rejectors, message=UNTOLD if message else "")
        known = self._known.setdefault(key, len(self.reasons))
        if known == len(self.reasons):
            self.reasons.append(told)
        return known


def bound_many(request: BindManyInput, outcomes: Outcomes) -> BoundMany:
    """What became of all seats, in their order, with as much of notes and messages as there is room for."""
    room = Room(OUTCOMES)
    bound: list[BoundPod] = []
    lost: list[Unbound] = []
    for number, one in sorted(outcomes.of.items()):
        seat = request.seats[number]
        who = {"namespace": seat.namespace, "name": seat.name}
        if isinstance(one, Bound):
            notes = tuple(_within(room, note) for note in one.notes if note)
            bound.append(BoundPod(**who, node=one.node, revision=one.revision, notes=notes))
        elif not isinstance(one, Held):  # a lone pod's alone
            known = rejected(one.error.plugin, str(one.error)) if isinstance(one, Failed) else one
            message = _within(room, why_unbound(known))
            lost.append(unbound(known, message, **who, uid=seat.uid, create_revision=seat.create_revision))
    return BoundMany(bound=tuple(bound), unbound=tuple(lost), transactions=outcomes.transactions)


def _within(room: Room, text: str) -> str:
    told = message(text)
    return told if room.take(size(told)) else shortened(text, SHORT // 4)
