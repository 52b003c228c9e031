"""Whether the copy of a pod says what the API says, asked before a pod is deleted in the API because of copies.

Preemption compares two copies: that of a pod that waits, and that of its victim. A client that can write one key of
etcd could make a pod more important than it is, or another one less. So both are read in the API first. What is read is
newer than the copy, so a copy that differs is replaced whatever revision it names.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from wharfinger.apiserver import client
from wharfinger.apiserver.client import Upstream, revision_of, uid_of
from wharfinger.errors import InvalidObject, UpstreamUnavailable
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.states import PODS, ObjectState
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.copies import copy_of, means_the_same, state_of
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.effects.binding.writers import ComparedCopy, CopyKind

log = logging.getLogger(__name__)

NOT_FOUND = 404


class TrueCopies:
    """Compares copies for one worker."""

    def __init__(self, upstream: Upstream, adopter: Adopter) -> None:
        self._upstream = upstream
        self._adopter = adopter

    async def compare(self, pod: Pod, raw: bytes) -> ComparedCopy:
        """Read the pod in the API. `pod`: as it was decoded; `raw`: its copy.

        Where the copy is just an older state, nothing is logged. Raises `UpstreamError` and `StoreError`.
        """
        found = await self._upstream.get(client.PODS, pod.name, namespace=pod.namespace)
        if found.code == NOT_FOUND or (found.object is not None and uid_of(found.object) != pod.uid):
            return ComparedCopy(CopyKind.GONE)
        if found.object is None:
            raise UpstreamUnavailable(f"pod {pod.key} cannot be read ({found.code}): {found.message}")
        obj = found.object
        bound = (obj.get("spec") or {}).get("nodeName") or ""
        if bound == pod.node_name and _says(raw, obj):
            return ComparedCopy(CopyKind.TRUE, obj)
        known = await self._adopter.read(ObjectState(PODS, pod.namespace, pod.name, 0))
        if known.promise is None and known.copy is not None and known.copy.value == raw:
            if _revision(raw) >= revision_of(obj):
                log.warning("copy_differs_from_api effect=copied_anew pod=%s revision=%d", pod.key, revision_of(obj))
            await self._adopter.adopt(present(PODS, obj), known, later=True)
        else:  # it is promised, or another state was copied since
            await self._adopter.adopt(present(PODS, obj))
        return ComparedCopy(CopyKind.OTHER, obj)


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
