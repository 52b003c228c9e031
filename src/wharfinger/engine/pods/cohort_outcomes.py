"""One `bind_many` on its way: what is left to send, and the outcome of each seat as it travels."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany, BoundPod, Unbound
from wharfinger.contracts.computation import NodeScore
from wharfinger.contracts.scheduling import BindInput, BindOutcome, Bound, Contended, Gone, Placed, Rejected
from wharfinger.engine.pods import payload
from wharfinger.engine.pods.cohort_payload import OUTCOMES, SHORT
from wharfinger.engine.pods.payload import Room, size
from wharfinger.engine.transactions import Limits
from wharfinger.model.texts import shortened

Kind = Literal["contended", "rejected", "gone"]


class Outcomes:
    """Of one `bind_many`."""

    def __init__(self, request: BindManyInput) -> None:
        self._request = request
        self._bound: dict[int, BoundPod] = {}
        self._unbound: dict[int, Unbound] = {}
        self._room = Room(OUTCOMES)
        self.transactions = 0
        """Sent with many pods, or with one."""

    def bound(self, number: int, revision: int, node: str = "", notes: tuple[str, ...] = ()) -> None:
        """The pod is on its node now, or on another one."""
        seat = self._request.seats[number]
        told = tuple(filter(None, map(self._shortened, notes)))
        self._bound[number] = BoundPod(
            namespace=seat.namespace, name=seat.name, node=node or seat.node, revision=revision, notes=told
        )

    def contended(self, number: int, message: str) -> None:
        """Its room was taken."""
        self._unbound[number] = self._without(number, "contended", message=self._shortened(message))

    def rejected(self, number: int, plugin: str, message: str) -> None:
        """It can never be committed as it was placed."""
        self._unbound[number] = self._without(number, "rejected", plugin=plugin, message=self._shortened(message))

    def gone(self, number: int, gone: Gone) -> None:
        """There is nothing to bind any more."""
        told = self._without(number, "gone", message=self._shortened(gone.line))
        self._unbound[number] = told.model_copy(update={"reason": gone.why})

    def single(self, number: int, outcome: BindOutcome) -> None:
        """What the single path made of it."""
        match outcome:
            case Bound():
                self.transactions += outcome.tries
                self.bound(number, outcome.revision, outcome.node, outcome.notes)
            case Contended():
                self.contended(number, outcome.message)
            case Rejected():
                self.rejected(number, outcome.plugin, outcome.message)
            case Gone():
                self.gone(number, outcome)

    @property
    def any_gone(self) -> str:
        """A pod that is gone; empty when none is."""
        gone = (f"{one.namespace}/{one.name}" for _, one in sorted(self._unbound.items()) if one.kind == "gone")
        return next(gone, "")

    def told(self) -> BoundMany:
        """All of them, in the order of the seats."""
        return BoundMany(
            bound=tuple(one for _, one in sorted(self._bound.items())),
            unbound=tuple(one for _, one in sorted(self._unbound.items())),
            transactions=self.transactions,
        )

    def _without(
        self, number: int, kind: Literal["contended", "rejected", "gone"], *, message: str, plugin: str = ""
    ) -> Unbound:
        seat = self._request.seats[number]
        return Unbound(
            namespace=seat.namespace,
            name=seat.name,
            uid=seat.uid,
            create_revision=seat.create_revision,
            kind=kind,
            plugin=plugin,
            message=message,
        )

    def _shortened(self, text: str) -> str:
        """As much of a text as there is room for."""
        told = payload.message(text)
        if not self._room.take(size(told)):
            told = shortened(text, SHORT // 4)
        return told


@dataclass(slots=True)
class Work:
    """One `bind_many` on its way."""

    request: BindManyInput
    outcomes: Outcomes
    limits: Limits
    began: float
    groups: deque[list[int]]
    """Seats still to be sent, by node."""
    tries: dict[int, int] = field(default_factory=dict)
    singles: list[int] = field(default_factory=list)
    """Seats that are committed one by one, at the end."""
    ruled: list[int] = field(default_factory=list)
    """Seats with rules across nodes, which are committed after the others."""
    revision: int = 0
    """Of the newest of its transactions that succeeded."""
    error: Exception | None = None
    """The first failure: no further transaction is sent."""

    def again(self, numbers: Iterable[int]) -> None:
        """These seats are to be sent (once more), those of a node together."""
        self.groups.extendleft(by_node(self.request, numbers))


def single(request: BindManyInput, number: int) -> BindInput:
    """One seat as the placement of a pod of its own."""
    seat = request.seats[number]
    ranking = (NodeScore(node=seat.node, total=seat.score or 0),)
    return BindInput(
        namespace=seat.namespace,
        name=seat.name,
        placed=Placed(
            uid=seat.uid,
            create_revision=seat.create_revision,
            pod_revision=seat.pod_revision,
            node=seat.node,
            node_revision=0,
            ranking=(*ranking, *(NodeScore(node=node, total=total) for node, total in seat.others.items())),
            computation=request.computations[seat.stretch],
            plugin_data=seat.plugin_data,
        ),
        workflow_id=request.workflow_id,
        run_id=request.run_id,
        attempt=seat.attempt,
    )


def by_node(request: BindManyInput, numbers: Iterable[int]) -> list[list[int]]:
    """The seats on each node, in the order in which they were taken."""
    groups: dict[str, list[int]] = {}
    for number in numbers:
        groups.setdefault(request.seats[number].node, []).append(number)
    return list(groups.values())
