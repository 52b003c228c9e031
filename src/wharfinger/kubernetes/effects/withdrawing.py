"""Giving a promise up, so that no bind that is still on its way can be carried out late.

::

    mark it withdrawn ─► fence: PATCH an annotation, which moves the pod's resourceVersion ─► adopt the answer

A bind names the revision at which it was promised, so after the fence the API refuses it. The answer of the PATCH is a
newer state: unbound, and the promise ends with it and the pod waits again; or bound, because the bind came first. Until
then the copy stays on its node, so its room is held. A fence that fails is tried again by whoever finds the promise.
"""

from __future__ import annotations

from wharfinger.apiserver import client
from wharfinger.apiserver.bodies import fence_patch, is_other_object
from wharfinger.apiserver.client import Upstream
from wharfinger.errors import UpstreamUnavailable
from wharfinger.etcd.store import Store
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.rewriting import rewrite
from wharfinger.kubernetes.effects.states import PODS, ObjectState
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.effects.binding.known_objects import KnownObject
from wharfinger.scheduling.model.promises import Promise

NOT_FOUND = 404


class Withdrawals:
    """Gives promises up."""

    def __init__(self, store: Store, upstream: Upstream, adopter: Adopter) -> None:
        self._store = store
        self._upstream = upstream
        self._adopter = adopter

    async def give_up(self, pod: PodKey, why: str, told: str = "") -> KnownObject:
        """Withdraw the pod's promise and fence it off; what etcd has of the pod then.

        `told`: the API's refusal, where that is why. Safe to run again. Raises `StoreError` and `UpstreamError`: the
        promise stays withdrawn, its room held.
        """
        marked = await rewrite(
            self._store, pod, lambda promise: None if promise.withdrawn else promise.given_up(why, told)
        )
        if marked.promise is None:
            return await self._adopter.read(ObjectState(PODS, pod.namespace, pod.name, 0))
        return await self.fence(pod, marked.promise)

    async def fence(self, pod: PodKey, promise: Promise) -> KnownObject:
        """Move the pod's revision in the API and adopt what it is then. Raises as `give_up`."""
        answer = await self._upstream.patch(
            client.PODS,
            pod.name,
            fence_patch(promise.uid, promise.mod_revision, expected=promise.prepares),
            namespace=pod.namespace,
            subresource="status",
        )
        if answer.code == NOT_FOUND or is_other_object(answer):  # nothing can be bound any more
            return KnownObject(None)
        if not answer.done or answer.object is None:
            raise UpstreamUnavailable(
                f"the API server refuses the fence of pod {pod} ({answer.code}): {answer.message or answer.reason}"
            )
        return await self._adopter.adopt(present(PODS, answer.object))
