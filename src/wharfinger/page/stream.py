"""Server-sent events: what changed, made once for all viewers, at most twice a second.

::

    tick ──► for each topic that somebody follows: make its payload, serialise it once ──► every viewer's queue

A viewer names its topics when it connects. One that reads too slowly loses messages and is told `resync`: it then asks
for everything again. So neither a slow viewer nor a hundred quick ones hold anything up.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from dataclasses import dataclass, field

from wharfinger.page.plain import as_json

log = logging.getLogger(__name__)

TICK = 0.45
"""Seconds between two looks at what changed."""
MOST_VIEWERS = 300
MOST_TOPICS = 24
"""That one viewer may follow."""
MOST_PENDING = 16
"""Messages that may wait for one viewer."""
KEEP_ALIVE = 10.0
"""Seconds after which a comment is sent where nothing else is, so that a dead connection is noticed."""
RESYNC = b"event: resync\ndata: {}\n\n"
COMMENT = b": still here\n\n"

Source = Callable[[str], object | None]
"""Given a topic, what followers of it are to be told now; None = nothing new, or no such topic."""


@dataclass(eq=False)
class StreamViewer:
    """One connection."""

    topics: frozenset[str]
    queue: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(MOST_PENDING))
    lagging: bool = False

    def put(self, message: bytes) -> None:
        """Queue a message; without room, it is lost and the viewer has to ask anew."""
        if self.lagging and self.queue.qsize() > MOST_PENDING // 2:
            return
        if self.lagging:
            self.lagging = False
            self.queue.put_nowait(RESYNC)
        try:
            self.queue.put_nowait(message)
        except asyncio.QueueFull:
            self.lagging = True


class ViewerStream:
    """All viewers, and what they follow."""

    def __init__(self, source: Source, *, following: Callable[[Collection[str]], None] = lambda _: None) -> None:
        """`following` is told which topics are followed, whenever that changes."""
        self._source = source
        self._told = following
        self._viewers: set[StreamViewer] = set()
        self._topics: Counter[str] = Counter()
        self._last: dict[str, bytes] = {}

    def __len__(self) -> int:
        return len(self._viewers)

    @property
    def topics(self) -> Collection[str]:
        """What is followed now."""
        return self._topics.keys()

    async def messages(self, topics: Iterable[str]) -> AsyncGenerator[bytes, None]:
        """Everything for one viewer, until the stream is closed."""
        viewer = StreamViewer(frozenset(topics))
        self._viewers.add(viewer)
        self._topics.update(viewer.topics)
        self._told(self._topics.keys())
        try:
            yield b"retry: 1000\n\n"
            for topic in sorted(viewer.topics):
                known = self._last.get(topic)
                if known is not None:
                    yield known
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE):
                        message = await viewer.queue.get()
                except TimeoutError:
                    message = COMMENT
                if message is None:
                    return
                yield message
        finally:
            self._viewers.discard(viewer)
            self._topics.subtract(viewer.topics)
            self._topics = +self._topics
            for topic in viewer.topics - self._topics.keys():
                self._last.pop(topic, None)
            self._told(self._topics.keys())

    def tick(self) -> None:
        """Tell what is new."""
        for topic in list(self._topics):
            try:
                payload = self._source(topic)
            except Exception:  # one topic's mistake must not keep the others from their viewers
                log.exception("topic_failed topic=%r", topic)
                continue
            if payload is None:
                continue
            name = topic.partition("?")[0].partition(":")[0].encode()
            message = b"event: " + name + b"\ndata: " + as_json({"topic": topic, "now": payload}) + b"\n\n"
            if message == self._last.get(topic):
                continue
            if name not in _MOMENTS:
                self._last[topic] = message
            for viewer in self._viewers:
                if topic in viewer.topics:
                    viewer.put(message)

    def close(self) -> None:
        """End every viewer's stream."""
        for viewer in self._viewers:
            while viewer.queue.full():
                viewer.queue.get_nowait()
            viewer.queue.put_nowait(None)


_MOMENTS = frozenset({b"nodes", b"pod", b"node", b"gang"})
"""Topics whose messages are changes: one who comes later has asked for the whole."""
