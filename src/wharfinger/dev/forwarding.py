"""Connections to one address passed on to another, for a server that can only listen on the other."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from wharfinger.errors import ServerError

PIECE = 64 * 1024
"""Bytes read at a time."""
CONNECT_WITHIN = 5.0
"""Seconds for the connection to the server behind."""


async def forward(host: str, port: int, behind: str) -> asyncio.Server:
    """Pass on what comes in at `host:port` to `behind:port`, until it is closed. Raises `ServerError`."""

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                there, answers = await asyncio.open_connection(behind, port)
        except (OSError, TimeoutError):
            writer.close()
            return
        with suppress(OSError):
            await asyncio.gather(_pipe(reader, answers), _pipe(there, writer))

    try:
        return await asyncio.start_server(accepted, host, port)
    except OSError as error:
        raise ServerError(f"nothing can listen on {host}:{port}: {error.strerror or error}") from error


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while piece := await reader.read(PIECE):
            writer.write(piece)
            await writer.drain()
    finally:
        writer.close()
