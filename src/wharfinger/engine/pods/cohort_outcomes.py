"""What became of each seat of a cohort, as it travels; and a seat as the single path wants it."""

from __future__ import annotations

from typing import Literal

from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany, BoundPod, Unbound
from wharfinger.contracts.computation import NodeScore
from wharfinger.contracts.scheduling import BindInput, BindOutcome, Bound, Contended, Gone, Placed, Rejected
from wharfinger.engine.pods import payload
from wharfinger.engine.pods.cohort_payload import OUTCOMES, SHORT, Room, size
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
