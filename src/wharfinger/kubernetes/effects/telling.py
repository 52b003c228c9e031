"""What a worker tells the API of its attempts: refusals as conditions, nominations, and events.

A refusal is recorded in etcd first; the copy of the pod gets its condition from the API's answer, as any other state.
So the copy always shows what the API has, also that a refusal did not arrive there: the worker that owns the pod
reports it again (`loops.sweeps`). Events are told in the background, as well as it can be done.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from wharfinger.apiserver import client
from wharfinger.apiserver.bodies import is_other_object, no_nomination_patch, refusal_patch
from wharfinger.apiserver.client import CONFLICT, NOT_FOUND, ApiAnswer, ApiClient
from wharfinger.apiserver.event_lane import EventLane
from wharfinger.apiserver.events import EventReporter, pod_reference
from wharfinger.errors import InvalidObject, UpstreamError
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.states import PODS
from wharfinger.objects.documents import documents
from wharfinger.objects.model.pod import Pod

log = logging.getLogger(__name__)

AT_ONCE = 30
"""Conditions that one worker has on the way."""


class Teller:
    """Tells the API what one worker decides."""

    def __init__(self, apiserver: ApiClient, adopter: Adopter, lane: EventLane, *, host: str) -> None:
        """`host`: this worker's name, in events."""
        self._apiserver = apiserver
        self._adopter = adopter
        self._lane = lane
        self._host = host
        self._several = asyncio.Semaphore(AT_ONCE)

    # --- status -------------------------------------------------------------------------------

    async def refused(
        self, pod: Pod, raw: bytes, *, reason: str, message: str, nominated: str | None, run: str
    ) -> bool:
        """Tell a refusal, or its nomination; whether the API has it now. Never raises for what the API does.

        `raw`: the copy before anything was changed in it; `nominated`: the node, empty for none, None = as it is.
        """
        self.events(pod, run).failed_scheduling(message)
        known = _without_nomination(raw) if nominated else documents.parse(raw)
        patch = refusal_patch(
            known, reason=reason, message=message, nominated_node=nominated, now=self._adopter.utc_now()
        )
        return patch is None or await self._told(pod, patch)

    async def clear_nomination(self, pod: Pod, raw: bytes) -> str | None:
        """Clear the nomination that a copy shows: why the API refuses, empty when it was done, None = look again.

        The copy loses it with the API's answer. `raw`: the copy. Raises `UpstreamError` and `StoreError`.
        """
        patch = no_nomination_patch(documents.parse(raw))
        if patch is None:
            return ""
        answer = await self._patch(pod, patch)
        if answer.code == CONFLICT:
            return None
        return "" if _is_settled(answer) else answer.words

    async def _told(self, pod: Pod, patch: dict[str, Any]) -> bool:
        """Write a status; whether the API has it now."""
        try:
            answer = await self._patch(pod, patch)
            why = "" if _is_settled(answer) else answer.words
        except UpstreamError as error:
            why = str(error)
        if why:
            log.info("condition_not_told effect=told_again_later pod=%s error=%r", pod.key, why)
        return not why

    async def _patch(self, pod: Pod, patch: dict[str, Any]) -> ApiAnswer:
        """Write a status, and adopt what the pod is then."""
        async with self._several:
            answer = await self._apiserver.patch(
                client.PODS, pod.name, patch, namespace=pod.namespace, subresource="status"
            )
        if answer.done and answer.object is not None:
            await self._adopter.adopt(present(PODS, answer.object))
        return answer

    # --- events -------------------------------------------------------------------------------

    def events(self, pod: Pod, run: str, *, scheduler: str = "") -> EventReporter:
        """Report events about the pod in the background. `scheduler`: by which profile; default the pod's own."""
        regarding = pod_reference(*pod.key, pod.uid)
        return EventReporter(
            scheduler or pod.scheduler_name, self._host, run, self._adopter.utc_now(), regarding, self._lane.say
        )


def _is_settled(answer: ApiAnswer) -> bool:
    """Whether a status was written, or its pod is gone, so that nothing waits for it."""
    return (answer.done and answer.object is not None) or answer.code == NOT_FOUND or is_other_object(answer)


def _without_nomination(raw: bytes) -> dict[str, Any]:
    """The pod as if it had no nomination: the copy may have ours already, and the API may not."""
    obj = documents.parse(raw)
    if not isinstance(obj, dict):
        raise InvalidObject("is no object")
    status = {key: value for key, value in (obj.get("status") or {}).items() if key != "nominatedNodeName"}
    return {**obj, "status": status}
