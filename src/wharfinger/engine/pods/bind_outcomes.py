"""What became of the seats of one bind; as it travels for a group, or for a lone pod."""

from __future__ import annotations

from wharfinger.contracts.cohort_scheduling import BindManyInput, BoundMany, BoundPod, Unbound
from wharfinger.contracts.plugin_calls import Held, PluginStep
from wharfinger.contracts.scheduling import BindOutcome, Bound, Contended, Gone, Rejected
from wharfinger.engine.pods import payload
from wharfinger.engine.pods.cohort_payload import OUTCOMES, SHORT
from wharfinger.engine.pods.payload import Room, size
from wharfinger.errors import PluginError
from wharfinger.model.texts import shortened

PREPARING = 300
"""Characters of what a pod waits for."""


class Outcomes:
    """Of one bind, by the number of the seat."""

    def __init__(self, request: BindManyInput) -> None:
        self._request = request
        self._of: dict[int, BindOutcome] = {}
        self.transactions = 0
        """Sent so far."""
        self.error: PluginError | None = None
        """Of the last plugin that raised."""

    def bound(self, number: int, revision: int, node: str, notes: tuple[str, ...] = ()) -> None:
        """The pod is on that node now."""
        self._of[number] = Bound(node=node, revision=revision, tries=max(1, self.transactions), notes=notes)

    def held(
        self, number: int, revision: int, node: str, steps: tuple[PluginStep, ...], notes: tuple[str, ...] = ()
    ) -> None:
        """Its room on that node is held; these calls of plugins are due."""
        self._of[number] = Held(node=node, revision=revision, steps=steps, notes=notes)

    def preparing(self, number: int, waits_for: str) -> None:
        """It is bound in etcd, and waits for its volumes before the Kubernetes API is told."""
        known = self._of[number]
        if isinstance(known, Bound):
            self._of[number] = known.model_copy(update={"preparing": shortened(waits_for, PREPARING)})

    def contended(self, number: int, message: str) -> None:
        """Its room was taken."""
        self._of[number] = Contended(message=message)

    def rejected(self, number: int, plugin: str, message: str) -> None:
        """It can never be committed as it was placed."""
        self._of[number] = Rejected(plugin=plugin, message=payload.message(message))

    def failed(self, number: int, error: PluginError) -> None:
        """A plugin raised. For a group that is a refusal of this pod; a lone pod's activity fails with it."""
        self.error = error
        self.rejected(number, error.plugin, str(error))

    def gone(self, number: int, gone: Gone) -> None:
        """There is nothing to bind any more."""
        self._of[number] = gone

    @property
    def bound_seats(self) -> list[int]:
        """The numbers of those that are bound, in their order."""
        return sorted(number for number, one in self._of.items() if isinstance(one, Bound))

    def is_held(self, number: int) -> bool:
        """Whether its room is held, and plugins are to be called."""
        return isinstance(self._of.get(number), Held)

    @property
    def unbound_seats(self) -> list[int]:
        """The numbers of all others that have an outcome."""
        return sorted(number for number, one in self._of.items() if not isinstance(one, Bound))

    def node_of(self, number: int) -> str:
        """Where a bound one is; empty for others."""
        one = self._of.get(number)
        return one.node if isinstance(one, Bound) else ""

    def why_unbound(self, number: int) -> str:
        """Why one is not bound; empty for others."""
        one = self._of.get(number)
        return (
            "" if one is None or isinstance(one, Bound | Held) else one.line if isinstance(one, Gone) else one.message
        )

    @property
    def any_gone(self) -> str:
        """A pod that is gone; empty when none is."""
        seats = self._request.seats
        gone = (seats[number] for number, one in sorted(self._of.items()) if isinstance(one, Gone))
        return next((f"{seat.namespace}/{seat.name}" for seat in gone), "")

    def of_lone_pod(self) -> BindOutcome:
        """The only one. Raises the `PluginError` of a plugin that raised."""
        if self.error is not None:
            raise self.error
        return self._of[0]

    def told(self) -> BoundMany:
        """All of them, in the order of the seats, with as much of notes and messages as there is room for."""
        room = Room(OUTCOMES)
        bound: list[BoundPod] = []
        unbound: list[Unbound] = []
        for number, one in sorted(self._of.items()):
            seat = self._request.seats[number]
            if isinstance(one, Held):
                continue  # a lone pod's alone
            if isinstance(one, Bound):
                notes = tuple(_within(room, note) for note in one.notes if note)
                bound.append(
                    BoundPod(
                        namespace=seat.namespace, name=seat.name, node=one.node, revision=one.revision, notes=notes
                    )
                )
                continue
            unbound.append(
                Unbound(
                    namespace=seat.namespace,
                    name=seat.name,
                    uid=seat.uid,
                    create_revision=seat.create_revision,
                    kind=one.kind,
                    plugin=one.plugin if isinstance(one, Rejected) else "",
                    message=_within(room, one.line if isinstance(one, Gone) else one.message),
                    reason=one.why if isinstance(one, Gone) else "",
                )
            )
        return BoundMany(bound=tuple(bound), unbound=tuple(unbound), transactions=self.transactions)


def _within(room: Room, text: str) -> str:
    told = payload.message(text)
    return told if room.take(size(told)) else shortened(text, SHORT // 4)
