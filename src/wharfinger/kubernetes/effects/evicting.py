"""Evicting a victim of preemption from the API, as kube-scheduler does: mark it, then delete it.

::

    the preemptor is in the API as its copy says, and so is the victim (`compare`), else nothing is sent
    PATCH DisruptionTarget {uid, rv} ─► DELETE {uid, rv of the answer} ─► adopt
        409: come again                     409: likewise

Both writes compare the revision, so a pod that was created again, or that changed, is looked at once more. There is no
eviction API in it, as in kube-scheduler: budgets were weighed when victims were chosen.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from wharfinger.apiserver import client
from wharfinger.apiserver.bodies import disruption_patch, is_other_object
from wharfinger.apiserver.client import CONFLICT, NOT_FOUND, ApiAnswer, ApiClient, revision_of, uid_of
from wharfinger.errors import InvalidObject, UpstreamUnavailable
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.states import PODS
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.copies import copy_of, means_the_same, state_of
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.effects.binding.writers import ComparedCopy, CopyKind

log = logging.getLogger(__name__)

REMEMBERED = 1_000


class KubernetesEvictions:
    """Evicts pods from the API, after comparing their copies with what it has.

    Preemption compares two copies: that of a pod that waits, and that of its victim. A client that can write one key of
    etcd could make a pod more important than it is, or another one less. So both are read in the API first.
    """

    def __init__(self, apiserver: ApiClient, adopter: Adopter) -> None:
        self._apiserver = apiserver
        self._adopter = adopter
        self._logged: set[tuple[PodKey, str]] = set()
        """Preemptors that are not in the API: pod and uid. Their attempts go on, and each is logged once."""

    async def compare(self, pod: Pod, raw: bytes) -> ComparedCopy:
        """Read the pod in the API. `pod`: as it was decoded; `raw`: its copy.

        Where the copy is just an older state, nothing is logged. Raises `UpstreamError` and `StoreError`.
        """
        found = await self._apiserver.get(client.PODS, pod.name, namespace=pod.namespace)
        if found.code == NOT_FOUND or (found.object is not None and uid_of(found.object) != pod.uid):
            return ComparedCopy(CopyKind.GONE)
        if found.object is None:
            raise UpstreamUnavailable(f"pod {pod.key} cannot be read: {found.words}")
        obj = found.object
        bound = (obj.get("spec") or {}).get("nodeName") or ""
        if bound == pod.node_name and _says(raw, obj):
            return ComparedCopy(CopyKind.TRUE, obj)
        known = await self._adopter.read_pod(pod.key)
        if known.promise is None and known.copy is not None and known.copy.value == raw:
            if _revision(raw) >= revision_of(obj):
                log.warning("copy_differs_from_api effect=copied_anew pod=%s revision=%d", pod.key, revision_of(obj))
            # The API was read after the copy, so its state replaces the copy, whatever revision that names.
            await self._adopter.adopt(present(PODS, obj), known, later=True)
        else:  # it is promised, or another state was copied since
            await self._adopter.adopt(present(PODS, obj))
        return ComparedCopy(CopyKind.OTHER, obj)

    async def may_preempt(self, preemptor: Pod, raw: bytes) -> bool:
        """Whether the API has the preemptor as its copy says, still waiting. `raw`: the copy.

        Raises `UpstreamError` and `StoreError`.
        """
        found = await self.compare(preemptor, raw)
        named = (preemptor.key, preemptor.uid)
        if found.kind is CopyKind.GONE and named not in self._logged:
            if len(self._logged) >= REMEMBERED:
                self._logged.clear()
            self._logged.add(named)
            log.warning("preemptor_not_in_api effect=nothing_evicted pod=%s uid=%s", preemptor.key, preemptor.uid)
        return found.kind is CopyKind.TRUE

    async def evict(self, victim: Pod, raw: bytes, *, scheduler: str, preemptor: str = "pod") -> bool:
        """Mark and delete a pod; whether it was done. False: it is another one than was chosen by now, look again.

        `raw`: its copy; `scheduler`: the preemptor's scheduler name; `preemptor`: `pod` or `podgroup`. Safe to run
        again. Raises `UpstreamError` and `StoreError`.
        """
        found = await self.compare(victim, raw)
        if found.kind is not CopyKind.TRUE:
            return found.kind is CopyKind.GONE
        obj = found.object
        patch = disruption_patch(obj, scheduler=scheduler, now=self._adopter.utc_now(), preemptor=preemptor)
        if patch is not None:
            answer = await self._apiserver.patch(
                client.PODS, victim.name, patch, namespace=victim.namespace, subresource="status"
            )
            if not answer.done or answer.object is None:
                return self._came_to(victim, answer)
            obj = answer.object
        # The copy's revision would be too old: copies of bound pods are written only where what they keep differs.
        answer = await self._apiserver.delete(
            client.PODS, victim.name, namespace=victim.namespace, uid=uid_of(obj), revision=revision_of(obj)
        )
        if not answer.done:
            return self._came_to(victim, answer)
        if answer.object is not None and answer.object.get("kind") == "Pod":
            await self._adopter.adopt(present(PODS, answer.object))
        return True

    def _came_to(self, victim: Pod, answer: ApiAnswer) -> bool:
        """Whether a write that was not done has nothing left to do; raises where the API refuses it."""
        if answer.code == NOT_FOUND or is_other_object(answer):
            return True
        if answer.code == CONFLICT:
            return False
        raise UpstreamUnavailable(f"the API server refuses the eviction of pod {victim.key}: {answer.words}")


def _says(raw: bytes, obj: Mapping[str, Any]) -> bool:
    try:
        return means_the_same(copy_of(obj, PODS), copy_of(documents.parse(raw), PODS))
    except (InvalidObject, AttributeError, TypeError):
        return False


def _revision(raw: bytes) -> int:
    try:
        return state_of(raw).revision
    except InvalidObject:
        return 0
