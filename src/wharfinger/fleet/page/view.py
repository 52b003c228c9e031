"""What the page shows of fleets, and what it may do with their rollouts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import asdict
from datetime import datetime
from typing import Any

from wharfinger.errors import Compacted, ConfigurationError, RevisionFuture, StoreError, UsageError
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.fleet.reading import fleet_summary
from wharfinger.fleet.reading.fleet_changes import not_promotable
from wharfinger.fleet.reading.fleet_plans import plan
from wharfinger.fleet.reading.fleet_status import FleetInstance, status_of
from wharfinger.fleet.reading.fleet_summary import revision_rows
from wharfinger.fleet.reading.fleet_templates import known_plugins
from wharfinger.fleet.reading.fleets import Fleets
from wharfinger.fleet.spec.fleet_fields import CHANGE_CAUSE, CHANGED_BY
from wharfinger.fleet.state.fleet_pictures import Estate, Picture
from wharfinger.fleet.state.fleet_reading import OF_FLEETS, fleet_at, read
from wharfinger.framework.catalog import Catalog
from wharfinger.objects.documents.fields import part
from wharfinger.page.follow.plain import bounded, moment, text
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.views import MenuEntry
from wharfinger.page.web.forms import confirmed, done
from wharfinger.page.web.routes import Answer, PageRequest, Route, get
from wharfinger.process.committing import readable
from wharfinger.process.names import COMMON
from wharfinger.scheduling.page.view import SchedulingView

FRESH = 1.0
"""Seconds for which an answer is given again."""
MOST_FLEETS = 50
MOST_HISTORY = 30
MOST_LINES = 200
MOST_CHANGES = 20
"""Versions of a fleet's object that are told."""
MOST_KEPT = 100
"""Fleets whose versions are kept."""
VERBS = ("pause", "resume", "promote", "abort", "undo")
"""What a viewer may do with a rollout: methods of `Fleets`."""
_ICON = "M4 5h16v5H4zM4 14h16v5H4zM7 7.5h.01M7 16.5h.01M11 7.5h6M11 16.5h6"
_WALKING = ("Running", "CanaryWaiting", "Pending")


class FleetPageReader:
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
            "history": bounded(revision_rows(picture)[: -MOST_HISTORY - 1 : -1]),
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


def applicable(picture: Picture) -> list[str]:
    """The verbs that mean something now, of pause, resume, promote, abort and undo."""
    if picture.deleting:
        return []
    paused = picture.spec.get("paused") is True
    is_open = picture.status is not None and bool(picture.status.status.generation)
    word = fleet_summary.rollout_word(picture)
    found = {
        "pause": not paused,
        "resume": paused or (is_open and word not in _WALKING),
        "promote": is_open and not not_promotable(picture.spec),
        "abort": is_open,
        "undo": _goes_back(picture),
    }
    return [verb for verb, applies in found.items() if applies]


def last_change(picture: Picture) -> dict[str, Any] | None:
    """Who wrote the object last, and why; None without an object."""
    return _signed(picture.written) | {"revision": picture.generation} if picture.kv is not None else None


