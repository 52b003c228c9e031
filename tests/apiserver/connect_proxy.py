"""An HTTP proxy with CONNECT only, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass
class ConnectProxy:
    """`asked`: the addresses that were asked for; `passed`: all bytes of clients behind that."""

    url: str = ""
    asked: list[str] = field(default_factory=list)
    passed: bytearray = field(default_factory=bytearray)


@asynccontextmanager
async def connect_proxy(*, code: int = 200) -> AsyncIterator[ConnectProxy]:
    """A proxy until the end of the block; with another code than 200 it refuses."""
    proxy = ConnectProxy()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split()[1]
        proxy.asked.append(target)
        writer.write(f"HTTP/1.1 {code} answered\r\nContent-Length: 0\r\n\r\n".encode())
        if code == 200:
            host, _, port = target.rpartition(":")
            upstream = await asyncio.open_connection(host, int(port))
            await asyncio.gather(copy(reader, upstream[1], proxy.passed), copy(upstream[0], writer, bytearray()))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield proxy


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: bytearray) -> None:
    """Pass bytes on until the reader's side ends."""
    with suppress(OSError):
        while piece := await reader.read(65536):
            seen += piece
            writer.write(piece)
            await writer.drain()
    writer.close()
