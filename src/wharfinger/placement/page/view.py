"""What the page shows of placements and update runs, and what it may do with runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Set
from contextlib import asynccontextmanager
from typing import Any

from wharfinger.errors import DoesNotApply, InvalidConfiguration, UsageError
from wharfinger.page.follow.scraping import Scraper
from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.views import MenuEntry
from wharfinger.page.web.forms import ActionForm, confirmed, done
from wharfinger.page.web.inputs import BadInput
from wharfinger.page.web.routes import Answer, PageRequest, Route, get
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.page.hub_alerts import HUB_METRICS, HubAlerts
from wharfinger.placement.page.hubs import HubChanges, HubPresence, HubReading
from wharfinger.placement.page.placements import PlacementPageReader
from wharfinger.placement.page.update_runs import APPROVE, RESUME, RETRY, STOP, UpdateRunPageReader, check_retry
from wharfinger.placement.reading.observe_placements import reference_of
from wharfinger.placement.reading.observe_update_runs import check_name
from wharfinger.placement.reading.update_runs import UpdateRuns
from wharfinger.scheduling.page.view import SchedulingView

OF_PLACEMENTS = (placement_keys.member_cluster.prefix, placement_keys.PLACEMENT_OBJECTS)
"""Prefixes of the objects that users write; what hubs keep is followed by `HubChanges`."""

_ICON = "M4 5h6v5H4zM14 5h6v5h-6zM9 15h6v5H9zM7 10v2.5h10V10M12 12.5V15"
_MODULES = {
    "/placements": "placements.js",
    "/placements/{reference}": "placements.js",
    "/runs/{name}": "run.js",
    "/runs/{namespace}/{name}": "run.js",
}


class PlacementView(PageView):
    """Placements, update runs and hubs."""

    menu = (MenuEntry("Placements", 70, _MODULES, _ICON, needs="placements"),)
    moments: Mapping[str, int] = {"placements": 0}

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        following, options = page.view(SchedulingView).following, page.options
        following.marks["placements"] = OF_PLACEMENTS
        store = following.store
        self.hubs = HubPresence(following.patient)
        self.hub_scraper = Scraper(
            options.scrape, self.hubs.addresses, following.clock, names=HUB_METRICS, follows=page.follows
        )
        self.alerts = HubAlerts(self.hubs, self.hub_scraper)
        self.hub_reading = HubReading(store, following.clock)
        self.update_runs = UpdateRunPageReader(
            store,
            self.hub_reading,
            utc_now=following.utc_now,
            cluster=page.cluster,
            ui=options.temporal_ui,
            namespace=page.namespace,
        )
        self.placements = PlacementPageReader(
            store, self.hub_reading, self.update_runs, page.temporal.client, page.cluster
        )
        self._changes = HubChanges(
            store, lambda: "placements" in following.model.watched, lambda: following.model.touch("placements")
        )

    def routes(self) -> Iterable[Route]:
        """Placements, their history, and runs."""
        return [
            get("placements", self._all),
            get("placements/{placement}", lambda asked: self.placements.one(_reference(asked))),
            get("placements/{placement}/history", lambda asked: self.placements.history(_reference(asked))),
            get("update-runs/{name}", lambda asked: self.update_runs.one(asked.name("run"), asked.namespace)),
            Route("POST", "/api/v1/update-runs/{name}/{verb}", self._act, acts=True),
        ]

    def loops(self) -> Iterable[Coroutine[Any, Any, None]]:
        """Who is registered, metrics of hubs, and whether anything changes on a hub."""
        return [self.hubs.run(), self.hub_scraper.run(), self.placements.run(), self._changes.run()]

    def status(self, namespace: str) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        """Whether there are placements."""
        return {"placements": self.placements.there}

    def tick(self, touched: Set[str]) -> None:
        """What was read expires with a change."""
        if "placements" in touched:
            self.hub_reading.expire()

    async def _all(self, asked: PageRequest) -> Answer:
        """All of them, on all members; `namespace`: without those of other namespaces, and without their runs."""
        namespace, told = asked.namespace, await self.placements.all()
        if not namespace:
            return told
        own = ("cluster/", f"ns/{namespace}/")
        chosen, runs = (
            [one for one in told[name] if one["placement"].startswith(own)] for name in ("placements", "runs")
        )
        return told | {"count": len(chosen), "placements": chosen, "runs": runs}

    async def _act(self, asked: PageRequest) -> Answer:
        """Approve a stage of an update run, stop, resume or retry it; `namespace`: of a run that has one.

        Raises `DoesNotApply` for what the commands refuse: a run that has ended is not stopped, one without failed or
        skipped members is not retried, and a stage that does not wait for its approval is not approved.
        """
        name, namespace, verb, who = asked.name("run"), asked.namespace, asked.verb(RUN_VERBS), asked.viewer.name
        form = confirmed(await asked.form(), name)
        if verb == APPROVE and not form.stage:
            raise BadInput("stage: which one is to be approved")
        check_name(name, namespace)
        run = f"{namespace}/{name}" if namespace else name
        async with _refusals():
            runs = UpdateRuns(self.page.following.store)
            written, sentence = await act(runs, verb, (name, namespace), form, who)
        about = f"{verb} run={run}" + (f" stage={form.stage}.{form.when}" if verb == APPROVE else "")
        return done(about, form, who, written=written, sentence=sentence)


def _reference(asked: PageRequest) -> str:
    """The placement that an address names: `cluster/<name>` or `ns/<namespace>/<name>` as one part of it."""
    try:
        return reference_of(asked.names["placement"])
    except UsageError as error:
        raise BadInput(str(error)) from error


RUN_VERBS = (APPROVE, STOP, RESUME, RETRY)
"""What a viewer may do with an update run."""


async def act(runs: UpdateRuns, verb: str, run: tuple[str, str], form: ActionForm, who: str) -> tuple[bool, str]:
    """Do it to a run, by name and namespace; whether anything was written, and the outcome in one line."""
    (name, namespace), why = run, form.reason
    match verb:
        case "approve":
            await runs.approve(name, form.stage, form.when, namespace=namespace, who=who, why=why)
            return True, f"stage {form.stage} of {name} is approved ({form.when})"
        case "stop":
            written = await runs.stop(name, namespace, who=who, why=why)
            return written, f"update run {name} {'is stopped' if written else 'was stopped already'}"
        case "resume":
            written = await runs.resume(name, namespace, who=who, why=why)
            return written, f"update run {name} {'goes on' if written else 'was under way already'}"
        case _:
            check_retry(await runs.status(name, namespace))
            number = await runs.retry(name, namespace, who=who, why=why)
            return True, f"update run {name} tries again (retry {number})"


@asynccontextmanager
async def _refusals() -> AsyncIterator[None]:
    """What the client refuses because of how the run stands is a conflict, not a mistake in the request."""
    try:
        yield
    except (UsageError, InvalidConfiguration) as error:
        raise DoesNotApply(str(error)) from error
