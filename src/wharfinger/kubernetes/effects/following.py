"""Following one kind of the API for the importer: a list or what is missing since the last revision, then a watch.

What the watch shows is taken in batch by batch; `revision` moves only behind what is in etcd, so a new importer begins
where this one ended. After a list, copies that it did not name are removed at the list's revision.

The first batch of a watch that is resumed has all that changed meanwhile: the last state of each object is copied, and
none that has passed. `live` must not be true before it, while the API cannot be reached, or has forgotten the revision.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from wharfinger.apiserver.client import ApiChange, ApiClient, ApiResource, Batch, ChangeKind
from wharfinger.etcd import keys
from wharfinger.kubernetes.effects.adopting import present
from wharfinger.kubernetes.effects.copying import ApiWentBack, Copying, SeenState
from wharfinger.kubernetes.effects.states import COPIED_TOGETHER, PODS, ObjectState
from wharfinger.objects.documents.copies import StateOfCopy
from wharfinger.scheduling.contracts.promise_records import StateEffect
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods are not copied, as kube-scheduler does not watch them."""
FOR_REASONS = frozenset({"deviceclasses"})
"""Kinds by which only the reason of a refusal differs."""
GATHER = 0.025
"""Seconds in which changes of known objects may gather into one transaction. A pod that is new is copied at once."""


@dataclass(slots=True)
class KindProgress:
    """How far the copies of one kind are."""

    resource: ApiResource
    revision: int | None = None
    """Everything up to here is in etcd; None = it has to be listed."""
    live: bool = False
    """Whether its watch is open, and everything up to its beginning is in etcd."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Objects that could not be copied, by key."""
    gone: int = 0
    """Objects that were seen going."""

    @property
    def group(self) -> str:
        """The API group where copies of several groups lie together; else empty."""
        return self.resource.group if self.resource.plural in COPIED_TOGETHER else ""

    @property
    def needed(self) -> bool:
        """Whether decisions rest on it: nothing is placed while such a kind is not followed."""
        return self.resource.plural not in FOR_REASONS

    @property
    def name(self) -> str:
        """By which the kind is reported: its plural, and its group where several have it."""
        return f"{self.resource.plural}.{self.group}" if self.group else self.resource.plural


class FollowedKind:
    """One kind, as the importer follows it."""

    def __init__(
        self,
        progress: KindProgress,
        apiserver: ApiClient,
        copying: Copying,
        metrics: Metrics,
        *,
        floor: int = 0,
    ) -> None:
        """`floor`: the revision up to which the kind was copied by any importer; a list below it is a restore."""
        self.progress = progress
        self.shown = False
        """Whether the watch has shown anything since `follow` was called."""
        self._apiserver = apiserver
        self._copying = copying
        self._metrics = metrics
        self._floor = floor

    async def follow(self) -> None:
        """List where that is needed, then watch; ends only by an error.

        Raises `UpstreamError` (`HistoryGone`: call again, and it lists), `StoreError`, `NotTheImporter`,
        `ApiWentBack`.
        """
        progress, resource = self.progress, self.progress.resource
        selector = UNFINISHED if resource.plural == PODS else ""
        known: dict[str, StateOfCopy] | None = None
        newest = 0
        self.shown = False
        if progress.revision is None:
            known = self._own(await self._copying.copies(resource.plural))
        elif (newest := await self._newest_revision()) < progress.revision:
            raise ApiWentBack  # a watch from a revision to come shows nothing, and does not fail
        try:
            async with self._apiserver.watch(
                resource, revision=progress.revision, newest=newest, field_selector=selector, gather=GATHER
            ) as batches:
                async for batch in batches:
                    self.shown |= known is not None or bool(batch.changes) or batch.revision != progress.revision
                    if known is None:
                        await self._take(batch)
                        progress.live = True
                    elif await self._take_listed(batch, known):
                        known, progress.live = None, True
        finally:
            progress.live = False

    async def _newest_revision(self) -> int:
        """The revision at which the API is. Raises `UpstreamError`."""
        async with contextlib.aclosing(self._apiserver.list(self.progress.resource, page=1)) as pages:
            _, revision = await anext(pages)
        return revision

    async def _take(self, batch: Batch) -> None:
        if batch.changes:
            await self._copy(self._seen(change) for change in batch.changes)
        self._advance(batch.revision)

    async def _take_listed(self, batch: Batch, known: dict[str, StateOfCopy]) -> bool:
        """Objects of the first list: what is copied already is left alone. Whether the list ended with them."""
        fresh: list[SeenState] = []
        for change in batch.changes:
            seen = self._seen(change)
            copied = known.pop(seen.state.key, None)
            if copied is None:
                fresh.append(SeenState(seen.state, new=True))
            elif (copied.uid, copied.revision) != (seen.state.uid, seen.state.revision):
                fresh.append(SeenState(seen.state))
        await self._copy(fresh)
        if not batch.listed:
            return False
        if batch.revision < self._floor:
            raise ApiWentBack
        await self._copy(SeenState(self._gone(key, batch.revision)) for key in known)
        log.info("upstream_listed kind=%s revision=%d removed=%d", self.progress.name, batch.revision, len(known))
        self._advance(batch.revision)
        return True

    async def forget(self) -> None:
        """Remove the copies: the API does not serve the kind any more. Raises `StoreError`, `NotTheImporter`."""
        known = self._own(await self._copying.copies(self.progress.resource.plural))
        await self._copy(SeenState(self._gone(key, state.revision)) for key, state in known.items())
        if known:
            log.warning("upstream_kind_gone kind=%s copies_removed=%d", self.progress.name, len(known))

    def _own(self, known: dict[str, StateOfCopy]) -> dict[str, StateOfCopy]:
        """Of copies that lie together those of this kind's group."""
        group = self.progress.group
        return {key: state for key, state in known.items() if state.group == group} if group else known

    async def _copy(self, seen: Iterable[SeenState]) -> None:
        states = list(seen)
        if not states:
            return
        self.progress.gone += sum(one.state.object is None for one in states)
        copied = await self._copying.take(states)
        plural, copies = self.progress.resource.plural, self._metrics.kubernetes_copies
        for effect, count in copied.effects.items():
            if effect is not StateEffect.NOTHING:
                copies.labels(kind=plural, effect=effect.value).inc(count)
        unreadable = [line.partition(": ") for line in copied.unreadable]
        for key in {one.state.key for one in states}.difference(key for key, _, _ in unreadable):
            self.progress.unreadable.pop(key, None)
        for key, _, why in unreadable:
            if self.progress.unreadable.get(key) != why:
                log.warning("upstream_object_not_copied key=%s error=%r", key, why)
            self.progress.unreadable[key] = why

    def _seen(self, change: ApiChange) -> SeenState:
        resource, group = self.progress.resource, self.progress.group
        obj = change.object
        if group:  # a list may leave it out
            obj = {"apiVersion": resource.api_version, **obj}
        state = present(resource.plural, obj, group)
        if change.kind is ChangeKind.DELETED:
            state = replace(state, revision=change.revision, object=None)
        return SeenState(state, new=change.kind is ChangeKind.ADDED)

    def _gone(self, key: str, revision: int) -> ObjectState:
        plural = self.progress.resource.plural
        namespace, _, name = key.removeprefix(keys.stored_prefix(plural)).rpartition("/")
        return ObjectState(plural, namespace, name, revision, group=self.progress.group)

    def _advance(self, revision: int) -> None:
        if revision:
            self.progress.revision = max(self.progress.revision or 0, revision)
            self._floor = max(self._floor, revision)
