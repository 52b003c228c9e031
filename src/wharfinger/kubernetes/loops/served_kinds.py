"""The importer's part for kinds that not every API server has: PodGroups of several API groups, DeviceClasses.

::

    which are served? ─► follow each (`importing`) ─► look again: every ten seconds, and soon while one is not followed
         ▲                                                 │
         └──── another kind or version is served ◄─────────┘ copies of a kind that is gone are removed

Copies of PodGroups of all groups have the same keys. Of two of one name, the one whose group is the first in
`POD_GROUPS` is copied. When it goes, the groups behind it are listed once more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from wharfinger.apiserver.client import ApiResource
from wharfinger.errors import UpstreamError
from wharfinger.kubernetes.effects.following import FollowedKind, KindProgress
from wharfinger.kubernetes.loops.connecting import OPTIONAL_KINDS, served_kinds
from wharfinger.kubernetes.loops.holding_lease import note
from wharfinger.process.running import first_to_end

if TYPE_CHECKING:
    from wharfinger.kubernetes.loops.importing import Importing

LOOK_EVERY = 10.0
"""Seconds between two looks at what is served: a few small requests of one worker."""
LOOK_SOON = 2.0
"""Seconds until the next look, while a kind is not followed: it may be gone, and nothing is placed meanwhile."""
GONE_AFTER = 2
"""Looks in a row that do not show a kind before it counts as gone: a server that starts may not have it yet."""
WHAT = "discovery"
"""Under this name troubles of looking are reported."""


class ServedKinds:
    """Follows those of `OPTIONAL_KINDS` that the server has, for one importer."""

    def __init__(
        self, importing: Importing, revisions: Mapping[str, int], followed: Callable[[KindProgress], FollowedKind]
    ) -> None:
        """Kinds are added to those that the importer follows, and removed. `revisions`: up to where each was copied."""
        self.looked = False
        """Whether it is known what is served."""
        self._importing = importing
        self._kinds = importing.kinds
        self._revisions = revisions
        self._followed = followed
        self._trouble = importing.trouble
        self._pause = importing.pause
        self._unseen = {KindProgress(kind).name: 0 for kind in OPTIONAL_KINDS}
        """Looks in a row that did not show the kind, by its name; in the order of `OPTIONAL_KINDS`."""

    async def run(self) -> None:
        """Follow until cancelled. Raises `StoreError`, `NotTheImporter`, `ApiWentBack`."""
        while not await self._look():
            await self._pause(LOOK_SOON)
        self.looked = True
        while True:
            following = [self._importing.follow(self._followed(progress)) for progress in self._progress()]
            await first_to_end(self._until_others(), *following)

    def _progress(self) -> list[KindProgress]:
        return [self._kinds[name] for name in self._unseen if name in self._kinds]

    async def _until_others(self) -> None:
        """Return when other kinds are served than are followed, or one has to be listed again."""
        waited = 0.0
        while True:
            await self._pause(LOOK_SOON)
            waited += LOOK_SOON
            if (
                waited < LOOK_EVERY
                and all(one.live or not one.needed for one in self._progress())
                and not self._leaving
            ):
                continue
            waited = 0.0
            before = [one.resource for one in self._progress()]
            await self._look()
            if self._list_hidden() or before != [one.resource for one in self._progress()]:
                return

    @property
    def _leaving(self) -> bool:
        """Whether a kind was not shown by the last look, and may still have copies."""
        return any(0 < looks < GONE_AFTER for looks in self._unseen.values())

    async def _look(self) -> bool:
        """Bring the kinds up to date with what is served; whether the API server has answered."""
        try:
            served = {KindProgress(one).name: one for one in await served_kinds(self._importing.apiserver)}
        except UpstreamError as error:
            note(self._trouble, WHAT, str(error))
            return False
        self._trouble.pop(WHAT, None)
        for kind in OPTIONAL_KINDS:
            name = KindProgress(kind).name
            resource = served.get(name)
            self._unseen[name] = 0 if resource is not None else self._unseen[name] + 1
            if resource is not None:
                self._serve(resource)
            elif self._unseen[name] == GONE_AFTER:
                await self._forget(kind)
        return True

    def _serve(self, resource: ApiResource) -> None:
        found = KindProgress(resource)
        known = self._kinds.get(found.name)
        if known is None:
            found.revision = self._revisions.get(found.name)
        elif known.resource != resource:
            found.revision, found.unreadable = known.revision, known.unreadable
        else:
            return
        self._kinds[found.name] = found

    async def _forget(self, kind: ApiResource) -> None:
        """Also where the kind was not followed by this importer: an earlier one may have copied it."""
        gone = KindProgress(kind)
        await self._followed(gone).forget()
        self._kinds.pop(gone.name, None)
        self._trouble.pop(gone.name, None)

    def _list_hidden(self) -> bool:
        """Whether a kind has to be listed again: a PodGroup has gone, and a later group may have one of its name."""
        gone, again = 0, False
        for progress in (one for one in self._progress() if one.group):
            if gone:
                progress.revision, again = None, True
            gone, progress.gone = gone + progress.gone, 0
        return again
