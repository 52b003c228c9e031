"""Where etcd, or what stands in its place, sends too much: bounded before and after unpacking."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest
from aiohttp import web

from tests.etcd.test_etcd_faults import hasty
from wharfinger.errors import StoreAnswerTooLarge, Unavailable
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.etcd.etcd_connection import Connection
from wharfinger.etcd.etcd_gateway import LARGEST_ANSWER, Unanswered
from wharfinger.etcd.etcd_grpc_wire import MESSAGES
from wharfinger.etcd.etcd_watch import Watch
from wharfinger.etcd.store import Event, KeyValue, Put
from wharfinger.settings import EtcdSettings

BOMB = gzip.compress(b'{"header":{"revision":"7"},"kvs":[' + b" " * (96 * 2**20) + b"]}", 9)
assert len(BOMB) < 100_000

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def answering(answer: Answer) -> AsyncIterator[str]:
    """The URL of a server that answers everything so."""
    runner = web.ServerRunner(web.Server(answer))  # type: ignore[arg-type]
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


async def packed(request: web.Request) -> web.StreamResponse:
    """Packed, whatever the client accepts."""
    await request.read()
    return web.Response(body=BOMB, headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})


async def first_batch(store: EtcdStore) -> None:
    async with asyncio.timeout(0.5), store.watch("/a", 0) as batches:
        await anext(batches)


@pytest.mark.parametrize("doing", ["read", "write", "watch"])
async def test_a_small_answer_that_unpacks_to_much_is_refused(doing: str) -> None:
    async with answering(packed) as url, EtcdStore(hasty(EtcdSettings, url)) as store:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "read": lambda: store.get("/a"),
            "write": lambda: store.put("/a", b"1"),
            "watch": lambda: first_batch(store),
        }
        tracemalloc.start()
        try:
            with pytest.raises((Unavailable, TimeoutError)) as refused:
                await calls[doing]()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 * 2**20, f"{peak / 2**20:.0f} MiB"
    if doing == "write":
        assert "compressed" in str(refused.value)


@pytest.mark.parametrize("announced", [True, False])
async def test_an_answer_of_too_many_bytes_is_given_up(announced: bool) -> None:
    async def much(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse()
        if announced:
            response.content_length = LARGEST_ANSWER + 1
        await response.prepare(request)
        with suppress(ConnectionError, RuntimeError):
            for _ in range(LARGEST_ANSWER // 2**20 + 2):
                await response.write(b" " * 2**20)
        return response

    async with answering(much) as url, EtcdStore(hasty(EtcdSettings, url)) as store:
        with pytest.raises(StoreAnswerTooLarge, match="more than 64 MiB") as read:
            await store.get("/a")
        assert not read.value.maybe_applied
        if announced:
            with pytest.raises(StoreAnswerTooLarge) as written:
                await store.put("/a", b"1")
            assert written.value.maybe_applied


async def test_a_list_whose_page_is_too_large_is_read_in_smaller_ones() -> None:
    """500 keys of a megabyte: etcd has no limit of bytes of its own for a page."""
    asked: list[int] = []

    async def pages(request: web.Request) -> web.StreamResponse:
        body: dict[str, Any] = json.loads(await request.read())
        asked.append(int(body["limit"]))
        if asked[-1] > 100:
            response = web.StreamResponse()
            response.content_length = LARGEST_ANSWER + 1
            await response.prepare(request)
            return response
        text = base64.b64encode(b"/a/1").decode()
        kv = {"key": text, "value": "", "create_revision": "3", "mod_revision": "3", "version": "1"}
        return web.json_response({"header": {"revision": "7"}, "kvs": [kv], "count": "1"})

    async with answering(pages) as url, EtcdStore(hasty(EtcdSettings, url)) as store:
        found = [kv.key async for page in store.list("/a/") for kv in page.items]
    assert found == ["/a/1"]
    assert asked == [500, 250, 125, 62]


@pytest.mark.parametrize(
    ("compression", "size", "words"),
    [
        (grpc.Compression.Gzip, 2**20, "perhaps because it is compressed"),
        (grpc.Compression.NoCompression, 96 * 2**20, "more than 64 MiB"),
    ],
    ids=["packed", "plain"],
)
async def test_a_large_message_of_grpc_is_refused(compression: grpc.Compression, size: int, words: str) -> None:
    name = "Txn"
    made = MESSAGES[f"{name}Response"]()
    made.header.revision = 7
    made.responses.add().response_range.kvs.add().value = b" " * size

    async def answer(_request: Any, _context: Any) -> Any:
        return made

    handler = grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=MESSAGES[f"{name}Request"].FromString,
        response_serializer=MESSAGES[f"{name}Response"].SerializeToString,
    )
    server = grpc.aio.server(compression=compression, options=[("grpc.max_send_message_length", -1)])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("etcdserverpb.KV", {name: handler})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        settings = EtcdSettings(
            protocol="grpc",
            endpoints=(f"http://127.0.0.1:{port}",),
            attempt_timeout=30.0,
            deadline=30.0,
        )
        async with EtcdStore(settings) as store:
            with pytest.raises(Unavailable, match=words) as refused:
                await store.txn([], [Put("/a", b"1")])
            assert refused.value.maybe_applied
    finally:
        await server.stop(None)


def test_pieces_of_one_message_without_an_end_are_dropped() -> None:
    watch = Watch(
        cast("Connection", SimpleNamespace(random=Random(1))), "/a/", 1, previous=False, observe=lambda _: None
    )
    piece = [Event(KeyValue("/a/1", b" " * 2**24, 3, 3), deleted=False)]
    for _ in range(16):
        assert list(watch._complete(piece, more=True)) == []
    with pytest.raises(Unanswered, match="more than 256 MiB"):
        list(watch._complete(piece, more=True))
    assert watch._pieces == []
    [batch] = watch._complete(piece, more=False)
    assert batch.revision == 3
