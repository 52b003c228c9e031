"""Watches of `HttpApiClient`: lines, the first list, and everything that ends them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from tests.apiserver.scripted_server import bookmark, error_event, event, gone, lines, scripted_server, status
from tests.clock import Clock
from wharfinger.apiserver import watching
from wharfinger.apiserver.client import PODS, Batch, ChangeKind, ReadRefused
from wharfinger.apiserver.credentials import ApiClocks
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.apiserver.watching import EventDecoder, LineQueue, LineSplitter, LineTooLong
from wharfinger.errors import HistoryGone, UpstreamError, UpstreamUnavailable

FIRST = (
    "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    "&fieldSelector=status.phase%21%3DFailed"
)


async def shown(
    apiserver: HttpApiClient, revision: int | None, selector: str = ""
) -> tuple[list[Batch], UpstreamError]:
    """Everything that a watch shows, and what ends it."""
    batches: list[Batch] = []
    try:
        async with apiserver.watch(PODS, revision=revision, field_selector=selector) as following:
            async for batch in following:
                batches.append(batch)  # noqa: PERF401 - those before the error count
    except UpstreamError as error:
        return batches, error
    raise AssertionError("a watch ended without a reason")


def names(batches: list[Batch]) -> list[tuple[ChangeKind, str, int]]:
    changes = [change for batch in batches for change in batch.changes]
    return [(change.kind, change.object["metadata"]["name"], change.revision) for change in changes]


async def test_first_list_comes_by_the_watch_itself(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        first = event("ADDED", "a", 7) + event("ADDED", "b", 3) + bookmark(9, ends=True)
        return await lines(request, first, event("DELETED", "a", 12), bookmark(20), then="cut")

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        batches, error = await shown(apiserver, None, "status.phase!=Failed")
        await apiserver.close()

    assert names(batches) == [(ChangeKind.ADDED, "a", 7), (ChangeKind.ADDED, "b", 3), (ChangeKind.DELETED, "a", 12)]
    assert [batch.revision for batch in batches if batch.listed] == [9]
    assert {batch.revision for batch in batches if batch.changes and batch.changes[0].revision == 7} <= {0, 9}
    assert batches[-1].revision == 20
    assert isinstance(error, UpstreamUnavailable)
    assert server.heard[0].target == FIRST
    assert server.heard[0].headers["Accept-Encoding"] == "identity"


async def test_watch_resumes_with_bookmarks(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return await lines(request, event("MODIFIED", "a", 8), bookmark(11))

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        batches, error = await shown(apiserver, 7)
        await apiserver.close()

    assert server.heard[0].target == "/api/v1/pods?watch=1&resourceVersion=7&allowWatchBookmarks=true"
    assert names(batches) == [(ChangeKind.MODIFIED, "a", 8)]
    assert batches[-1].revision == 11
    assert not any(batch.listed for batch in batches)
    assert str(error).endswith("was ended by the server")


@pytest.mark.parametrize("code", [400, 422])
async def test_server_without_that_is_asked_for_pages(tmp_path: Path, code: int) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        query = request.query
        if "sendInitialEvents" in query:
            return status(code, "sendInitialEvents is forbidden", "Invalid")
        if "watch" in query:
            return await lines(request, event("ADDED", "c", 13))
        page = {"": ("a", "next"), "next": ("b", "")}[query.get("continue", "")]
        items = [{"metadata": {"name": page[0], "resourceVersion": "4"}}]
        return web.json_response({"metadata": {"resourceVersion": "12", "continue": page[1]}, "items": items})

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        batches, _ = await shown(apiserver, None)
        await apiserver.close()

    batches = [batch for batch in batches if batch.changes or batch.listed]
    assert [(batch.revision, batch.listed) for batch in batches] == [(0, False), (0, False), (12, True), (13, False)]
    assert names(batches) == [(ChangeKind.ADDED, "a", 4), (ChangeKind.ADDED, "b", 4), (ChangeKind.ADDED, "c", 13)]
    assert [one.target for one in server.heard[1:]] == [
        "/api/v1/pods?limit=500",
        "/api/v1/pods?limit=500&continue=next",
        "/api/v1/pods?watch=1&resourceVersion=12&allowWatchBookmarks=true",
    ]


async def test_forgotten_history_in_an_event_or_an_answer(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        if request.query["resourceVersion"] == "7":
            gone_event = error_event(410, "too old resource version: 7 (100)", "Expired")
            return await lines(request, event("ADDED", "a", 8), gone_event, then="hang")
        return status(410, "too old", "Gone")

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        batches, inside = await shown(apiserver, 7)
        _, real = await shown(apiserver, 6)
        await apiserver.close()

    assert names(batches) == [(ChangeKind.ADDED, "a", 8)], "what came before is shown first"
    assert isinstance(inside, HistoryGone)
    assert "too old resource version: 7 (100)" in str(inside)
    assert isinstance(real, HistoryGone)


async def test_other_errors_in_a_watch_are_unavailable(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return await lines(request, error_event(500, "etcd is away", "InternalError"), then="hang")

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        _, error = await shown(apiserver, 7)
        await apiserver.close()

    assert isinstance(error, UpstreamUnavailable)
    assert "code 500: etcd is away" in str(error)


@pytest.mark.parametrize("code", [403, 404])
async def test_refused_watch_has_its_code(tmp_path: Path, code: int) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return status(code, "no", "Forbidden")

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        _, error = await shown(apiserver, None)
        await apiserver.close()

    assert isinstance(error, ReadRefused)
    assert error.code == code
    assert len(server.heard) == 1


async def test_busy_server_says_when_to_come_again(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return status(429, "the watch cache is not ready", "TooManyRequests", **{"Retry-After": "1"})

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        _, error = await shown(apiserver, None)
        await apiserver.close()

    assert isinstance(error, UpstreamUnavailable)
    assert error.retry_after == 1.0


@pytest.mark.parametrize("first", [b"", event("ADDED", "a", 8)], ids=["from the start", "after a line"])
async def test_silent_watch_is_given_up(tmp_path: Path, first: bytes) -> None:
    """As one from a revision that the server does not have yet: it hangs."""

    async def answering(request: web.Request) -> web.StreamResponse:
        return await (lines(request, first, then="hang") if first else gone(request))

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(), ApiLimits(silence=0.3))
        batches, error = await shown(apiserver, 7)
        await apiserver.close()

    assert len(names(batches)) == bool(first)
    assert isinstance(error, UpstreamUnavailable)
    assert "silent for 0.3 s" in str(error) or "nothing was heard in time" in str(error)


async def test_cut_in_the_middle_of_a_line_keeps_the_whole_ones(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return await lines(request, event("ADDED", "a", 8) + event("ADDED", "b", 9)[:40])

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        batches, error = await shown(apiserver, 7)
        await apiserver.close()

    assert names(batches) == [(ChangeKind.ADDED, "a", 8)]
    assert batches[-1].revision == 8
    assert "in the middle of a line" in str(error)


@pytest.mark.parametrize(
    "line",
    [b"<html>\n", b"[1]\n", b'{"type": "ADDED", "object": {}}\n', b'{"type": "WHAT", "object": {"metadata": {}}}\n'],
)
async def test_line_that_is_no_event_ends_the_watch(tmp_path: Path, line: bytes) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return await lines(request, event("ADDED", "a", 8), line, then="hang")

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        batches, error = await shown(apiserver, 7)
        await apiserver.close()

    assert names(batches) == [(ChangeKind.ADDED, "a", 8)]
    assert isinstance(error, UpstreamUnavailable)
    assert "a line that is no event" in str(error)


async def test_connection_is_read_while_its_listener_is_busy(tmp_path: Path) -> None:
    """A server cuts off slow readers: all 20 MiB are taken before the listener asks for its second batch."""
    sent = asyncio.Event()
    blank = {"annotations": {"blank": "x" * 20_000}}

    async def answering(request: web.Request) -> web.StreamResponse:
        pieces = [event("ADDED", f"pod-{number}", number + 1, **blank) for number in range(1000)]
        response = await lines(request, *pieces, bookmark(2000, ends=True))
        sent.set()
        return response

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        async with apiserver.watch(PODS) as batches:
            seen = [await anext(batches)]
            await sent.wait()
            while not seen[-1].listed:
                seen.append(await anext(batches))
        await apiserver.close()

    assert sum(len(batch.changes) for batch in seen) == 1000


def test_lines_are_cut_wherever_pieces_end() -> None:
    whole = b"first\nsecond line\n\nthird\nrest"
    for size in range(1, len(whole) + 1):
        splitter = LineSplitter(100)
        found: list[bytes] = []
        for at in range(0, len(whole), size):
            found += splitter.feed(whole[at : at + size])
        assert found == [b"first", b"second line", b"third"]
        assert splitter.rest


def test_line_has_a_limit_also_while_it_is_incomplete() -> None:
    whole, growing = LineSplitter(10), LineSplitter(10)
    growing.feed(b"x" * 10)

    with pytest.raises(LineTooLong):
        whole.feed(b"x" * 11 + b"\n")
    with pytest.raises(LineTooLong):
        growing.feed(b"x")


async def test_queue_lets_its_reader_wait_above_its_limit() -> None:
    queue = LineQueue(10)
    queue.put([b"x" * 8, b"y" * 8])
    reader = asyncio.create_task(queue.room())
    await asyncio.sleep(0)
    full = not reader.done()
    queue.take()
    await reader

    assert full
    assert queue


async def test_end_of_a_queue_comes_after_its_lines() -> None:
    queue = LineQueue(10)
    queue.put([b"x"])
    queue.end(UpstreamUnavailable("cut"))
    await queue.filled()

    assert queue.take() == b"x"
    with pytest.raises(UpstreamUnavailable, match="cut"):
        await queue.filled()


@pytest.mark.parametrize("new", [b"NEW x", None], ids=["new", "ended"])
async def test_lines_gather_until_an_urgent_one_or_the_end(new: bytes | None) -> None:
    queue = LineQueue(100, urgent=b"NEW")
    for _ in range(2):
        queue.put([b"OLD x"])
        gathering = asyncio.create_task(queue.gather(60.0))
        await asyncio.sleep(0)
        waited = not gathering.done()
        if new is None:
            queue.end(UpstreamUnavailable("cut"))
        else:
            queue.put([new])
        await gathering
        while queue:
            queue.take()
        assert waited
        if new is None:
            break


async def test_lines_gather_no_longer_than_they_may() -> None:
    queue = LineQueue(100, urgent=b"NEW")
    queue.put([b"OLD x"])
    await queue.gather(0.01)

    assert queue.take() == b"OLD x"


async def test_changes_of_known_objects_come_in_one_batch(tmp_path: Path) -> None:
    """Also where the server sends each of them on its own; what is new ends the waiting."""

    async def answering(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (event("MODIFIED", "a", 2), event("MODIFIED", "b", 3), event("ADDED", "c", 4)):
            await response.write(piece)
            await asyncio.sleep(3 * watching.GATHER)
        return await gone(request)

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access())
        async with apiserver.watch(PODS, revision=1, gather=60.0) as batches:
            assert not (await anext(batches)).changes
            batch = await anext(batches)
        await apiserver.close()

    assert [change.object["metadata"]["name"] for change in batch.changes] == ["a", "b", "c"]


async def test_new_objects_that_follow_each_other_come_in_one_batch(tmp_path: Path) -> None:
    """The first one is shown at once, also after changes; the others wait until a batch may follow it."""
    begun, changed, seen, sent = (asyncio.Event() for _ in range(4))
    paused: list[float] = []

    async def answering(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await begun.wait()
        await response.write(event("MODIFIED", "z", 2))
        await changed.wait()
        await response.write(event("ADDED", "a", 3))
        await seen.wait()
        await response.write(event("ADDED", "b", 4))
        await asyncio.sleep(3 * watching.GATHER)
        await response.write(event("ADDED", "c", 5))
        sent.set()
        return await gone(request)

    async def pause(seconds: float) -> None:
        paused.append(seconds)
        await sent.wait()
        await asyncio.sleep(3 * watching.GATHER)

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(), clocks=ApiClocks(monotonic=Clock(), pause=pause))
        async with apiserver.watch(PODS, revision=1, gather=0.01) as batches:
            assert await anext(batches) == Batch((), 1), "nothing has changed before"
            begun.set()
            await anext(batches)
            changed.set()
            first = await anext(batches)
            seen.set()
            second = await anext(batches)
        await apiserver.close()

    names = [[change.object["metadata"]["name"] for change in batch.changes] for batch in (first, second)]
    assert (names, paused) == ([["a"], ["b", "c"]], [pytest.approx(watching.SPACING)])


def test_decoding_stops_after_a_slice_of_time() -> None:
    queue = LineQueue(2**20)
    queue.put([event("ADDED", f"pod-{number}", number) for number in range(1, 11)])
    clock = Clock()

    def slow() -> float:
        clock.advance(watching.SLICE / 2)
        return clock.now

    decoder = EventDecoder("the watch", listing=False, revision=0)
    batches = [decoder.some(queue, slow) for _ in range(5)]

    assert [len(batch.changes) for batch in batches if batch is not None] == [2] * 5
    assert not queue


def test_batch_ends_with_the_first_list() -> None:
    queue = LineQueue(2**20)
    queue.put([event("ADDED", "a", 3), bookmark(9, ends=True), event("ADDED", "b", 10)])
    decoder = EventDecoder("the watch", listing=True, revision=0)

    first, second = (decoder.some(queue, lambda: 0.0) for _ in range(2))

    assert first is not None
    assert second is not None
    assert (len(first.changes), first.revision, first.listed) == (1, 9, True)
    assert (len(second.changes), second.revision, second.listed) == (1, 10, False)


def test_bookmark_without_news_is_no_batch() -> None:
    queue = LineQueue(2**20)
    queue.put([bookmark(7), orjson.dumps({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5"}}})])
    decoder = EventDecoder("the watch", listing=False, revision=7)

    assert decoder.some(queue, lambda: 0.0) is None


@pytest.mark.parametrize(("newest", "pauses"), [(0, 0), (1, 0), (24, 3), (25, 3), (30, 4), (99, 4)])
async def test_all_that_changed_before_comes_in_one_batch(newest: int, pauses: int) -> None:
    """Up to the newest revision, or until a silence: the last change of a kind may be older than that."""
    queue, clock, paused, pieces = LineQueue(2**20), Clock(), 0, 3

    async def pause(seconds: float) -> None:
        nonlocal paused
        assert seconds == watching.CAUGHT_UP
        paused += 1
        if paused > pieces:
            return
        queue.put([event("MODIFIED", f"pod-{number}", (paused - 1) * 10 + number) for number in range(10)])
        await asyncio.Event().wait()

    def slow() -> float:
        clock.advance(watching.SLICE)
        return clock.now

    batch = await EventDecoder("the watch", listing=False, revision=1).up_to(newest, queue, slow, pause)

    shown = [change.revision for change in batch.changes]
    assert (paused, shown) == (pauses, list(range(min(newest + 1, 30)) if newest > 1 else []))
    assert batch.revision == max([1, *shown])


async def test_new_object_is_not_held_back_by_a_watch_that_is_resumed(tmp_path: Path) -> None:
    async def answering(request: web.Request) -> web.StreamResponse:
        return await lines(request, event("MODIFIED", "a", 5), event("ADDED", "b", 9), then="hang")

    async def pause(_: float) -> None:
        await asyncio.Event().wait()

    async with scripted_server(tmp_path, answering) as server:
        apiserver = HttpApiClient(server.access(), clocks=ApiClocks(pause=pause))
        async with apiserver.watch(PODS, revision=1, newest=8) as batches:
            batch = await anext(batches)
        await apiserver.close()

    assert ([change.revision for change in batch.changes], batch.revision) == ([5, 9], 9)


async def test_watch_that_ends_at_once_shows_no_batch() -> None:
    queue = LineQueue(2**20)
    queue.end(UpstreamUnavailable("cut"))
    with pytest.raises(UpstreamUnavailable, match="cut"):
        await EventDecoder("the watch", listing=False, revision=1).up_to(9, queue, Clock(), asyncio.sleep)
