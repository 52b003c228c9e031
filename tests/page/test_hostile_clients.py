"""Clients that mean harm: slow forms, floods of streams and topics, what is no request, and wrong tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.event_loop import watched_loop
from tests.page.cluster import MemoryCluster, Page, in_step, served
from tests.page.small_cluster import TOKEN
from tests.patience import patient
from wharfinger.page.access import admitting
from wharfinger.page.access.admitting import FormReading, ListTurns, OpenStreams, WrongTokens
from wharfinger.page.options import PageOptions
from wharfinger.page.web.server import PageServer
from wharfinger.serving.listening import ConnectionLimits

STREAM = "/api/v1/stream"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}


async def spoken(page: Page, text: bytes) -> bytes:
    """Everything that the server says to these bytes."""
    place = urlsplit(page.server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(text)
    await writer.drain()
    said = await asyncio.wait_for(reader.read(), patient(20))
    writer.close()
    return said


@pytest.mark.parametrize(
    "request_",
    [
        b"FOO BAR BAZ\r\n\r\n",
        b"GET /api/v1/status?secret-word HTTP/1.1\r\nHost: a\r\nHost: b\r\nAuthorization: Bearer secret-word\r\n\r\n",
        b"GET /" + b"secret-word" * 900 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"secret-word" * 900 + b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01secret-word",
    ],
)
async def test_what_is_no_request_is_not_repeated(page: Page, request_: bytes) -> None:
    head, _, body = (await spoken(page, request_ + b"\r\n\r\n")).partition(b"\r\n\r\n")

    assert b" 400 " in head.splitlines()[0]
    assert not {b"aiohttp", b"Python"} & set(head.replace(b"/", b" ").split())
    for header in (b"Content-Security-Policy: default-src 'none'", b"X-Content-Type-Options: nosniff", b"no-store"):
        assert header in head
    assert b"secret-word" not in body
    assert body == b'{"error":"BadRequest","message":"this cannot be read","code":400}'


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_other_methods_without_a_credential_are_401(stranger: aiohttp.ClientSession, method: str) -> None:
    async with stranger.request(method, "/api/v1/status") as answer:
        assert answer.status == 401


async def slow_form(page: Page) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Begin to send a token, and do not go on."""
    place = urlsplit(page.server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = f"POST /session HTTP/1.1\r\nHost: {place.netloc}\r\nOrigin: {page.server.url}\r\nContent-Length: 100"
    writer.write(f"{head}\r\n\r\nt".encode())
    await writer.drain()
    return reader, writer


@asynccontextmanager
async def small_page(token_file: Path, monkeypatch: pytest.MonkeyPatch, connections: int) -> AsyncIterator[Page]:
    """It takes so many connections."""
    usual = PageServer.__init__

    def small(self: PageServer, *parts: Any, **more: Any) -> None:
        usual(self, *parts, **more, limits=ConnectionLimits(connections=connections, answer=75.0))

    monkeypatch.setattr(PageServer, "__init__", small)
    async with served(MemoryCluster(), PageOptions(0, static_token_file=token_file)) as page:
        yield page


async def all_busy(page: Page) -> None:
    """Wait until a request was read on every connection: none of them gives way because it is idle."""
    listener = page.server._http._listener
    assert listener is not None
    while not all(one.busy for one in listener._connections.values()):
        await asyncio.sleep(0.002)


async def test_slow_forms_do_not_throw_out_viewers(token_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        small_page(token_file, monkeypatch, 8) as page,
        aiohttp.ClientSession(page.server.url, headers=AUTHORIZED) as client,
        client.get(STREAM, params={"topics": "status"}) as stream,
    ):
        assert (await stream.content.readline()).startswith(b"retry")
        writers = []
        for _ in range(20):
            writers.append((await slow_form(page))[1])
            await all_busy(page)
        async with client.get("/api/v1/status") as answer:
            assert answer.status == 200
        await page.cluster.node("new")
        await in_step(page.parts, page.cluster.store.revision)
        said = b""
        while f'"revision":{page.cluster.store.revision}'.encode() not in said:
            said += await asyncio.wait_for(stream.content.readany(), patient(20))
            assert not stream.content.at_eof(), "the viewer was thrown out"
        for writer in writers:
            writer.close()


async def test_slow_forms_are_given_up(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitting, "FORM_WITHIN", 0.1)
    reader, writer = await slow_form(page)
    said = await asyncio.wait_for(reader.read(), patient(20))
    writer.close()

    assert b" 408 " in said.splitlines()[0]


async def test_of_many_forms_the_slowest_gives_way() -> None:
    forms, hold = FormReading(), asyncio.Event()

    async def never(_: Any) -> bytes:
        await hold.wait()
        return b""

    async def at_once(_: Any) -> bytes:
        return b"token=t"

    request: Any = None
    slow = [asyncio.create_task(forms.read(request, never)) for _ in range(admitting.FORMS_AT_ONCE)]
    await asyncio.sleep(0)
    assert await forms.read(request, at_once) == b"token=t"
    assert await asyncio.wait_for(slow[0], patient(20)) is admitting.TOO_SLOW
    assert not any(one.done() for one in slow[1:])
    hold.set()
    assert await asyncio.gather(*slow[1:]) == [b""] * (admitting.FORMS_AT_ONCE - 1)


class Someone:
    """A viewer."""

    def __init__(self, key: str) -> None:
        self.key = key


class Crowd:
    """Tasks that follow."""

    def __init__(self, most: int) -> None:
        self.inside: Any = set()
        self.gone: set[Any] = set()
        self.streams = OpenStreams(self._still_in, most, gone=lambda request: request in self.gone)
        self.tasks: list[asyncio.Task[None]] = []

    async def _still_in(self, request: Any) -> bool:
        return request in self.inside

    async def come(self, who: str, *made: str) -> str:
        """Answers why not; empty when it follows now."""
        refused = self.streams.refused(who, made)
        if refused is not None:
            return refused.reason
        self.inside.add(who)
        begun = asyncio.Event()

        async def follow() -> None:
            request: Any = who
            leave = self.streams.join(request, who, who, made)
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                leave()

        self.tasks.append(asyncio.create_task(follow(), name=who))
        await begun.wait()
        return ""

    def following(self) -> list[str]:
        return [one.get_name() for one in self.tasks if not one.cancelling() and not one.done()]


async def test_one_viewer_cannot_keep_others_out() -> None:
    crowd = Crowd(4)
    assert [await crowd.come("greedy") for _ in range(5)] == ["", "", "", "", "TooManyViewers"]
    assert [await crowd.come("other") for _ in range(3)] == ["", "", "TooManyViewers"]
    assert await crowd.come("third") == ""
    assert sorted(crowd.following()) in (["greedy", "other", "other", "third"], ["greedy", "greedy", "other", "third"])
    assert len(crowd.streams) == 4
    crowd.streams.end_all()


async def test_one_viewer_gets_so_many_streams_and_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admitting, "MOST_STREAMS_OF_ONE", 3)
    monkeypatch.setattr(admitting, "MOST_TOPICS_OF_ONE", 4)
    monkeypatch.setattr(admitting, "MOST_TOPICS_OF_ALL", 6)
    crowd = Crowd(100)
    assert await crowd.come("a", "1", "2", "3") == ""
    assert await crowd.come("a", "4", "5") == "TooManyTopics"
    assert await crowd.come("a", "1", "4") == ""
    assert await crowd.come("a", "1") == ""
    assert await crowd.come("a", "1") == "TooManyViewers"
    assert await crowd.come("b", "5", "6", "7") == "TooManyTopics"
    assert await crowd.come("b", "1", "2", "3", "4") == ""
    crowd.streams.end_all()


