"""What travels of a cohort's decisions: far below Temporal's 2 MiB, whatever names, reasons and data there are.

Room is given out as decisions are made. What many pods share is told once; what does not fit any more is told shorter,
and a pod for which nothing is left at all is not decided. Sizes are of the JSON, measured where a text may be any.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from wharfinger.cache.assumptions import Assumption
from wharfinger.contracts.cohort_scheduling import Reasons, Seat, TurnedAway
from wharfinger.contracts.computation import Assumed, Nominated, OwnNodes
from wharfinger.engine.pods import payload
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.snapshot import Nominations
from wharfinger.model.texts import shortened

DECISIONS = 700_000
"""Bytes of seats and pods turned away."""
REASONS = 200_000
"""Bytes of reasons as they are for single pods; then they are told in a few words."""
FEW_WORDS = 100_000
"""Bytes of those; then only which plugins refused."""
OVERLAY = 100_000
"""Bytes of what decisions reckoned with (assumed and nominated pods, other workers); beyond, they can be made again
approximately only."""
OVERLAY_LIMIT = 300
"""Assumed pods that a stretch names."""
OUTCOMES = 400_000
"""Bytes of notes and messages of commits."""
LEAST = 8_192
"""Bytes that must be left for one more decision."""
PLAIN = 1_000
"""Bytes kept for each pod that is still to be decided: its names, without scores."""
UNTOLD = "no node is available; its cohort has too many different reasons to tell them all"
SHORT = 200
"""Characters of a message when there is little room."""
_PER_ENTRY = 350
"""Bytes of a decision beside its names: field names, numbers, punctuation."""
_PER_NAME = 12


class Room:
    """Bytes left for one kind of thing."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> bool:
        """Take it if it is there; whether it was."""
        if size > self.left:
            return False
        self.left -= size
        return True


class CohortPayload:
    """Of one cohort."""

    def __init__(self, pods: int) -> None:
        """`pods`: how many are to be decided."""
        self._to_come = pods
        self.reasons: list[Reasons] = []
        """In the order of their indexes."""
        self._known: dict[object, int] = {}
        self._decisions = Room(DECISIONS)
        self._reasons = Room(REASONS)
        self._few_words = Room(FEW_WORDS)
        self._overlay = Room(OVERLAY)

    @property
    def full(self) -> bool:
        """Whether no further decision may be made."""
        return self._decisions.left < LEAST

    def seat(self, seat: Seat) -> Seat:
        """The seat, with as much as there is room for."""
        names = size(seat.namespace) + size(seat.name) + size(seat.uid) + size(seat.node)
        fixed = _PER_ENTRY + names + (len(json.dumps(seat.plugin_data)) if seat.plugin_data else 0)
        told = (
            sum(map(size, seat.others)) + sum(map(size, seat.plugins)) + _PER_NAME * len((*seat.others, *seat.plugins))
        )
        self._to_come -= 1
        if self._decisions.left - fixed - told < LEAST + PLAIN * self._to_come:
            seat, told = seat.model_copy(update={"plugins": {}, "others": {}}), 0
        self._decisions.left -= fixed + told
        return seat

    def away(self, away: TurnedAway) -> TurnedAway:
        """The pod that was turned away."""
        self._to_come -= 1
        self._decisions.left -= _PER_ENTRY + size(f"{away.namespace}{away.name}{away.uid}")
        return away

    def because(
        self, counts: Mapping[str, Mapping[str, int]], message: str = "", rejectors: tuple[str, ...] = ()
    ) -> int:
        """The index of these reasons; shortened where there is little room."""
        key: object = (message, rejectors, tuple((plugin, tuple(each.items())) for plugin, each in counts.items()))
        if key in self._known:
            return self._known[key]
        told = Reasons(refusals=payload.refusals(counts), rejectors=rejectors, message=payload.message(message))
        if not self._reasons.take(_size(told)):
            short = {"refusals": payload.refusals(counts, 0), "message": shortened(message, SHORT)}
            told = told.model_copy(update=short)
            if not self._few_words.take(_size(told)):
                key = rejectors
                told = Reasons(rejectors=rejectors, message=UNTOLD if message else "")
        return self._index(key, told)

    def _index(self, key: object, told: Reasons) -> int:
        known = self._known.setdefault(key, len(self.reasons))
        if known == len(self.reasons):
            self.reasons.append(told)
        return known

    def overlay(self, assumed: Collection[Assumption]) -> tuple[tuple[Assumed, ...], bool]:
        """The assumed pods by name, and whether they are too many to be told."""
        if len(assumed) > OVERLAY_LIMIT:
            return (), True
        told: list[Assumed] = []
        for one in assumed:
            identity = one.identity
            pod = f"{identity.namespace}/{identity.name}"
            told.append(Assumed(pod=pod, create_revision=identity.create_revision, node=one.node))
        fits = self._overlay.take(sum(size(one.pod + one.node) + 60 for one in told))
        return (tuple(told), False) if fits else ((), True)

    def nominated(self, nominations: Nominations) -> tuple[tuple[Nominated, ...], bool]:
        """The nominations by name, and whether they are too many to be told."""
        told, too_many = payload.nominated(nominations, None)
        fits = self._overlay.take(sum(size(one.pod + one.node) + 60 for one in told))
        return (told, too_many) if fits else ((), True)

    def own_nodes(self, preferred_nodes: PreferredNodes) -> OwnNodes:
        """By whose nodes decisions went; without the others where there is no room for them."""
        told = payload.own_nodes(preferred_nodes)
        fits = self._overlay.take(sum(size(member) + 4 for member in told.members))
        return told if fits else told.model_copy(update={"members": ()})


def size(text: str) -> int:
    """Bytes of a text as JSON, at most."""
    plain = text.isascii() and text.isprintable() and '"' not in text and "\\" not in text
    return len(text) if plain else 6 * len(text)


def _size(reasons: Reasons) -> int:
    return len(reasons.model_dump_json().encode())
