"""Preparing a pod that is promised to a node, as kube-scheduler does before it binds: node and volumes are made known.

::

    its status names the node, so that a cluster autoscaler keeps it (KEP-5278)
    for each claim:  a volume was chosen     PATCH its claimRef         {rv}
                     one is to be made       PATCH the claim's annotation selected-node  {rv}
    then, again and again: are all claims bound?  ─► the promise is ready, and is sent; where plugins are to be called
                                                     first, once they have agreed

What binds claims and makes volumes are the cluster's controllers. A volume that another claim got meanwhile, or a claim
whose annotation was taken away again (provisioning failed there), gives the promise up, and the pod is placed anew.
Asking twice does no harm: what says so already is left alone, and every PATCH compares the revision that was read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from wharfinger.apiserver import client
from wharfinger.apiserver.bodies import expectation_patch
from wharfinger.apiserver.client import (
    CONFLICT,
    NOT_FOUND,
    ApiClient,
    ApiResource,
    PatchType,
    revision_of,
    uid_of,
)
from wharfinger.errors import UpstreamError, UpstreamUnavailable
from wharfinger.kubernetes.effects.adopting import Adopter, present, rewrite
from wharfinger.kubernetes.effects.states import PODS
from wharfinger.objects.documents.edit import BOUND_BY
from wharfinger.objects.documents.storage import BIND_COMPLETED, SELECTED_NODE
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.model.promises import Promise, VolumeStep

log = logging.getLogger(__name__)
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Preparation:
    """How far the volumes of a promise are."""

    ready: bool = False
    waits_for: str = ""
    """The claims that are not bound yet, in words."""
    calls: tuple[str, ...] = ()
    """The volumes are there, and these plugins are to be called: `PreBind/<plugin>`."""
    failed: str = ""
    """Why they cannot be had: the promise is to be given up."""

    def late(self, promise: Promise, seconds: float) -> str:
        """Why the promise is given up, which is so old; empty while it is not too old."""
        if seconds <= promise.patience + (promise.call_patience if self.calls else 0.0):
            return ""
        if self.calls:
            return f"its plugins did not agree within {seconds:.0f} s: {', '.join(self.calls)}"
        return f"its volumes were not there within {promise.patience:g} s: {self.waits_for}"


class Preparations:
    """Prepares the promises of one worker."""

    def __init__(self, apiserver: ApiClient, adopter: Adopter) -> None:
        self._store = adopter.store
        self._apiserver = apiserver
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
            answer = await self._apiserver.patch(
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

    async def prepare(self, pod: PodKey, promise: Promise) -> Preparation:
        """Ask for what was not asked for, and look how far it is; a promise whose claims are bound becomes ready.

        Safe to run again. Raises `StoreError` and `UpstreamError`.
        """
        waiting: list[str] = []
        asked = True
        for step in promise.volumes:
            claim = await self._read(client.PERSISTENT_VOLUME_CLAIMS, step.claim, pod.namespace)
            if claim is None:
                return Preparation(failed=f"claim {step.claim} does not exist any more")
            if _is_bound(claim):
                elsewhere = _is_elsewhere(promise, step, claim)
                if elsewhere:
                    return Preparation(failed=elsewhere)
                continue
            failed = await self._ask(pod, promise, step, claim)
            if failed:
                return Preparation(failed=failed)
            asked = asked and failed is not None
            waiting.append(_waits_for(step, promise.node))
        if waiting:
            if asked and not promise.asked:
                await self._mark(pod, promise, replace(promise, asked=True))
            return Preparation(waits_for="; ".join(waiting))
        if promise.calls:
            return Preparation(waits_for=f"plugins are called: {', '.join(promise.calls)}", calls=promise.calls)
        ready = await self._mark(pod, promise, replace(promise, ready=True))
        return Preparation(ready=ready, waits_for="" if ready else "the promise changed")

    async def agree(self, pod: PodKey, promise: Promise) -> bool:
        """All plugins agree: the promise is ready from now on. Whether it was written. Raises `StoreError`."""
        return await self._mark(pod, promise, replace(promise, ready=True, calls=()))

    async def _ask(self, pod: PodKey, promise: Promise, step: VolumeStep, claim: Object) -> str | None:
        """Ask for one claim's volume; why it cannot be had, empty when it was asked for, None = not yet."""
        if step.volume:
            return await self._bind_volume(pod, step, claim)
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if selected == promise.node:
            return ""
        if selected:
            return f"claim {step.claim} was asked for on node {selected}"
        if promise.asked:
            return f"no volume could be made for claim {step.claim} on node {promise.node}"
        patch = {"metadata": {**_at(claim), "annotations": {SELECTED_NODE: promise.node}}}
        return await self._patch(client.PERSISTENT_VOLUME_CLAIMS, step.claim, patch, pod.namespace)

    async def _bind_volume(self, pod: PodKey, step: VolumeStep, claim: Object) -> str | None:
        volume = await self._read(client.PERSISTENT_VOLUMES, step.volume)
        if volume is None:
            return f"volume {step.volume} does not exist any more"
        kept = volume["spec"].get("claimRef")
        if kept is not None:
            same = (kept.get("namespace"), kept.get("name")) == (pod.namespace, step.claim)
            if same and kept.get("uid") in (None, "", uid_of(claim)):
                return ""
            return f"volume {step.volume} was given to claim {kept.get('namespace')}/{kept.get('name')}"
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": pod.namespace,
            "name": step.claim,
            "uid": uid_of(claim),
            "resourceVersion": str(revision_of(claim)),
        }
        patch = {
            "metadata": {**_at(volume), "annotations": {BOUND_BY: "yes"}},
            "spec": {"claimRef": reference},
        }
        return await self._patch(client.PERSISTENT_VOLUMES, step.volume, patch)

    async def _patch(self, resource: ApiResource, name: str, patch: Object, namespace: str = "") -> str | None:
        """Why it is refused, empty when it was done; None where it changed meanwhile: then it is looked at again."""
        answer = await self._apiserver.patch(resource, name, patch, namespace=namespace, type_=PatchType.MERGE)
        if answer.code in (NOT_FOUND, CONFLICT):
            return None
        if answer.done:
            return ""
        return f"the API server refuses to change {resource.plural} {name}: {answer.words}"

    async def _read(self, resource: ApiResource, name: str, namespace: str = "") -> Object | None:
        answer = await self._apiserver.get(resource, name, namespace=namespace)
        if answer.code == NOT_FOUND:
            return None
        if answer.object is None:
            raise UpstreamUnavailable(f"{resource.plural} {name} cannot be read: {answer.words}")
        return answer.object

    async def _mark(self, pod: PodKey, promise: Promise, marked: Promise) -> bool:
        """Write how far it is, unless the promise is another one by now; whether it was written."""

        def change(found: Promise) -> Promise | None:
            if found.withdrawn or found.attempt != promise.attempt:
                return None
            return replace(found, asked=found.asked or marked.asked, ready=marked.ready, calls=marked.calls)

        return (await rewrite(self._store, pod, change)).written


def _is_bound(claim: Object) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    return bool(claim["spec"].get("volumeName")) and BIND_COMPLETED in annotations


def _is_elsewhere(promise: Promise, step: VolumeStep, claim: Object) -> str:
    """Why a claim that is bound is no use to this promise: another pod's choice for it came first."""
    volume = claim["spec"]["volumeName"]
    if step.volume:
        return "" if volume == step.volume else f"claim {step.claim} was bound to volume {volume}"
    selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
    if selected == promise.node:
        return ""
    return f"claim {step.claim} was bound to volume {volume}, which was not made for node {promise.node}"


def _at(obj: Object) -> dict[str, str]:
    return {"uid": uid_of(obj), "resourceVersion": str(revision_of(obj))}


def _waits_for(step: VolumeStep, node: str) -> str:
    if step.volume:
        return f"claim {step.claim} is being bound to volume {step.volume}"
    return f"a volume is being made for claim {step.claim} on node {node}"
