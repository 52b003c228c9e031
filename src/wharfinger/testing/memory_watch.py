"""Watches of an API server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import NamedTuple

from wharfinger.apiserver.client import ApiChange, ApiResource, Batch, ChangeKind, Object, revision_of
from wharfinger.errors import HistoryGone, UpstreamUnavailable
from wharfinger.testing.memory_objects import MemoryObjects, MemoryWrite, loaded

SILENCE = 70.0
"""Seconds after which the client of a silent server gives up."""
_AT_ONCE = 500


class Bell:
    """Wakes everything that waits for a change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.bookmarks = 0
        """How often all watches were to show where they are."""

    def ring(self) -> None:
        """Something changed; the next change has an event of its own."""
        event, self._event = self._event, asyncio.Event()
        event.set()

    async def wait(self) -> None:
        """Until the next ring."""
        await self._event.wait()


class WatchState:
    """What happens to the watches of one client."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.cuts: dict[ApiResource | None, int] = {}
        """How often the watches on a kind, or (None) all, were cut."""
        self.silent_since: float | None = None
        self.closed = False

    def cuts_of(self, resource: ApiResource) -> int:
        """How often a watch on the kind would have been cut so far."""
        return self.cuts.get(resource, 0) + self.cuts.get(None, 0)


class WatchOrder(NamedTuple):
    """What one watch is to show, and how often watches had been cut and shown where they are when it began."""

    resource: ApiResource
    selects: Callable[[Object], bool]
    revision: int
    """Changes after this one are shown."""
    cuts: int
    bookmarks: int
    resumed: bool
    """Whether the first batch is shown at once, and may be empty."""


async def changes(
    objects: MemoryObjects, bell: Bell, state: WatchState, order: WatchOrder
) -> AsyncGenerator[Batch, None]:
    """What changes after a revision; never ends without an exception."""
    resource, revision, bookmarks, behind = order.resource, order.revision, order.bookmarks, order.resumed
    where = f"the watch on {resource.plural}"
    while True:
        if state.closed or state.cuts_of(resource) != order.cuts:
            raise UpstreamUnavailable(f"{where} was ended by the server")
        if state.silent_since is not None:
            if state.clock() - state.silent_since >= SILENCE:
                raise UpstreamUnavailable(f"{where} was silent for {SILENCE:g} s")
            await bell.wait()
            continue
        if revision < objects.forgotten:
            raise HistoryGone(f"too old resource version: {revision} ({objects.forgotten + 1})")
        batch = _next(objects, resource, order.selects, revision, bookmark=bell.bookmarks != bookmarks)
        if batch is None and behind:
            batch = Batch((), revision)
        behind = False
        if batch is None:
            await bell.wait()
            continue
        bookmarks = bell.bookmarks
        revision = batch.revision
        yield batch


def first_list(objects: MemoryObjects, resource: ApiResource, selects: Callable[[Object], bool]) -> list[Batch]:
    """All objects that there are, as a watch shows them first."""
    found = [loaded(data) for data in objects.all(resource)]
    shown = [ApiChange(ChangeKind.ADDED, obj, revision_of(obj)) for obj in found if selects(obj)]
    parts = [tuple(shown[at : at + _AT_ONCE]) for at in range(0, len(shown), _AT_ONCE)]
    batches = [Batch(part, 0) for part in parts]
    return [*batches, Batch((), objects.revision, listed=True)]


def _next(
    objects: MemoryObjects, resource: ApiResource, selects: Callable[[Object], bool], revision: int, *, bookmark: bool
) -> Batch | None:
    """What comes after a revision, if anything does."""
    shown: list[ApiChange] = []
    for written in objects.since(revision, resource):
        change = _change(written, selects)
        if change is not None:
            shown.append(change)
            if len(shown) == _AT_ONCE:
                return Batch(tuple(shown), change.revision)
    if bookmark:
        return Batch(tuple(shown), max(revision, objects.revision))
    return Batch(tuple(shown), shown[-1].revision) if shown else None


def _change(written: MemoryWrite, selects: Callable[[Object], bool]) -> ApiChange | None:
    """A write as a watch with this selection shows it. What leaves the selection is deleted, in its state before."""
    before = None if written.before is None else loaded(written.before, written.revision)
    after = None if written.after is None else loaded(written.after)
    was, is_ = before is not None and selects(before), after is not None and selects(after)
    if is_ and after is not None:
        return ApiChange(ChangeKind.MODIFIED if was else ChangeKind.ADDED, after, written.revision)
    if was and before is not None:
        return ApiChange(ChangeKind.DELETED, before, written.revision)
    return None