class FleetChangeLog:
    """What was asked of fleets: who, why, and what changed.

    A fleet's object says only who wrote it last. Its earlier versions, which etcd keeps until it compacts them, say the
    rest; each is read once.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, list[tuple[int, Mapping[str, Any]]]] = OrderedDict()
        """By fleet, mod revision and object of each version, the newest first."""

    async def of(self, picture: Picture) -> list[dict[str, Any]]:
        """What changed in the object, the newest first: `revision`, `what`, `who`, `why`. Raises `StoreError`."""
        if picture.kv is None:
            return []
        versions = self._known.pop(picture.tenant, [])
        if versions and versions[0][0] > picture.generation:  # of another life of the store
            versions = []
        found: list[tuple[int, Mapping[str, Any]]] = [(picture.generation, picture.written)]
        oldest = versions[0][0] if versions else 0
        if oldest != picture.generation:
            found += await self._before(picture.tenant, picture.kv, oldest)
            versions = [*found, *versions][: MOST_CHANGES + 1]
        self._known[picture.tenant] = versions
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
        told = []
        for place, (revision, obj) in enumerate(versions[:MOST_CHANGES]):
            earlier = versions[place + 1][1] if place + 1 < len(versions) else None
            told.append({"revision": revision, "what": _what(obj, earlier)} | _signed(obj))
        return told

    async def _before(self, tenant: str, newest: KeyValue, known: int) -> list[tuple[int, Mapping[str, Any]]]:
        """Versions before the newest one and behind the one that is known."""
        found: list[tuple[int, Mapping[str, Any]]] = []
        revision = newest.mod_revision
        while len(found) < MOST_CHANGES and revision > newest.create_revision:
            try:
                kv = await fleet_at(self._store, tenant, revision - 1)
            except (Compacted, RevisionFuture):
                break
            if kv is None or kv.mod_revision <= known:
                break
            revision = kv.mod_revision
            found.append((revision, readable(kv.value) or {}))
        return found


def _what(obj: Mapping[str, Any], earlier: Mapping[str, Any] | None) -> str:
    """What is another than in the version before, in a few words."""
    if part(obj, "metadata").get("deletionTimestamp"):
        return "deleted"
    if earlier is None:
        return "written"
    now, before = part(obj, "spec"), part(earlier, "spec")
    said = []
    if (now.get("paused") is True) is not (before.get("paused") is True):
        said.append("paused" if now.get("paused") is True else "resumed")
    request = part(now, "rollout")
    if request and request != before.get("rollout"):
        action = str(request.get("action"))
        said += [f"asked to {action}"] if f"{action}d" not in said else []
    if now.get("replicas", 1) != before.get("replicas", 1):
        said.append(f"scaled to {now.get('replicas', 1)}")
    if now.get("template") != before.get("template"):
        said.append("another template")
    if now.get("strategy") != before.get("strategy"):
        said.append("another strategy")
    return text(", ".join(said) or "written again")


def _signed(obj: Mapping[str, Any]) -> dict[str, str]:
    annotations = part(obj, "metadata", "annotations")
    return {"who": text(str(annotations.get(CHANGED_BY) or "")), "why": text(str(annotations.get(CHANGE_CAUSE) or ""))}


def _goes_back(picture: Picture) -> bool:
    """Whether a completed revision has another template than the wanted one."""
    wanted = picture.revisions.get(picture.target)
    completed = [number for number, ended in picture.outcomes.items() if ended.outcome == "completed"]
    found = [picture.revisions[number] for number in completed if number in picture.revisions]
    return any(wanted is None or one.template != wanted.template for one in found)


class FleetsView(PageView):
    """Fleets."""

    menu = (MenuEntry("Fleets", 60, {"/fleets": "fleets.js"}, _ICON, key="f"),)
    moments: Mapping[str, int] = {"fleets": 0}

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        scheduling = page.view(SchedulingView)
        following, scraper = scheduling.following, scheduling.scraper
        following.marks["fleets"] = OF_FLEETS
        self.fleets = FleetPageReader(following.store, scraper, clock=following.clock, utc_now=following.utc_now)

    def routes(self) -> Iterable[Route]:
        """All fleets, what would happen next in one, and what is done with its rollout."""
        return [
            get("fleets", lambda _: self.fleets.all()),
            get("fleets/{tenant}/plan", lambda asked: self.fleets.planned(asked.name("fleet", "tenant"))),
            Route("POST", "/api/v1/fleets/{tenant}/actions/{verb}", self._act, acts=True),
        ]

    def tick(self, touched: Set[str]) -> None:
        """What was told expires with a change."""
        if "fleets" in touched:
            self.fleets.expire()

    async def _act(self, asked: PageRequest) -> Answer:
        """Pause, resume, promote, abort or undo a rollout."""
        tenant, verb, who = asked.name("fleet", "tenant"), asked.verb(VERBS), asked.viewer.name
        form = confirmed(await asked.form(), tenant)
        change = await getattr(Fleets(self.page.following.store, who=who), verb)(tenant, reason=form.reason)
        about = f"{verb} fleet={tenant}"
        return done(about, form, who, written=change.written, sentence=change.sentence)
