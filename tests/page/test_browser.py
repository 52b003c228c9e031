"""The page in a real, headless Chromium: views, colours, keys, hostile names, speed. Skipped where there is none."""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.page import browser
from tests.page.cluster import SUBJECT, Page, filled, in_step, served, with_history
from tests.page.pictures import POD, TEMPORAL_UI, VIEWS
from tests.page.replay_reports import filled_folder
from wharfinger.errors import ServerError
from wharfinger.etcd import keys
from wharfinger.fleet.page.view import FleetsView
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.options import PageOptions
from wharfinger.scheduling.page.view import SchedulingView
from wharfinger.testing import node_manifest, pod_manifest

pytestmark = [
    pytest.mark.skipif(not browser.there(), reason=browser.MISSING),
    pytest.mark.long,
    pytest.mark.timeout(300),
]
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
EVIL = "/pods/default/evil"
HOSTILE = "<script>window.hit=1</script><img src=x onerror=window.hit=1>\u202etxt\u0007"
DONE = {
    "explorer": ".vbody .pill",
    "difference": ".compare",
    "what-if": "summary",
    "pod": ".attempts",
    "replay": ".differing",
    "replay-beside": ".compare",
}
BUSY = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
"""How many processes want each core: what is promised of a machine of its own takes so much longer here."""
TURNED = """[...document.querySelectorAll("*")].flatMap((one) => [...one.attributes]).filter(
  (one) => !["href", "value"].includes(one.name) && /[\u202e\u0007]/.test(one.value)).map((one) => one.name)"""
"""Attributes in which others' marks are obeyed."""


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


async def test_every_view_is_quiet_and_accessible(chromium: Any, tmp_path: Path) -> None:
    """No error, no request to another host, nothing serious for axe-core, nothing wider than a phone."""
    cluster = await filled(240, 1500)
    replays = filled_folder(tmp_path / "replays")
    async with served(cluster, PageOptions(0, temporal_ui=TEMPORAL_UI, replays_dir=replays)) as page:
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
        known = PodKey("default", "evil")
        page.parts.view(SchedulingView).attempts.record(known, page.parts.following.cache.pods[known], [])  # type: ignore[attr-defined]
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
            assert await tab.tab.evaluate(TURNED) == []
        shown = await tab.text()
        assert "<script>window.hit=1</script>" in shown
        assert "\\u202e" in shown, "marks that turn writing around are spelt out"
        assert "\u202e" not in shown
        assert tab.wrong == []
        await tab.open("/pods/default/%E2%80%AEgnp")
        assert (await tab.tab.title()).startswith("default/\\u202egnp")


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

        page.store.fail_reads(6)
        await tab.tab.wait_for_selector(".banner >> text=etcd has not answered", timeout=15_000)
        await tab.tab.wait_for_selector(".state.good", timeout=15_000)
        assert await tab.tab.query_selector(".banner") is None
        assert tab.wrong == []


async def test_an_open_page_whose_process_died_leads_to_the_door(chromium: Any) -> None:
    """It says that it is away; the one that comes after it knows no cookie, and the door says how to come in."""
    cluster = await filled(12, 20)
    async with served(cluster) as page, let_in(page, chromium) as tab:
        await tab.open("/pending", ".reason")
        port = int(page.server.url.rpartition(":")[2])
        await page.server.stop()
        await tab.tab.wait_for_selector(".banner >> text=process does not answer", timeout=15_000)
        assert await tab.tab.query_selector(".reason"), "what was seen last stays"

        async with served(cluster, PageOptions(port)) as another:
            await tab.tab.wait_for_selector("text=Open the one-time link", timeout=30_000)
            await tab.tab.goto(another.link)
            await tab.tab.wait_for_selector(".state.good", timeout=15_000)
            await tab.open("/pending", ".reason")


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


