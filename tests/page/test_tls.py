"""The page over TLS: client certificates, cookies for TLS alone, and that it is served elsewhere only so."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.etcd.certificates import Authority
from tests.page.cluster import MemoryCluster, Page, served
from tests.page.small_cluster import TOKEN
from wharfinger.page.access.guard import MARK_HEADER
from wharfinger.page.options import PageOptions


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "page-ca")


@pytest.fixture
async def secured(authority: Authority, token_file: Path) -> AsyncIterator[Page]:
    cluster = MemoryCluster()
    await cluster.node("n")
    await cluster.pod("p")
    server = authority.sign("server", host="127.0.0.1")
    options = PageOptions(
        0, cert_file=server.cert, key_file=server.key, client_ca_file=authority.pem,
        static_token_file=token_file,
    )  # fmt: skip
    async with served(cluster, options) as page:
        yield page


def session(page: Page, authority: Authority, certificate: str = "") -> aiohttp.ClientSession:
    context = ssl.create_default_context(cafile=str(authority.pem))
    if certificate:
        mine = authority.sign(certificate)
        context.load_cert_chain(mine.cert, mine.key)
    connector = aiohttp.TCPConnector(ssl=context)
    return aiohttp.ClientSession(page.server.url, connector=connector, cookie_jar=aiohttp.CookieJar(unsafe=True))


async def test_a_client_certificate_opens_the_page(secured: Page, authority: Authority) -> None:
    async with session(secured, authority, "carol") as client, client.get("/api/v1/session") as answer:
        assert answer.status == 200
        assert (await answer.json())["viewer"] == "carol"
        assert "max-age" in answer.headers["Strict-Transport-Security"]
    async with session(secured, authority) as client, client.get("/api/v1/session") as answer:
        assert answer.status == 401


async def test_a_certificate_is_no_mark(secured: Page, authority: Authority) -> None:
    """Browsers show certificates to every request, also those that another site makes."""
    path, origin = "/api/v1/pods/default/p/what-if", {"Origin": secured.server.url}
    async with session(secured, authority, "carol") as client:
        async with client.get("/api/v1/session") as answer:
            mark = (await answer.json())["mark"]
        for headers, status in (({}, 403), (origin, 403), (origin | {MARK_HEADER: mark}, 200)):
            async with client.post(path, json={}, headers=headers) as answer:
                assert answer.status == status


async def test_cookies_go_over_tls_alone(secured: Page, authority: Authority) -> None:
    async with session(secured, authority) as client:
        async with client.get(secured.link, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"]
        async with client.get("/api/v1/session", headers={"Authorization": f"Bearer {TOKEN}"}) as answer:
            assert (await answer.json())["viewer"] == "alice"
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie
