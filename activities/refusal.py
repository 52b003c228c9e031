"""Telling a pod, and keeping as its record, that an attempt did not place it.

Condition and record are written in one transaction that compares the pod's revision; so a record never
speaks of a pod that is bound, deleted or another one by now.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from wharfinger.activities.standing import Life, Standings, StoredPod
from wharfinger.cache.cache import Cache
from wharfinger.contracts.records import AttemptRecord
from wharfinger.contracts.scheduling import Recorded, RefusalInput, RefusalOutcome
from wharfinger.errors import RequestTooLarge
from wharfinger.manifests.edit import refuse_pod
from wharfinger.model.pod import PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Get, Put, Store, TxnResult


class Refusals:
    """Writes the refusals of one worker's attempts."""

    def __init__(self, *, store: Store, cache: Cache, standings: Standings, utc_now: Callable[[], datetime]) -> None:
        self._store = store
        self._cache = cache
        self._standings = standings
        self._utc_now = utc_now

    async def record(self, request: RefusalInput) -> RefusalOutcome:
        """Write condition and record; Gone when the pod needs neither any more.

        Repeated for as long as the pod changes under it: what matters is read again each time. Raises
        `StoreError`; running it again is safe, also after an answer that was lost.
        """
        life = Life(PodKey(request.namespace, request.name), request.uid, request.create_revision)
        found = self._standings.from_cache(life) or await self._standings.read(life)
        while isinstance(found, StoredPod):
            # An assumption that an earlier step of this attempt left is of no use any more.
            self._cache.forget_unsent(found.pod.identity)
            answer = await self._write(request, found)
            if answer.succeeded:
                return Recorded(revision=answer.revision)
            found = self._standings.of_stored(life, answer.reads[0])
        return found

    async def _write(self, request: RefusalInput, found: StoredPod) -> TxnResult:
        now = self._utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
        pod_key = keys.pod(request.namespace, request.name)
        compare = Compare(pod_key, "mod", found.pod.mod_revision)
        record = Put(keys.attempt(request.namespace, request.name), self._record(request, found, now).to_bytes())
        value = refuse_pod(found.raw, reason=request.reason, message=request.message, now=now)
        if value is not None:
            try:
                return await self._store.txn([compare], [Put(pod_key, value), record], [Get(pod_key)])
            except RequestTooLarge:
                pass  # no room for the condition in a pod of this size; the reason is kept in the record
        return await self._store.txn([compare], [record], [Get(pod_key)])

    def _record(self, request: RefusalInput, found: StoredPod, now: str) -> AttemptRecord:
        return AttemptRecord(
            attempt=request.attempt,
            reason=request.reason,
            plugins=request.rejectors,
            revision=request.revision,
            message=request.message,
            workflow_id=request.workflow_id,
            run_id=request.run_id,
            create_revision=found.pod.create_revision,
            time=now,
        )
