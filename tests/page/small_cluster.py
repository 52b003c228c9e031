"""A small cluster with its page, and a client of the page with a token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.page.cluster import MemoryCluster, Page, served
from wharfinger.page.options import PageOptions

TOKEN = "s3cret-of-alice"


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.csv"
    path.write_text(f"{TOKEN},alice,1\n")
    return path


@pytest.fixture
async def page(token_file: Path) -> AsyncIterator[Page]:
    """Three nodes, two bound pods, and three that wait for different reasons."""
    cluster = MemoryCluster()
    await cluster.worker(0)
    await cluster.profile()
    for name, zone in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        await cluster.node(name, "4", labels={"zone": zone})
    await cluster.pod("web-1", "1", nodeName="n1", labels={"app": "web"})
    await cluster.pod("web-2", "2", "other", nodeName="n2", labels={"app": "web"})
    await cluster.pod("big", "16", labels={"app": "batch"})
    await cluster.refusal("default", "big", ("NodeResourcesFit",), "0/3 nodes are available: 3 Insufficient cpu.")
    await cluster.pod("held", "1", schedulingGates=[{"name": "example.com/quota"}])
    await cluster.pod("strange", "1", schedulerName="nobody")
    async with served(cluster, PageOptions(0, static_token_file=token_file)) as found:
        yield found


@pytest.fixture
async def client(page: Page) -> AsyncIterator[aiohttp.ClientSession]:
    """Asks with the token."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(page.server.url, headers=headers) as session:
        yield session


@pytest.fixture
async def stranger(page: Page) -> AsyncIterator[aiohttp.ClientSession]:
    """Asks without anything, and keeps what cookies it gets."""
    jar = aiohttp.CookieJar(unsafe=True)  # of an address without a name
    async with aiohttp.ClientSession(page.server.url, cookie_jar=jar) as session:
        yield session
