"""After the last fault: wait until all that can be done is done, within a bounded time for each pod.

Pods that leave and pods that come to rest make room for others, which is progress; a single pod that could be bound,
or a record that no pod needs, may not stay so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.service import RPCError

from tests.faults import ending
from tests.faults.ending import End
from tests.faults.judge import Violation
from tests.faults.recorder import Recorder
from wharfinger.etcd import keys

PATIENCE = 60.0
"""Seconds for which the same thing may be undone."""
REST = 180.0
"""Seconds until everything must have come to rest."""
PAUSE = 2.0
"""Seconds between two looks."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How a round came to rest."""

    seconds: float
    violations: list[Violation]
    """What was not done in time."""
    last: list[str]
    """What was done last."""


class Undone:
    """Since when what is undone."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], float] = {}

    def overdue(self, found: list[Violation], now: float) -> list[Violation]:
        """Those that were found at every look for longer than is allowed."""
        self._since = {_what(violation): self._since.get(_what(violation), now) for violation in found}
        return [violation for violation in found if now - self._since[_what(violation)] > PATIENCE]


def _what(violation: Violation) -> tuple[str, str]:
    """The invariant, and the pod it is about."""
    return violation.invariant, violation.text.partition(" ")[0]


def settle(recorder: Recorder, temporal: str, watch_over: Callable[[], None]) -> Settled:
    """Wait for the rest."""
    began = time.monotonic()
    undone, last = Undone(), list[str]()
    while True:
        watch_over()
        found = asyncio.run(_unsettled(End(recorder.latest(keys.ROOT)), temporal))
        took = time.monotonic() - began
        overdue = undone.overdue(found, took)
        if overdue or not found or took > REST:
            return Settled(round(took, 1), overdue or found, last)
        last = [str(violation) for violation in found]
        time.sleep(PAUSE)


async def _unsettled(end: End, temporal: str) -> list[Violation]:
    found = [*end.waiting_though_they_fit(), *end.left_over(), *end.on_lost_nodes()]
    silent = end.without_record()
    if silent:
        try:
            found += await ending.lost(silent, await Client.connect(temporal))
        except (RPCError, RuntimeError) as error:
            found.append(Violation("lost", 0, f"Temporal does not tell of {len(silent)} pods: {error}"))
    return found
