"""Connections that are kept: when they are used again, when they are not, and what is sent twice."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conftest import free_port
from tests.fleet.agent.hosts import until
from wharfinger.apiserver.connection import api_socket
from wharfinger.apiserver.kept_connections import ConnectionCut, ConnectionFailed, KeptConnections, RequestBody
from wharfinger.apiserver.whole_answers import BadAnswer

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Server:
    """Answers each request with what `answer` makes of its number on its connection; empty = it cuts the connection."""

    answer: Callable[[int], bytes]
    port: int = 0
    connections: int = 0
    heard: list[bytes] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        number = 0
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heard.append(head.split()[0])
                if head.startswith(b"POST"):
                    await reader.readexactly(2)
                number += 1
                said = self.answer(number)
                writer.write(said)
                if not said:
                    break
        except asyncio.IncompleteReadError:
            pass
        writer.close()


@asynccontextmanager
async def serving(answer: Callable[[int], bytes], **options: Any) -> AsyncIterator[tuple[Server, KeptConnections]]:
    server = Server(answer)
    running = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.port = running.sockets[0].getsockname()[1]
    kept = connections(server.port, **options)
    async with running:
        yield server, kept
        kept.close()


def connections(port: int, *, host: str = "127.0.0.1", idle_for: float = 60.0) -> KeptConnections:
    return KeptConnections(host, port, open_socket=api_socket, patience=5.0, idle_for=idle_for)


async def test_connection_is_kept_for_the_next_request() -> None:
    async with serving(lambda _: OK) as (server, kept):
        answers = [await kept.exchange(GET, None, 10), await kept.exchange(POST, RequestBody(b"{}", "x"), 10)]

    assert [one.body for one in answers] == [b"ok", b"ok"]
    assert (server.connections, server.heard) == (1, [b"GET", b"POST"])


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async with serving(lambda _: OK) as (server, kept):
        await asyncio.gather(*(kept.exchange(GET, None, 10) for _ in range(3)))
        await asyncio.gather(*(kept.exchange(GET, None, 10) for _ in range(3)))

    assert server.connections == 3


@pytest.mark.parametrize(
    "last", [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", OK + b"HTTP/1.1 unasked"]
)
async def test_connection_that_the_server_ends_is_not_kept(last: bytes) -> None:
    async with serving(lambda _: last) as (server, kept):
        for _ in range(2):
            assert (await kept.exchange(GET, None, 10)).body == b"ok"

    assert server.connections == 2


async def test_connection_that_was_idle_for_long_is_not_used() -> None:
    async with serving(lambda _: OK, idle_for=-1.0) as (server, kept):
        for _ in range(2):
            await kept.exchange(GET, None, 10)

    assert server.connections == 2


async def test_read_is_repeated_where_a_kept_connection_was_closed() -> None:
    async with serving(lambda number: OK if number == 1 else b"") as (server, kept):
        await kept.exchange(GET, None, 10)
        answer = await kept.exchange(GET, None, 10)

    assert answer.body == b"ok"
    assert (server.connections, server.heard) == (2, [b"GET"] * 3)


async def test_write_is_not_repeated() -> None:
    body = RequestBody(b"{}", "x")
    async with serving(lambda number: OK if number == 1 else b"") as (server, kept):
        await kept.exchange(GET, None, 10)
        with pytest.raises(ConnectionCut) as cut:
            await kept.exchange(POST, body, 10)

    assert not cut.value.began
    assert body.sent
    assert server.heard == [b"GET", b"POST"]


async def test_read_on_a_new_connection_is_not_repeated() -> None:
    async with serving(lambda _: b"") as (server, kept):
        with pytest.raises(ConnectionCut):
            await kept.exchange(GET, None, 10)

    assert server.connections == 1


async def test_answer_that_cannot_be_read_ends_its_connection() -> None:
    async with serving(lambda number: b"nonsense\r\n\r\n" if number == 1 else OK) as (server, kept):
        for _ in range(2):
            with pytest.raises(BadAnswer):
                await kept.exchange(GET, None, 10)

    assert server.connections == 2


async def test_request_that_is_given_up_ends_its_connection() -> None:
    async with serving(lambda _: OK[:-1]) as (server, kept):
        for number in (1, 2):
            asking = asyncio.create_task(kept.exchange(GET, None, 10))
            await until(lambda number=number: len(server.heard) == number)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking

    assert server.connections == 2


async def test_close_cuts_what_is_under_way() -> None:
    async with serving(lambda _: OK[:-1]) as (server, kept):
        asking = asyncio.create_task(kept.exchange(GET, None, 10))
        await until(lambda: bool(server.heard))
        kept.close()
        with pytest.raises(ConnectionCut):
            await asking


async def test_another_address_is_tried_where_the_first_is_of_an_unknown_family(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The name has an IPv6 address, and this machine has no IPv6."""

    def only_v4(address: tuple[Any, ...]) -> socket.socket:
        if address[0] == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return api_socket(address)

    async with serving(lambda _: OK) as (server, _):
        loop = asyncio.get_running_loop()

        async def found(*_: object, **__: object) -> list[tuple[Any, ...]]:
            stream = socket.SOCK_STREAM
            return [
                (socket.AF_INET6, stream, 6, "", ("::1", server.port, 0, 0)),
                (socket.AF_INET, stream, 6, "", ("127.0.0.1", server.port)),
            ]

        monkeypatch.setattr(loop, "getaddrinfo", found)
        kept = KeptConnections("api", server.port, open_socket=only_v4, patience=5.0, idle_for=60.0)
        assert (await kept.exchange(GET, None, 10)).body == b"ok"
        kept.close()


async def test_nothing_is_sent_once_they_are_closed() -> None:
    """A connection was being opened meanwhile."""
    body = RequestBody(b"{}", "x")
    async with serving(lambda _: OK) as (server, kept):
        asking = asyncio.create_task(kept.exchange(POST, body, 10))
        await asyncio.sleep(0)
        kept.close()
        with pytest.raises(ConnectionCut):
            await asking
    assert (server.heard, body.sent) == ([], False)


async def test_nothing_is_sent_where_there_is_no_server() -> None:
    body = RequestBody(b"{}", "x")
    with pytest.raises(ConnectionFailed) as failed:
        await connections(free_port()).exchange(POST, body, 10)

    assert isinstance(failed.value.__cause__, ConnectionRefusedError)
    assert not body.sent


async def test_another_address_is_tried_where_the_first_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    refusing = free_port()

    async with serving(lambda _: OK) as (server, kept):

        async def both(*_: object, **__: object) -> list[tuple[object, ...]]:
            ports = (refusing, server.port)
            return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port)) for port in ports]

        monkeypatch.setattr(loop, "getaddrinfo", both, raising=False)
        answer = await kept.exchange(GET, None, 10)

    assert answer.body == b"ok"
