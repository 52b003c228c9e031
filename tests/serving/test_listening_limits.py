"""What one client can do to the others: nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from tests.event_loop import watched_loop
from tests.patience import patient
from tests.serving.serving import content, get, serving, trusting
from wharfinger.serving.content import PodAmounts
from wharfinger.serving.listening import ConnectionLimits
from wharfinger.serving.options import ServingOptions, TlsOptions, of_process
from wharfinger.serving.server import Server

OPEN = ServingOptions(open=True)
PLAIN_AND_TLS = pytest.mark.parametrize(
    "options", [OPEN, ServingOptions(open=True, tls=TlsOptions())], ids=["plain", "tls"]
)

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def connected(server: Server, number: int = 1, *, tls: bool | None = None) -> AsyncIterator[list[Streams]]:
    """Raw connections; over TLS where the server speaks it."""
    scheme, rest = server.url.split("://")
    host, port = rest.split(":")
    context: ssl.SSLContext | None = trusting() if (scheme == "https" if tls is None else tls) else None
    streams = [await asyncio.open_connection(host, int(port), ssl=context) for _ in range(number)]
    try:
        yield streams
    finally:
        for _, writer in streams:
            writer.transport.abort()


async def said(streams: Streams, request: bytes) -> bytes:
    """What comes back until the connection ends."""
    reader, writer = streams
    writer.write(request)
    return await asyncio.wait_for(reader.read(), patient(20))


async def ended(streams: Streams) -> bool:
    """Whether the server ends the connection."""
    try:
        return await asyncio.wait_for(streams[0].read(), patient(20)) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
async def test_only_get_and_head_are_served(method: str) -> None:
    async with serving(OPEN) as server:
        assert (await get(server, "/metrics", method=method))[0] == 405
        assert await get(server, "/metrics", method="HEAD") == (200, "")


async def test_a_body_is_refused_unread() -> None:
    async with serving(OPEN) as server, connected(server, 2) as (sized, chunked):
        head = b"GET /livez HTTP/1.1\r\nHost: x\r\n"
        assert (await said(sized, head + b"Content-Length: 1000000000\r\n\r\n")).startswith(b"HTTP/1.1 413")
        assert (await said(chunked, head + b"Transfer-Encoding: chunked\r\n\r\n")).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"x" * 9000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % number for number in range(100)) + b"\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
    ids=["long line", "long header", "many headers", "HTTP/2", "TLS"],
)
async def test_unreadable_requests_end_the_connection(request_: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(OPEN) as server, connected(server) as (one,):
        answer = await said(one, request_)

        assert answer.split(b" ")[1:2] == [b"400"]
        assert (await get(server, "/livez"))[0] == 200
    assert caplog.text == ""


async def test_plain_http_on_a_tls_port_ends_the_connection() -> None:
    async with serving(ServingOptions(tls=TlsOptions(), open=True)) as server, connected(server, tls=False) as (one,):
        assert await said(one, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n") == b""
        assert (await get(server, "/livez", tls=trusting()))[0] == 200


@PLAIN_AND_TLS
async def test_silent_connections_give_way_to_others(options: ServingOptions) -> None:
    """Five places, five silent clients: each further client takes the place of the oldest."""
    async with serving(options, limits=ConnectionLimits(connections=5)) as server, connected(server, 5) as silent:
        for _ in range(3):
            assert (await get(server, "/livez", tls=trusting()))[0] == 200

        assert await ended(silent[0])


async def test_clients_that_only_dribble_give_way_to_others(caplog: pytest.LogCaptureFixture) -> None:
    """A byte of a request is no progress."""
    async with serving(OPEN, limits=ConnectionLimits(connections=5)) as server, connected(server, 5) as dribbling:
        for _, writer in dribbling:
            writer.write(b"GET /livez HT")
        assert (await get(server, "/livez"))[0] == 200

        assert await ended(dribbling[0])
    assert "connections_cut_off" in caplog.text


async def test_unfinished_handshakes_give_way_to_others() -> None:
    options = ServingOptions(open=True, tls=TlsOptions())
    async with (
        serving(options, limits=ConnectionLimits(connections=5)) as server,
        connected(server, 5, tls=False) as silent,
    ):
        assert (await get(server, "/livez", tls=trusting()))[0] == 200

        assert await ended(silent[0])


async def test_used_connection_outlives_silent_ones() -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    async with (
        serving(OPEN, limits=ConnectionLimits(connections=3)) as server,
        connected(server) as ((reader, writer),),
        connected(server, 2),
    ):
        for _ in range(4):
            writer.write(request)
            assert (await reader.readuntil(b"\r\n\r\nok\n")).startswith(b"HTTP/1.1 200")
            await get(server, "/livez")


async def test_connection_without_a_request_is_ended() -> None:
    async with serving(OPEN, limits=ConnectionLimits(first_request=0.05)) as server, connected(server) as (one,):
        assert await ended(one)


async def test_idle_connection_is_ended() -> None:
    async with serving(OPEN, limits=ConnectionLimits(next_request=0.05)) as server, connected(server) as (one,):
        answer = await said(one, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")

        assert answer.endswith(b"ok\n")


async def test_handshake_takes_a_bounded_time() -> None:
    options = ServingOptions(open=True, tls=TlsOptions())
    async with (
        serving(options, limits=ConnectionLimits(handshake=0.05)) as server,
        connected(server, tls=False) as (one,),
    ):
        assert await ended(one)


async def test_page_that_takes_too_long_ends_the_connection() -> None:

    async def never() -> AsyncIterator[Sequence[PodAmounts]]:
        await asyncio.Event().wait()
        yield ()

    async with (
        serving(OPEN, content(pods=never), limits=ConnectionLimits(answer=0.05)) as server,
        connected(server) as (one,),
    ):
        answer = await said(one, b"GET /metrics/resources HTTP/1.1\r\nHost: x\r\n\r\n")

    assert b"kube_pod_resource_request" in answer
    assert not answer.endswith(b"0\r\n\r\n")  # the client sees that the end is missing


async def test_page_that_fails_is_a_line_and_a_status(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> dict[str, str]:
        raise RuntimeError("what nobody thought of")

    async with serving(OPEN, content(checks=broken)) as server:
        code, text = await get(server, "/readyz")
        assert (await get(server, "/livez"))[0] == 200

    assert code == 500
    assert "nobody thought" not in text
    assert "page_failed path='/readyz'" in caplog.text


async def test_server_stops_while_clients_hold_connections() -> None:
    async with serving(OPEN) as server, connected(server, 3) as held:
        began = watched_loop().waited
        await asyncio.wait_for(server.stop(), patient(90))
        assert watched_loop().waited - began < 5
        for one in held:
            assert await ended(one)


async def test_paths_with_dots_open_nothing() -> None:
    """An open prefix must not be a way to another page."""
    options = of_process("0.0.0.0", 0)
    closed = ServingOptions(authorization=options.authorization)
    async with serving(closed) as server, connected(server, 3) as streams:
        for one, path in zip(streams, ("/readyz/../metrics", "/readyz/%2e%2e/metrics", "//metrics"), strict=True):
            answer = await said(one, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert answer.split(b" ")[1] in (b"404", b"403")
            assert b"# TYPE" not in answer