async def test_streams_of_closed_connections_count_no_more() -> None:
    crowd = Crowd(1)
    assert await crowd.come("a") == ""
    assert await crowd.come("b") == "TooManyViewers"
    crowd.gone.add("a")
    assert await crowd.come("b") == ""
    assert crowd.following() == ["b"]
    crowd.streams.end_all()


async def test_a_stream_that_was_closed_is_counted_no_more(page: Page) -> None:
    """Over real connections; nothing changes, so nothing is written that would fail."""
    async with aiohttp.ClientSession(page.server.url, headers=AUTHORIZED) as client:
        async with client.get(STREAM, params={"topics": "pod:default/big"}) as stream:
            await stream.content.readline()
        began = watched_loop().waited
        while len(page.server._streams) > 0:
            page.server._streams.refused("b", ())
            await asyncio.sleep(0.005)
            assert watched_loop().waited - began < 5, "less than until the next sign of life is written"


async def test_streams_end_with_their_session() -> None:
    crowd = Crowd(10)
    await crowd.come("a")
    await crowd.come("b")
    crowd.inside.discard("a")
    await crowd.streams.check()
    assert crowd.following() == ["b"]
    crowd.streams.end_session("b")
    assert crowd.following() == []


@pytest.mark.parametrize("topics", ["nothing", "overview?name=x", "pod:a", "nodes/x", "status,secrets", "pod:a/b/c"])
async def test_unknown_topics_are_refused(client: aiohttp.ClientSession, topics: str) -> None:
    async with client.get(STREAM, params={"topics": topics}) as answer:
        assert answer.status == 400
        assert (await answer.json())["error"] == "BadRequest"


