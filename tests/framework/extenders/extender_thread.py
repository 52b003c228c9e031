"""An extender for tests of whole processes: a real HTTP server on a thread, whose answers the test lets out."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web

from tests.framework.extenders.extender_server import ExtenderServer


class ExtenderThread:
    """Refuses the nodes in `refused`, agrees with every preemption, and hangs, breaks or is gone as the test says."""

    def __init__(self) -> None:
        self.server = ExtenderServer()
        self.server.verbs |= {"filter": self._filter, "preempt": self._preempt, "bind": self._bind}
        self.binds: Callable[[dict[str, Any]], str] = lambda _: ""
        """Binds a pod, by the arguments of the verb; an error, or empty. Called on a thread of its own."""
        self.refused: dict[str, str] = {}
        """Node -> reason."""
        self.hangs: set[str] = set()
        """Verbs that are never answered."""
        self.breaks: set[str] = set()
        """Verbs whose connection breaks in the middle of the answer."""
        self.url = ""

    @property
    def asked(self) -> list[str]:
        """The verbs, as they were called."""
        return [verb for verb, _ in self.server.asked]

    def pods_asked(self, verb: str) -> list[str]:
        """The pods of the calls of a verb."""
        return [sent["Pod"]["metadata"]["name"] for name, sent in self.server.asked if name == verb]

    @contextmanager
    def running(self) -> Iterator[ExtenderThread]:
        """It serves during the block."""
        started, loop, stop = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

        async def serve() -> None:
            async with self.server.serving() as self.url:
                started.set()
                await stop.wait()

        thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
        thread.start()
        assert started.wait(30)
        try:
            yield self
        finally:
            self.hangs.clear()
            loop.call_soon_threadsafe(stop.set)
            thread.join(30)
            loop.close()

    async def _filter(self, request: web.Request) -> web.StreamResponse:
        sent = self.server.asked[-1][1]
        names = sent["NodeNames"] or [node["metadata"]["name"] for node in sent["Nodes"]["items"]]
        left = [name for name in names if name not in self.refused]
        failed = {name: self.refused[name] for name in names if name in self.refused}
        whole = {"items": [{"metadata": {"name": name}} for name in left]}
        return await self._answered(request, {"NodeNames": left, "Nodes": whole, "FailedNodes": failed})

    async def _bind(self, request: web.Request) -> web.StreamResponse:
        error = await asyncio.to_thread(self.binds, self.server.asked[-1][1])
        return await self._answered(request, {"Error": error})

    async def _preempt(self, request: web.Request) -> web.StreamResponse:
        sent = self.server.asked[-1][1]
        victims = sent["NodeNameToMetaVictims"] or {
            node: {"Pods": [{"UID": pod["metadata"]["uid"]} for pod in one["Pods"]]}
            for node, one in sent["NodeNameToVictims"].items()
        }
        return await self._answered(request, {"NodeNameToMetaVictims": victims})

    async def _answered(self, request: web.Request, answer: Any) -> web.StreamResponse:
        verb = request.match_info["verb"]
        while verb in self.hangs:
            await asyncio.sleep(0.02)
        if verb in self.breaks:
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b"{")
            assert request.transport is not None
            request.transport.abort()
            return response
        return web.json_response(answer)
