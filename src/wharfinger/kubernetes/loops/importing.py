"""The importer: of all workers the one that copies the Kubernetes API's objects into etcd, and holds its Lease.

::

    wait until `importer` is free ─► take it, under a lease ─► follow every kind   (`effects.following`)
         ▲                                                     tell `imported` each second, while all are live
         │                                                     hold the Lease, and keep `active` while it is held
         └───────── lease lost, or another importer ◄──────────┘

The Lease and `active` are next door (`holding_lease`). Nothing is bound before everything has been copied once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from wharfinger.apiserver.client import ApiClient, ApiResource
from wharfinger.errors import (
    HistoryGone,
    LeaseLost,
    StoreError,
    UpstreamError,
    WatchEnded,
    WharfingerError,
)
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Lease, Put, Store
from wharfinger.kubernetes.effects.adopting import Adopter, NotTheImporter
from wharfinger.kubernetes.effects.copying import ApiWentBack, Copying, forget_copies
from wharfinger.kubernetes.effects.election import Election
from wharfinger.kubernetes.effects.following import FollowedKind, KindProgress
from wharfinger.kubernetes.effects.states import COPIED_TOGETHER
from wharfinger.kubernetes.loops.holding_lease import LeaseHolding, note
from wharfinger.kubernetes.loops.served_kinds import ServedKinds
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.pod import PodKey
from wharfinger.pressure import delays
from wharfinger.process.following import watching
from wharfinger.process.parts import ProcessParts
from wharfinger.process.registration import SignsOfLife
from wharfinger.process.running import first_to_end
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts import promise_records
from wharfinger.scheduling.model.promises import Imported, Importer, Promise
from wharfinger.settings import KubernetesSettings

log = logging.getLogger(__name__)

TELL_EVERY = 1.0
"""Seconds between two signs of the importer."""
TELL_SOON = 0.02
"""Seconds between two looks at whether everything is copied, before the first sign: nothing is bound until then."""
LOOK_EVERY = 5.0
"""Seconds until `importer` is looked at again, should the watch have missed that it went."""
SILENT_AFTER = 60.0
"""Seconds without anything, not even a bookmark, after which a watch that ends is followed by a list: the API hangs
where it is asked for a revision that it has not reached, because it was restored."""
HUNG_AFTER = 5.0
"""Seconds without one after which the lease is not renewed: an importer that hangs is replaced as one that died."""
LEAVE_WITHIN = 5.0
"""Seconds that giving up etcd's lease may take."""


