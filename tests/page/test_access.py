"""Who may see the page: tokens, one-time links, cookies, hosts and origins."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.etcd.certificates import Authority
from tests.page.cluster import MemoryCluster, Page, served
from tests.page.small_cluster import TOKEN
from tests.patience import patient
from wharfinger.errors import UsageError
from wharfinger.etcd import keys
from wharfinger.page.access.guard import MARK_HEADER
from wharfinger.page.access.sessions import SESSION_LIFE, ForgeryMarks, OneTimeLinks, Sessions
from wharfinger.page.options import PageOptions

HTML = {"Accept": "text/html"}
EVERYTHING = (
    "/",
    "/map",
    "/api/v1/overview",
    "/api/v1/nodes",
    "/api/v1/stream",
    "/api/v1/nothing",
    "/assets/x.js",
    "/metrics",
)
WHAT_IF = "/api/v1/pods/default/big/what-if"


@pytest.mark.parametrize("path", EVERYTHING)
async def test_without_a_token_everything_is_401(stranger: aiohttp.ClientSession, path: str) -> None:
    async with stranger.get(path) as answer:
        assert answer.status == 401


async def test_health_is_open(stranger: aiohttp.ClientSession) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        async with stranger.get(path) as answer:
            assert (answer.status, await answer.text()) == (200, "ok\n")


async def test_a_wrong_token_is_401(stranger: aiohttp.ClientSession) -> None:
    async with stranger.get("/api/v1/status", headers={"Authorization": "Bearer wrong"}) as answer:
        assert answer.status == 401
        assert "wrong" not in await answer.text()


async def test_a_token_reads(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/session") as answer:
        assert answer.status == 200
        assert (await answer.json())["viewer"] == "alice"


async def test_a_link_is_exchanged_once_for_a_cookie(page: Page, stranger: aiohttp.ClientSession) -> None:
    link = page.link

    async with stranger.get(link, allow_redirects=False) as answer:
        cookie = answer.headers["Set-Cookie"]
        assert (answer.status, answer.headers["Location"]) == (303, "/")
    async with stranger.get("/api/v1/session") as answer:
        assert answer.status == 200
    stranger.cookie_jar.clear()
    async with stranger.get(link, allow_redirects=False) as answer:
        assert answer.status == 401

    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert page.links == [link, ""], "tokens let others in, so no link follows"


async def test_without_tokens_a_link_follows_the_one_that_was_used() -> None:
    async with (
        served(MemoryCluster(), PageOptions(0)) as page,
        aiohttp.ClientSession(page.server.url) as stranger,
    ):
        link = page.link
        async with stranger.get(link, allow_redirects=False) as answer:
            assert answer.status == 303
        assert len(page.links) == 2
        async with stranger.get(link, allow_redirects=False) as answer:
            assert answer.status == 401


async def test_only_members_of_a_named_group_act(tmp_path: Path) -> None:
    """Others look; so does who came by the link, which names no group. Groups count as the file is now."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('can,carol,1,"staff,operators"\nlook,lena,2,staff\n')
    tokens.chmod(0o600)
    cluster = MemoryCluster()
    await cluster.fleet()
    options = PageOptions(0, static_token_file=tokens, actor_groups=("operators",))
    pause = "/api/v1/fleets/common/actions/pause"
    form = {"reason": "look first", "confirm": "common"}
    async with served(cluster, options) as page:
        for token, status in (("look", 403), ("can", 200)):
            headers = {"Authorization": f"Bearer {token}"}
            async with aiohttp.ClientSession(page.server.url, headers=headers) as client:
                async with client.get("/api/v1/session") as answer:
                    assert (await answer.json())["actions"] is (status == 200)
                async with client.post(pause, json=form) as answer:
                    assert answer.status == status
                    assert "--allow-actions-to" in await answer.text() or status == 200
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(page.server.url, cookie_jar=jar) as browser:
            await (await browser.get(page.link)).read()
            async with browser.get("/api/v1/session") as answer:
                by_link = await answer.json()
            assert by_link["actions"] is False
            marked = {"Origin": page.server.url, MARK_HEADER: by_link["mark"]}
            async with browser.post(pause, json=form, headers=marked) as answer:
                assert answer.status == 403
            form_of_carol = {"token": "can", "then": "/"}
            async with browser.post("/session", data=form_of_carol, headers={"Origin": page.server.url}) as answer:
                assert answer.status == 200
            async with browser.get("/api/v1/session") as answer:
                assert (await answer.json())["actions"] is True


