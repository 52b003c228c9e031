"""Replay's results in a real, headless Chromium: explanations, two reports beside each other, hostile texts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.page import browser
from tests.page.cluster import Page, filled, served
from tests.page.replay_reports import MOST, ends, filled_folder, kept, rerun, shadow
from tests.page.test_browser import HOSTILE, PHONE, let_in, serious
from wharfinger.page.options import PageOptions

pytestmark = [
    pytest.mark.skipif(not browser.there(), reason=browser.MISSING),
    pytest.mark.long,
    pytest.mark.timeout(300),
]


@pytest.fixture
async def chromium() -> AsyncIterator[Any]:
    async with browser.launched() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return filled_folder(tmp_path / "replays")


@pytest.fixture
async def page(folder: Path) -> AsyncIterator[Page]:
    async with served(await filled(12, 40), PageOptions(0, replays_dir=folder)) as found:
        yield found


async def test_a_report_opens_from_the_list_with_both_explanations(chromium: Any, page: Page) -> None:
    async with let_in(page, chromium) as tab:
        await tab.open("/replays?namespace=batch", "table.replays")
        assert "notes: not a report" in await tab.text()
        await tab.tab.get_by_role("link", name=MOST).first.click()
        await tab.tab.wait_for_url("**/replays/shadow-most?namespace=batch")
        await tab.tab.click(".differing summary")
        await tab.tab.wait_for_selector(".differing .compare")
        said = await tab.text(".differing")
        assert "3 Insufficient cpu" in said
        assert "NodeResourcesFit" in said
        assert "web/front-1" not in said, "a pod of another namespace"
        assert await tab.tab.get_attribute(".differing .inside a", "href") == "/pods/batch/sweep-1?namespace=batch"
        assert await serious(tab) == []
        assert tab.wrong == []


async def test_two_reruns_are_chosen_beside_each_other(chromium: Any, page: Page) -> None:
    for size, scheme in (({"width": 1440, "height": 900}, "dark"), (PHONE, "light")):
        async with let_in(page, chromium, size, scheme) as tab:
            await tab.open("/replays/rerun-most", ".note")
            assert "compare this one with that" in await tab.text()
            await tab.tab.select_option("select[aria-label='Beside another report']", "rerun-plain")
            await tab.tab.wait_for_url("**/replays/rerun-most?beside=rerun-plain")
            await tab.tab.wait_for_selector("text=4 pods of both")
            label = await tab.tab.get_attribute(".shares svg >> nth=0", "aria-label")
            assert label == "cpu: record from 0 % to 39.0 %, beside from 0 % to 46.8 %, here from 0 % to 46.8 %"
            assert await tab.tab.evaluate("document.documentElement.scrollWidth") <= size["width"]
            assert await serious(tab) == []
            assert tab.wrong == []


async def test_the_page_follows_the_folder(chromium: Any, page: Page, folder: Path) -> None:
    async with let_in(page, chromium) as tab:
        await tab.open("/replays", "table.replays")
        kept(folder, "late", shadow("Late.weight=9"))
        await tab.tab.wait_for_selector("text=Late.weight=9", timeout=20_000)
        await tab.open("/replays/late", ".card")
        (folder / "late.json").unlink()
        kept(folder, "late", shadow("Later.weight=9"))
        await tab.tab.wait_for_selector("h1:has-text('Later.weight=9')", timeout=20_000)
        assert tab.wrong == []


async def test_hostile_reports_are_only_text(chromium: Any, page: Page, folder: Path) -> None:
    pod = shadow()["pods"][0] | {"pod": f"{HOSTILE}/{HOSTILE}", "verdict": HOSTILE}
    reason = {"verdict": HOSTILE, "message": HOSTILE, "decisions": 1, "namespaces": {}}
    more = {"workloads": [{"workload": HOSTILE, "refused": 3}], "reasons": [reason], "profiles": {HOSTILE: {"same": 1}}}
    lived = rerun()["pods"][0] | {"pod": f"{HOSTILE}/{HOSTILE}", "again": HOSTILE, "message": HOSTILE}
    kept(folder, "hostile", shadow(HOSTILE, pods=[pod], **more), command=HOSTILE, cluster=HOSTILE)
    kept(folder, "hostile-rerun", rerun(HOSTILE, pods=[lived]), ends=ends(**{HOSTILE: HOSTILE}))
    async with let_in(page, chromium) as tab:
        for address in ("/replays", "/replays/hostile", "/replays/hostile-rerun?beside=rerun-plain"):
            await tab.open(address, ".card")
            if "/hostile" in address:
                await tab.tab.click(".differing summary")
            await tab.tab.wait_for_timeout(300)
            assert await tab.tab.evaluate("window.hit") is None
            shown = await tab.text()
            assert "<script>window.hit=1</script>" in shown
            assert "\\u202e" in shown
            assert "\u202e" not in shown
        assert tab.wrong == []
