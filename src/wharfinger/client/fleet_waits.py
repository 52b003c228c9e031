"""Waiting until a fleet is as it should be: everything is read again after every change that a watch shows.

While etcd does not answer, it waits on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from wharfinger.client.fleet_goals import Goal, Namer, Verdict, judge
from wharfinger.errors import Unavailable
from wharfinger.observe.fleet_pictures import Estate
from wharfinger.observe.fleet_reading import changes, existing, read
from wharfinger.registry.store import Store

READ_AGAIN = 10.0
"""Seconds after which all is read again though no change was seen."""
TRY_AGAIN = 1.0
"""Seconds between two tries to reach etcd at all."""
LAST_LOOK = 1.0
"""Seconds that a look may take though the time is over."""


async def wait(
    store: Store, tenant: str, goal: Goal, timeout: float, *, name: Namer, say: Callable[[str], None]
) -> Verdict:
    """Wait until the goal is reached, cannot be reached any more, or the time (seconds) is over.

    `say` gets what is waited for, once for each new sentence. A verdict of the kind `waiting` means that the time is
    over. Raises `NotFound` when there is no such fleet, except for the goal `deleted`.
    """
    deadline = time.monotonic() + timeout
    try:
        estate = await _first_look(store, tenant, deadline, say)
    except Unavailable as error:
        return Verdict("waiting", str(error))
    if goal is not Goal.DELETED:
        existing(estate, tenant)
    said = ""
    async with changes(store, tenant, estate.read_at) as seen:
        verdict = judge(estate.fleet(tenant), goal, name)
        while verdict.kind == "waiting" and (left := deadline - time.monotonic()) > 0:
            if verdict.why != said:
                said = verdict.why
                say(said)
            await seen.changed(min(left, READ_AGAIN))
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), LAST_LOOK)):
                    verdict = judge((await read(store, tenant)).fleet(tenant), goal, name)
            except (Unavailable, TimeoutError):
                verdict = Verdict("waiting", "etcd does not answer")
        return verdict


async def _first_look(store: Store, tenant: str, deadline: float, say: Callable[[str], None]) -> Estate:
    """All that etcd has of the fleet, as soon as it answers. Raises `Unavailable` when it has not by the deadline."""
    said = False
    while True:
        try:
            return await read(store, tenant)
        except Unavailable as error:
            if (left := deadline - time.monotonic()) <= 0:
                raise
            if not said:
                said = True
                say(str(error))
            await asyncio.sleep(min(left, TRY_AGAIN))
