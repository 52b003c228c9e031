"""What a Kubernetes API shows while decisions are replayed: every state of every pod, and every event about one.

A nomination may be there for milliseconds, so states are kept, and not asked for. Pods are told apart by their uid: a
name comes again in the next scenario.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from wharfinger.apiserver import client
from wharfinger.apiserver.client import ApiClient, ChangeKind, uid_of
from wharfinger.errors import UpstreamUnavailable

Object = Mapping[str, Any]
AGAIN_AFTER = 0.01
"""Seconds until a watch that the server ended is resumed where it was."""


class RecordedWatch:
    """Two watches: of pods, and of events."""

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._changed = asyncio.Event()
        self._listed: set[client.ApiResource] = set()
        self._states: dict[str, list[Object]] = defaultdict(list)
        self._gone: set[str] = set()
        self._events: dict[str, dict[str, Object]] = defaultdict(dict)

    @classmethod
    @asynccontextmanager
    async def open(cls, api: ApiClient) -> AsyncIterator[RecordedWatch]:
        """Both watches, once they have seen what is there."""
        watch = cls(api)
        tasks = [asyncio.create_task(watch._follow(one)) for one in (client.PODS, client.EVENTS)]
        try:
            assert await watch.until(lambda: len(watch._listed) == len(tasks), 60), "the watches do not begin"
            yield watch
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def states(self, uid: str) -> list[Object]:
        """What a pod was, in order; empty while it was not seen."""
        return self._states.get(uid, [])

    def exists(self, uid: str) -> bool:
        """Whether a pod was seen and is not gone."""
        return uid in self._states and uid not in self._gone

    def events(self, uid: str) -> list[Object]:
        """The events about a pod, each as it was last."""
        return list(self._events.get(uid, {}).values())

    def existing(self) -> list[Object]:
        """The pods that there are, as they are."""
        return [states[-1] for uid, states in self._states.items() if uid not in self._gone]

    async def until(self, holds: Callable[[], object], seconds: float) -> bool:
        """Wait until something holds of what was seen; False when it does not in time."""
        try:
            async with asyncio.timeout(seconds):
                while not holds():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def forget(self) -> None:
        """Forget the pods that are gone, and their events: a scenario has ended."""
        for uid in self._gone:
            self._states.pop(uid, None)
            self._events.pop(uid, None)
        self._gone.clear()

    async def _follow(self, resource: client.ApiResource) -> None:
        """Until cancelled."""
        revision: int | None = None
        while True:
            try:
                async with self._api.watch(resource, revision=revision) as batches:
                    async for batch in batches:
                        for change in batch.changes:
                            self._see(resource, change.kind, change.object)
                        revision = batch.revision or revision
                        if batch.listed:
                            self._listed.add(resource)
                        self._changed.set()
            except UpstreamUnavailable:
                await asyncio.sleep(AGAIN_AFTER)

    def _see(self, resource: client.ApiResource, kind: ChangeKind, obj: Object) -> None:
        if resource == client.EVENTS:
            self._events[obj["regarding"].get("uid", "")][uid_of(obj)] = obj
        elif kind is ChangeKind.DELETED:
            self._gone.add(uid_of(obj))
        else:
            self._states[uid_of(obj)].append(obj)
