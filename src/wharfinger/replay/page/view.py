"""What the page shows of replay's reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.web import inputs as read
from wharfinger.page.web.routes import Answer, PageRequest, Route, get
from wharfinger.replay.page.replays import ReplayPageReader


class ReplayView(PageView):
    """Reports of replay."""

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        self.replays = ReplayPageReader(page.options.replays_dir, page.following.clock)

    def routes(self) -> Iterable[Route]:
        """All reports, and one."""
        return [get("replays", lambda asked: self.replays.all(asked.namespace)), get("replays/{name}", self._one)]

    def status(self, namespace: str) -> dict[str, Any]:  # noqa: ARG002 - the same for all
        """Whether there is a folder of reports."""
        return {"replays": self.replays.there}

    async def _one(self, asked: PageRequest) -> Answer:
        """One report; `beside`: with another one."""
        namespace, beside = asked.namespace, read.optional_name(asked.query, "beside")
        return await self.replays.one(asked.name("replay"), namespace, beside)
