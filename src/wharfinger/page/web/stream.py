"""Server-sent events: what changed, made once for all viewers, at most twice a second.

::

    tick ──► for each topic that somebody follows: make its payload, serialise it once
         ──► for each set of topics that somebody follows: the messages of this tick as one ──► every viewer's queue

A viewer names its topics when it connects. One that reads too slowly loses messages and is told `resync`: it then asks
for everything again. So neither a slow viewer nor a hundred quick ones hold anything up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Set
from dataclasses import dataclass, field

from wharfinger.page.follow.plain import as_json

log = logging.getLogger(__name__)

TICK = 0.45
"""Seconds between two looks at what changed."""
TURN = 0.005
"""Seconds that topics are made without a pause."""
MOST_VIEWERS = 300
MOST_TOPICS = 24
"""That one viewer may follow."""
MOST_PENDING = 16
"""Ticks whose messages may wait for one viewer."""
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

    def __init__(
        self,
        source: Source,
        *,
        following: Callable[[Collection[str]], None] = lambda _: None,
        changes: Set[str] = frozenset(),
    ) -> None:
        """`following` is called with the topics that are followed, whenever these change.

        `changes`: names of topics whose messages are changes. They are not kept: one who comes later has asked for the
        whole.
        """
        self._source = source
        self._changes = changes
        self._told = following
        self._viewers: set[StreamViewer] = set()
        self._topics: Counter[str] = Counter()
        self._last: dict[str, bytes] = {}
        self._payloads: dict[str, object] = {}
        """What was made last; what is the same object has not changed."""

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
            known = [self._last[topic] for topic in sorted(viewer.topics & self._last.keys())]
            yield b"".join([b"retry: 1000\n\n", *known])
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
                self._payloads.pop(topic, None)
            self._told(self._topics.keys())

    async def tick(self) -> None:
        """Tell what is new; others have their turn in between, however many topics there are."""
        new: dict[str, bytes] = {}
        began = time.perf_counter()
        for topic in list(self._topics):
            message = self._message(topic) if topic in self._topics else None
            if message is not None:
                new[topic] = message
            if time.perf_counter() - began > TURN:
                await asyncio.sleep(0)
                began = time.perf_counter()
        self._tell(new)

    def _tell(self, new: Mapping[str, bytes]) -> None:
        told: dict[frozenset[str], bytes] = {}
        for viewer in self._viewers:
            message = told.get(viewer.topics)
            if message is None:
                message = told[viewer.topics] = b"".join([new[topic] for topic in sorted(viewer.topics & new.keys())])
            if message:
                viewer.put(message)

    def _message(self, topic: str) -> bytes | None:
        """What is new of one topic; None for nothing."""
        try:
            payload = self._source(topic)
        except Exception:  # one topic's mistake must not keep the others from their viewers
            log.exception("topic_failed topic=%r", topic)
            return None
        if payload is None:
            return None
        name = name_of_topic(topic)
        change = name in self._changes
        if not change and payload is self._payloads.get(topic):
            return None
        message = b"event: " + name.encode() + b"\ndata: " + as_json({"topic": topic, "now": payload}) + b"\n\n"
        if change:
            return message
        self._payloads[topic] = payload
        if message == self._last.get(topic):
            return None
        self._last[topic] = message
        return message

    def close(self) -> None:
        """End every viewer's stream."""
        for viewer in self._viewers:
            while viewer.queue.full():
                viewer.queue.get_nowait()
            viewer.queue.put_nowait(None)


def name_of_topic(topic: str) -> str:
    """The topic without the namespace, or the object, that it is about."""
    return topic.partition("?")[0].partition(":")[0]
