"""Reports of `replay` on the page: those of a folder, listed, one whole, and two beside each other.

`report.kept_reports` has the files' limits, and `replay_figures` what is shown of a report.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wharfinger.errors import NotFound, UsageError
from wharfinger.page.follow.plain import text
from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.views import MenuEntry
from wharfinger.page.web.routes import Answer, PageRequest, Route, get
from wharfinger.replay.kept_form import KeptReport
from wharfinger.replay.page.replay_figures import ReportInShort, between, in_full
from wharfinger.replay.report.kept_reports import NoReport, ReportFile, ReportListing, listed, read_report

FRESH = 2.0
"""Seconds for which a listing is used again."""
WHOLE = 4
"""Reports that are kept as a whole: those that were opened last, and fewer where they are large, but two."""
WHOLE_BYTES = 24 << 20
"""Of the files of these."""


class ReplayPageReader:
    """Answers about reports of replay.

    Files are read when somebody looks, one at a time and away from the loop, and again when they have changed. A
    request names a report, never a path: the name is looked up in the listing.
    """

    def __init__(self, folder: Path | None, clock: Callable[[], float]) -> None:
        """`folder`: where reports are; None = nowhere. `clock`: monotonic seconds."""
        self._folder = folder
        self._clock = clock
        self._listing: tuple[float, ReportListing] | None = None
        self._short: dict[str, tuple[ReportFile, ReportInShort | NoReport]] = {}
        self._whole: OrderedDict[str, tuple[ReportFile, KeptReport | NoReport]] = OrderedDict()
        self._reading = asyncio.Lock()

    @property
    def there(self) -> bool:
        """Whether there is a folder for reports."""
        return self._folder is not None

    async def all(self, namespace: str) -> dict[str, Any]:
        """Every report in short, the newest first."""
        folder = self._folder
        if folder is None:
            return {"folder": None, "count": 0, "omitted": 0, "problem": None, "replays": []}
        now = self._clock()
        async with self._reading:
            if self._listing is None or now - self._listing[0] >= FRESH:
                self._listing = now, await asyncio.to_thread(listed, folder)
            listing = self._listing[1]
            for file in listing.files:
                known = self._short.get(file.name)
                if known is None or known[0].stamp != file.stamp:
                    found = await asyncio.to_thread(read_report, folder, file)
                    self._short[file.name] = file, ReportInShort.of(found) if isinstance(found, KeptReport) else found
            names = {file.name for file in listing.files}
            self._short = {name: known for name, known in self._short.items() if name in names}
            rows = [_row(*self._short[file.name], namespace) for file in listing.files]
        return {
            "folder": text(str(folder)),
            "count": len(rows) + listing.omitted,
            "omitted": listing.omitted,
            "problem": text(listing.problem) or None,
            "replays": rows,
        }

    async def one(self, name: str, namespace: str, beside: str) -> dict[str, Any]:
        """One report whole; `beside`: another one's name, empty = none. Raises `NotFound`, `UsageError`."""
        report = await self._read(name)
        other = await self._read(beside) if beside else None
        told = await asyncio.to_thread(in_full, name, report, namespace)
        if other is None:
            return told | {"beside": None, "between": None}
        return told | {
            "beside": await asyncio.to_thread(in_full, beside, other, namespace),
            "between": await asyncio.to_thread(between, report, other, namespace),
        }

    async def _read(self, name: str) -> KeptReport:
        if self._folder is None:
            raise NotFound("this page has no folder of reports")
        async with self._reading:
            listing = await asyncio.to_thread(listed, self._folder)
            file = next((one for one in listing.files if one.name == name), None)
            if file is None:
                raise NotFound("there is no report of this name")
            known = self._whole.get(name)
            if known is None or known[0].stamp != file.stamp:
                known = file, await asyncio.to_thread(read_report, self._folder, file)
                self._whole[name] = known
            self._whole.move_to_end(name)
            whole = self._whole.values()
            while len(whole) > WHOLE or (len(whole) > 2 and sum(one.size for one, _ in whole) > WHOLE_BYTES):
                self._whole.popitem(last=False)
        if isinstance(known[1], NoReport):
            raise UsageError(f"this file cannot be shown: {known[1].why}")
        return known[1]


def _row(file: ReportFile, found: ReportInShort | NoReport, namespace: str) -> dict[str, Any]:
    modified = datetime.fromtimestamp(int(file.modified), UTC).isoformat().replace("+00:00", "Z")
    row = {"name": text(file.name), "bytes": file.size, "modified": modified}
    if isinstance(found, NoReport):
        return row | {"problem": text(found.why)}
    return row | {"problem": None} | found.row(namespace)


_ICON = "M4.5 12a7.5 7.5 0 1 0 2.4-5.5L4.500 8.800M4.500 4.500v4.300h4.300M12 8v4.300l3 1.700"
_MODULES = {"/replays": "replays.js", "/replays/{name}": "replay.js"}


class ReplayView(PageView):
    """Reports of replay."""

    menu = (MenuEntry("Replays", 90, _MODULES, _ICON, key="r", needs="replays"),)

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
        namespace, beside = asked.namespace, asked.optional_name("beside")
        return await self.replays.one(asked.name("replay"), namespace, beside)
