"""What lies between a worker and a server: TCP that can be cut, stalled, and made deaf, connection by connection."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

CHUNK = 65536
WATCH = b"POST /v3/watch"


class Mode(StrEnum):
    """What passes."""

    OPEN = "open"
    CUT = "cut"
    """Nothing; connections end, new ones as well."""
    STALL = "stall"
    """Nothing for now; what was sent arrives later."""
    DEAF = "deaf"
    """Requests. Answers do not, and the connections end when it is over."""
    WATCH = "watch"
    """All but what a watch has to tell, which arrives later."""


@dataclass(eq=False, slots=True)
class Trap:
    """Stops one connection when certain bytes come by."""

    bait: bytes
    answer: bool
    """Whether the request still passes, and its answer does not; else not even that."""
    sprung: threading.Event = field(default_factory=threading.Event)
    open: bool = False

    def lets_pass(self, towards_server: bool) -> bool:
        return self.open or (self.answer and towards_server)


@dataclass(eq=False, slots=True)
class Link:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    watches: bool = False
    """The last request on it was for a watch."""
    trap: Trap | None = None
    """That it went into."""

    def abort(self) -> None:
        for writer in (self.client, self.server):
            writer.transport.abort()


class Network:
    """A thread in which all proxies run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def proxy(self, port: int) -> Proxy:
        """A new way to a port of this machine."""
        proxy = Proxy(self, port)
        self.run(proxy.open())
        return proxy

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def close(self) -> None:
        async def end() -> None:
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.run(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class Proxy:
    """One way to one server, for one worker."""

    def __init__(self, network: Network, target: int) -> None:
        self._network = network
        self._target = target
        self._mode = Mode.OPEN
        self._links: set[Link] = set()
        self._trap: Trap | None = None
        self.port = 0

    async def open(self) -> None:
        self._changed = asyncio.Event()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def set(self, mode: Mode) -> None:
        """From now on, for old connections and new ones."""
        self._network.run(self._set(mode))

    def lay(self, trap: Trap | None) -> None:
        """Lay a trap, or take it away; who is in it stays there."""
        self._trap = trap

    def release(self, trap: Trap) -> None:
        """Let go on what went into the trap."""
        trap.open = True
        self.set(self._mode)

    async def _set(self, mode: Mode) -> None:
        before, self._mode = self._mode, mode
        if mode is Mode.CUT or before is Mode.DEAF:
            for link in self._links:
                link.abort()
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._mode is Mode.CUT:
            writer.transport.abort()
            return
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        link = Link(writer, to_server)
        self._links.add(link)
        pumps = [
            asyncio.ensure_future(self._pump(link, reader, to_server, towards_server=True)),
            asyncio.ensure_future(self._pump(link, from_server, writer, towards_server=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            link.abort()
            self._links.discard(link)

    async def _pump(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, towards_server: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if towards_server and data.startswith(b"POST "):
                    link.watches = data.startswith(WATCH)
                self._look(link, data, towards_server)
                while not self._passes(link, towards_server):
                    await self._changed.wait()
                writer.write(data)
                await writer.drain()

    def _look(self, link: Link, data: bytes, towards_server: bool) -> None:
        """Whether the trap snaps: it takes the first that comes."""
        trap = self._trap
        if trap is not None and towards_server and trap.bait in data and not trap.sprung.is_set():
            link.trap = trap
            trap.sprung.set()

    def _passes(self, link: Link, towards_server: bool) -> bool:
        if link.trap is not None and not link.trap.lets_pass(towards_server):
            return False
        match self._mode:
            case Mode.OPEN:
                return True
            case Mode.DEAF:
                return towards_server
            case Mode.WATCH:
                return towards_server or not link.watches
            case _:
                return False
