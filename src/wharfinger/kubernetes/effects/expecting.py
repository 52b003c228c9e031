"""Telling the API to which node a pod is expected to be bound, while PreBind still has work.

kube-scheduler sets `status.nominatedNodeName` then (KEP-5278), so that a cluster autoscaler keeps the node. It does so
only where PreBind has work, because any other pod is bound at once, and clears it when the pod is not bound after all
(`withdrawing`). The API server clears it with the bind.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from wharfinger.apiserver import client
from wharfinger.apiserver.bodies import expectation_patch
from wharfinger.apiserver.client import Upstream
from wharfinger.errors import UpstreamError
from wharfinger.etcd.store import Store
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.rewriting import rewrite
from wharfinger.kubernetes.effects.states import PODS
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.model.promises import Promise

log = logging.getLogger(__name__)


class ExpectedNodes:
    """Writes the expected nodes of one worker's promises to the API."""

    def __init__(self, store: Store, upstream: Upstream, adopter: Adopter) -> None:
        self._store = store
        self._upstream = upstream
        self._adopter = adopter

    async def tell(self, pod: PodKey, promise: Promise) -> bool:
        """Have the pod's status name the promised node, where PreBind has work; whether it was told now.

        The promise is another state then. A failure hinders nothing, as in kube-scheduler: the next look tries again.
        Raises `StoreError`.
        """
        if promise.expected or not promise.prepares:
            return False
        patch = expectation_patch(promise.uid, promise.node)
        try:
            answer = await self._upstream.patch(
                client.PODS, pod.name, patch, namespace=pod.namespace, subresource="status"
            )
        except UpstreamError as error:
            log.info("expected_node_not_told effect=told_again_later pod=%s error=%r", pod, str(error))
            return False
        if not answer.done or answer.object is None:
            log.info("expected_node_not_told effect=told_again_later pod=%s code=%d", pod, answer.code)
            return False
        await self._adopter.adopt(present(PODS, answer.object))

        def told(found: Promise) -> Promise | None:
            return replace(found, expected=True) if found.attempt == promise.attempt else None

        await rewrite(self._store, pod, told)
        return True
