"""How the loops of a hub judge everything once in five minutes: a part each second, so that no second is a long one.

A sweep finds what no change has caused to be judged, for example because a time has passed. Neighbours: `judging` and
`rollouts` judge the parts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

SWEEP = 300.0
"""Seconds in which everything is judged once."""
TICK = 1.0
"""Seconds between two parts of that."""


async def sweep_parts(
    references: Callable[[], Iterable[str]], *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncIterator[Sequence[str]]:
    """Yield a part of the references each second, without end.

    `references` is called at the start of each sweep; `pause` returns after so many seconds.
    """
    queue: list[str] = []
    share = 1
    while True:
        await pause(TICK)
        if not queue:
            queue = sorted(references())
            share = max(1, int(len(queue) * TICK / SWEEP))
        yield [queue.pop() for _ in range(min(share, len(queue)))]
