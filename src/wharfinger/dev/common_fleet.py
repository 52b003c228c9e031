"""The common fleet of a dev tree: written once, then its user's; and which instances etcd shows.

Only a named number of workers changes it later. Instances are the agent's to start and the fleet's to replace; the tree
only looks, so that it can say when all is up and which processes run.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic import ValidationError

from wharfinger.errors import ServerError, StoreError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, KeyValue, Put, Store
from wharfinger.fleet.spec.fleet import is_deleting
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.process.names import COMMON
from wharfinger.process.records import InstanceRecord

MIN_READY = 1
"""Seconds that an instance must have been ready: in dev a person waits for it."""
SOAK = 5
"""Seconds for which an updated slot is observed: enough for a configuration that ends an instance at its start."""
TRIES = 5


async def want(store: Store, workers: int | None) -> bool:
    """Put the fleet when there is none (one instance unless `workers` says otherwise); else set its replicas.

    Without `workers`, a fleet that exists stays as it is. Returns False for one that is being deleted: it may not
    be changed, and can be made again when it is gone.
    """
    key = keys.fleet(COMMON)
    for _ in range(TRIES):
        found = (await store.get(key)).kv
        if found is None:
            written, revision = _fleet(1 if workers is None else workers), 0
        else:
            written, revision = json.loads(found.value), found.mod_revision
            if is_deleting(written):
                return False
            if workers is None or written.setdefault("spec", {}).get("replicas", 1) == workers:
                return True
            written["spec"]["replicas"] = workers
        put = Put(key, json.dumps(written, separators=(",", ":")).encode())
        if (await store.txn([Compare(key, "mod", revision)], [put])).succeeded:
            return True
    raise ServerError("another client is changing the common fleet: try again")


def _fleet(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "wharfinger.dev/v1",
        "kind": "SchedulerFleet",
        "metadata": {
            "name": COMMON,
            "uid": str(uuid4()),
            "creationTimestamp": rfc3339_now(),
            "annotations": {"wharfinger.dev/changed-by": "wharfinger dev"},
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": MIN_READY,
            "strategy": {"rollingUpdate": {"soakSeconds": SOAK}},
        },
    }


log = logging.getLogger(__name__)

AGAIN = 0.5
"""Seconds until etcd is asked again when it did not answer."""
FOLLOWED = (keys.fleet(COMMON), keys.instance.below(COMMON))


@dataclass(frozen=True, slots=True)
class SlotOwner:
    """One slot's owner: its highest ready incarnation."""

    slot: int
    pid: int
    health: str
    """Base URL of its health endpoints."""

    @property
    def name(self) -> str:
        """As people speak of it."""
        return f"{COMMON}/{self.slot}"

    @property
    def up(self) -> bool:
        """Whether its process runs; the registration of a dead one stays until its lease expires."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True


class InstanceFollower:
    """Follows the fleet's object and its instances; `changed` is called after every change."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._values: dict[str, dict[str, bytes]] = {prefix: {} for prefix in FOLLOWED}

    @property
    def wanted(self) -> int:
        """Replicas of the common fleet; 0 as long as none is known."""
        written = self._values[FOLLOWED[0]].get(keys.fleet(COMMON))
        with suppress(ValueError, AttributeError, TypeError):
            return int(json.loads(written or b"{}").get("spec", {}).get("replicas", 1)) if written else 0
        return 0

    @property
    def ready(self) -> list[SlotOwner]:
        """The owners of the slots, in the slots' order."""
        owners: dict[int, tuple[int, SlotOwner]] = {}
        for key, value in self._values[FOLLOWED[1]].items():
            place = key.rsplit("/", 2)[1:]
            if not all(part.isdigit() for part in place):
                continue  # a worker started by hand
            slot, incarnation = map(int, place)
            with suppress(ValidationError):
                record = InstanceRecord.model_validate_json(value)
                if record.state == "ready" and incarnation > owners.get(slot, (0, None))[0]:
                    owners[slot] = (incarnation, SlotOwner(slot, record.pid, record.health))
        return [owners[slot][1] for slot in sorted(owners)]

    @property
    def complete(self) -> bool:
        """Whether every wanted slot has a ready instance, and there are no others."""
        return [instance.slot for instance in self.ready] == list(range(self.wanted))

    async def follow(self, store: Store) -> None:
        """Look until cancelled; an etcd that is away is waited for."""
        await asyncio.gather(*(self._follow(store, prefix) for prefix in FOLLOWED))

    async def _follow(self, store: Store, prefix: str) -> None:
        while True:
            try:
                found = await store.whole(prefix)
                self._replace(prefix, {kv.key: kv.value for kv in found.items})
                async with store.watch(prefix, found.revision + 1) as batches:
                    async for batch in batches:
                        for event in batch.events:
                            self._apply(prefix, event.kv, deleted=event.deleted)
                        if batch.events:
                            self._changed()
            except StoreError as error:
                log.debug("fleet_unreadable error=%r", str(error))
            await asyncio.sleep(AGAIN)

    def _replace(self, prefix: str, found: Mapping[str, bytes]) -> None:
        self._values[prefix] = dict(found)
        self._changed()

    def _apply(self, prefix: str, kv: KeyValue, *, deleted: bool) -> None:
        if deleted:
            self._values[prefix].pop(kv.key, None)
        else:
            self._values[prefix][kv.key] = kv.value
