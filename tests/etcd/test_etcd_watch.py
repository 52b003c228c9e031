"""Streams that no healthy etcd sends on demand, from a server that plays them line by line."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import grpc.aio
import pytest
from aiohttp import web
from google.protobuf.json_format import ParseDict

from tests.etcd.grpc_server import serving
from wharfinger.errors import AccessDenied, Compacted, RevisionWentBack
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.etcd_grpc_wire import MESSAGES
from wharfinger.etcd.etcd_wire import Method
from wharfinger.settings import EtcdSettings

Message = dict[str, Any]


def created(revision: int) -> Message:
    return {"result": {"header": {"revision": str(revision)}, "created": True}}


def changes(revision: int, *events: tuple[str, int], fragment: bool = False) -> Message:
    """Events as (key, mod revision) in a message whose header says `revision`."""
    kvs = [{"kv": {"key": base64.b64encode(key.encode()).decode(), "mod_revision": str(at)}} for key, at in events]
    return {
        "result": {"header": {"revision": str(revision)}, "events": kvs, **({"fragment": True} if fragment else {})}
    }


def progress(revision: int) -> Message:
    return {"result": {"header": {"revision": str(revision)}}}


@dataclass
class Script:
    """What each connection gets, message by message; `None` = the stream stays open, else it breaks."""

    streams: Sequence[Sequence[Message | None]]
    current: int = 100
    """The revision a linearizable read tells."""
    piece: int = 10_000
    """Bytes a chunk."""
    starts: list[int] = field(default_factory=list)
    """The start revisions that were asked for: one before what is needed."""

    async def watch(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        self.starts.append(asked["create_request"]["start_revision"])
        response = web.StreamResponse()
        await response.prepare(request)
        for message in self.streams[min(len(self.starts), len(self.streams)) - 1]:
            if message is None:
                await asyncio.sleep(300)
                break
            line = json.dumps(message).encode() + b"\n"
            for begin in range(0, len(line), self.piece):
                await response.write(line[begin : begin + self.piece])
                await asyncio.sleep(0)
        assert request.transport is not None
        request.transport.close()
        return response

    async def range(self, request: web.Request) -> web.Response:
        return web.json_response({"header": {"revision": str(self.current)}})

    async def stream(self, request: Any, context: grpc.aio.ServicerContext) -> AsyncIterator[Any]:
        """The same by gRPC: the gateway's JSON is that of the messages."""
        asked = await anext(aiter(request))
        self.starts.append(asked.create_request.start_revision)
        for message in self.streams[min(len(self.starts), len(self.streams)) - 1]:
            if message is None:
                await asyncio.sleep(300)
            elif "error" in message:
                codes = {code.value[0]: code for code in grpc.StatusCode}
                await context.abort(codes[message["error"]["code"]], message["error"]["message"])
            else:
                yield ParseDict(message["result"], MESSAGES["WatchResponse"]())


@asynccontextmanager
async def gateway(script: Script) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_post("/v3/watch", script.watch)
    application.router.add_post("/v3/kv/range", script.range)
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def played(script: Script, idle: float, protocol: Literal["json", "grpc"]) -> AsyncIterator[EtcdStore]:
    async def answer(_: Any) -> Any:
        return ParseDict({"header": {"revision": script.current}}, MESSAGES["RangeResponse"]())

    served = gateway(script) if protocol == "json" else serving({Method.WATCH: script.stream, Method.RANGE: answer})
    async with served as url:
        settings = EtcdSettings(endpoints=(url,), protocol=protocol, attempt_timeout=60.0, watch_idle=idle)
        async with EtcdStore(settings) as store:
            yield store


Seen = Callable[..., Awaitable[list[tuple[int, list[str]]]]]


@pytest.fixture(params=["json", "grpc"])
def seen(request: pytest.FixtureRequest) -> Seen:
    """By either protocol: the first `count` batches as (revision, keys).

    A stream that is silent for `idle` seconds is left.
    """

    async def read(script: Script, start: int, count: int, *, idle: float = 60.0) -> list[tuple[int, list[str]]]:
        batches = []
        async with played(script, idle, request.param) as store, store.watch("", start) as watch:
            async for batch in watch:
                batches.append((batch.revision, [event.kv.key for event in batch.events]))
                if len(batches) == count:
                    break
        return batches

    return read


@pytest.mark.parametrize("piece", [1, 7, 10_000])
async def test_lines_are_found_however_they_are_cut(piece: int, seen: Seen) -> None:
    script = Script([[created(9), changes(9, ("a", 5), ("b", 5), ("c", 9)), progress(12), None]], piece=piece)

    assert await seen(script, 5, 3) == [(5, ["a", "b"]), (9, ["c"]), (12, [])]


