"""Has the cohorts of each dispatcher decided one after the other, so that the queue's order holds across them."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from wharfinger.scheduling.contracts.cohorts import Turn

PATIENCE = 1.0
"""Seconds to wait for the cohort before."""
IMPATIENCE = 0.05
"""The same, once the one before never came."""
DISPATCHERS = 64
"""Remembered; the one that was heard of longest ago goes."""


@dataclass(slots=True)
class _Row:
    """Of one dispatcher."""

    decided: int = 0
    """The highest number that was decided, or given up."""
    patience: float = PATIENCE
    moved: asyncio.Event = field(default_factory=asyncio.Event)


class CohortSequencer:
    """The order of a dispatcher's cohorts in this process: one is decided after the other, as they were formed.

    Waiting cannot help when another worker decides the cohort before. After a wait that timed out, the next one is
    short. Lives on one event loop.
    """

    def __init__(self, patience: float = PATIENCE) -> None:
        self._patience = patience
        self._rows: OrderedDict[str, _Row] = OrderedDict()

    @asynccontextmanager
    async def take(self, turn: Turn | None) -> AsyncIterator[None]:
        """Wait for the cohort before, within reason; whatever then happens inside, it is the next one's turn after."""
        if turn is None:
            yield
            return
        row = self._row(turn.dispatcher)
        try:
            await self._wait(row, turn.number)
            yield
        finally:
            row.decided = max(row.decided, turn.number)
            moved, row.moved = row.moved, asyncio.Event()
            moved.set()

    async def _wait(self, row: _Row, number: int) -> None:
        try:
            async with asyncio.timeout(row.patience):
                while row.decided < number - 1:
                    await row.moved.wait()
        except TimeoutError:
            row.patience = min(self._patience, IMPATIENCE)
        else:
            row.patience = self._patience

    def _row(self, dispatcher: str) -> _Row:
        row = self._rows.get(dispatcher)
        if row is None:
            row = self._rows[dispatcher] = _Row(patience=self._patience)
        self._rows.move_to_end(dispatcher)
        while len(self._rows) > DISPATCHERS:
            self._rows.popitem(last=False)
        return row
