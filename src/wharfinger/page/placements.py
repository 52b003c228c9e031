"""Placements on member clusters, where this etcd is a hub's: clusters by placements, verdicts, and how each stands.

Read when somebody looks, for all viewers together at most every other second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from wharfinger.engine.placements.hub_view import HubView
from wharfinger.engine.placements.seen import state_of
from wharfinger.errors import StoreError
from wharfinger.observe.placement_delivery import DeliveredMember, delivery_of, read
from wharfinger.observe.placements import read_all
from wharfinger.page.plain import text
from wharfinger.registry import placement_keys
from wharfinger.registry.store import Store

log = logging.getLogger(__name__)

FRESH = 2.0
"""Seconds for which an answer is given again."""
LOOK_EVERY = 20.0
MOST_PLACEMENTS = 500
MOST_MEMBERS = 500
AVAILABLE, FAILED, APPLYING, LEAVING, CHOSEN = "available", "failed", "applying", "leaving", "chosen"


class PlacementLooks:
    """Answers about placements."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._store = store
        self._clock = clock
        self._known: tuple[float, dict[str, Any]] | None = None
        self.there = False
        """Whether this etcd has placements."""

    async def run(self) -> None:
        """Look now and then whether there is any, until cancelled."""
        while True:
            try:
                async for page in self._store.list(placement_keys.DECISIONS, page_size=1):
                    self.there = bool(page.items)
                    break
            except StoreError as error:
                log.debug("placements_unread error=%r", str(error))
            await asyncio.sleep(LOOK_EVERY)

    async def all(self) -> dict[str, Any]:
        """Every placement on every member. Raises `StoreError`."""
        if self._known is None or self._clock() - self._known[0] >= FRESH:
            self._known = self._clock(), _table(await read_all(self._store))
        return self._known[1]

    async def one(self, reference: str) -> dict[str, Any]:
        """One placement: every member with its verdict and its state. Raises `NotFound`, `StoreError`."""
        reading = await read(self._store, reference)
        found = delivery_of(reading)
        chosen = {member.name for member in found.members}
        verdicts = [one for one in found.record.decision.verdicts if one.name not in chosen]
        return {
            "placement": text(reference),
            "decided": found.record.decision.condition.status,
            "message": text(found.record.decision.condition.message),
            "behind": found.behind,
            "settled": found.settled,
            "snapshot": found.newest or None,
            "pinned": found.pin.snapshot if found.pin is not None else None,
            "conditions": [
                {"type": one.type, "status": one.status, "reason": text(one.reason), "message": text(one.message)}
                for one in found.conditions
            ],
            "members": [_member(one) for one in found.members[:MOST_MEMBERS]],
            "notChosen": [{"member": text(one.name), "why": text(one.reason)} for one in verdicts[:MOST_MEMBERS]],
        }


def _table(view: HubView) -> dict[str, Any]:
    members = sorted(view.members)[:MOST_MEMBERS]
    references = sorted(view.placements.keys() | view.decisions.keys())
    return {
        "members": [
            {"name": text(name), "online": view.members[name].there, "reachable": view.members[name].reachable}
            for name in members
        ],
        "count": len(references),
        "placements": [_row(view, reference) for reference in references[:MOST_PLACEMENTS]],
        "runs": [
            {
                "placement": text(run.reference),
                "run": text(run.name),
                "namespace": text(run.run.placement.namespace) or None,
            }
            for _, run in sorted(view.update_runs.runs.items())[:MOST_PLACEMENTS]
        ],
    }


def _row(view: HubView, reference: str) -> dict[str, Any]:
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    policy = seen.placement.policy if seen is not None else None
    stands: dict[str, str] = {}
    troubles: dict[str, str] = {}
    for member in stored.chosen if stored is not None else ():
        stands[text(member.name)] = CHOSEN
    for name, work in sorted(view.works.get(reference, {}).items())[:MOST_MEMBERS]:
        told = view.results.get(reference, {}).get(name)
        current = told if told is not None and work.since <= told.counter <= work.counter else None
        if work.want != "present":
            stands[text(name)] = LEAVING
        elif current is not None and current.failed:
            stands[text(name)], troubles[text(name)] = FAILED, text(current.reason)
        else:
            stands[text(name)] = AVAILABLE if current is not None and current.available else APPLYING
    return {
        "placement": text(reference),
        "type": policy.type.value if policy is not None else None,
        "state": state_of(seen, stored),
        "why": text((seen.unreadable if seen is not None else "") or (stored.condition.message if stored else "")),
        "chosen": len(stored.chosen) if stored is not None else 0,
        "on": stands,
        "troubles": troubles,
    }


def _member(one: DeliveredMember) -> dict[str, Any]:
    return {
        "member": text(one.name),
        "chosen": one.chosen,
        "why": text(one.why),
        "online": one.online,
        "state": str(one.state),
        "message": text(one.message) or None,
        "conditions": [{"type": two.type, "status": two.status, "reason": text(two.reason)} for two in one.conditions],
    }