async def test_it_resumes_behind_the_last_event_not_behind_the_header(seen: Seen) -> None:
    """etcd's header tells the newest revision of the store; events below it may still be on their way."""
    script = Script([[created(50), changes(50, ("a", 6))], [created(50), changes(50, ("b", 7), ("c", 8)), None]])

    assert await seen(script, 5, 3) == [(6, ["a"]), (7, ["b"]), (8, ["c"])]
    assert script.starts == [4, 6]


async def test_it_resumes_behind_a_progress_notice(seen: Seen) -> None:
    script = Script([[created(20), progress(20)], [created(20), changes(21, ("a", 21)), None]])

    assert await seen(script, 5, 2) == [(20, []), (21, ["a"])]
    assert script.starts == [4, 20]


async def test_fragments_are_one_batch_and_half_of_them_is_nothing(seen: Seen) -> None:
    pieces = [changes(9, ("a", 5), ("b", 6), fragment=True), changes(9, ("c", 6), fragment=True), changes(9, ("d", 6))]
    script = Script([[created(9), *pieces[:2]], [created(9), *pieces, None]])

    assert await seen(script, 5, 2) == [(5, ["a"]), (6, ["b", "c", "d"])]
    assert script.starts == [4, 4]


async def test_a_silent_stream_is_left(seen: Seen) -> None:
    script = Script([[created(9), None], [created(9), changes(9, ("a", 9)), None]])

    assert await seen(script, 9, 1, idle=0.5) == [(9, ["a"])]


async def test_a_member_that_lags_is_believed_when_the_cluster_has_not_gone_back(seen: Seen) -> None:
    script = Script([[created(40), changes(60, ("a", 60)), None]], current=60)

    assert await seen(script, 60, 1) == [(60, ["a"])]


async def test_a_cluster_that_has_gone_back_is_not(seen: Seen) -> None:
    script = Script([[created(40), None]], current=41)

    with pytest.raises(RevisionWentBack):
        await seen(script, 60, 1)


async def test_a_cancellation_is_read_before_anything_else_of_the_message(seen: Seen) -> None:
    refused = {"created": True, "canceled": True, "watch_id": "-1"}
    reason = "rpc error: code = PermissionDenied desc = etcdserver: permission denied"
    script = Script([[{"result": {**refused, "cancel_reason": reason}}, None]])

    with pytest.raises(AccessDenied):
        await seen(script, 5, 1)


async def test_compaction_is_raised_with_its_revision(seen: Seen) -> None:
    script = Script([[created(90), {"result": {"header": {}, "canceled": True, "compact_revision": "77"}}, None]])

    with pytest.raises(Compacted) as refused:
        await seen(script, 5, 1)

    assert refused.value.compact_revision == 77


async def test_known_events_are_not_repeated(seen: Seen) -> None:
    known = changes(9, ("a", 4), ("b", 4), fragment=True)
    script = Script([[created(9), known, changes(9, ("c", 4)), changes(9, ("d", 5)), None]])

    assert await seen(script, 5, 1) == [(5, ["d"])]


async def test_member_that_repeats_known_events_is_watched_with_growing_pauses(seen: Seen) -> None:
    known = [created(9), changes(9, ("a", 4))]
    script = Script([known] * 60)
    with suppress(TimeoutError):
        async with asyncio.timeout(1.0):
            await seen(script, 5, 1)

    assert len(script.starts) < 20  # without a growing pause it would be hundreds


async def test_revisions_that_no_watch_needs_may_be_compacted(seen: Seen) -> None:
    forgotten = {"result": {"header": {}, "canceled": True, "compact_revision": "5"}}
    script = Script([[created(9), forgotten], [created(9), changes(9, ("a", 5))], [created(9), progress(9), None]])

    assert await seen(script, 5, 2) == [(5, ["a"]), (9, [])]
    assert script.starts == [4, 5, 5]


@pytest.mark.parametrize(
    "trouble",
    [
        {"result": {"canceled": True, "cancel_reason": "etcdserver: no leader"}},
        {"result": {"canceled": True}},
        {"error": {"code": 14, "message": "rpc error: code = Unavailable desc = etcdserver: no leader"}},
        {"error": {"code": 13, "message": "transport is closing"}},
    ],
    ids=["no leader", "no reason", "no leader as an error", "an internal error"],
)
async def test_other_troubles_are_outlived(trouble: Message, seen: Seen) -> None:
    script = Script([[created(9), trouble, None], [created(9), changes(9, ("a", 9)), None]])

    assert await seen(script, 9, 1) == [(9, ["a"])]
    assert script.starts == [8, 8]