async def test_others_are_served_between_many_topics(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each topic takes 20 ms here, as on a large cluster."""
    payload, made = page.parts._payload, 0

    def slow(topic: str) -> object | None:
        nonlocal made
        made += 1
        time.sleep(0.02)  # nothing is awaited: it is work
        return payload(topic)

    monkeypatch.setattr(page.parts.stream, "_source", slow)
    longest = 0
    async with aiohttp.ClientSession(page.server.url, headers=AUTHORIZED) as client, AsyncExitStack() as stack:
        for number in range(3):
            topics = ",".join(f"overview?namespace=n{number}-{one}" for one in range(24))
            await stack.enter_async_context(client.get(STREAM, params={"topics": topics}))
        made = 0
        while made < 80:
            before = made
            async with client.get("/livez") as answer:
                assert answer.status == 200
            longest = max(longest, made - before)
    assert longest < 35, "0.7 s; 72 topics without a pause take 1.4 s"


async def test_of_one_viewer_one_list_is_made_at_a_time() -> None:
    turns, running, most = ListTurns(), [], 0

    async def make(key: str) -> None:
        nonlocal most
        async with turns.turn(key):
            running.append(key)
            assert running.count(key) == 1
            most = max(most, len(running))
            await asyncio.sleep(0)
            running.remove(key)

    await asyncio.gather(*(make("abc"[number % 3]) for number in range(12)))
    assert most == admitting.LISTS_AT_ONCE
    assert not turns._of


async def test_wrong_tokens_never_keep_a_right_one_out(
    page: Page, stranger: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admitting, "MOST_WRONG", 3)
    wrong, path = {"Authorization": "Bearer wrong"}, "/api/v1/status"
    codes = []
    for headers in (wrong, wrong, wrong, wrong, AUTHORIZED):
        async with stranger.get(path, headers=headers) as answer:
            codes.append(answer.status)
    async with stranger.post("/session", data={"token": TOKEN}, headers={"Origin": page.server.url}) as answer:
        codes.append(answer.status)
    async with stranger.post("/session", data={"token": "no"}, headers={"Origin": page.server.url}) as answer:
        codes.append(answer.status)
    assert codes == [401, 401, 401, 429, 200, 200, 429]
    async with stranger.get(page.link) as answer:
        assert answer.status == 200, "who needs no token is let in"


def test_wrong_tokens_are_forgiven_after_a_minute() -> None:
    now = [0.0]
    wrong = WrongTokens(lambda: now[0])
    for _ in range(admitting.MOST_WRONG):
        assert not wrong.too_many("a")
        wrong.note("a")
    assert wrong.too_many("a")
    assert not wrong.too_many("b")
    now[0] = 61.0
    assert not wrong.too_many("a")
    wrong.note("a")
    assert not wrong.too_many("a")


async def test_a_viewer_that_stops_reading_is_dropped(page: Page) -> None:
    page.server._write_within = 0.2
    place = urlsplit(page.server.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=1024)
    head = f"GET {STREAM}?topics=status HTTP/1.1\r\nHost: {place.netloc}\r\n"
    writer.write(f"{head}Authorization: Bearer {TOKEN}\r\n\r\n".encode())
    await reader.readuntil(b"\r\n\r\n")
    async with asyncio.timeout(patient(10)):
        while not len(page.parts.stream):
            await asyncio.sleep(0.01)
        while len(page.parts.stream):
            for viewer in page.parts.stream._viewers:
                viewer.put(b": " + b"x" * 2**20 + b"\n\n")
            await asyncio.sleep(0.01)
    assert len(page.server._streams) == 0
    writer.close()
