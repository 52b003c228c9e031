"""Placements on member clusters, where this etcd is a hub's: clusters by placements, verdicts, how each stands, the
plan of its rollout, and what happened.

Read when somebody looks, for all viewers together. Runs are `update_runs`' subject.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from typing import Any

from temporalio.client import Client

from wharfinger.errors import NotFound, ServerError, StoreError
from wharfinger.etcd.store import Store
from wharfinger.page.follow.plain import bounded, text
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.page.hubs import HubReading
from wharfinger.placement.page.update_runs import UpdateRunPageReader
from wharfinger.placement.reading.placement_conditions import DeliveredMember
from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries
from wharfinger.placement.reading.placement_delivery import PlacementDelivery, delivery_of, read
from wharfinger.placement.reading.placement_plans import members_by_kind, supposed_of
from wharfinger.placement.reading.placements import Placements
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import state_of

log = logging.getLogger(__name__)

LOOK_EVERY = 20.0
MOST_PLACEMENTS = 500
MOST_MEMBERS = 500
MOST_STEPS = 200
"""Waves of a plan."""
LAST = 20
"""Attempts, and rollouts, of a history."""
WITHIN = 10.0
"""Seconds for Temporal's answer."""
AVAILABLE, FAILED, APPLYING, LEAVING, CHOSEN = "available", "failed", "applying", "leaving", "chosen"


class PlacementPageReader:
    """Answers about placements."""

    def __init__(
        self,
        store: Store,
        reading: HubReading,
        runs: UpdateRunPageReader,
        connect: Callable[[], Awaitable[Client]],
        cluster: str,
    ) -> None:
        """`connect` answers the client of Temporal."""
        self._store = store
        self._runs = runs
        self._connect = connect
        self._cluster = cluster
        self._reading = reading
        self._known: tuple[HubView, dict[str, Any]] | None = None
        self.there = False
        """Whether this etcd has placements."""

    async def run(self) -> None:
        """Look now and then whether there is any, until cancelled."""
        while True:
            try:
                self.there = bool((await self._store.first(placement_keys.decision.prefix)).items)
            except StoreError as error:
                log.debug("placements_unread error=%r", str(error))
            await asyncio.sleep(LOOK_EVERY)

    async def all(self) -> dict[str, Any]:
        """Every placement on every member; while etcd does not answer, as they were seen last, and how long ago.

        Raises `StoreError` where they never were.
        """
        current = True
        try:
            found = await self._reading.view()
        except StoreError:
            if self._reading.last is None:
                raise
            found, current = self._reading.last, False
        if self._known is None or self._known[0] is not found.view:
            self._known = found.view, _table(found.view) | {"runs": self._runs.rows(found.view)}
        return self._known[1] | {"current": current, "ageSeconds": self._reading.age(found)}

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
            "run": _holder(found),
            "plan": _plan(found),
            "members": [_member(one) for one in found.members[:MOST_MEMBERS]],
            "notChosen": [{"member": text(one.name), "why": text(one.reason)} for one in verdicts[:MOST_MEMBERS]],
        }

    async def history(self, reference: str) -> dict[str, Any]:
        """What happened: snapshots with who has each, and attempts and rollouts as far as Temporal keeps them.

        Raises `NotFound`, `StoreError`. While Temporal is away, its part is empty, and `note` says so.
        """
        if (await self._store.get(placement_keys.decision(reference))).kv is None:
            raise NotFound(f"placement {text(reference)} is not there, or not decided yet")
        snapshots = await PlacementDeliveries(self._store).snapshots(reference)
        told: dict[str, Any] = {
            "placement": text(reference),
            "snapshots": [
                asdict(one) | {"members": [text(name) for name in one.members[:MOST_MEMBERS]]}
                for one in reversed(snapshots)
            ],
            "attempts": [],
            "rollouts": [],
            "note": None,
        }
        try:
            async with asyncio.timeout(WITHIN):
                asked = Placements(await self._connect(), self._store, cluster=self._cluster)
                for name, found in (
                    ("attempts", await asked.attempts(reference, limit=LAST)),
                    ("rollouts", await asked.rollouts(reference, limit=LAST)),
                ):
                    told[name] = [one.mapping() | {"why": text(one.why)} for one in found]
        except (ServerError, TimeoutError) as error:
            told["note"] = text(str(error) or f"Temporal did not answer within {WITHIN:.0f} s")
        return told


def _holder(found: PlacementDelivery) -> str | None:
    """Which update run delivers the placement, or did last."""
    record = found.reading.view.delivery.rollouts.get(found.reference)
    return text(record.run.rpartition("/")[0]) if record is not None and record.run else None


def _plan(found: PlacementDelivery) -> dict[str, Any]:
    """What follows: by the stored decision, wave by wave, if everything goes well; and what a new one would change."""
    rollout = found.rollout
    steps, spec = rollout.steps, rollout.spec
    foreseen = rollout.foreseen
    waves = None if foreseen is None else [members_by_kind(one[:MOST_MEMBERS]) for one in foreseen.waves[:MOST_STEPS]]
    anew = supposed_of(found.reading.view, found.reference)
    return {
        "external": spec.external,
        "target": steps.target,
        "ready": found.ready,
        "floor": steps.floor,
        "ceiling": steps.ceiling,
        "trouble": text(rollout.trouble) or None,
        "heldByBudget": _named(steps.held),
        "waiting": _named(steps.waiting),
        "away": _named(steps.away),
        "failed": _named(steps.failed),
        "waves": bounded(waves),
        "waitsThen": _named(foreseen.held) if foreseen is not None else [],
        "decidedAnew": None
        if anew is None
        else {
            "added": _named(anew.added),
            "removed": _named(anew.removed),
            "condition": text(anew.condition),
            "why": {text(name): text(why) for name, why in sorted(anew.why.items())[:MOST_MEMBERS]},
        },
    }


def _named(members: Sequence[str]) -> list[str]:
    return [text(name) for name in members[:MOST_MEMBERS]]


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
    }


def _row(view: HubView, reference: str) -> dict[str, Any]:
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    policy = seen.placement.policy if seen is not None else None
    stands: dict[str, str] = {}
    troubles: dict[str, str] = {}
    for member in stored.chosen if stored is not None else ():
        stands[text(member.name)] = CHOSEN
    for name, work in sorted(view.works.get(reference, {}).items())[:MOST_MEMBERS]:
        current = work.answered(view.results.get(reference, {}).get(name))
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
