"""Follows the dynamic configuration: takes values in while the worker runs, and never one that is wrong.

Kinds are independent: each has a `Follower` of its own (`configuration.trials`), which tries its values and falls back
to the last good one, and waits for no other; here the watch is handed on to them, and what they say is put together.
Which values there are stands in `framework.config.dynamic`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from wharfinger.configuration.last_good import Forgetful, LastGood
from wharfinger.configuration.trials import DynamicKind, Follower
from wharfinger.framework.config.dynamic import DEFAULT, targets
from wharfinger.process.records import ConfigStatusRecord
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.telemetry import Metrics

FIRST = 10.0
"""Seconds for which going on duty waits for the values there are; then the worker begins as it was started."""


class DynamicConfig:
    """The followers of one worker; a `Subscriber`."""

    def __init__(
        self,
        *,
        tenant: str,
        slot: str,
        metrics: Metrics,
        clock: Callable[[], float],
        ready: Callable[[], bool],
        report: Callable[[ConfigStatusRecord], None],
        proven_after: Callable[[], Awaitable[float]],
        begun: Callable[[], None] = lambda: None,
        remembered: LastGood | None = None,
    ) -> None:
        """`slot`: of a fleet, or empty. `ready`: whether the worker serves; a trial ends well after so many seconds of
        that as `proven_after` answers. `report` is called with what is in force and what is wrong; `begun` once
        `taken_in`.
        """
        self.taken_in = False
        """Whether every kind's first value was taken in or refused, or it took too long."""
        self._begun = begun
        self._targets = targets(tenant, slot)
        self._metrics = metrics
        self._clock = clock
        self._ready = ready
        self._report = report
        self._remembered = remembered if remembered is not None else Forgetful()
        self._proven_after = proven_after
        self._followers: dict[str, Follower] = {}
        self._own: list[str] = []
        self._listed = asyncio.Event()

    def follow(self, kind: DynamicKind) -> None:
        """Take in values of this kind, from the next list on. ValueError when it is followed already."""
        if kind.name in self._followers:
            raise ValueError(f"kind {kind.name} is followed twice")
        if kind.said_at_start:
            self._own.append(kind.name)
        self._followers[kind.name] = Follower(
            kind,
            order=(*self._targets, *(() if kind.said_at_start else (DEFAULT,))),
            remembered=self._remembered,
            metrics=self._metrics,
            clock=self._clock,
            ready=self._ready,
            changed=self._changed,
            proven_after=self._proven_after,
        )

    def follower(self, kind: str) -> Follower:
        """Who follows this kind. KeyError without one."""
        return self._followers[kind]

    def apply(self, changes: Changes) -> None:
        """Note what was written."""
        for change in changes.config:
            follower = self._followers.get(change.kind)  # other kinds are of a newer release
            if follower is not None:
                follower.note(change)
        if changes.listed:
            self._listed.set()
            for follower in self._followers.values():
                follower.listed()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follower in self._followers.values():
                group.create_task(follower.run(), name=f"config {follower.name}")
            await self._listed.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST):
                    await asyncio.gather(*(follower.settled.wait() for follower in self._followers.values()))
            self.taken_in = True
            self._begun()

    async def close(self) -> None:
        """The process is about to end as it was told: what is tried has not failed, and nothing else is begun."""
        await asyncio.gather(*(follower.close() for follower in self._followers.values()))

    def _changed(self) -> None:
        followers = self._followers.values()
        in_force = {follower.name: follower.digest for follower in followers if follower.digest}
        problems = {follower.name: follower.problem for follower in followers if follower.problem}
        self._report(ConfigStatusRecord(in_force=in_force, problems=problems, own=tuple(self._own)))
