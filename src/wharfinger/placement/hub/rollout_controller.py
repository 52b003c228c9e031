"""Reconciles what placements deliver, and starts a rollout where one has a step or a timer.

Level-triggered as `hub.placement_controller` is for decisions: events only name what to reconcile, and everything is
reconciled again within five minutes. What is reconciled: a placement whose object, decision, works, results, pin or
selected objects changed; those that have a work on a member that left, came back, lost its agent, or has other labels,
by which overrides choose; those of which an edited override changes something; all, when a hub came or went.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from wharfinger.errors import StoreError
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.effects.rolling_out import concerned, rollout_of, snapshot_in
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_changes import HubChange, MemberChange
from wharfinger.placement.state.hub_view import HUB, HubView
from wharfinger.process.controller import STRETCH, TICK, Controller, sweep_parts
from wharfinger.process.following import breathe
from wharfinger.process.parts import ProcessParts

log = logging.getLogger(__name__)

GLANCE = 1.0
"""Seconds between two looks at whether everything is done of a placement whose rollout was started."""
QUIET = 7.0
"""Seconds for which the hub's stream may be silent: etcd sends a notice every 5."""


class RolloutController(Controller):
    """Reconciles, and starts rollouts, for the placements of one hub."""

    failing = "rollout_starts_fail effect=retried placement=%s error=%r"
    accepted = "rollout_starts_accepted_again"

    def __init__(
        self,
        process: ProcessParts,
        view: HubView,
        contents: ContentsView,
        start: Callable[[str, StreamRevisions, str], Awaitable[None]],
        *,
        mine: Callable[[str], bool],
        sees: Callable[[], bool],
    ) -> None:
        """`start`: starts a rollout, or joins the open run; raises `RPCError`, `TimeoutError`, `RuntimeError`.

        `mine`: whether this hub looks after a placement; `sees`: whether it sees etcd now.
        """
        super().__init__(process, log, lambda: view.in_sync)
        self._view = view
        self._contents = contents
        self._start_rollout = start
        self._mine = mine
        self._sees = sees
        self._store = process.store
        self._glanced: set[str] = set()
        """Placements whose rollout was started, and that need not be reconciled for a moment."""
        self._hubs: set[str] = set()

    @property
    def unsettled(self) -> int:
        """Placements that are to be reconciled, or whose rollout was started."""
        return len(self._due.keys() | self._started.keys())

    def note(self, changes: Iterable[HubChange]) -> None:
        """Note what has to be reconciled anew."""
        for change in changes:
            if change.member and change.fields & self._fields:
                for reference in self._view.delivery.on_member.get(change.member, ()):
                    self._due.setdefault(reference, f"member {change.member} changed")
                    self._view.delivery.notify(reference)
            if change.placement:
                if change.own:  # users wait for what they asked for
                    self._read(change.placement)
                    self._started.pop(change.placement, None)
                    self._glanced.discard(change.placement)
                self._view.delivery.notify(change.placement)
                self._due.setdefault(change.placement, "changed")
            elif change.delivered:
                for reference in concerned(self._view, change.overrides) & self._view.decisions.keys():
                    self._view.delivery.notify(reference)
                    self._due.setdefault(reference, "an override changed")
        if self._view.hubs != self._hubs:
            self._hubs = set(self._view.hubs)
            self._due |= dict.fromkeys(self._view.decisions.keys() - self._due.keys(), "hubs changed")
        self._news.set()

    @property
    def _fields(self) -> MemberChange:
        """Changes of a member by which what is delivered there may change."""
        labels = MemberChange.LABELS if self._view.delivery.overrides else MemberChange(0)
        return MemberChange.STANDING | MemberChange.ELIGIBILITY | labels

    def note_contents(self, references: Iterable[str]) -> None:
        """What these placements select may be something else."""
        for reference in references:
            self._view.delivery.notify(reference)
            self._due.setdefault(reference, "contents changed")
        self._news.set()

    def _read(self, reference: str) -> None:
        seen = self._view.placements.get(reference)
        self._contents.read(reference, seen.delivery.selectors if seen is not None else ())

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._keep_reconciling(self._sweep(), self._tick(), rest=GLANCE)

    async def reconcile_due(self) -> None:
        """Reconcile everything that is due."""
        if not self._view.in_sync:
            return
        for reference in self._passed(self._later):
            self._glanced.discard(reference)
            self._due.setdefault(reference, "again")
        began = self._clock()
        while self._due:  # thousands are due after a hub came or went: other tasks get their turn between them
            reference, cause = self._due.popitem()
            try:
                self._reconcile(reference, cause)
            except Exception:  # what one placement does must not keep the others from being reconciled
                log.exception("rollout_not_judged effect=as_it_was placement=%s", reference)
            began = await breathe(began, self._clock, STRETCH)

    def _reconcile(self, reference: str, cause: str) -> None:
        now = self._clock()
        if not self._mine(reference):
            self._started.pop(reference, None)
            return
        started = self._started.get(reference)
        if reference in self._starting or reference in self._glanced:
            return  # it is reconciled again soon
        found = rollout_of(self._view, reference)
        wait = snapshot_in(self._view, self._contents, reference, found, now)
        if found.steps.steps or found.steps.timer is not None or found.forgets or wait == 0.0:
            if started is not None and now < started.until:
                # its run is at it; whether it has ended with everything done is looked at now and then
                self._glanced.add(reference)
                self._look_at(reference, min(started.until, now + GLANCE))
                return
            self._starting[reference] = asyncio.create_task(self._roll_out(reference, cause))
            return
        self._started.pop(reference, None)
        if wait is not None:
            self._look_at(reference, now + wait)

    async def _roll_out(self, reference: str, cause: str) -> None:
        seen = self._view.newest
        if await self._start(reference, reference, lambda: self._start_rollout(reference, seen, cause)):
            self._metrics.rollout_starts.labels(cause.partition(" ")[0]).inc()
        self._look_at(reference, self._started[reference].until)

    async def _tick(self) -> None:
        """Let the seen time go on."""
        before = self._clock()
        while True:
            await asyncio.sleep(TICK)
            now = self._clock()
            if self._sees() and await self._is_seen():
                self._view.delivery.tick(now - before)
            before = now

    async def _is_seen(self) -> bool:
        """Whether the changes of etcd come here as they happen; a hub's lease lives on for a while without that."""
        if self._clock() - self._view.heard <= QUIET:
            return True
        try:
            async with asyncio.timeout(TICK):
                newest = (await self._store.get(placement_keys.HUB_ID)).revision
        except (StoreError, TimeoutError):
            return False
        return newest <= self._view.revisions[HUB]

    async def _sweep(self) -> None:
        """Reconcile everything once in five minutes, a part at a time."""
        async for part in sweep_parts(lambda: self._view.decisions):
            for reference in part:
                self._due.setdefault(reference, "sweep")
                self._news.set()
