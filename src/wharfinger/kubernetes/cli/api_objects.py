"""Writing manifests to a Kubernetes API where no kubectl is at hand: create or patch, and delete.

The API's own discovery has the spelling of each kind in URLs, so every kind that it serves can be written. A change is
a strategic merge, or a merge where the API has no strategic one (custom resources): a field that is left out stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.apiserver.client import NODES, ApiAnswer, ApiResource, PatchType, Upstream

NOT_FOUND, CONFLICT, UNSUPPORTED = 404, 409, 415

SET_BY_THE_API = frozenset({"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"})
"""Metadata that a manifest has where it was read from a cluster; in a copy the revision is etcd's."""


@dataclass(frozen=True, slots=True)
class ApiWrite:
    """What became of one manifest."""

    object: str
    """`pod/default/web`."""
    result: str
    """`created`, `configured`, `unchanged`, `deleted`, `absent` or `refused`."""
    reason: str = ""
    """Why it was refused, in the API's words."""

    def mapping(self) -> dict[str, str]:
        """As printed for programs; the reason only where there is one."""
        shown = {"object": self.object, "result": self.result}
        return {**shown, "reason": self.reason} if self.reason else shown


class ApiWriter:
    """Writes objects to one API; remembers what it serves."""

    def __init__(self, upstream: Upstream, namespace: str) -> None:
        """`namespace`: of objects that name none."""
        self._upstream = upstream
        self._namespace = namespace
        self._served: dict[str, Mapping[str, ApiResource]] = {}

    async def apply(self, manifest: Mapping[str, Any]) -> ApiWrite:
        """Create the object, or change it. Raises `UpstreamError` when the API does not answer."""
        found = await self._find(manifest)
        if isinstance(found, ApiWrite):
            return found
        resource, namespace, name = found
        about = _about(manifest, namespace, name)
        metadata = {key: value for key, value in manifest["metadata"].items() if key not in SET_BY_THE_API}
        body = {**manifest, "metadata": {**metadata, **({"namespace": namespace} if namespace else {})}}
        answer = await self._upstream.create(resource, body, namespace=namespace)
        if answer.done:
            return ApiWrite(about, "created")
        if answer.reason != "AlreadyExists":
            return _refused(about, answer)
        before = await self._upstream.get(resource, name, namespace=namespace)
        answer = await self._patch(resource, name, body, namespace)
        if answer.done and resource == NODES and "status" in manifest:
            answer = await self._patch(resource, name, {"status": manifest["status"]}, namespace, "status")
        if not answer.done:
            return _refused(about, answer)
        return ApiWrite(about, "unchanged" if _revision(before) == _revision(answer) else "configured")

    async def delete(self, manifest: Mapping[str, Any], grace_seconds: int | None = None) -> ApiWrite:
        """Delete the object that the manifest names. Raises `UpstreamError` when the API does not answer."""
        found = await self._find(manifest)
        if isinstance(found, ApiWrite):
            return found
        resource, namespace, name = found
        about = _about(manifest, namespace, name)
        answer = await self._upstream.delete(resource, name, namespace=namespace, grace_seconds=grace_seconds)
        if answer.done:
            return ApiWrite(about, "deleted")
        return ApiWrite(about, "absent") if answer.code == NOT_FOUND else _refused(about, answer)

    async def _patch(
        self, resource: ApiResource, name: str, body: Mapping[str, Any], namespace: str, subresource: str = ""
    ) -> ApiAnswer:
        for type_ in (PatchType.STRATEGIC, PatchType.MERGE):
            answer = await self._upstream.patch(
                resource, name, body, namespace=namespace, subresource=subresource, type_=type_
            )
            if answer.code != UNSUPPORTED:
                break
        return answer

    async def _find(self, manifest: Mapping[str, Any]) -> tuple[ApiResource, str, str] | ApiWrite:
        """ApiResource, namespace and name; or why there is none."""
        version, kind = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
        metadata = manifest.get("metadata")
        name = str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""
        if not (version and kind and name) or not isinstance(metadata, Mapping):
            return ApiWrite(kind.lower() or "object", "refused", "apiVersion, kind and metadata.name are needed")
        if version not in self._served:
            self._served[version] = await self._resources(version)
        resource = self._served[version].get(kind)
        if resource is None:
            return ApiWrite(f"{kind.lower()}/{name}", "refused", f"the API does not serve {kind} of {version}")
        namespace = str(metadata.get("namespace") or self._namespace) if resource.namespaced else ""
        return resource, namespace, name

    async def _resources(self, version: str) -> dict[str, ApiResource]:
        """What the API serves of a version, by kind."""
        group, _, number = version.rpartition("/")
        answer = await self._upstream.read(f"/apis/{version}" if group else f"/api/{version}")
        return {
            one["kind"]: ApiResource(group, number, one["name"], bool(one.get("namespaced")))
            for one in (answer.object or {}).get("resources") or ()
            if "/" not in one["name"]  # else it is a part of another one
        }


def _about(manifest: Mapping[str, Any], namespace: str, name: str) -> str:
    return "/".join(part for part in (str(manifest["kind"]).lower(), namespace, name) if part)


def _refused(about: str, answer: ApiAnswer) -> ApiWrite:
    return ApiWrite(about, "refused", answer.message or answer.reason or f"the API answers {answer.code}")


def _revision(answer: ApiAnswer) -> str:
    return str(((answer.object or {}).get("metadata") or {}).get("resourceVersion") or "")