class Importing:
    """The importer's loop of one worker; a worker that is not the importer waits here to become it."""

    def __init__(
        self,
        process: ProcessParts,
        apiserver: ApiClient,
        settings: KubernetesSettings,
        *,
        election: Election | None,
        resources: Sequence[ApiResource],
        limits: Limits,
        holder: str,
        whole: bool = False,
        promised: Callable[[PodKey], Promise | None] = lambda _: None,
    ) -> None:
        """`election`: None = this installation binds whenever it runs; `resources`: the kinds that every server has;
        others are followed as they are served (`served_kinds`). `holder`: this worker, `<pid>@<host>`; `whole`:
        copies keep all fields of pods and nodes; `promised`: the promise of a pod as this worker has seen it last.
        """
        self._store = process.store
        self._process = process
        self.apiserver = apiserver
        self._settings = settings
        self.trouble: dict[str, str] = {}
        """Why a kind is not followed now, by its name; under `lease` and `active`, why nothing may be bound."""
        self._holding = LeaseHolding(process, election, settings.election, holder=holder, trouble=self.trouble)
        self._resources = resources
        self._limits = limits
        self._holder = holder
        self._whole = whole
        self._promised = promised
        self.pause = process.pause
        self._signs = SignsOfLife(process.clock, HUNG_AFTER, pause=process.pause)
        self.kinds: dict[str, KindProgress] = {}
        """By name (`KindProgress.name`), while this worker is the importer."""

    async def run(self) -> None:
        """Work until cancelled. Raises `LeaderElectionLost`: the process has to end."""
        await first_to_end(self._take_turns(), self._signs.run())

    async def _take_turns(self) -> None:
        pauses = delays(0.2, 5.0, self._process.rng)
        while True:
            try:
                await self._wait_until_free()
                self._signs.give()
                lease = await self._store.grant_lease(self._settings.importer_ttl, alive=self._signs.alive)
                try:
                    epoch = await self._take(lease)
                    if epoch:
                        pauses = delays(0.2, 5.0, self._process.rng)
                        await self._import(epoch, lease)
                finally:
                    await self._leave(lease)
            except (NotTheImporter, LeaseLost) as error:
                log.warning("importer_ended holder=%s error=%r", self._holder, str(error) or "another one took over")
            except StoreError as error:
                log.warning("importer_interrupted effect=retried error=%r", str(error))
            await self.pause(next(pauses))

    # --- becoming the importer ----------------------------------------------------------------

    async def _wait_until_free(self) -> None:
        async with watching(self._store, [keys.IMPORTER]) as watch:
            while (await self._store.get(keys.IMPORTER)).kv is not None:
                await watch.changed(LOOK_EVERY)

    async def _take(self, lease: Lease) -> int:
        """The epoch: mod revision of the key, or 0 when another worker was quicker."""
        record = promise_records.stored(Importer(self._holder, rfc3339(self._process.utc_now())))
        answer = await self._store.txn([Compare(keys.IMPORTER, "create", 0)], [Put(keys.IMPORTER, record, lease.id)])
        if answer.succeeded:
            log.info("importer_begins holder=%s epoch=%d", self._holder, answer.revision)
        return answer.revision if answer.succeeded else 0

    async def _leave(self, lease: Lease) -> None:
        """Nothing is imported any more; another worker may take over at once."""
        self.kinds = {}
        with contextlib.suppress(TimeoutError, WharfingerError):
            async with asyncio.timeout(LEAVE_WITHIN):
                await lease.revoke()

    # --- being it -----------------------------------------------------------------------------

    async def _import(self, epoch: int, lease: Lease) -> None:
        before, written = await _imported(self._store)
        if before.generation and not before.revisions:  # an importer ended while it forgot
            await forget_copies(self._store, self._plurals, epoch=epoch, generation=before.generation)
            before, written = await _imported(self._store)
        anew = bool(before.revisions) and (before.mixed or before.whole != self._whole)
        if anew:
            written = await self._begin_anew(epoch, before, written)
        revisions = {} if anew else before.revisions
        always = [KindProgress(one, revisions.get(one.plural)) for one in self._resources]
        self.kinds = {one.name: one for one in always}
        copied = asyncio.Event()
        resumes = all(one.plural in before.revisions for one in self._resources)
        adopter = Adopter(self._store, utc_now=self._process.utc_now, whole=self._whole, anew=anew)
        copying = Copying(adopter, limits=self._limits, epoch=epoch, promised=self._promised)

        def followed(progress: KindProgress) -> FollowedKind:
            floor = before.revisions.get(progress.name, 0)
            return FollowedKind(progress, self.apiserver, copying, self._process.metrics, floor=floor)

        optional = ServedKinds(self, revisions, followed)
        try:
            await first_to_end(
                # first, because what ends the process counts more than what ends at the same moment
                self._holding.hold(epoch, copied, resumes=resumes),
                self._tell(epoch, before.generation, written, copied, lambda: optional.looked),
                _until_lost(lease),
                optional.run(),
                *(self.follow(followed(progress)) for progress in always),
            )
        except ApiWentBack:
            log.error("upstream_was_restored effect=all_is_copied_anew generation=%d", before.generation + 1)
            forgotten = await forget_copies(self._store, self._plurals, epoch=epoch, generation=before.generation + 1)
            log.error("upstream_copies_forgotten copies=%d promises=%d", *forgotten)
        except asyncio.CancelledError:
            await self._holding.give_back(epoch)
            raise

    @property
    def _plurals(self) -> list[str]:
        return [*(one.plural for one in self._resources), *COPIED_TOGETHER]

    async def follow(self, kind: FollowedKind) -> None:
        """One kind, again and again."""
        name = kind.progress.name
        pauses = delays(0.2, 10.0, self._process.rng)
        while True:
            began = self._process.clock()
            try:
                await kind.follow()
            except HistoryGone as error:
                kind.progress.revision = None
                log.info("upstream_watch_expired effect=list_again kind=%s error=%r", name, str(error))
            except WatchEnded:
                pauses = delays(0.2, 10.0, self._process.rng)
            except UpstreamError as error:
                note(self.trouble, name, str(error))
                if not kind.shown and self._process.clock() - began >= SILENT_AFTER:
                    kind.progress.revision = None
                    log.info("upstream_watch_silent effect=list_again kind=%s", name)
            if self._process.clock() - began > 30.0:
                pauses = delays(0.2, 10.0, self._process.rng)
            await self.pause(next(pauses))

    async def _tell(
        self, epoch: int, generation: int, written: int, copied: asyncio.Event, looked: Callable[[], bool]
    ) -> None:
        """Write each second up to where the copies are complete, while every kind that is needed is followed.

        `looked`: whether it is known which kinds there are. `written`: mod revision of `imported` as it was read. It is
        compared, because an etcd that was restored from a backup may have this importer's key, and not the copies that
        it has made since.
        """
        while True:
            if looked() and all(kind.live or not kind.needed for kind in self.kinds.values()):
                for name in (name for name, kind in self.kinds.items() if kind.live):
                    self.trouble.pop(name, None)
                copies = {name: kind.revision for name, kind in self.kinds.items()}
                revisions = {name: revision for name, revision in copies.items() if revision is not None}
                now = rfc3339(self._process.utc_now())
                record = Imported(revisions, generation, now, self._whole, hindered=self._holding.hindered)
                written = await self._write(epoch, record, written)
                copied.set()
            await self.pause(TELL_EVERY if copied.is_set() else TELL_SOON)

    async def _begin_anew(self, epoch: int, before: Imported, written: int) -> int:
        """All copies are made once more; nothing may be bound until they are of one kind. As `_write`."""
        need = "extenders_need_whole_objects" if self._whole else "no_extender_needs_whole_objects"
        log.info("upstream_copied_anew reason=%s", need)
        await self._holding.forbid(epoch)
        return await self._write(epoch, replace(before, mixed=True), written)

    async def _write(self, epoch: int, record: Imported, written: int) -> int:
        """Write `imported`; its mod revision, which was `written`. Raises `NotTheImporter` and `StoreError`."""
        answer = await self._store.txn(
            [Compare(keys.IMPORTER, "mod", epoch), Compare(keys.IMPORTED, "mod", written)],
            [Put(keys.IMPORTED, promise_records.stored(record))],
        )
        if not answer.succeeded:
            raise NotTheImporter
        return answer.revision


async def _imported(store: Store) -> tuple[Imported, int]:
    """What was told last, and its mod revision; 0 for none."""
    kv = (await store.get(keys.IMPORTED)).kv
    if kv is None:
        return Imported(), 0
    try:
        return promise_records.read_value(Imported, kv.value), kv.mod_revision
    except ValueError as error:
        log.warning("imported_unreadable effect=all_kinds_are_listed error=%r", str(error))
        return Imported(), kv.mod_revision


async def _until_lost(lease: Lease) -> None:
    raise LeaseLost(await lease.wait_lost())