def test_groups_need_tokens_or_certificates() -> None:
    with pytest.raises(UsageError, match="give --static-token-file or --client-ca-file"):
        PageOptions(0, actor_groups=("operators",))


async def test_a_token_is_exchanged_for_a_cookie_at_the_door(page: Page, stranger: aiohttp.ClientSession) -> None:
    origin = {"Origin": page.server.url}
    async with stranger.get("/pods?state=waiting", headers=HTML) as answer:
        assert answer.status == 401
        assert 'value="/pods?state=waiting"' in await answer.text()
    wrong, right = {"token": "no", "then": "/map"}, {"token": TOKEN, "then": "/map?by=state"}
    async with stranger.post("/session", data=wrong, headers=origin | HTML, allow_redirects=False) as answer:
        assert answer.status == 401
    async with stranger.post("/session", data=right, headers={"Origin": "http://evil.example"}) as answer:
        assert answer.status == 403
    async with stranger.post("/session", data=right, headers=origin, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/map?by=state")
    async with stranger.get("/map") as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "then", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)", "/api/v1/x"]
)
async def test_the_door_leads_nowhere_else(page: Page, stranger: aiohttp.ClientSession, then: str) -> None:
    form = {"token": TOKEN, "then": then}
    async with stranger.post(
        "/session", data=form, headers={"Origin": page.server.url}, allow_redirects=False
    ) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")


async def test_a_link_from_another_site_comes_again_from_here(stranger: aiohttp.ClientSession) -> None:
    """A strict cookie is not sent then, so the door asks once more before it shows itself."""
    async with stranger.get("/map?by=state", headers=HTML | {"Sec-Fetch-Site": "cross-site"}) as answer:
        assert answer.status == 401
        assert '<meta http-equiv="refresh" content="0; url=/map?by=state">' in await answer.text()


@pytest.mark.parametrize("host", ["evil.example", "evil.example:10280", "127.0.0.1.evil.example", ""])
async def test_a_host_that_is_not_on_the_list_is_421(client: aiohttp.ClientSession, host: str) -> None:
    for path in ("/", "/api/v1/status", "/api/v1/stream", "/login?link=x"):
        async with client.get(path, headers={"Host": host}) as answer:
            assert answer.status == 421


async def test_a_named_host_is_served(page: Page, client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/status", headers={"Host": "localhost:1"}) as answer:
        assert answer.status == 200


async def test_a_foreign_origin_is_403(client: aiohttp.ClientSession) -> None:
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "same-site"}):
        async with client.post(WHAT_IF, json={}, headers=headers) as answer:
            assert answer.status == 403


async def test_a_cookie_alone_asks_for_no_work(page: Page, stranger: aiohttp.ClientSession) -> None:
    async with stranger.get(page.link) as answer:
        assert answer.status == 200
    async with stranger.get("/api/v1/session") as answer:
        mark = (await answer.json())["mark"]
    origin = {"Origin": page.server.url}

    for headers, status in (
        ({}, 403),
        (origin, 403),
        (origin | {MARK_HEADER: "0" * 64}, 403),
        ({MARK_HEADER: mark}, 403),
        (origin | {MARK_HEADER: mark}, 200),
    ):
        async with stranger.post(WHAT_IF, json={}, headers=headers) as answer:
            assert answer.status == status, headers


async def test_actions_do_not_exist(page: Page, client: aiohttp.ClientSession) -> None:
    for path in ("/api/v1/actions/fleets/common/undo", "/api/v1/fleets/common/pause", "/actions"):
        async with client.post(path, json={"reason": "because"}, headers={"Origin": page.server.url}) as answer:
            assert answer.status == 404


