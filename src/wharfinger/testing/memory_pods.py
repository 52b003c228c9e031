"""What an API server in memory does with pods alone: binding, and deletion with a grace period."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wharfinger.apiserver.client import PODS, ApiAnswer, Object
from wharfinger.objects.model.conditions import POD_SCHEDULED, SCHEDULING_GATED
from wharfinger.testing import memory_refusals as refusals
from wharfinger.testing.memory_objects import Json, MemoryObjects

_BINDING = "pods/binding"
_SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class MemoryPods:
    """The rules for pods, on the objects of a server. `timestamp` prints the time that is `seconds` from now."""

    def __init__(self, objects: MemoryObjects, timestamp: Callable[[float], str]) -> None:
        self._objects = objects
        self._timestamp = timestamp

    def created(self, pod: Json) -> None:
        """Set what the server sets when a pod is created."""
        spec = pod.setdefault("spec", {})
        spec.setdefault("terminationGracePeriodSeconds", 30)
        spec.setdefault("schedulerName", "default-scheduler")
        pod["status"] = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            why = {"reason": SCHEDULING_GATED, "message": "Scheduling is blocked due to non-empty scheduling gates"}
            pod["status"]["conditions"] = [self._scheduled("False", self._timestamp(0), **why)]

    def bind(self, namespace: str, name: str, binding: Object, *, dry_run: bool) -> ApiAnswer | int:
        """Bind a pod, if it is still what the Binding assumes. A number is the code of an answer without a reason."""
        metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
        if metadata.get("name") != name:
            return refusals.bad_request("name in URL does not match name in Binding object")
        if target.get("kind") not in {None, "", "Node"} or not target.get("name"):
            return 500
        pod = self._objects.read(PODS, namespace, name)
        if pod is None:
            return refusals.not_found(PODS, name)
        for field, called in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            wanted, found = metadata.get(field), pod["metadata"][field]
            if wanted and wanted != found:
                return refusals.precondition(PODS, namespace, name, field=called, wanted=wanted, found=found)
        if pod["metadata"].get("deletionTimestamp"):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
            return refusals.conflict(_BINDING, name, why)
        if pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
            return refusals.conflict(_BINDING, name, why)
        if pod["spec"].get("schedulingGates"):
            return refusals.conflict(_BINDING, name, f"pod {name} has non-empty .spec.schedulingGates")
        if not dry_run:
            self._assign(pod, target["name"], metadata)
        return ApiAnswer(201, dict(_SUCCESS))

    def _assign(self, pod: Json, node: str, metadata: Object) -> None:
        pod["spec"]["nodeName"] = node
        for part in ("annotations", "labels"):
            if metadata.get(part):
                pod["metadata"][part] = {**(pod["metadata"].get(part) or {}), **metadata[part]}
        status = pod["status"]
        status.pop("nominatedNodeName", None)
        conditions: list[Json] = status.get("conditions") or []
        others = [one for one in conditions if one.get("type") != POD_SCHEDULED]
        before: Json = next((one for one in conditions if one not in others), {})
        kept = before.get("lastTransitionTime") if before.get("status") == "True" else None
        status["conditions"] = [*others, self._scheduled("True", kept or self._timestamp(0))]
        self._objects.write(PODS, pod)

    def _scheduled(self, status: str, since: str, **more: Any) -> Json:
        return {
            "type": POD_SCHEDULED,
            "status": status,
            "lastProbeTime": None,
            "lastTransitionTime": since,
            **more,
        }

    def delete(self, pod: Json, grace_seconds: int | None) -> Json:
        """Begin or end the deletion of a pod; its state then.

        A pod that runs nowhere goes at once. It is shown as one that is being deleted before it goes.
        """
        spec, metadata = pod["spec"], pod["metadata"]
        period = spec["terminationGracePeriodSeconds"] if grace_seconds is None else grace_seconds
        if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
            period = 0
        period = 1 if period < 0 else period
        left = metadata.get("deletionGracePeriodSeconds")
        if left is None or period < left:
            metadata["deletionTimestamp"] = self._timestamp(period)
            metadata["deletionGracePeriodSeconds"] = period
            pod = self._objects.write(PODS, pod)
        if pod["metadata"]["deletionGracePeriodSeconds"] > 0 or metadata.get("finalizers"):
            return pod
        return self._objects.remove(PODS, metadata["namespace"], metadata["name"])
