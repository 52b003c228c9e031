"""Fleets and their rollouts, as etcd has them: slots, what the actor does, what happened, and what would happen next.

Read when somebody looks, for all viewers together at most once a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from wharfinger.client.fleet_plans import plan
from wharfinger.client.fleet_status import FleetInstance, FleetStatus, status_of
from wharfinger.client.fleet_templates import known_plugins
from wharfinger.contracts.names import COMMON
from wharfinger.errors import ConfigurationError, StoreError, UsageError
from wharfinger.framework.catalog import Catalog
from wharfinger.observe.fleet_pictures import Estate, Picture
from wharfinger.observe.fleet_reading import read
from wharfinger.page.follow.plain import moment, text
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.views.fleet_requests import FleetChangeLog, applicable, last_change
from wharfinger.registry.store import Store

FRESH = 1.0
"""Seconds for which an answer is given again."""
MOST_FLEETS = 50
MOST_HISTORY = 30
MOST_LINES = 200


class FleetLooks:
    """Answers about fleets."""

    def __init__(
        self, store: Store, scraper: Scraper, *, clock: Callable[[], float], utc_now: Callable[[], datetime]
    ) -> None:
        """`clock`: monotonic seconds."""
        self._store = store
        self._scraper = scraper
        self._clock = clock
        self._utc_now = utc_now
        self._catalog: Catalog | None = None
        self._known: tuple[float, dict[str, Any]] | None = None
        self._expired = False
        self._changes = FleetChangeLog(store)

    async def all(self) -> dict[str, Any]:
        """Every fleet, the common one first; while etcd does not answer, as they were seen last, and when that was.

        Raises `StoreError` where they never were.
        """
        if self._known is None or self._expired or self._clock() - self._known[0] >= FRESH:
            try:
                estate = await read(self._store)
                there = [name for name, picture in estate.fleets.items() if picture.exists]
                tenants = sorted(there, key=lambda name: (name != COMMON, name))
                fleets = [
                    self._one(estate, tenant) | {"changes": await self._changes.of(estate.fleet(tenant))}
                    for tenant in tenants[:MOST_FLEETS]
                ]
            except StoreError:
                if self._known is None:
                    raise
                return self._known[1] | {"current": False}
            told = {"count": len(tenants), "revision": estate.read_at, "asOf": moment(self._utc_now())}
            self._known, self._expired = (self._clock(), told | {"current": True, "fleets": fleets}), False
        return self._known[1]

    def expire(self) -> None:
        """Something changed: read anew when somebody asks."""
        self._expired = True

    async def planned(self, tenant: str) -> dict[str, Any]:
        """What would happen from here on, if every step succeeded. Raises `NotFound`, `StoreError`."""
        self._catalog = self._catalog or known_plugins()
        try:
            found = await plan(self._store, tenant, None, self._catalog)
        except (ConfigurationError, UsageError) as error:
            return {"tenant": text(tenant), "steps": None, "note": text(str(error))}
        steps = [{"atLeastSeconds": line.at, "what": text(line.text)} for line in found.lines[:MOST_LINES]]
        return {"tenant": text(tenant), "steps": steps, "note": text(found.note) or None}

    def _one(self, estate: Estate, tenant: str) -> dict[str, Any]:
        picture = estate.fleet(tenant)
        found = status_of(estate, picture, self._utc_now())
        return {
            "tenant": text(tenant),
            "common": tenant == COMMON,
            "generation": found.generation,
            "replicas": found.replicas,
            "ready": found.ready,
            "updated": found.updated,
            "outdated": found.outdated,
            "revision": found.revision,
            "completed": found.completed,
            "rollout": found.rollout,
            "phase": text(found.phase) or None,
            "observed": found.observed,
            "deleting": picture.deleting,
            "paused": picture.spec.get("paused") is True,
            "lastChange": last_change(picture),
            "verbs": applicable(picture),
            "conditions": [
                {"type": one.type, "status": one.status, "reason": text(one.reason), "message": text(one.message)}
                for one in found.conditions
            ],
            "slots": [self._slot(one) for one in found.instances],
            "waiting": [text(one) for one in found.waiting],
            "hints": [text(one) for one in found.hints],
            "history": _history(found, picture),
        }

    def _slot(self, one: FleetInstance) -> dict[str, Any]:
        exited = asdict(one.exit) if one.exit is not None else None
        return {
            "slot": one.slot,
            "incarnation": one.incarnation,
            "phase": one.phase,
            "ready": one.ready,
            "revision": one.revision,
            "assignedRevision": one.assigned_revision,
            "host": text(one.host) if one.host else None,
            "pid": one.pid,
            "crashes": one.crashes,
            "waitingFor": text(one.waiting_for) if one.waiting_for else None,
            "problems": {text(kind): text(said) for kind, said in one.problems.items()},
            "unproven": one.unproven,
            "exit": {name: text(str(value)) for name, value in exited.items() if value} if exited else None,
            "metrics": self._scraper.figures(one.health or ""),
        }


def _history(found: FleetStatus, picture: Picture) -> list[dict[str, Any]]:
    """The templates that were wanted, with who wanted them and how their rollouts ended, the newest first."""
    told = []
    for number, record in sorted(picture.revisions.items(), reverse=True)[:MOST_HISTORY]:
        outcome = picture.outcomes.get(number)
        told.append(
            {
                "revision": number,
                "wanted": number == found.revision,
                "outcome": outcome.outcome if outcome is not None else None,
                "outcomeWhy": text(outcome.why) if outcome is not None else None,
                "ended": outcome.time if outcome is not None else None,
                "who": text(record.who),
                "why": text(record.why),
                "time": record.time,
                "digest": record.digest,
            }
        )
    return told
