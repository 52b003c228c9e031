"""What the page shows of fleets, and what it may do with their rollouts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Set

from wharfinger.fleet.page.fleets import OF_FLEETS, FleetPageReader
from wharfinger.fleet.reading.fleets import FleetChange, Fleets
from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.web.actions import confirmed, done
from wharfinger.page.web.routes import Answer, PageRequest, Route, get
from wharfinger.scheduling.page.view import SchedulingView

VERBS: Mapping[str, Callable[[Fleets, str, str], Awaitable[FleetChange]]] = {
    "pause": lambda fleets, tenant, why: fleets.pause(tenant, reason=why),
    "resume": lambda fleets, tenant, why: fleets.resume(tenant, reason=why),
    "promote": lambda fleets, tenant, why: fleets.promote(tenant, reason=why),
    "abort": lambda fleets, tenant, why: fleets.abort(tenant, reason=why),
    "undo": lambda fleets, tenant, why: fleets.undo(tenant, reason=why),
}
"""Of fleets."""


class FleetsView(PageView):
    """Fleets."""

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        scheduling = page.view(SchedulingView)
        following, scraper = scheduling.following, scheduling.scraper
        following.marks["fleets"] = OF_FLEETS
        self.fleets = FleetPageReader(following.store, scraper, clock=following.clock, utc_now=following.utc_now)

    def routes(self) -> Iterable[Route]:
        """All fleets, and what would happen next in one."""
        return [
            get("fleets", lambda _: self.fleets.all()),
            get("fleets/{tenant}/plan", lambda asked: self.fleets.planned(asked.name("fleet", "tenant"))),
        ]

    def acting(self) -> Iterable[Route]:
        """Rollouts."""
        return [Route("POST", "/api/v1/fleets/{tenant}/actions/{verb}", self._act, acts=True)]

    def tick(self, touched: Set[str]) -> None:
        """What was told expires with a change."""
        if "fleets" in touched:
            self.fleets.expire()

    async def _act(self, asked: PageRequest) -> Answer:
        """Pause, resume, promote, abort or undo a rollout."""
        tenant, verb, who = asked.name("fleet", "tenant"), asked.verb(VERBS), asked.viewer.name
        form = confirmed(await asked.form(), tenant)
        change = await VERBS[verb](Fleets(self.page.following.store, who=who), tenant, form.reason)
        about = f"{verb} fleet={tenant}"
        return done(about, form, who, written=change.written, sentence=change.sentence)
