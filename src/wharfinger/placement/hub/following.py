"""Follows the three streams of a hub and the kinds of objects that placements select, as long as any does.

Each change is handed on to the controllers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from wharfinger.errors import RevisionWentBack
from wharfinger.etcd.store import Event, KeyValue, Store
from wharfinger.placement.state.contents_view import ContentsView
from wharfinger.placement.state.hub_changes import HubChange
from wharfinger.placement.state.hub_view import STREAMS, HubView
from wharfinger.process.following import follow

log = logging.getLogger(__name__)


class HubStreams:
    """Keeps a view as etcd is."""

    def __init__(
        self, store: Store, view: HubView, *, note: Callable[[Iterable[HubChange]], None], rng: random.Random
    ) -> None:
        """`note` is called with what has to be reconciled anew."""
        self._store = store
        self._view = view
        self._note = note
        self._rng = rng
        self._said: set[str] = set()

    async def run(self) -> None:
        """Follow until cancelled. Raises `RevisionWentBack`: what this hub knows never was, as etcd has it."""
        try:
            await self._follow()
        except* RevisionWentBack as errors:
            raise errors.exceptions[0] from None

    async def _follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            for stream, prefix in STREAMS.items():
                group.create_task(
                    follow(
                        self._store,
                        prefix,
                        listed=partial(self._listed, stream),
                        changed=partial(self._changed, stream),
                        reached=partial(self._view.reached, stream),
                        survives_restore=False,
                        rng=self._rng,
                    )
                )

    def _listed(self, stream: str, found: Sequence[KeyValue]) -> None:
        self._note(self._view.listed(stream, found))
        log.info("hub_listed stream=%s keys=%d revision=%d", stream, len(found), self._view.revisions[stream])
        self._say()

    def _changed(self, stream: str, event: Event) -> None:
        self._note(self._view.changed(stream, event))
        self._say()

    def _say(self) -> None:
        """Log each key that cannot be read, once."""
        for key in self._view.unreadable.keys() - self._said:
            log.warning("unreadable key=%r effect=as_it_was error=%r", key, self._view.unreadable[key])
        self._said = set(self._view.unreadable)


EVERY = 0.5
"""Seconds between two looks at which kinds are selected."""


class ContentsStreams:
    """Keeps a view of selected objects as etcd is."""

    def __init__(
        self, store: Store, view: ContentsView, *, note: Callable[[Iterable[str]], None], rng: random.Random
    ) -> None:
        """`note` is called with the placements that a change concerns."""
        self._store = store
        self._view = view
        self._note = note
        self._rng = rng
        self._following: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Follow until cancelled."""
        try:
            while True:
                self._adapt()
                for folder, task in list(self._following.items()):
                    if task.done():
                        del self._following[folder]
                        task.result()
                await asyncio.sleep(EVERY)
        finally:
            for task in self._following.values():
                task.cancel()
            await asyncio.gather(*self._following.values(), return_exceptions=True)

    def _adapt(self) -> None:
        wanted = self._view.wanted
        for folder in self._following.keys() - wanted:
            self._following.pop(folder).cancel()
            self._view.forget(folder)
        for folder in wanted - self._following.keys():
            self._following[folder] = asyncio.create_task(
                follow(
                    self._store,
                    folder,
                    listed=partial(self._listed, folder),
                    changed=partial(self._changed, folder),
                    rng=self._rng,
                ),
                name=f"contents {folder}",
            )

    def _listed(self, folder: str, found: Sequence[KeyValue]) -> None:
        self._note(self._view.listed(folder, found))

    def _changed(self, folder: str, event: Event) -> None:
        self._note(self._view.changed(folder, event))
