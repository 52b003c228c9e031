"""How far a bind is: the steps that its seats take, and the lanes in which they go.

A round is a fold: each verification and each answer of etcd is a step of one seat; steps make the next `BindProgress`.
The senders of a lane share one, and none of them awaits anything between reading and replacing it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wharfinger.engine.pods.bind.outcome import BindGroup, Outcome, Outcomes
from wharfinger.engine.pods.bind.seat import Seated
from wharfinger.engine.transactions import Limits
from wharfinger.model.node import Node
from wharfinger.model.promises import Promise
from wharfinger.registry.store import KeyValue

SENDERS = 3
"""Transactions of seats without rules across nodes that are out at a time."""
SINGLES = 4
"""Seats that go alone at a time; of those with rules it is one."""


class Done(NamedTuple):
    """A seat has its outcome."""

    number: int
    outcome: Outcome


class SendAgain(NamedTuple):
    """It is sent next."""

    seat: Seated


class Later(NamedTuple):
    """It goes in the next round: alone, on another node, or behind those that it relies on."""

    seat: Seated


class Ask(NamedTuple):
    """Etcd has to be asked about its pod."""

    seat: Seated


Step = Done | SendAgain | Later | Ask


@dataclass(frozen=True, slots=True)
class SendingLane:
    """Seats that are sent under one holding of the locks."""

    at_once: int
    """Transactions that are out at a time."""
    in_order: bool = False
    """Whether the seats have rules across nodes: then each is verified after those before it."""
    alone: bool = False
    """Whether each has transactions of its own."""
    whole: bool = False
    """Whether all are in one transaction, or none."""

    def has(self, seat: Seated) -> bool:
        """Whether the seat goes here."""
        return self.whole or (seat.alone is self.alone and bool(seat.rules) is self.in_order)

    @property
    def bounded(self) -> bool:
        """Whether seats are left when the bind's patience is at an end.

        Those that share transactions without rules each go once, and then alone.
        """
        return self.in_order or self.alone

    def parts(self, several: Iterable[Seated]) -> list[tuple[Seated, ...]]:
        """What goes into a transaction together, or not at all if only it fits.

        Seats on one node stay together, or follow each other: of two transactions that are out at once, the second
        would compare a version that the first rewrites.
        """
        together: dict[object, list[Seated]] = {}
        for seat in several:
            part = 0 if self.whole else seat.number if self.in_order else seat.node
            together.setdefault(part, []).append(seat)
        return [tuple(part) for part in together.values()]


LANES = (
    SendingLane(SENDERS),
    SendingLane(1, in_order=True),
    SendingLane(SINGLES, alone=True),
    SendingLane(1, in_order=True, alone=True),
)
"""In this order: binds of seats with rules compare what the others rewrite."""
WHOLE = SendingLane(1, whole=True)


@dataclass(frozen=True, slots=True)
class BindProgress:
    """How far a bind is. Each transaction, and what is seen of a seat, makes the next one."""

    outcomes: Outcomes
    limits: Limits
    later: tuple[Seated, ...] = ()
    """Seats that are left for the next round."""
    lost: tuple[Seated, ...] = ()
    """Seats for which no node was left."""
    queue: tuple[tuple[Seated, ...], ...] = ()
    """Seats that are left in this lane, in parts."""
    unknown: tuple[Seated, ...] = ()
    """Seats about whose pods etcd has to be asked."""
    adopted: Mapping[str, Node] = field(default_factory=dict)
    """Nodes at newer revisions that mean the same (heart-beats), by name."""
    promised: Mapping[int, Promise] = field(default_factory=dict)
    """Promises that this bind has put, by the number of the seat."""
    revision: int = 0
    """Of the newest of its transactions that succeeded."""
    may_wait: bool = True
    """Whether there is time for pods that a seat relies on to be bound first."""
    leaning: bool = False
    """Whether a seat of the lane relies on pods that are not bound yet: others are not asked why then."""
    failed: int = 0
    """Transactions of the lane that failed since one succeeded."""
    window: int | None = None
    """Pods that the lane's next transaction may have; None = as many as etcd takes."""
    unseen: bool = False
    """Whether only the watch shows the versions that the lane's last transaction left."""

    def after(self, lane: SendingLane, steps: Iterable[Step]) -> BindProgress:
        """The next one."""
        again: list[Seated] = []
        later, lost, unknown = [*self.later], [*self.lost], [*self.unknown]
        outcomes: dict[int, Outcome] = {}
        for step in steps:
            match step:
                case Done(number, outcome):
                    outcomes[number] = outcome
                case SendAgain(seat):
                    again.append(seat)
                case Later(seat):
                    (later if seat.candidates else lost).append(seat)
                case Ask(seat):
                    unknown.append(seat)
        return replace(
            self,
            outcomes=self.outcomes | outcomes,
            later=tuple(later),
            lost=tuple(lost),
            unknown=tuple(unknown),
            queue=(*lane.parts(again), *self.queue),
        )


@dataclass(slots=True)
class Sending:
    """A lane of a bind while it is sent: what its senders share."""

    group: BindGroup
    lane: SendingLane
    now: BindProgress
    stored: dict[str, KeyValue] = field(default_factory=dict)
    """Volumes and claims, as they were read last."""
    stopped: bool = False
    """Whether a sender failed: then the others send no further transaction."""

    def take(self, steps: Iterable[Step]) -> None:
        """Go on by these."""
        self.now = self.now.after(self.lane, steps)
