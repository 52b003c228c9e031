"""The page in a real, headless Chromium: views, colours, keys, hostile names, speed. Skipped where there is none."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.page import browser
from tests.page.cluster import SUBJECT, Page, filled, in_step, served, with_history
from tests.page.pictures import POD, VIEWS
from wharfinger.registry import keys
from wharfinger.testing import node_manifest, pod_manifest

pytestmark = [
    pytest.mark.skipif(not browser.there(), reason=browser.MISSING),
    pytest.mark.long,
    pytest.mark.timeout(300),
]
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
EVIL = "/pods/default/evil"
HOSTILE = "<script>window.hit=1</script><img src=x onerror=window.hit=1>\u202etxt\u0007"
DONE = {"explorer": ".vbody .mark", "difference": ".compare", "what-if": "summary", "pod": ".attempts"}
BUSY = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
"""How many processes want each core: what is promised of a machine of its own takes so much longer here."""
FRAMES = """async (steps) => {
  const table = document.querySelector(".vtable"), took = [];
  let before = performance.now();
  for (let step = 0; step < steps; step += 1) {
    table.scrollTop += 480;
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    took.push(now - before);
    before = now;
  }
  return took;
}"""


class Tab:
    """One tab that was let in, and what went wrong in it."""

    def __init__(self, page: Page, tab: Any) -> None:
        self.page = page
        self.tab = tab
        self.wrong: list[str] = []
        tab.on("console", lambda said: self.wrong.append(said.text) if said.type == "error" else None)
        tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        tab.on("request", lambda one: None if one.url.startswith(page.server.url) else self.wrong.append(one.url))

    async def open(self, address: str, until: str = "#view > *") -> None:
        await self.tab.goto(self.page.server.url + address)
        await self.tab.wait_for_selector(until, timeout=90_000)

    async def text(self, selector: str = "#view") -> str:
        return str(await self.tab.inner_text(selector))


@asynccontextmanager
async def let_in(page: Page, chromium: Any, size: dict[str, int] = WIDE, scheme: str = "light") -> AsyncIterator[Tab]:
    context = await chromium.new_context(viewport=size, color_scheme=scheme)
    tab = Tab(page, await context.new_page())
    await tab.tab.goto(page.link)
    assert "link=" not in tab.tab.url, "the secret is gone from the address"
    yield tab
    await context.close()


async def serious(tab: Tab) -> list[str]:
    """What axe-core finds that is serious or worse."""
    axe = pytest.importorskip("axe_playwright_python.async_playwright", reason=browser.MISSING).Axe()
    found = await axe.run(tab.tab)
    return [
        f"{one['id']}: {node['html'][:160]}"
        for one in found.response["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"][:3]
    ]


@pytest.fixture
async def chromium() -> AsyncIterator[Any]:
    async with browser.launched() as found:
        yield found


async def test_every_view_is_quiet_and_accessible(chromium: Any) -> None:
    """No error, no request to another host, nothing serious for axe-core, nothing wider than a phone."""
    cluster = await filled(240, 1500)
    async with served(cluster) as page:
        await with_history(cluster, page.parts)
        found: list[str] = []
        for size, scheme in ((WIDE, "light"), (PHONE, "dark")):
            async with let_in(page, chromium, size, scheme) as tab:
                for name, address in VIEWS.items():
                    await tab.open(address, DONE.get(name, "#view > *"))
                    await tab.tab.wait_for_timeout(300)
                    found += [f"{name} {scheme}: {one}" for one in await serious(tab)]
                    width = await tab.tab.evaluate("document.documentElement.scrollWidth")
                    found += [f"{name} is {width} wide"] if width > size["width"] else []
                found += tab.wrong
        assert found == []


async def test_hostile_names_and_labels_are_text(chromium: Any) -> None:
    cluster = await filled(12, 20)
    await cluster.put(keys.node("evil"), node_manifest("evil", labels={"pool": "x", "zone": HOSTILE}))
    await cluster.put(keys.pod("default", "evil"), pod_manifest("evil", labels={"app": HOSTILE}))
    await cluster.refusal("default", "evil", ("NodeResourcesFit", HOSTILE), HOSTILE * 5000)
    async with served(cluster) as page, let_in(page, chromium) as tab:
        for address in (
            "/",
            "/map?group=zone",
            "/nodes/evil",
            "/pending",
            "/pods",
            "/pods/default/evil",
            "/pods/default/evil?tab=fields",
        ):
            await tab.open(address)
            await tab.tab.wait_for_timeout(400)
            assert await tab.tab.evaluate("window.hit") is None
        shown = await tab.text()
        assert "<script>window.hit=1</script>" in shown
        assert "\\u202e" in shown, "marks that turn writing around are spelt out"
        assert "\u202e" not in shown
        assert tab.wrong == []


async def test_what_happens_is_seen_within_a_second(chromium: Any) -> None:
    cluster = await filled(60, 200)
    async with served(cluster) as page, let_in(page, chromium) as tab:
        await tab.open("/", ".figure")
        loop = asyncio.get_running_loop()
        began = loop.time()
        for number in range(7):
            await cluster.pod(f"gated-{number}", namespace="web", schedulingGates=[{"name": "g"}])
        await tab.tab.wait_for_selector(".legend a:has-text('12held back')")
        assert loop.time() - began < 1.0 * BUSY

        page.parts.following.store.fail_reads(6)  # type: ignore[attr-defined]
        await tab.tab.wait_for_selector(".banner >> text=etcd has not answered", timeout=15_000)
        await tab.tab.wait_for_selector(".state.good", timeout=15_000)
        assert await tab.tab.query_selector(".banner") is None
        assert tab.wrong == []


async def test_addresses_keys_and_history_work(chromium: Any) -> None:
    cluster = await filled(120, 600)
    async with served(cluster) as page:
        await with_history(cluster, page.parts)
        async with let_in(page, chromium) as tab:
            keyboard = tab.tab.keyboard
            await tab.open("/?namespace=training", ".figure")
            await keyboard.press("g")
            await keyboard.press("m")
            await tab.tab.wait_for_url("**/map?namespace=training")
            await tab.tab.wait_for_selector("canvas[aria-label*='120 nodes']")
            await tab.tab.fill("input[type=search]", "pool in (gpu)")
            await tab.tab.wait_for_selector("text=24 of 120 nodes")
            await tab.tab.focus("canvas")
            for key in ("ArrowRight", "ArrowRight", "ArrowDown", "Enter"):
                await keyboard.press(key)
            await tab.tab.wait_for_selector(".drawer h1")
            assert "/nodes/" in tab.tab.url
            assert "selector=pool" in tab.tab.url
            await tab.tab.go_back()
            await tab.tab.wait_for_selector(".drawer", state="hidden")

            await tab.open(f"{POD}?tab=explorer&attempt=1", ".vbody .mark")
            await tab.tab.click("role=columnheader >> text=NodeUnschedulable")
            first = await tab.text(".vbody .vrow:not([hidden]) >> nth=0")
            assert "unschedulable" in first
            await tab.tab.click("text=What if")
            await tab.tab.fill("fieldset:first-of-type .pairs:nth-of-type(3) input:nth-of-type(2)", "1")
            await tab.tab.click("text=Decide again")
            await tab.tab.wait_for_selector("text=It would fit")
            assert tab.wrong == []


async def test_five_thousand_nodes_are_smooth(chromium: Any) -> None:
    """A view within a second of being in step, and an explorer that scrolls at 30 frames a second, by the median."""
    cluster = await filled(5000, 2500)
    async with served(cluster) as page:
        await with_history(cluster, page.parts)
        async with let_in(page, chromium) as tab:
            loop = asyncio.get_running_loop()
            await tab.open("/", ".figure")
            for address, until in (
                ("/", ".figure"),
                ("/map?group=pool", "canvas[aria-label*='5,000 nodes']"),
                ("/pending", ".reason"),
            ):
                began = loop.time()
                await tab.open(address, until)
                assert loop.time() - began < 1.0 * BUSY, address
            await page.parts.attempts.decision(SUBJECT, 4)
            await tab.open(f"{POD}?tab=explorer&attempt=4", ".vbody .mark")
            took = await tab.tab.evaluate(FRAMES, 120)
            rows = await tab.tab.evaluate("document.querySelectorAll('.vbody .vrow').length")
            assert statistics.median(took) <= 1000 / 30 * BUSY
            assert rows < 80
            assert await tab.tab.evaluate("document.querySelector('.vtable').getAttribute('aria-rowcount')") == "5001"
            await in_step(page.parts, cluster.store.revision)
            assert tab.wrong == []
