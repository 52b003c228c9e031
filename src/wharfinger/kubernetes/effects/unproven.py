"""Promises that no transaction of ours has put with the copy of their pod (`known_objects`): said, and ended.

Such a promise is a key that another client has put, or belongs to a copy that another client has changed. The release
before this one wrote marks on promises alone, so during an upgrade a bind that waits for volumes may be one, too.
"""

from __future__ import annotations

import logging

from wharfinger.apiserver import client
from wharfinger.apiserver.client import Upstream
from wharfinger.errors import UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Store
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.states import PODS, ObjectState
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.effects.binding.known_objects import KnownObject

log = logging.getLogger(__name__)

REMEMBERED = 1_000
"""Promises of which it is known that they were logged."""
NOT_FOUND = 404
WHY = (
    "the promise of pod {pod} and the copy of the pod were not written by one transaction: another client has written "
    "one of them, so nothing is sent"
)


class UnprovenPromises:
    """Ends the unproven promises that one worker meets."""

    def __init__(self, store: Store, upstream: Upstream, adopter: Adopter) -> None:
        self._store = store
        self._upstream = upstream
        self._adopter = adopter
        self._logged: dict[PodKey, int] = {}
        """The mod revision of each."""

    def warn(self, pod: PodKey, known: KnownObject) -> None:
        """Log it, once."""
        if self._logged.get(pod) == known.unproven:
            return
        if len(self._logged) >= REMEMBERED:
            self._logged.clear()
        self._logged[pod] = known.unproven
        log.warning("promise_unproven effect=not_sent pod=%s revision=%d", pod, known.unproven)

    async def clear(self, pod: PodKey) -> None:
        """Take in what the API has of the pod, which ends the promise; nothing is written in the API.

        To be called once no bind that was sent before can be on its way any more. Raises `StoreError` and
        `UpstreamError`.
        """
        known = await self._adopter.read(ObjectState(PODS, pod.namespace, pod.name, 0))
        if not known.unproven:
            return
        self.warn(pod, known)
        if known.copy is None:
            key, absent = keys.promise(*pod), Compare(keys.pod(*pod), "create", 0)
            await self._store.txn([Compare(key, "mod", known.unproven), absent], [Delete(key)])
            return
        found = await self._upstream.get(client.PODS, pod.name, namespace=pod.namespace)
        if found.object is not None:
            await self._adopter.adopt(present(PODS, found.object), known, later=True)
        elif found.code != NOT_FOUND:  # of a pod that is gone, the importer removes copy and promise
            raise UpstreamUnavailable(f"pod {pod} cannot be read ({found.code}): {found.message}")
