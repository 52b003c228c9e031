"""Waits until a hub has seen what an activity must work on: other hubs, and its own streams, may be ahead of it."""

from __future__ import annotations

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from wharfinger.contracts.attempts import FailureType
from wharfinger.contracts.placements import StreamRevisions
from wharfinger.engine.placements.hub_view import HubView
from wharfinger.registry import placement_keys
from wharfinger.registry.store import Store

WITHIN = 5.0
"""Seconds."""


async def catch_up(store: Store, view: HubView, seen: StreamRevisions) -> None:
    """Wait for it. Fails with `Behind` when the time is up, and raises the store's errors."""
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
