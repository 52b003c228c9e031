"""Ending promises without a bind: one is given up, or no transaction of ours has put it.

::

    mark it withdrawn ─► fence: PATCH an annotation, which moves the pod's resourceVersion ─► adopt the answer

A bind names the revision at which it was promised, so after the fence the API refuses it. The answer of the PATCH is a
newer state: unbound, and the promise ends with it and the pod waits again; or bound, because the bind came first. Until
then the copy stays on its node, so its room is held. A fence that fails is tried again by whoever finds the promise.

A promise is unproven when no transaction of ours has put it with the copy of its pod (`promise_records`). It is a key
that another client has put, or belongs to a copy that another client has changed. The release before this one wrote
marks on promises alone, so during an upgrade a bind that waits for volumes may be one, too.
"""

from __future__ import annotations

import logging

from wharfinger.apiserver import client
from wharfinger.apiserver.bodies import fence_patch, is_other_object
from wharfinger.apiserver.client import NOT_FOUND, ApiClient
from wharfinger.errors import UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete
from wharfinger.kubernetes.effects.adopting import Adopter, present, rewrite
from wharfinger.kubernetes.effects.states import PODS
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.promise_records import KnownObject
from wharfinger.scheduling.model.promises import Promise

log = logging.getLogger(__name__)

REMEMBERED = 1_000
"""Promises of which it is known that they were logged."""
WHY = (
    "the promise of pod {pod} and the copy of the pod were not written by one transaction: another client has written "
    "one of them, so nothing is sent"
)


class Withdrawals:
    """Ends the promises of one worker that lead to no bind."""

    def __init__(self, apiserver: ApiClient, adopter: Adopter) -> None:
        self._store = adopter.store
        self._apiserver = apiserver
        self._adopter = adopter
        self._logged: dict[PodKey, int] = {}
        """The mod revision of each unproven promise that was logged."""

    async def give_up(self, pod: PodKey, why: str, told: str = "") -> KnownObject:
        """Withdraw the pod's promise and fence it off; what etcd has of the pod then.

        `told`: the API's refusal, where that is why. Safe to run again. Raises `StoreError` and `UpstreamError`: the
        promise stays withdrawn, its room held.
        """
        # Marked first: where this worker ends before the fence, the next one that finds the promise fences it.
        marked = await rewrite(
            self._store, pod, lambda promise: None if promise.withdrawn else promise.given_up(why, told)
        )
        if marked.promise is None:
            return await self._adopter.read_pod(pod)
        return await self.fence(pod, marked.promise)

    async def fence(self, pod: PodKey, promise: Promise) -> KnownObject:
        """Move the pod's revision in the API and adopt what it is then. Raises as `give_up`."""
        answer = await self._apiserver.patch(
            client.PODS,
            pod.name,
            fence_patch(promise.uid, promise.mod_revision, expected=promise.prepares),
            namespace=pod.namespace,
            subresource="status",
        )
        if answer.code == NOT_FOUND or is_other_object(answer):  # nothing can be bound any more
            return KnownObject(None)
        if not answer.done or answer.object is None:
            raise UpstreamUnavailable(f"the API server refuses the fence of pod {pod}: {answer.words}")
        # The answer says which came first, the fence or a bind that was on its way.
        return await self._adopter.adopt(present(PODS, answer.object))

    def warn_unproven(self, pod: PodKey, known: KnownObject) -> None:
        """Log an unproven promise, once."""
        if self._logged.get(pod) == known.unproven:
            return
        if len(self._logged) >= REMEMBERED:
            self._logged.clear()
        self._logged[pod] = known.unproven
        log.warning("promise_unproven effect=not_sent pod=%s revision=%d", pod, known.unproven)

    async def clear_unproven(self, pod: PodKey) -> None:
        """Take in what the API has of the pod, which ends an unproven promise; nothing is written in the API.

        To be called once no bind that was sent before can be on its way any more. Raises `StoreError` and
        `UpstreamError`.
        """
        known = await self._adopter.read_pod(pod)
        if not known.unproven:
            return
        self.warn_unproven(pod, known)
        if known.copy is None:
            key, absent = keys.promise(*pod), Compare(keys.pod(*pod), "create", 0)
            await self._store.txn([Compare(key, "mod", known.unproven), absent], [Delete(key)])
            return
        found = await self._apiserver.get(client.PODS, pod.name, namespace=pod.namespace)
        if found.object is not None:
            await self._adopter.adopt(present(PODS, found.object), known, later=True)
        elif found.code != NOT_FOUND:  # of a pod that is gone, the importer removes copy and promise
            raise UpstreamUnavailable(f"pod {pod} cannot be read: {found.words}")
