"""What one run of a workflow recorded, as replay needs it: what was decided, for whom, and what was answered.

`histories` reads it from Temporal. A run is one decision for a lone pod or for a gang, or one stretch of decisions
after the other for the pods of a cohort: a `Unit` is what was decided on one state, with nothing in between. A decision
that cannot be made again is `Unreplayable`: it is counted apart, and never as the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from wharfinger.objects.model.pod import PodKey
from wharfinger.process.contract import Sparse
from wharfinger.scheduling.contracts.cohort_scheduling import CohortPod, GangName, PlacedMany, Seat, TurnedAway
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.extenders import NO_ANSWERS, ExtenderAnswers
from wharfinger.scheduling.contracts.scheduling import Placed, Refused


class Lack(StrEnum):
    """What is missing."""

    COMPACTED = "compacted"
    """Etcd keeps the state no more."""
    FUTURE = "future"
    """Etcd has not got so far: it was restored from a backup since."""
    PROFILE = "profile"
    """The configuration by which was decided is gone, or its plugins are not installed here."""
    OVERLAY = "overlay"
    """What the worker had assumed is not recorded, or cannot be told from its digest."""
    MEMBERSHIP = "membership"
    """Nobody knows which workers shared the nodes."""
    STATE = "state"
    """Etcd's state is not the one that was decided on: it was changed behind wharfinger's back."""
    VERDICT = "verdict"
    """A plugin refused the node at Reserve or Permit, and an earlier release did not record where."""
    CLOCK = "clock"
    """The time of day had a say, and an earlier release did not record it."""
    EXTENDER = "extender"
    """An extender would have to be asked, and it is not."""
    PLUGIN = "plugin"
    """A plugin failed."""
    RECORD = "record"
    """What the run recorded cannot be read, or was taken by retention while it was read."""


class Unreplayable(Exception):
    """A decision cannot be made again; `lack` says what is missing, the text what exactly."""

    def __init__(self, lack: Lack, detail: str) -> None:
        super().__init__(detail)
        self.lack = lack
        self.detail = detail


class DecidedRun(Sparse):
    """One run that decided; of a lone pod `lone` is set, of a cohort or a gang `many`."""

    kind: Literal["lone", "cohort", "gang"]
    workflow_id: str
    run_id: str
    tenant: str = ""
    """Whose queue it was started on; `common` for the common pool."""
    attempt: int = 1
    started: float = 0.0
    """Seconds since 1970."""
    namespace: str = ""
    name: str = ""
    """Of the pod, or of the gang; empty for a cohort."""
    lone: Annotated[Placed | Refused, Field(discriminator="kind")] | None = None
    many: PlacedMany | None = None
    pods: tuple[CohortPod, ...] = ()
    """Of a cohort: those that it was started with, in order."""
    answers: ExtenderAnswers = NO_ANSWERS

    @property
    def gang(self) -> GangName:
        """The gang that was decided."""
        return GangName(namespace=self.namespace, name=self.name)

    @property
    def decisions(self) -> int:
        """For how many pods it decided."""
        if self.many is not None:
            return len(self.many.seats) + len(self.many.turned_away)
        return int(self.lone is not None)

    def decided(self, place: int) -> list[tuple[PodKey, Placed | Refused | Seat | TurnedAway]]:
        """What the unit of this place decided, in order, and for which pod."""
        if self.many is None:
            return [(PodKey(self.namespace, self.name), self.lone)] if self.lone is not None else []
        found = self.many.decided if self.kind == "gang" else decisions_of(self.many, place)
        return [(key_of(one), one) for one in found]

    def computations(self) -> tuple[Computation, ...]:
        """Of each of its units, in order."""
        if self.many is not None:
            return tuple(stretch.computation for stretch in self.many.stretches)
        return (self.lone.computation,) if self.lone is not None else ()


class Unit(NamedTuple):
    """What was decided on one state. Units sort as they were decided: by revision, then by each worker's numbers."""

    revision: int
    worker: str
    """The incarnation; of a record without one, the worker's name."""
    number: int
    started: float
    place: int
    """Among the units of its run."""
    run: int
    """Number of the run where it is kept."""
    decisions: int
    profile: str = ""
    """Digest of the configuration by which was decided."""
    profile_name: str = ""


def units(run: DecidedRun, number: int) -> Iterator[Unit]:
    """Of a run that is kept under this number."""
    for place, computation in enumerate(run.computations()):
        decided = len(decisions_of(run.many, place)) if run.kind == "cohort" and run.many is not None else run.decisions
        if decided:
            yield Unit(
                computation.revision,
                worker_of(computation),
                computation.number,
                run.started,
                place,
                number,
                decided,
                computation.profile,
                computation.profile_name,
            )


def worker_of(computation: Computation) -> str:
    """Which worker decided, as exactly as the record says."""
    return computation.incarnation or computation.worker


def decisions_of(many: PlacedMany, stretch: int) -> list[Seat | TurnedAway]:
    """The decisions of a stretch, in the order in which they were made."""
    away: dict[int, list[TurnedAway]] = {}
    for one in many.turned_away:
        if one.stretch == stretch:
            away.setdefault(one.after_seat, []).append(one)
    found: list[Seat | TurnedAway] = []
    for place, seat in enumerate(many.seats):
        if seat.stretch == stretch:
            found += away.pop(place, [])
            found.append(seat)
    for place in sorted(away):
        found += away[place]
    return found


def key_of(decision: Seat | TurnedAway) -> PodKey:
    """The pod that was decided for."""
    return PodKey(decision.namespace, decision.name)