async def test_actions_have_a_reason_and_a_confirmation(token_file: Path) -> None:
    cluster = MemoryCluster()
    await cluster.fleet()
    options = PageOptions(0, static_token_file=token_file, allow_actions=True)
    path = "/api/v1/fleets/common/actions"
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with served(cluster, options) as page, aiohttp.ClientSession(page.server.url, headers=headers) as client:
        for verb, form, status in (
            ("pause", {}, 400),
            ("pause", {"reason": " ", "confirm": "common"}, 400),
            ("pause", {"reason": "look first", "confirm": "other"}, 400),
            ("destroy", {"reason": "look first", "confirm": "common"}, 404),
            ("pause", {"reason": "look first", "confirm": "common"}, 200),
        ):
            async with client.post(f"{path}/{verb}", json=form) as answer:
                assert answer.status == status, (verb, form)
        foreign = {"Origin": "http://evil.example"}
        async with client.post(f"{path}/resume", json=form, headers=foreign) as answer:
            assert answer.status == 403
        kv = (await cluster.store.get(keys.fleet("common"))).kv
        assert kv is not None
        written = json.loads(kv.value)
        assert written["spec"]["paused"] is True
        assert "alice" in json.dumps(written["metadata"])
        assert "look first" in json.dumps(written["metadata"])
        async with client.post(
            "/api/v1/update-runs/nothing/approve", json={"reason": "r", "confirm": "nothing", "stage": "s"}
        ) as answer:
            assert answer.status == 404


async def test_signing_out_ends_the_session(page: Page, stranger: aiohttp.ClientSession) -> None:
    await (await stranger.get(page.link)).read()
    async with stranger.get("/api/v1/session") as answer:
        mark = (await answer.json())["mark"]
    cookies = {cookie.key: cookie.value for cookie in stranger.cookie_jar}
    async with stranger.post("/sign-out", headers={"Origin": page.server.url, MARK_HEADER: mark}) as answer:
        assert answer.status == 204
    async with stranger.get("/api/v1/session", cookies=cookies) as answer:
        assert answer.status == 401


async def test_a_token_that_is_taken_away_ends_its_sessions(
    page: Page, stranger: aiohttp.ClientSession, token_file: Path
) -> None:
    """Cookie and stream end as the token does; who came by a link stays."""
    origin = {"Origin": page.server.url}
    async with stranger.post("/session", data={"token": TOKEN}, headers=origin) as answer:
        assert answer.status == 200
    async with stranger.get("/api/v1/session") as answer:
        told = await answer.json()
        assert (told["viewer"], told["signOut"]) == ("alice", True)
    jar = aiohttp.CookieJar(unsafe=True)
    async with (
        stranger.get("/api/v1/stream", params={"topics": "status"}) as stream,
        aiohttp.ClientSession(page.server.url, cookie_jar=jar) as by_link,
    ):
        await (await by_link.get(page.link)).read()
        token_file.write_text("another,bob,2\n")
        static: Any = page.server._guard._authenticator._static
        static._changes._looked = float("-inf")
        async with stranger.get("/api/v1/session") as answer:
            assert answer.status == 401
        async with stranger.post(WHAT_IF, json={}, headers=origin | {MARK_HEADER: told["mark"]}) as answer:
            assert answer.status == 401
        await page.server._streams.check()
        await asyncio.wait_for(stream.content.read(), patient(20))
        async with by_link.get("/api/v1/session") as answer:
            assert answer.status == 200
        token_file.write_text(f"{TOKEN},alice,1\n")
        static._changes._looked = float("-inf")
        async with stranger.get("/api/v1/session") as answer:
            assert answer.status == 401, "the session has ended, whatever the file has now"


async def test_signing_out_ends_the_streams(page: Page, stranger: aiohttp.ClientSession) -> None:
    await (await stranger.get(page.link)).read()
    async with stranger.get("/api/v1/session") as answer:
        mark = (await answer.json())["mark"]
    async with stranger.get("/api/v1/stream", params={"topics": "status"}) as stream:
        assert (await stream.content.readline()).startswith(b"retry")
        headers = {"Origin": page.server.url, MARK_HEADER: mark}
        async with stranger.post("/sign-out", headers=headers) as answer:
            assert answer.status == 204
        await asyncio.wait_for(stream.content.read(), patient(20))