async def test_what_is_away_is_said_and_comes_back_by_itself(chromium: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that is opened meanwhile says what it lacks; nobody has to load it again."""

    async def silent(*_: Any) -> Any:
        raise ServerError("it does not answer")

    cluster = await filled(12, 20)
    async with served(cluster) as page, let_in(page, chromium) as tab:
        await with_history(cluster, page.parts)
        for address, part, name, until in (
            ("/fleets", page.parts.view(FleetsView).fleets, "all", "text=4 ready"),
            (POD, page.parts.view(SchedulingView).attempts, "explained", ".attempts"),
        ):
            with monkeypatch.context() as away:
                away.setattr(part, name, silent)
                await tab.open(address, ".trouble >> text=it does not answer")
                assert await tab.tab.query_selector(until) is None
            await tab.tab.wait_for_selector(until, timeout=10_000)
            await tab.tab.wait_for_selector(".trouble", state="detached")

        with monkeypatch.context() as away:
            away.setattr(page.parts.view(SchedulingView).attempts, "explained", silent)
            await cluster.refusal(SUBJECT.namespace, SUBJECT.name, ("NodeResourcesFit",), "no", attempt=5)
            await tab.tab.wait_for_selector(".trouble")
            assert await tab.tab.query_selector(".attempts"), "what was read is kept"
        await tab.tab.wait_for_selector(".trouble", state="detached")
        assert [one for one in tab.wrong if "503" not in one] == []


async def test_an_address_has_filters_order_and_the_form_in_it(chromium: Any) -> None:
    cluster = await filled(120, 600)
    async with served(cluster) as page:
        await with_history(cluster, page.parts)
        async with let_in(page, chromium) as tab:
            numbers = []
            for more in ("", "&namespace=batch", "&selector=pool in (gpu)", "&extra=example.com/none=1"):
                await tab.open(f"/map?by=fits&cpu=4&memory=16Gi{more}", ".scale b")
                await tab.tab.wait_for_timeout(200)
                numbers.append(int((await tab.text(".scale b")).split()[0].replace(",", "")))
            assert numbers[0] == numbers[1] > numbers[2] > numbers[3] == 0, "room is what all pods leave on these nodes"
            assert "no node offers example.com/none" in await tab.text(".scale")

            await tab.open(f"{POD}?tab=explorer&attempt=1", ".vbody .mark")
            await tab.tab.click("button:text-is('refused')")
            await tab.tab.fill("input[type=search]", "gpu-a")
            await tab.tab.click("role=columnheader >> text=node")
            shown = await tab.text(".toolbar [role=status]")
            await tab.tab.goto(tab.tab.url)
            await tab.tab.wait_for_selector(f".toolbar [role=status] >> text={shown}")
            assert "show=refused&sort=node" in tab.tab.url.replace("name=gpu-a&", "")
            assert await tab.tab.get_attribute("[aria-sort=ascending]", "role") == "columnheader"

            await tab.open(f"{POD}?tab=what-if", "summary")
            await tab.tab.click("fieldset:first-of-type .pairs:nth-of-type(3) button")
            async with tab.tab.expect_request("**/what-if") as asked:
                await tab.tab.click("text=Decide again")
            assert (await asked.value).post_data_json == {"requests": {"nvidia.com/gpu": "0"}}
            await tab.tab.wait_for_selector(".compare")
            await tab.tab.goto(tab.tab.url)
            await tab.tab.wait_for_selector("summary")
            line = "fieldset:first-of-type .pairs:nth-of-type(3) input"
            assert [await one.input_value() for one in await tab.tab.query_selector_all(line)] == [
                "nvidia.com/gpu",
                "0",
            ]

            await tab.tab.evaluate(
                "history.pushState(null, '', '/pods/a/%zz'); dispatchEvent(new PopStateEvent('popstate'))"
            )
            await tab.tab.wait_for_selector("text=There is no such page")
            assert tab.wrong == []


async def test_a_phone_reaches_everything_and_signing_out_ends_it(chromium: Any) -> None:
    cluster = await filled(12, 20)
    async with served(cluster) as page, let_in(page, chromium, PHONE) as tab:
        await with_history(cluster, page.parts)
        await tab.open(f"{POD}?tab=what-if", "summary")
        button = tab.tab.get_by_role("button", name="Decide again")
        assert await button.evaluate(
            "(one) => { const box = one.getBoundingClientRect();"
            " return document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2) === one; }"
        ), "nothing is over the button"
        pending = page.parts.view(SchedulingView).pending.number()
        for address in ("/", "/pending", "/map", "/fleets"):
            await tab.open(address, f".tally >> text={pending}")
        narrowest = await tab.tab.evaluate(
            "Math.min(...[...document.querySelectorAll('td.waits')].map((one) => one.offsetWidth))"
        )
        assert narrowest > 120
        await tab.tab.click("header button[aria-label^='Sign out']")
        await tab.tab.wait_for_selector("input[type=password]")
        assert [one for one in tab.wrong if "401" not in one] == []


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
            await page.parts.view(SchedulingView).attempts.decision(SUBJECT, 4)
            await tab.open(f"{POD}?tab=explorer&attempt=4", ".vbody .mark")
            took = await tab.tab.evaluate(browser.FRAMES, 120)
            rows = await tab.tab.evaluate("document.querySelectorAll('.vbody .vrow').length")
            assert statistics.median(took) <= 1000 / 30 * BUSY
            assert rows < 80
            assert await tab.tab.evaluate("document.querySelector('.vtable').getAttribute('aria-rowcount')") == "5001"
            await in_step(page.parts, cluster.store.revision)
            assert tab.wrong == []
