"""What browsers are told: policies, kinds of content, what may be kept; and that assets keep to them."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

import wharfinger
from wharfinger.page.web.shell import Shell

PACKAGE = Path(wharfinger.__file__).parent
ASSETS = PACKAGE / "page/assets"


@pytest.mark.parametrize("path", ["/", "/pods/a/b", "/api/v1/status", "/api/v1/nothing"])
async def test_every_answer_has_the_strict_policy(client: aiohttp.ClientSession, path: str) -> None:
    async with client.get(path) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy, "nothing from other hosts"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["Cache-Control"] == "no-store"
        assert "Server" not in answer.headers
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_the_shell_names_assets_that_are_there(client: aiohttp.ClientSession) -> None:
    async with client.get("/") as answer:
        named = re.findall(r'(?:href|src)="(/assets/[^"]+)"', await answer.text())
    assert len(named) > 5
    for path in named:
        async with client.get(path) as answer:
            assert answer.status == 200, path
            assert "immutable" in answer.headers["Cache-Control"]


async def test_no_file_is_served_but_the_assets(client: aiohttp.ClientSession) -> None:
    prefix = Shell().prefix
    for path in (
        "../server.py",
        "fleet/page/view.py",
        "page/web/server.py",
        "page/assets/..%2fweb/server.py",
        "nothing.js",
    ):
        async with client.get(f"{prefix}{path}") as answer:
            assert answer.status == 404


def test_assets_import_what_is_there_and_nothing_else() -> None:
    modules = list(PACKAGE.rglob("*.js"))
    assert len(modules) > 20
    for module in modules:
        text = module.read_text()
        for target in re.findall(r'from "([^"]+)"', text):
            assert (module.parent / target).is_file(), f"{module.name}: {target}"
        assert "innerHTML" not in text
        assert "eval(" not in text
        for address in re.findall(r"https?://[^\s\"'`]+", text):
            assert address == "http://www.w3.org/2000/svg", f"{module.name}: {address}"


def test_views_have_the_addresses_that_are_documented() -> None:
    shell = Shell()
    for path in (
        "/",
        "/map",
        "/pending",
        "/pods",
        "/gangs",
        "/fleets",
        "/placements",
        "/kubernetes",
        "/alerts",
        "/nodes/n",
        "/pods/a/b",
        "/pending/x",
    ):
        assert shell.is_view(path)
    assert not shell.is_view("/api/v1/x")


LOST = (
    "/pods/a/%zz",
    "/pods/a/%ff",
    "/pods/a/b/c",
    "/pods/a",
    "/pending/a/b",
    "/pods/../../x",
    "/pods/a/..",
    "/pods//b",
    "/nodes/",
    "/nothing",
)


@pytest.mark.parametrize("path", LOST)
async def test_addresses_that_are_none_are_404(client: aiohttp.ClientSession, path: str) -> None:
    place = URL(f"{client._base_url}".rstrip("/") + path, encoded=True)
    async with aiohttp.ClientSession(headers=client.headers) as bare:
        async with bare.get(place, headers={"Accept": "text/html"}) as answer:
            text = await answer.text()
            assert (answer.status, answer.content_type) == (404, "text/html")
            assert '<a href="/">' in text
            assert "<script" not in text
        async with bare.get(place) as answer:
            assert answer.status == 404
            assert (await answer.json())["error"] == "NotFound"


@pytest.mark.parametrize(
    "path", ["/pods/a/b%2Fc", "/pods/%E2%80%AEa/b", "/runs/r", "/runs/ns/r", "/placements/ns%2Fa%2Fb"]
)
def test_addresses_of_views_are_found_as_they_are_sent(path: str) -> None:
    assert Shell().is_view(path)


def test_characters_that_nobody_sees_are_spelt_out() -> None:
    """Wherever text of others stands: titles and attributes go through the same expression."""
    dom, app = (ASSETS / "dom.js").read_text(), (ASSETS / "app.js").read_text()
    [written] = re.findall(r"const HIDDEN = /\[(.+)\]/gu;", dom)
    hidden = re.compile("[" + re.sub(r"\\u\{([0-9a-f]+)\}", lambda one: chr(int(one[1], 16)), written) + "]")
    marks = "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u2064\u2066\u2069\ufeff"
    for char in [*marks, "\x00", "\x1b", "\x7f", "\x9f", "\U000e0000", "\U000e0041", "\U000e007f"]:
        assert hidden.fullmatch(char), f"U+{ord(char):04X}"
    assert not hidden.search("a name, with ümläuts, 日本語, and 😀\n")
    assert len(re.findall(r"setAttribute\(name, .*said\(name, value\)", dom)) == 2
    assert "document.title = `${words" in app
    assert re.search(r"const words = .*readable\(", app)
