"""Removes the pods that are being deleted from the API server of a dev tree, as a kubelet would once they have ended.

An API server keeps a bound pod that is deleted until its kubelet reports its end. Here no kubelet runs, so the
room of preempted pods would never become free.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

from wharfinger.apiserver.client import PODS, ApiChange, ChangeKind, Upstream, uid_of
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import HttpUpstream
from wharfinger.errors import UpstreamError

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until the API server is asked again when it did not answer."""


class Departures:
    """Follows the pods of an API server and ends those that leave."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    async def run(self) -> None:
        """Work until cancelled."""
        api = HttpUpstream(read_access(self._kubeconfig), qps=-1)
        try:
            while True:
                try:
                    await follow(api)
                except UpstreamError as error:
                    log.debug("departures_interrupted effect=retried error=%r", str(error))
                await asyncio.sleep(AGAIN)
        finally:
            await api.close()


async def follow(api: Upstream) -> None:
    """Remove each bound pod that is being deleted. Ends by an error only: raises `UpstreamError`."""
    async with api.watch(PODS) as batches:
        async for batch in batches:
            for change in batch.changes:
                if is_leaving(change):
                    metadata = change.object["metadata"]
                    await api.delete(
                        PODS,
                        metadata["name"],
                        namespace=metadata["namespace"],
                        uid=uid_of(change.object),
                        grace_seconds=0,
                    )


def is_leaving(change: ApiChange) -> bool:
    """Whether a change shows a bound pod that is being deleted and is still there."""
    if change.kind is ChangeKind.DELETED or not change.object["metadata"].get("deletionTimestamp"):
        return False
    return bool((change.object.get("spec") or {}).get("nodeName"))
