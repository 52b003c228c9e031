"""How activities of a hub wait: until it has seen what they work on, and until something of a placement changes."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.etcd.store import Store
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.state.delivery_view import DeliveryView
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.names import FailureType

WITHIN = 5.0
"""Seconds."""
MOST_WAITING = 2000
"""Activities that wait for members at a time. A hub has places for as many, so that they take none from its work."""
CROWDED = timedelta(seconds=10)
"""When an activity that found no place to wait looks again."""


async def catch_up(store: Store, view: HubView, seen: StreamRevisions) -> None:
    """Wait until the hub has seen it. Fails with `Behind` when the time is up, and raises the store's errors."""
    if view.in_sync and not view.has_seen(seen):
        newest = (await store.get(placement_keys.HUB_ID)).revision
        if newest < max(seen.members, seen.objects, seen.hub):
            return  # etcd was restored from a backup since: what is waited for never was
    if not await view.wait_for(seen, WITHIN):
        raise ApplicationError(
            f"this hub has seen etcd up to {view.revisions}, and must have seen {seen!r}",
            type=FailureType.BEHIND,
            category=ApplicationErrorCategory.BENIGN,
        )


async def until_changed(delivery: DeliveryView, changed: asyncio.Event, seconds: float, *, rest: float = 0.0) -> None:
    """Wait for a change, so many seconds at most; `rest`: seconds of that for further changes after the first.

    Fails where too many wait already. Temporal retries the activity after `CROWDED`, without an event in the history.
    """
    if delivery.waiting >= MOST_WAITING:
        raise ApplicationError(
            f"{delivery.waiting} rollouts and update runs wait in this hub, which is the most",
            type=FailureType.UNAVAILABLE,
            category=ApplicationErrorCategory.BENIGN,
            next_retry_delay=CROWDED,
        )
    delivery.waiting += 1
    try:
        async with asyncio.timeout(seconds):
            await changed.wait()
            await asyncio.sleep(rest)
    except TimeoutError:
        pass
    finally:
        delivery.waiting -= 1
