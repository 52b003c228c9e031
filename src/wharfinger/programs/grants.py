"""The grant under which this worker lives, where an agent started it: `grants/<tenant>/<slot>/<incarnation>`.

::

    want = run   ──► it registers, and compares the grant whenever it writes its registration
    want = drain ──► it drains, and its process ends with exit code 0
    missing      ──► it stops at once, with exit code 3: deleting the grant is the fence

Both are final: an incarnation's number is not given again while its fleet lives, and a grant that was put anew (a fleet
that was deleted and made again) is another process's. What the watch shows may be older than what was read, never newer
in effect: it can only tell later what ends this worker. Neighbours: `programs.membership` asks before each write,
`programs.loops` ends the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import ValidationError

from wharfinger.errors import InvalidObject, StoreError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.fleet.model.fleet import LONGEST_TIME, Grant
from wharfinger.objects.documents import documents
from wharfinger.process.running import unless_stopped
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import ObservedKey, first_line
from wharfinger.settings import GrantSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK = 2.0
"""Seconds between two reads while there is no watch."""


class OwnGrant:
    """What is known of this worker's grant; a `Subscriber`."""

    follows = ("grant",)

    def __init__(
        self,
        store: Store,
        tenant: str,
        settings: GrantSettings,
    ) -> None:
        self.key = keys.grant(tenant, settings.slot, settings.incarnation)
        self._name = self.key.removeprefix(keys.GRANTS)
        self._store = store
        self._revision = settings.revision
        self._shown: Callable[[], ObservedKey | None] = lambda: None
        self._create_revision = 0
        self.host = ""
        """By its agent's name, once it is known."""
        self.settle = 0.0
        """Seconds to stay `starting` once synced, because the incarnation before crashed."""
        self.draining = False
        """Whether it wants this worker to drain."""
        self.gone = asyncio.Event()
        """Set once it is gone: this worker must not live."""
        self.ended = asyncio.Event()
        """Set as soon as one of both is the case."""

    async def read(self) -> KeyValue | None:
        """The grant as it is now, taken in; None = it is gone. Raises `StoreError`, `InvalidObject`."""
        kv = (await self._store.get(self.key)).kv
        self._take(kv, decode_grant(kv) if kv is not None else None)
        return kv if not self.gone.is_set() else None

    def follow(self, shown: Callable[[], ObservedKey | None]) -> None:
        """`shown` answers the grant as the watch shows it; None = there is none."""
        self._shown = shown

    def apply(self, _: Changes) -> None:
        """Follow the watch; a list without the grant means that the grant is gone."""
        shown = self._shown()
        self._take(shown and shown.kv, shown and shown.value)

    def _take(self, kv: KeyValue | None, value: object) -> None:
        record = value if isinstance(value, Grant) else None
        if kv is None or not self._ours(kv, record):
            if not self.gone.is_set():
                log.warning("grant_deleted effect=stops_at_once grant=%s", self._name)
            self.gone.set()
            self.ended.set()
            return
        self._create_revision = kv.create_revision
        if record is None:  # unreadable: it neither allows nor ends anything
            return
        self.host, self.settle = record.host, record.settle
        if record.want == "drain":
            if not self.draining:
                log.info("grant_wants_drain effect=draining grant=%s", self._name)
            self.draining = True
            self.ended.set()

    def _ours(self, kv: KeyValue, record: Grant | None) -> bool:
        """Not one that was given to another process of the same name: of a fleet that was made again.

        An etcd that was restored from a backup counts its revisions, and its incarnations, once more.
        """
        if self._create_revision not in (0, kv.create_revision):
            return False
        return record is None or (self._revision in (0, record.revision) and self.host in ("", record.host))


def decode_grant(kv: KeyValue) -> Grant:
    """A stored grant; raises `InvalidObject`."""
    from wharfinger.fleet.contracts.fleet_records import read_value

    try:
        return read_value(Grant, kv.value)
    except ValidationError as error:
        raise InvalidObject(first_line(error)) from error


async def while_granted(grant: OwnGrant | None, work: Coroutine[Any, Any, T]) -> T | None:
    """The work's result; None when the grant ends before, and the work is cancelled.

    For what comes before the watch: while other servers are waited for, the grant is read now and then.
    """
    if grant is None:
        return await work
    looking = asyncio.create_task(_look(grant))
    try:
        return await unless_stopped(grant.ended, work)
    finally:
        looking.cancel()


async def _look(grant: OwnGrant) -> None:
    while True:
        with suppress(StoreError, InvalidObject):
            await grant.read()
        await asyncio.sleep(LOOK)


async def min_ready(store: Store, tenant: str, usual: float) -> float:
    """The seconds that an instance must be ready until it counts as good.

    Returns the fleet's current `minReadySeconds`, or `usual` where the fleet has none or cannot be read.
    """
    try:
        kv = (await store.get(keys.fleet(tenant))).kv
        written = documents.parse(kv.value) if kv is not None else None
    except (StoreError, InvalidObject) as error:
        log.debug("min_ready_seconds_unknown error=%r", str(error))
        return usual
    spec = written.get("spec") if isinstance(written, dict) else None
    said = spec.get("minReadySeconds") if isinstance(spec, dict) else None
    if not isinstance(said, int | float) or isinstance(said, bool) or not 0 <= said <= LONGEST_TIME:
        return usual  # the fleet's actor does not take that either
    return float(said)
