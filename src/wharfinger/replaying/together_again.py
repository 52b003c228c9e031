"""Cohorts and gangs as the engine decides them, with what replay must know: where a plugin failed, and how to go on.

The engine turns pods away when a plugin fails. When decisions are made again such a failure says nothing of the pods,
unless it is recorded. `deciding` uses these.
"""

from __future__ import annotations

from wharfinger.contracts.cohort_scheduling import PlacedMany, Seat, TurnedAway
from wharfinger.engine.pods.placing_cohorts import Candidate, CohortDecision, OpenStretch
from wharfinger.engine.pods.placing_gangs import GangDecision
from wharfinger.errors import PluginError
from wharfinger.model.pod import Pod
from wharfinger.replaying.unreplayable import Lack, Unreplayable


class CohortAgain(CohortDecision):
    """A cohort that is decided again, stretch by stretch."""

    failed_then: tuple[str, ...] | None = None
    """Whose failure is recorded of the pod that is decided; None = nobody's."""

    def _failed(self, stretch: OpenStretch, one: Candidate, message: str, rejectors: tuple[str, ...]) -> None:
        """A failure that is not recorded says nothing of the pod."""
        if rejectors != self.failed_then:
            raise Unreplayable(Lack.PLUGIN, message)
        super()._failed(stretch, one, message, rejectors)

    def put_right(self, pod: Pod, seat: Seat | None) -> None:
        """Go on as if the pod had been seated, or turned away, as it was."""
        if seat is None:
            self._taken.discard(pod.identity)
            return
        self._taken.add(pod.identity)
        if self._stretch is not None:
            self._stretch.known.clear()


class GangAgain(GangDecision):
    """A gang that is decided again."""

    failure: PluginError | None = None
    """Why its members are turned away, where a plugin failed."""

    def _decided(self) -> PlacedMany:
        try:
            return super()._decided()
        except PluginError as error:
            self.failure = error
            raise


def failed_then(recorded: Seat | TurnedAway, many: PlacedMany) -> tuple[str, ...] | None:
    """Whose failure is recorded: such a pod is left to an attempt of its own, and no node is counted."""
    if isinstance(recorded, Seat) or not recorded.own_attempt or recorded.late is not None:
        return None
    why = many.reasons[recorded.reasons]
    return why.rejectors if not why.refusals else None


def gang_failed_then(many: PlacedMany, plugin: str) -> bool:
    """Whether this plugin alone turned all members away, as one that fails does."""
    return not many.seats and all(
        one.late is None and many.reasons[one.reasons].rejectors == (plugin,) for one in many.turned_away
    )
