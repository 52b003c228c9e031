"""Starts staged update runs that have something to do, and removes what is recorded of runs that are deleted.

Level-triggered: a run whose object asks for it is started until it is recorded that it has ended, is planned, or is
stopped. Its workflow reads the object's state by itself. There are few runs, so all are looked at after each change.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

from wharfinger.errors import StoreError
from wharfinger.etcd.store import Compare, Delete
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.state.hub_changes import HubChange
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.update_runs_view import SeenRun, runs_to
from wharfinger.process.controller import Controller
from wharfinger.process.parts import ProcessParts

log = logging.getLogger(__name__)

EVERY = 5.0
"""Seconds between two looks when nothing changes."""
AT_ONCE = 50
"""Records that are removed in one transaction."""


class UpdateRunController(Controller):
    """Looks after the update runs of one hub's placements. A key is that of the run's object, and its identity."""

    soon = 2.0
    again = 60.0
    failing = "update_run_starts_fail effect=retried run=%s error=%r"
    accepted = "update_run_starts_accepted_again"

    def __init__(
        self,
        process: ProcessParts,
        view: HubView,
        start: Callable[[str, str, int, StreamRevisions, str], Awaitable[None]],
        *,
        mine: Callable[[str], bool],
    ) -> None:
        """`start`: starts a run, or joins the open one; raises `RPCError`, `TimeoutError`, `RuntimeError`.

        `mine`: whether this hub looks after a placement.
        """
        super().__init__(process, log, lambda: view.in_sync)
        self._store = process.store
        self._view = view
        self._start_update_run = start
        self._mine = mine

    def note(self, changes: Iterable[HubChange]) -> None:
        """Look again when something of a placement has changed."""
        if any(change.placement for change in changes):
            self._news.set()

    async def run(self) -> None:
        """Look until cancelled."""
        await self._keep_reconciling(every=EVERY)

    async def reconcile_due(self) -> None:
        """Start what has something to do, and remove records of deleted runs."""
        if not self._view.in_sync:
            return
        runs = self._view.update_runs
        wanted = {
            f"{key}/{one.identity}": one
            for key, one in runs.runs.items()
            if self._mine(one.reference) and runs_to(runs.of(one.reference, one.name, one.identity), one.run.state)
        }
        self._started = {key: started for key, started in self._started.items() if key in wanted}
        for key, one in wanted.items():
            about = one.revision, runs.of(one.reference, one.name, one.identity).retries
            before = self._started.get(key)
            if before is None or before.about != about or before.until <= self._clock():
                await self._start_run(key, one, about)
        for reference, name, identity in list(runs.abandoned()):
            if self._mine(reference):
                await self._remove(reference, name, identity)

    async def _start_run(self, key: str, one: SeenRun, about: tuple[int, int]) -> None:
        before = self._started.get(key)
        same = before is not None and before.about == about
        if not same:
            self._started.pop(key, None)
        cause = f"its state is {one.run.state}"

        def start() -> Awaitable[None]:
            return self._start_update_run(one.reference, one.name, one.identity, self._view.newest, cause)

        if await self._start(key, one.name, start, about) and not same:
            self._metrics.update_run_starts.inc()

    async def _remove(self, reference: str, name: str, identity: int) -> None:
        """Remove what is recorded of a run whose object is gone, or is another one now."""
        key = placement_keys.update_run(PlacementRef.parse(reference).namespace, name)
        now = self._view.update_runs.runs.get(key)
        same = Compare(key, "create", now.identity if now is not None else 0)
        try:
            prefix = placement_keys.run_record.below(reference, name, identity)
            names = [kv.key async for kv in self._store.each(prefix)]
            for first in range(0, len(names), AT_ONCE):
                answered = await self._store.txn([same], [Delete(one) for one in names[first : first + AT_ONCE]])
                if not answered.succeeded:
                    return
            log.info("update_run_forgotten run=%s placement=%s keys=%d", name, reference, len(names))
        except StoreError as error:
            log.debug("update_run_not_forgotten effect=tried_again run=%s error=%r", name, str(error))
