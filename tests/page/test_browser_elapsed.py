"""In Chromium: a question that takes the server long shows for how long it has worked, and then how long it took."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.page import browser
from tests.page.cluster import Page, filled, served, with_history
from tests.page.pictures import POD
from tests.page.replay_reports import filled_folder
from tests.page.test_browser import Tab, chromium, let_in
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.options import PageOptions
from wharfinger.scheduling.page.view import SchedulingView

__all__ = ["chromium"]

pytestmark = [
    pytest.mark.skipif(not browser.there(), reason=browser.MISSING),
    pytest.mark.long,
    pytest.mark.timeout(300),
]
QUESTIONS = {
    "explorer": (f"{POD}?tab=explorer&attempt=4", "/decision?", "deciding again"),
    "difference": (f"{POD}?tab=difference&first=1&second=2", "/difference?", "deciding both again"),
    "replays": ("/replays/rerun-most?beside=rerun-plain", "/replays/rerun-most?", "Reading both reports"),
    "pending": ("/pending/Unschedulable~NodeResourcesFit", "/help", "Deciding on the present state"),
    "gang": ("/gangs/training/mpi-solve", "/domains", "Deciding what fits"),
}
"""Address of the view, what it asks for, and what it says meanwhile."""


@pytest.fixture
async def page(tmp_path: Path) -> AsyncIterator[Page]:
    cluster = await filled(40, 200)
    folder = filled_folder(tmp_path / "replays")
    async with served(cluster, PageOptions(0, replays_dir=folder)) as found:
        await with_history(cluster, found.parts)
        yield found


@asynccontextmanager
async def held(tab: Tab, asked: str) -> AsyncIterator[asyncio.Event]:
    """The page's answers to these questions come only after the event is set."""
    let_go = asyncio.Event()

    async def later(route: Any) -> None:
        await let_go.wait()
        await route.continue_()

    await tab.tab.route(lambda url: "/api/v1/" in url and asked in url, later)
    yield let_go
    await tab.tab.unroute_all(behavior="wait")


async def test_long_questions_show_their_seconds(chromium: Any, page: Page) -> None:
    async with let_in(page, chromium) as tab:
        for address, asked, words in QUESTIONS.values():
            async with held(tab, asked) as let_go:
                await tab.open(address, f"text={words}")
                await tab.tab.wait_for_selector("text=for 1 s so far")
                await tab.tab.wait_for_selector("text=for 2 s so far")
                status = await tab.tab.locator(f"[role=status]:has-text('{words}')").inner_text()
                assert "so far" not in status, "a screen reader is not told every second"
                let_go.set()
                took = await (await tab.tab.wait_for_selector(".took")).inner_text()
                assert re.fullmatch(r"The answer took ([2-9]\.\d|\d\d+) s\.", took), took
                assert await tab.tab.locator("text=so far").count() == 0
        assert tab.wrong == []


async def test_what_if_shows_its_seconds_each_time(chromium: Any, page: Page) -> None:
    async with let_in(page, chromium) as tab:
        await tab.open(f"{POD}?tab=what-if", "summary >> text=Weights")
        async with held(tab, "/what-if") as let_go:
            await tab.tab.get_by_role("button", name="Decide again").click()
            await tab.tab.wait_for_selector("text=Deciding twice, for 1 s so far")
            let_go.set()
            await tab.tab.wait_for_selector(".result .took")
        assert tab.wrong == []


async def test_an_answer_within_a_second_has_no_figure(chromium: Any, page: Page) -> None:
    async with let_in(page, chromium) as tab:
        for second in ("2", "3", "2", "4", "3"):
            await tab.open(f"{POD}?tab=difference&first=1&second={second}", ".compare")
            for said in await tab.tab.locator(".took").all_inner_texts():  # a machine that is busy may take so long
                assert float(said.split()[3]) >= 1.0, said
        assert tab.wrong == []


async def test_a_difference_needs_two_attempts(chromium: Any, page: Page) -> None:
    key = PodKey("batch", "sweep-0000")
    page.parts.view(SchedulingView).attempts.record(key, page.parts.following.cache.pods[key], [])  # type: ignore[attr-defined]
    async with let_in(page, chromium) as tab:
        await tab.open(f"/pods/{key}?tab=difference", "text=needs two attempts, and none is recorded of this pod")
        assert await tab.tab.locator("select[aria-label='First attempt']").is_hidden()
        assert tab.wrong == []
