"""Who left for whom: by which preemptor a pod was evicted, also when the pod is gone, and which pods left for a pod.

Asked when somebody opens a pod. `reading.preempted` finds for whom it left; this puts both together as JSON.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from temporalio.client import Client

from wharfinger.errors import InvalidObject, ServerError, StoreError
from wharfinger.objects.model.pod import PodKey
from wharfinger.page.follow.plain import bounded, text
from wharfinger.page.web.inputs import TooLong
from wharfinger.scheduling.page.attempts import PodAttempts
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.reading.history import Attempt
from wharfinger.scheduling.reading.pods_and_nodes import attempt_record
from wharfinger.scheduling.reading.preempted import Departure, PreemptedPods

log = logging.getLogger(__name__)

WITHIN = 10.0
"""Seconds."""
MOST_VICTIMS = 500


class PodDepartures:
    """Answers about preemptions of single pods."""

    def __init__(
        self,
        following: Following,
        attempts: Callable[[], PodAttempts],
        connect: Callable[[], Awaitable[Client]],
        *,
        cluster: str,
    ) -> None:
        """`connect` answers the client of Temporal."""
        self._following = following
        self._store = following.store
        self._attempts = attempts
        self._preempted = PreemptedPods(
            following.store, connect, cluster=cluster, recorded=self._recorded, nominated=self._nominated
        )

    async def of(self, key: PodKey) -> dict[str, Any]:
        """For whom the pod left, and who left for it. Raises `StoreError`, `TooLong`.

        While Temporal is away, its part is left out, and `note` says so.
        """
        note = None
        own: Sequence[Attempt] = ()
        try:
            own = (await self._attempts().recorded(key)).attempts
        except (ServerError, TooLong) as error:
            note = text(f"what Temporal has is not included: {error}")
        try:
            async with asyncio.timeout(WITHIN):
                left, problem = await self._preempted.left(key, own)
                victims = await self._victims(key, own)
        except TimeoutError as error:
            raise TooLong(f"this took longer than {WITHIN:.0f} s and was given up") from error
        pod = self._following.cache.pods.get(key)
        return {
            "pod": text(str(key)),
            "there": pod is not None,
            "left": self._told(left) if left is not None else None,
            "victims": victims,
            "note": note or (text(problem) if problem else None),
        }

    async def _recorded(self, key: PodKey) -> Sequence[Attempt]:
        """The attempts of another pod, as far as they can be read."""
        try:
            return (await self._attempts().recorded(key)).attempts
        except (ServerError, StoreError, InvalidObject, TooLong):
            return ()

    async def _nominated(self, node: str) -> list[PodKey]:
        waiting = self._following.view.records.items()
        return [one for one, record in waiting if record.nominated_node and node in ("", record.nominated_node)]

    # --- who left for it --------------------------------------------------------------------------

    async def _victims(self, key: PodKey, own: Sequence[Attempt]) -> list[dict[str, Any]]:
        """The pods that its attempts chose, the newest attempt first; the record in etcd has the names of all."""
        found: dict[tuple[str, int], tuple[Iterable[str], str, int]] = {}
        for one in own:
            if one.victims:
                found[one.run_id, one.attempt] = one.victims, one.nominated_node, one.victim_count
        record = await attempt_record(self._store, key)
        if record is not None and record.victims:
            found[record.run_id, record.attempt] = record.victims, record.nominated_node, len(record.victims)
        return [
            {
                "attempt": attempt,
                "node": text(node),
                "count": count,
                "pods": [
                    {"pod": text(name), "there": PodKey(*name.split("/", 1)) in self._following.cache.pods}
                    for name in list(names)[:MOST_VICTIMS]
                    if "/" in name
                ],
            }
            for (_, attempt), (names, node, count) in reversed(found.items())
        ]

    def _told(self, left: Departure) -> dict[str, Any]:
        preemptor = left.preemptor
        told: dict[str, Any] = bounded(left.to_plain())
        return told | {
            "preemptorThere": preemptor in self._following.cache.pods if preemptor is not None else None,
            "link": self._attempts().link(left.workflow_id, left.run_id),
        }
