"""The table of views: every name can be imported, and one name is all that a view needs to appear."""

from __future__ import annotations

import json
import os.path
import re
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import aiohttp
import pytest

import wharfinger
from tests.page import browser
from tests.page.cluster import MemoryCluster, served
from tests.page.other_wing.view import QuotasView
from tests.page.small_cluster import TOKEN
from wharfinger.page.options import PageOptions
from wharfinger.page.parts import PageView
from wharfinger.page.views import VIEWS, MenuEntry
from wharfinger.page.web.shell import Shell

PACKAGE = Path(wharfinger.__file__).parent
OTHER_WING = "tests.page.other_wing.view:QuotasView"


def menu_of(shell: Shell) -> list[dict[str, Any]]:
    """The menu as browsers read it."""
    [text] = re.findall('<script type="application/json" id="menu">(.+)</script>', shell.page.decode())
    return list(json.loads(text))


@pytest.mark.parametrize("name", VIEWS)
def test_each_name_of_the_table_is_a_view(name: str) -> None:
    assert issubclass(resolve_name(name), PageView)


def test_entries_of_the_menu_do_not_collide() -> None:
    entries: list[MenuEntry] = [entry for name in VIEWS for entry in resolve_name(name).menu]
    keys = [entry.key for entry in entries if entry.key]

    assert len({entry.order for entry in entries}) == len(entries)
    assert len(set(keys)) == len(keys)
    assert len({path for entry in entries for path in entry.views}) == sum(len(entry.views) for entry in entries)
    assert sum(bool(entry.counts) for entry in entries) <= 1


def test_every_address_has_a_module_that_is_served() -> None:
    shell = Shell()
    modules = [shell.prefix + module for entry in menu_of(shell) for module in entry["views"].values()]

    assert modules
    assert all(shell.asset(module) for module in modules)


def test_every_module_is_opened_by_the_menu_or_imported_by_one_that_is() -> None:
    shell = Shell()
    loaded = {module for entry in menu_of(shell) for module in entry["views"].values()}
    loaded.update(re.findall(rf'<script type="module" src="{shell.prefix}([^"]+)"', shell.page.decode()))
    waiting = list(loaded)
    while waiting:
        module = waiting.pop()
        for target in re.findall(r'from "([^"]+)"', (PACKAGE / module).read_text()):
            imported = os.path.normpath(os.path.join(os.path.dirname(module), target))
            if imported not in loaded:
                loaded.add(imported)
                waiting.append(imported)

    assert {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.js")} == loaded


def test_menu_has_the_order_of_its_entries() -> None:
    titles = [entry["title"] for entry in menu_of(Shell((*VIEWS, OTHER_WING)))]

    known = ["Overview", "Map", "Pending", "Pods", "Gangs", "Quotas", "Fleets", "Placements", "Kubernetes", "Replays"]
    assert [title for title in titles if title in known] == known


def test_only_addresses_of_registered_views_are_views() -> None:
    with_quotas, without = Shell((*VIEWS, OTHER_WING)), Shell()

    assert with_quotas.is_view("/quotas/a")
    assert not with_quotas.is_view("/quotas/a/b")
    assert not without.is_view("/quotas")


async def test_view_of_another_wing_is_served_by_its_name_alone(token_file: Path) -> None:
    options = PageOptions(0, static_token_file=token_file)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with (
        served(MemoryCluster(), options, (*VIEWS, OTHER_WING)) as page,
        aiohttp.ClientSession(page.server.url, headers=headers) as session,
    ):
        async with session.get("/quotas/team-a") as answer:
            assert answer.status == 200
            assert '"tests/page/other_wing/quotas.js"' in await answer.text()
        async with session.get(f"{Shell((*VIEWS, OTHER_WING)).prefix}tests/page/other_wing/quotas.js") as answer:
            assert (answer.status, answer.content_type) == (200, "text/javascript")
        async with session.get("/api/v1/quotas") as answer:
            assert await answer.json() == {"quotas": []}
        async with session.get("/api/v1/status") as answer:
            assert (await answer.json())["quotas"] is False


@pytest.mark.skipif(not browser.there(), reason=browser.MISSING)
@pytest.mark.long
@pytest.mark.timeout(120)
async def test_view_of_another_wing_appears_in_the_browser() -> None:
    """Its entry comes with what there is to show, its address opens its module, its topic is followed."""
    async with (
        served(MemoryCluster(), views=(*VIEWS, OTHER_WING)) as page,
        browser.launched() as chromium,
    ):
        tab = await chromium.new_page()
        wrong: list[str] = []
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        await tab.goto(page.link)
        await tab.wait_for_selector("nav >> text=Fleets")
        assert await tab.locator("nav >> text=Quotas").count() == 0

        page.parts.view(QuotasView).quotas = ["team-a"]
        await tab.click("nav >> text=Quotas")

        await tab.wait_for_selector("h1 >> text=Quotas: team-a")
        page.parts.view(QuotasView).quotas = ["team-a", "team-c"]
        await tab.wait_for_selector("h1 >> text=Quotas: team-a, team-c")
        assert await tab.get_attribute("[aria-current]", "href") == "/quotas"
        await tab.goto(f"{page.server.url}/quotas/team-b")
        await tab.wait_for_selector("h1 >> text=team-b")
        await tab.keyboard.press("g")
        await tab.keyboard.press("q")
        await tab.wait_for_selector("h1 >> text=Quotas: team-a, team-c")
        assert wrong == []