async def test_a_token_has_nothing_to_sign_out_of(client: aiohttp.ClientSession) -> None:
    async with client.get("/api/v1/session") as answer:
        assert (await answer.json())["signOut"] is False


@pytest.mark.parametrize("address", ["0.0.0.0", "::"])
async def test_the_announced_link_works_on_every_address(tmp_path: Path, address: str) -> None:
    authority = Authority(tmp_path, "page-ca")
    pair = authority.sign("server", host=socket.gethostname())
    options = PageOptions(0, address, cert_file=pair.cert, key_file=pair.key)
    context = ssl.create_default_context(cafile=str(authority.pem))
    context.check_hostname = False  # certificates of this authority are for addresses
    async with served(MemoryCluster(), options) as page:
        link = urlsplit(page.link)
        assert link.hostname == socket.gethostname().lower()
        loopback = "127.0.0.1" if address == "0.0.0.0" else "[::1]"
        connector = aiohttp.TCPConnector(ssl=context)
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(
            f"https://{loopback}:{link.port}", connector=connector, cookie_jar=jar
        ) as client:
            for host in ("localhost", "127.0.0.1", "[::1]", link.netloc):
                async with client.get("/api/v1/status", headers={"Host": host}) as answer:
                    assert answer.status == 401, host
            for host in ("evil.example", "0.0.0.0", "10.1.2.3"):
                async with client.get("/api/v1/status", headers={"Host": host}) as answer:
                    assert answer.status == 421, host
            path = f"{link.path}?{link.query}"
            async with client.get(path, headers={"Host": link.netloc}, allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/")


def test_the_first_host_that_was_given_is_announced() -> None:
    files = {"cert_file": Path("c"), "key_file": Path("k")}
    assert PageOptions(0, "0.0.0.0", hosts=("Page.example", "other.example"), **files).announced == "page.example"
    assert PageOptions(0, "0.0.0.0", hosts=("[fd00::1]",), **files).announced == "fd00::1"
    assert PageOptions(0, "10.0.0.1", hosts=("page.example",), **files).announced == "10.0.0.1"
    assert "localhost" not in PageOptions(0, "10.0.0.1", **files).allowed_hosts()


async def test_other_methods_and_bodies_are_refused(client: aiohttp.ClientSession) -> None:
    async with client.delete("/api/v1/status") as answer:
        assert answer.status == 405
    async with client.get("/api/v1/status", data=b"x") as answer:
        assert answer.status == 413


def test_sessions_end_and_are_bounded() -> None:
    now = [0.0]
    sessions = Sessions(lambda: now[0])
    first = sessions.open("a")
    for _ in range(1000):
        sessions.open("b")

    assert len(sessions) == 1000
    assert sessions.find(first) is None, "the oldest one made room"
    last = sessions.open("c")
    now[0] = SESSION_LIFE + 1
    assert sessions.find(last) is None
    assert sessions.find("") is None


def test_a_link_that_was_spent_is_no_link() -> None:
    announced: list[str] = []
    links = OneTimeLinks(announced.append)
    assert not links.spend("")
    links.renew()
    [first] = announced

    assert not links.spend("other")
    assert links.spend(first)
    assert not links.spend(first)
    assert links.spend(announced[-1])


def test_a_mark_is_of_one_session() -> None:
    marks = ForgeryMarks()

    assert marks.holds("a", marks.of("a"))
    assert not marks.holds("b", marks.of("a"))
    assert not marks.holds("a", "ä")


@pytest.mark.parametrize(
    ("address", "more"),
    [
        ("0.0.0.0", {}),
        ("10.0.0.1", {"static_token_file": "tokens"}),
        ("127.0.0.1", {"client_ca_file": "ca.pem"}),
        ("127.0.0.1", {"hosts": ("a b",)}),
        ("127.0.0.1", {"temporal_ui": "javascript:alert(1)"}),
    ],
)
def test_options_that_would_be_unsafe_are_refused(address: str, more: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        PageOptions(0, address, **more)  # type: ignore[arg-type]
