"""Refusals that the Kubernetes API was not told of are told again, by the owner of their pod.

A refusal is recorded in etcd, and told right afterwards. Where that failed, record and copy say different things: the
copy has what the API has. So nothing has to be remembered, and a worker that takes over sees it as well.

A record is told only if the transaction that wrote it wrote the pod as well: no other client can have put it then. A
worker that begins after the pod was changed cannot see that any more, so it leaves the refusal to the next attempt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from wharfinger.kubernetes.effects.telling import Teller
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.refusal import CONTENDED, Refusal
from wharfinger.scheduling.loops.shards import Shards
from wharfinger.scheduling.state.cache.cache import Cache

log = logging.getLogger(__name__)

EVERY = 15.0
"""Seconds between two looks; what differs at two of them is told."""
REMEMBERED = 1_000
"""Records of which it is known that they were logged."""
MOST = 500
"""Refusals that one look tells."""


class RefusalSweep:
    """A timer over the records of waiting pods."""

    def __init__(
        self,
        teller: Teller,
        cache: Cache,
        shards: Shards,
        records: Mapping[PodKey, Refusal],
        *,
        every: float = EVERY,
    ) -> None:
        """`records`: the attempt records, as the watch shows them."""
        self._teller = teller
        self._cache = cache
        self._shards = shards
        self._records = records
        self._every = every
        self._differed: dict[PodKey, int] = {}
        """Record revision by pod, of those that differed at the last look."""
        self._logged: dict[PodKey, int] = {}
        """Record revision by pod, of those that are not told."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except Exception:  # one refusal must not end the sweep of all others
                log.exception("refusal_sweep_failed")

    async def look(self) -> None:
        """Tell what differed at the last look already."""
        differ = {
            key: refusal.record_revision
            for key, refusal in self._records.items()
            if (pod := self._cache.pods.get(key)) is not None and self._is_untold(pod, refusal)
        }
        for key in [key for key in differ if not self._records[key].with_pod]:
            self._log(key, differ.pop(key))
        due = [key for key, revision in differ.items() if self._differed.get(key) == revision][:MOST]
        self._differed = differ
        for key in due:
            await self._tell(key)

    def _log(self, key: PodKey, revision: int) -> None:
        """Log a record that is not told, once."""
        if self._logged.get(key) == revision:
            return
        if len(self._logged) >= REMEMBERED:
            self._logged.clear()
        self._logged[key] = revision
        log.warning("refusal_unproven effect=left_to_the_next_attempt pod=%s revision=%d", key, revision)

    def _is_untold(self, pod: Pod, refusal: Refusal) -> bool:
        if not pod.pending or refusal.create_revision != pod.create_revision or refusal.reason == CONTENDED:
            return False
        told = pod.condition == ("False", refusal.reason, refusal.message)
        return not told and self._shards.mine(pod)

    async def _tell(self, key: PodKey) -> None:
        pod, raw, refusal = self._cache.pods.get(key), self._cache.raw(key), self._records.get(key)
        if pod is None or raw is None or refusal is None or not self._is_untold(pod, refusal):
            return  # it was bound, created again or told, while others were told
        # The record keeps a nomination that a more important pod has cleared since; the copy does not.
        nominated = refusal.nominated_node if refusal.nominated_node == pod.nominated_node_name else ""
        await self._teller.refused(
            pod,
            raw,
            reason=refusal.reason,
            message=refusal.message,
            nominated=nominated or None,
            run=refusal.run_id or refusal.workflow_id,
        )
