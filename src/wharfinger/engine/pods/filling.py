"""Filling the next transaction: which seats go into it, verified at one moment.

::

    seats without rules across nodes   those of a node together; each among all pods that are assumed there
    seats with rules                   in the order decided; each after what is sure: facts, this worker's binds that
                                       have happened, and the seats before it in its transaction

Nothing is awaited while a transaction is filled and sent: what it compares is known at one moment. The transaction
compares the version of every namespace that one of its rules looks at, so rules hold at every revision, whichever
worker binds. `sending` sends what is filled here, and makes sense of the answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wharfinger.engine.pods.bind.transaction import Commit
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.extending import ALONE
from wharfinger.engine.pods.seating import Seating
from wharfinger.engine.pods.seats import Seated, Work
from wharfinger.engine.pods.verification import LEANS
from wharfinger.engine.transactions import Load
from wharfinger.errors import PluginError
from wharfinger.framework.gangs import seated as with_seat
from wharfinger.framework.snapshot import Snapshot

Filled = list[tuple[Seated, Commit]]
"""One transaction."""

BINDER = "DefaultBinder"
"""Whose refusal it is when a pod cannot be written as it would be bound."""


@dataclass(slots=True)
class SendingLane:
    """Seats that are sent under one holding of the locks, those of a group in one transaction."""

    groups: deque[list[Seated]]
    in_order: bool
    """Whether the seats have rules across nodes: then each is verified after those before it."""
    bounded: bool = True
    """Whether seats are left when the bind's patience is at an end; those that share transactions without rules each go
    once, and then alone."""
    later: list[Seated] = field(default_factory=list)
    """Seats for the next round."""
    unknown: list[Seated] = field(default_factory=list)
    """Seats about whose pods etcd has to be asked."""
    leaning: bool = False
    """Whether a seat relies on pods that are not bound yet: others that do not hold now are not asked why."""
    sent: bool = False
    failed: int = 0
    """Transactions that failed since one succeeded."""
    window: int | None = None
    """Pods that the next transaction may have; None = as many as etcd takes."""
    unseen: bool = False
    """Whether only the watch shows the versions that the last transaction left."""

    @classmethod
    def of(cls, seats: Sequence[Seated], *, in_order: bool) -> SendingLane:
        """A lane with these seats."""
        lane = cls(deque(), in_order, bounded=in_order)
        lane.again(seats)
        return lane

    def again(self, seats: Iterable[Seated]) -> None:
        """These are to be sent next.

        Seats on one node stay together: of two transactions that are out at once, the second would compare a version
        that the first rewrites.
        """
        groups: dict[object, list[Seated]] = {}
        for seated in seats:
            groups.setdefault(seated.number if self.in_order else seated.node, []).append(seated)
        self.groups.extendleft(reversed(groups.values()))

    @property
    def all(self) -> list[Seated]:
        """The seats that are still to be sent in this round or later."""
        return [*(seated for group in self.groups for seated in group), *self.later]


class Filling:
    """Fills the transactions of one worker's binds."""

    def __init__(self, core: Core, seating: Seating) -> None:
        self._seating = seating
        self._cache = core.pool.cache
        self._tally = core.tally

    def fill(self, work: Work, lane: SendingLane) -> tuple[Filled, list[Seated]]:
        """The next transaction, and seats of a node that did not fit into it with the others: they follow it.

        Seats that are not bound now are put off, or have their outcome.
        """
        load = Load(work.limits)
        filled: Filled = []
        surely = self._cache.snapshot(confirmed=True) if lane.in_order else None
        now = self._seating.now
        while lane.groups and (lane.window is None or len(filled) < lane.window):
            group = [seated for seated in lane.groups.popleft() if self._is_ready(lane, seated)]
            rest: list[Seated] = []
            by_itself = False
            # What is all there is to send needs no measuring: a lone pod.
            shapes = [seated.shape for seated in group] if filled or lane.groups or len(group) > 1 else []
            if not load.takes(shapes):
                if filled:
                    lane.groups.appendleft(group)
                    break
                count = load.most(shapes)
                by_itself = count == 0  # too large for any transaction by our limits: etcd may take it all the same
                group, rest = group[: max(1, count)], group[max(1, count) :]
            if surely is None:
                group = self._fitting(work, lane, group)
            for seated in group:
                if surely is not None and not self._holds_after(work, lane, seated, surely):
                    continue
                if not self._plugins_agree(work, seated):
                    continue
                filled.append((seated, self._seating.commit(work.request, seated, work.adopted.get(seated.node), now)))
                if surely is not None:
                    surely = with_seat(surely, seated.found.pod, seated.node)
            if rest or by_itself:
                return filled, rest
        return filled, []

    def _is_ready(self, lane: SendingLane, seated: Seated) -> bool:
        """Whether the pod is still to be bound, by the rules that it was put into this lane for."""
        if not self._seating.refresh(seated):
            lane.unknown.append(seated)
            return False
        if bool(seated.rules) != lane.in_order:
            lane.later.append(seated)
            return False
        return True

    # --- verified -----------------------------------------------------------------------------

    def _fitting(self, work: Work, lane: SendingLane, group: Sequence[Seated]) -> list[Seated]:
        """Those that fit their node, of seats without rules on one node."""
        refusals = self._refusals(group)
        if any(refusals) and len(group) > 1:  # where not all fit, the first ones do
            for seated in group:
                self._cache.forget_unsent(seated.identity)
            refusals = self._refusals(group)
        fitting: list[Seated] = []
        for seated, lost in zip(group, refusals, strict=True):
            if isinstance(lost, PluginError):
                self.fail(work, seated, lost)
            elif lost:
                self.give_up_node(work, lane, seated, lost)
            else:
                fitting.append(seated)
        return fitting

    def _refusals(self, group: Sequence[Seated]) -> list[str | PluginError]:
        """Why each must not be bound to its node, with all that are assumed there; empty for those that may."""
        refusals: list[str | PluginError] = []
        for seated in group:
            try:
                refusals.append(self._seating.refusal(seated))
            except PluginError as error:
                refusals.append(error)
        return refusals

    def _holds_after(self, work: Work, lane: SendingLane, seated: Seated, surely: Snapshot) -> bool:
        """Whether a seat with rules holds after what is sure; else where it goes is settled."""
        try:
            lost = self._seating.refusal_after(seated, surely)
            if not lost:
                return True
            leans = lane.leaning or self._seating.leans(seated)
        except PluginError as error:
            self.fail(work, seated, error)
            return False
        if leans and work.may_wait:
            lane.leaning = seated.leaned = True
            lane.later.append(seated)
        else:
            self.give_up_node(work, lane, seated, f"{LEANS}: {lost}" if leans else lost)
        return False

    def _plugins_agree(self, work: Work, seated: Seated) -> bool:
        try:
            status = self._seating.ask_plugins(work, seated)
        except PluginError as error:
            self.fail(work, seated, error)
            return False
        if not status.ok:
            self.reject(work, seated, status.plugin, status.message)
        elif seated.steps and not work.lone:  # the plugin was enabled after the cohort had been decided
            self.contended(work, seated, ALONE)
            return False
        return status.ok

    # --- not bound ----------------------------------------------------------------------------

    def give_up_node(self, work: Work, lane: SendingLane, seated: Seated, why: str) -> None:
        """The seat goes to its next runner-up, in the next round."""
        self._cache.forget_unsent(seated.identity)  # its room there is free for others
        seated.give_up_node(why)
        if seated.candidates:
            lane.later.append(seated)
        else:
            work.lost.append(seated)

    def reject(self, work: Work, seated: Seated, plugin: str, message: str) -> None:
        """A plugin refused it where it was placed."""
        self._seating.give_up(seated)
        self._tally.refused_at_bind(seated.profile.name, seated.computation)
        work.outcomes.rejected(seated.number, plugin, message)

    def cannot_write(self, work: Work, seated: Seated, message: str) -> None:
        """It can never be written as it would be bound."""
        self._seating.give_up(seated)
        self._tally.failed_at_bind(seated.profile.name, seated.computation)
        work.outcomes.rejected(seated.number, BINDER, message)

    def fail(self, work: Work, seated: Seated, error: PluginError) -> None:
        """A plugin raised."""
        self._seating.give_up(seated)
        self._tally.failed_at_bind(seated.profile.name, seated.computation)
        work.outcomes.failed(seated.number, error)

    def contended(self, work: Work, seated: Seated, message: str) -> None:
        """It is placed anew."""
        self._seating.give_up(seated)
        self._tally.contended(seated.computation)
        work.outcomes.contended(seated.number, message)
