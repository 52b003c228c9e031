"""The rules of an API server in memory: what a request does, and how it is answered; pods have rules of their own.

Neither faults nor waiting: those are `memory_faults`' and `memory_upstream`'s. Codes and words are those of
Kubernetes 1.36; the conformance suite compares them with a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from wharfinger.apiserver.client import LEASES, NAMESPACES, PODS, ApiAnswer, ApiResource, Object, PatchType
from wharfinger.objects.model.conditions import POD_SCHEDULED, SCHEDULING_GATED
from wharfinger.testing import memory_kinds as kinds
from wharfinger.testing import memory_refusals as refusals
from wharfinger.testing.memory_objects import Json, MemoryObjects, key_of
from wharfinger.testing.memory_patches import patched

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


AccessPolicy = Callable[[Mapping[str, Any]], bool]
"""Given the spec of a (Self)SubjectAccessReview: whether that is allowed."""
_SETTLED = ("uid", "creationTimestamp", "resourceVersion", "namespace", "name")
"""Metadata that no update changes."""
_OF_DELETION = ("deletionTimestamp", "deletionGracePeriodSeconds")


class MemoryApiServer:
    """One API server; requests are carried out one after the other. `clock`: seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.objects = MemoryObjects()
        self.kinds: dict[ApiResource, str] = dict(kinds.KINDS)
        self.allows: AccessPolicy = lambda _spec: True
        self.users: dict[str, Json] = {}
        """Token -> the `status.user` of its TokenReview; other tokens are refused."""
        self._pods = MemoryPods(self.objects, self.timestamp)
        for name in ("default", "kube-system"):
            self.create(NAMESPACES, {"metadata": {"name": name}}, "", "", "", dry_run=False)

    def timestamp(self, seconds: float = 0) -> str:
        """The time that is so many seconds from now, as objects have it."""
        return datetime.fromtimestamp(self._clock() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def get(self, resource: ApiResource, namespace: str, name: str) -> ApiAnswer:
        """GET."""
        if resource not in self.kinds:
            return refusals.not_served()
        found = self.objects.read(resource, namespace, name)
        return refusals.not_found(resource, name) if found is None else ApiAnswer(200, found)

    def read(self, path: str) -> ApiAnswer:
        """GET of a document."""
        document = kinds.document(path, [*self.kinds.items(), *kinds.REVIEWS.items()])
        return refusals.no_page() if document is None else ApiAnswer(200, document)

    def create(
        self, resource: ApiResource, body: Object, namespace: str, name: str, subresource: str, *, dry_run: bool
    ) -> ApiAnswer | int:
        """POST. A number is the code of an answer that is no `ApiAnswer`: 500."""
        if resource in kinds.REVIEWS:
            return ApiAnswer(201, self._reviewed(resource, body))
        if resource not in self.kinds:
            return refusals.not_served()
        if (resource, subresource) == (PODS, "binding"):
            return self._pods.bind(namespace, name, body, dry_run=dry_run)
        obj: Json = orjson.loads(orjson.dumps(body, default=dict))
        metadata = obj.setdefault("metadata", {})
        if namespace and metadata.get("namespace") not in {None, "", namespace}:
            return refusals.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if not metadata.get("name"):
            problem = "metadata.name: Required value: name or generateName is required"
            return refusals.invalid(self.kinds[resource], "", problem)
        if resource.namespaced and self.objects.read(NAMESPACES, "", namespace) is None:
            return refusals.not_found(NAMESPACES, namespace)
        if self.objects.read(resource, namespace, metadata["name"]) is not None:
            return refusals.exists(resource, metadata["name"])
        if metadata.get("resourceVersion"):
            return 500
        return ApiAnswer(201, self.stored(resource, obj, namespace, dry_run=dry_run))

    def stored(self, resource: ApiResource, obj: Json, namespace: str, *, dry_run: bool = False) -> Json:
        """Store a new object, with what the server sets."""
        metadata = obj["metadata"]
        metadata.update(uid=self.objects.new_uid(), creationTimestamp=self.timestamp())
        if resource.namespaced:
            metadata["namespace"] = namespace
        obj = {"kind": self.kinds[resource], "apiVersion": resource.api_version, **obj}
        if resource == PODS:
            self._pods.created(obj)
        if resource == NAMESPACES:
            obj["status"] = {"phase": "Active"}
        return obj if dry_run else self.objects.write(resource, obj)

    def replace(self, resource: ApiResource, namespace: str, name: str, body: Object) -> ApiAnswer | int:
        """PUT."""
        if resource not in self.kinds:
            return refusals.not_served()
        metadata = body.get("metadata") or {}
        if metadata.get("name") != name:
            given = metadata.get("name")
            return refusals.bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")
        before = self.objects.read(resource, namespace, name)
        if before is None and resource == LEASES:
            fresh = {**body, "metadata": {key: one for key, one in metadata.items() if key != "resourceVersion"}}
            return self.create(resource, fresh, namespace, "", "", dry_run=False)
        if before is None:
            return refusals.not_found(resource, name)
        uid, found = metadata.get("uid"), before["metadata"]["uid"]
        if uid and uid != found:
            return refusals.precondition(resource, namespace, name, field="UID", wanted=uid, found=found)
        if resource == LEASES and not metadata.get("resourceVersion"):
            problem = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            return refusals.invalid(kinds.qualified(resource), name, problem)
        return self._updated(resource, before, orjson.loads(orjson.dumps(body, default=dict)), "")

    def patch(
        self, resource: ApiResource, namespace: str, name: str, body: Object, *, subresource: str, type_: PatchType
    ) -> ApiAnswer:
        """PATCH."""
        if resource not in self.kinds:
            return refusals.not_served()
        before = self.objects.read(resource, namespace, name)
        if before is None:
            return refusals.not_found(resource, name)
        after = patched(
            before, orjson.loads(orjson.dumps(body, default=dict)), type_, resource.group, self.kinds[resource]
        )
        return self._updated(resource, before, after, subresource)

    def _updated(self, resource: ApiResource, before: Json, after: Json, subresource: str) -> ApiAnswer:
        """Compare, keep what this request may not change, and store what differs."""
        old, new = before["metadata"], after["metadata"]
        if new.get("resourceVersion") not in {None, "", old["resourceVersion"]}:
            return refusals.conflict(kinds.qualified(resource), old["name"])
        if new.get("uid") not in {None, "", old["uid"]}:
            problem = f'metadata.uid: Invalid value: "{new["uid"]}": field is immutable'
            return refusals.invalid(self.kinds[resource], old["name"], problem)
        if subresource == "status":
            new = {**new, "ownerReferences": old.get("ownerReferences")}
            after = {**before, "status": after.get("status"), "metadata": new}
        elif resource in kinds.WITH_STATUS:
            after["status"] = before.get("status")
        for kept in (*_SETTLED, *_OF_DELETION):
            new[kept] = old.get(kept)
        after["metadata"] = {key: value for key, value in new.items() if value is not None}
        after = {"kind": before["kind"], "apiVersion": before["apiVersion"], **_present(after)}
        if after == before:
            return ApiAnswer(200, before)
        written = self.objects.write(resource, after)
        if old.get("deletionTimestamp") and not new.get("finalizers") and not old.get("deletionGracePeriodSeconds"):
            written = self.objects.remove(resource, *key_of(before))
        return ApiAnswer(200, written)

    def delete(self, resource: ApiResource, namespace: str, name: str, options: Object) -> ApiAnswer:
        """DELETE. `options`: DeleteOptions."""
        if resource not in self.kinds:
            return refusals.not_served()
        found = self.objects.read(resource, namespace, name)
        if found is None:
            return refusals.not_found(resource, name)
        metadata, wanted_of = found["metadata"], options.get("preconditions") or {}
        for wanted, has, called, means in (
            (wanted_of.get("uid"), metadata["uid"], "UID", "deleted and then recreated"),
            (wanted_of.get("resourceVersion"), metadata["resourceVersion"], "ResourceVersion", "modified"),
        ):
            if wanted and wanted != has:
                why = f"the {called} in the precondition ({wanted}) does not match the {called} in record ({has}). "
                why += f"The object might have been {means}"
                return refusals.conflict(self.kinds[resource], name, why)
        if resource == PODS:
            return ApiAnswer(200, self._pods.delete(found, options.get("gracePeriodSeconds")))
        if not metadata.get("finalizers"):
            return ApiAnswer(200, self.objects.remove(resource, namespace, name))
        if not metadata.get("deletionTimestamp"):
            metadata.update(deletionTimestamp=self.timestamp(), deletionGracePeriodSeconds=0)
            found = self.objects.write(resource, found)
        return ApiAnswer(200, found)

    def _reviewed(self, resource: ApiResource, body: Object) -> Json:
        review = {"kind": kinds.REVIEWS[resource], "apiVersion": resource.api_version, **body}
        spec = body.get("spec") or {}
        if kinds.REVIEWS[resource] != "TokenReview":
            return {**review, "status": {"allowed": self.allows(spec)}}
        user = self.users.get(spec.get("token", ""))
        known = {"authenticated": True, "user": user}
        return {**review, "status": known if user is not None else {"user": {}, "error": "invalid bearer token"}}


def _present(obj: Json) -> Json:
    return {key: value for key, value in obj.items() if value is not None}
