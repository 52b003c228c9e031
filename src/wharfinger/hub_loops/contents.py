"""Follows the kinds of objects that placements select, as long as any does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from wharfinger.engine.placements.contents_view import ContentsView
from wharfinger.process.following import follow
from wharfinger.registry.store import Event, KeyValue, Store

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
