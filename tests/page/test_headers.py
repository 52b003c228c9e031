"""What browsers are told: policies, kinds of content, what may be kept; and that assets keep to them."""

from __future__ import annotations

import re
from pathlib import Path

import aiohttp
import pytest

import wharfinger.page
from wharfinger.page.shell import Shell

ASSETS = Path(wharfinger.page.__file__).parent / "assets"


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
    for path in ("../server.py", "..%2fserver.py", "index.html/../../server.py", "nothing.js"):
        async with client.get(f"{prefix}{path}") as answer:
            assert answer.status == 404


def test_assets_import_what_is_there_and_nothing_else() -> None:
    modules = list(ASSETS.rglob("*.js"))
    assert len(modules) > 10
    for module in modules:
        text = module.read_text()
        for target in re.findall(r'from "([^"]+)"', text):
            assert (module.parent / target).is_file(), f"{module.name}: {target}"
        assert "innerHTML" not in text
        assert "eval(" not in text
        for address in re.findall(r"https?://[^\s\"'`]+", text):
            assert address == "http://www.w3.org/2000/svg", f"{module.name}: {address}"


def test_every_view_of_the_router_is_an_address_of_the_shell() -> None:
    text = (ASSETS / "app.js").read_text()
    views = set(re.findall(r'module: "([a-z]+)"', text))

    assert views == {path.stem for path in (ASSETS / "views").glob("*.js")} - {"explorer", "difference", "whatif"}
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
        assert Shell.is_view(path)
    assert not Shell.is_view("/api/v1/x")
