"""Loops that belong together: they run side by side, and the first that ends ends all.

Neighbours: the composition roots and loops of every process, which consist of such loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def first_to_end(*several: Coroutine[Any, Any, None]) -> None:
    """Run them side by side; the first that ends ends all, and what it raised is raised.

    Of those that end at the same moment, the one that was named first counts.
    """
    tasks = [asyncio.create_task(one) for one in several]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in (one for one in tasks if one in done):
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
