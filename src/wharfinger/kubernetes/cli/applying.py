"""`wharfinger kubernetes apply|delete`: write manifests to the Kubernetes API where no kubectl is at hand.

For trials (`wharfinger dev --kubernetes`), not instead of kubectl: nothing is compared with what was applied before, so
a field that is left out of a manifest stays as it is. The API's own discovery has the spelling of each kind in URLs, so
every kind that it serves can be written. A change is a strategic merge, or a merge where the API has no strategic one
(custom resources).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any

import typer

from wharfinger.apiserver.client import NODES, NOT_FOUND, ApiAnswer, ApiClient, ApiResource, PatchType
from wharfinger.cli.files import FilesOption, RecursiveOption, contents_of
from wharfinger.cli.objects.writing import REFUSED, Applied, report
from wharfinger.cli.options import configured, namespace_option
from wharfinger.cli.output import Output, OutputOption, show
from wharfinger.errors import InvalidObject, WharfingerError
from wharfinger.kubernetes.cli.api import ApiOptions, open_api

UNSUPPORTED = 415
SET_BY_THE_API = frozenset({"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"})
"""Metadata that a manifest has where it was read from a cluster; in a copy the revision is etcd's."""
NamespaceOption = Annotated[str, namespace_option("Namespace of objects that name none.")]
FIRST, LAST = ("Namespace", "Node", "PriorityClass"), ("Pod",)
"""What others refer to, and what refers to others."""


class ApiWriter:
    """Writes objects to one API; remembers what it serves."""

    def __init__(self, apiserver: ApiClient, namespace: str) -> None:
        """`namespace`: of objects that name none."""
        self._apiserver = apiserver
        self._namespace = namespace
        self._served: dict[str, Mapping[str, ApiResource]] = {}

    async def apply(self, manifest: Mapping[str, Any]) -> Applied:
        """Create the object, or change it. Raises `UpstreamError` when the API does not answer."""
        found = await self._find(manifest)
        if isinstance(found, Applied):
            return found
        resource, namespace, name = found
        about = _about(manifest, namespace, name)
        metadata = {key: value for key, value in manifest["metadata"].items() if key not in SET_BY_THE_API}
        body = {**manifest, "metadata": {**metadata, **({"namespace": namespace} if namespace else {})}}
        answer = await self._apiserver.create(resource, body, namespace=namespace)
        if answer.done:
            return Applied(about, "created")
        if answer.reason != "AlreadyExists":
            return _refused(about, answer)
        before = await self._apiserver.get(resource, name, namespace=namespace)
        answer = await self._patch(resource, name, body, namespace)
        if answer.done and resource == NODES and "status" in manifest:
            answer = await self._patch(resource, name, {"status": manifest["status"]}, namespace, "status")
        if not answer.done:
            return _refused(about, answer)
        return Applied(about, "unchanged" if _revision(before) == _revision(answer) else "configured")

    async def delete(self, manifest: Mapping[str, Any], grace_seconds: int | None = None) -> Applied:
        """Delete the object that the manifest names. Raises `UpstreamError` when the API does not answer."""
        found = await self._find(manifest)
        if isinstance(found, Applied):
            return found
        resource, namespace, name = found
        about = _about(manifest, namespace, name)
        answer = await self._apiserver.delete(resource, name, namespace=namespace, grace_seconds=grace_seconds)
        if answer.done:
            return Applied(about, "deleted")
        return Applied(about, "absent") if answer.code == NOT_FOUND else _refused(about, answer)

    async def _patch(
        self, resource: ApiResource, name: str, body: Mapping[str, Any], namespace: str, subresource: str = ""
    ) -> ApiAnswer:
        for type_ in (PatchType.STRATEGIC, PatchType.MERGE):
            answer = await self._apiserver.patch(
                resource, name, body, namespace=namespace, subresource=subresource, type_=type_
            )
            if answer.code != UNSUPPORTED:
                break
        return answer

    async def _find(self, manifest: Mapping[str, Any]) -> tuple[ApiResource, str, str] | Applied:
        """ApiResource, namespace and name; or why there is none."""
        version, kind = str(manifest.get("apiVersion") or ""), str(manifest.get("kind") or "")
        metadata = manifest.get("metadata")
        name = str(metadata.get("name") or "") if isinstance(metadata, Mapping) else ""
        if not (version and kind and name) or not isinstance(metadata, Mapping):
            return Applied(kind.lower() or "object", REFUSED, ("apiVersion, kind and metadata.name are needed",))
        if version not in self._served:
            self._served[version] = await self._resources(version)
        resource = self._served[version].get(kind)
        if resource is None:
            return Applied(f"{kind.lower()}/{name}", REFUSED, (f"the API does not serve {kind} of {version}",))
        namespace = str(metadata.get("namespace") or self._namespace) if resource.namespaced else ""
        return resource, namespace, name

    async def _resources(self, version: str) -> dict[str, ApiResource]:
        """What the API serves of a version, by kind."""
        group, _, number = version.rpartition("/")
        answer = await self._apiserver.read(f"/apis/{version}" if group else f"/api/{version}")
        return {
            one["kind"]: ApiResource(group, number, one["name"], bool(one.get("namespaced")))
            for one in (answer.object or {}).get("resources") or ()
            if "/" not in one["name"]  # else it is a part of another one
        }


def _about(manifest: Mapping[str, Any], namespace: str, name: str) -> str:
    return "/".join(part for part in (str(manifest["kind"]).lower(), namespace, name) if part)


def _refused(about: str, answer: ApiAnswer) -> Applied:
    return Applied(about, REFUSED, (answer.message or answer.reason or f"the API answers {answer.code}",))


def _revision(answer: ApiAnswer) -> str:
    return str(((answer.object or {}).get("metadata") or {}).get("resourceVersion") or "")


@configured
async def apply(
    files: FilesOption,
    *,
    recursive: RecursiveOption = False,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.TABLE,
    apiserver: ApiOptions,
) -> None:
    """Create objects in the Kubernetes API, or change them.

    For clusters without kubectl at hand, such as that of `wharfinger dev --kubernetes`. A field that is left out of a
    manifest stays as it is. The exit code is 1 when the API refuses an object; the others are written.
    """

    def write(writer: ApiWriter, manifest: Mapping[str, Any]) -> Awaitable[Applied]:
        return writer.apply(manifest)

    await _run(apiserver, _ordered(_manifests(files, recursive)), namespace, output, write)


@configured
async def delete(
    files: FilesOption,
    *,
    recursive: RecursiveOption = False,
    namespace: NamespaceOption = "default",
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="An absent object is no error.")] = False,
    output: OutputOption = Output.TABLE,
    apiserver: ApiOptions,
) -> None:
    """Delete from the Kubernetes API what manifests name.

    The exit code is 1 when an object does not exist or the API refuses; the others are deleted.
    """

    async def write(writer: ApiWriter, manifest: Mapping[str, Any]) -> Applied:
        done = await writer.delete(manifest)
        if done.result == "absent" and not ignore_not_found:
            return Applied(done.object, REFUSED, ("does not exist",))
        return done

    await _run(apiserver, list(reversed(_ordered(_manifests(files, recursive)))), namespace, output, write)


async def _run(
    apiserver: ApiOptions,
    manifests: list[Mapping[str, Any]],
    namespace: str,
    output: Output,
    write: Callable[[ApiWriter, Mapping[str, Any]], Awaitable[Applied]],
) -> None:
    if not manifests:
        raise WharfingerError("no objects found")
    written = []
    async with open_api(apiserver) as api:
        writer = ApiWriter(api, namespace)
        for manifest in manifests:
            done = await write(writer, manifest)
            written.append(done)
            if output is Output.TABLE:
                report(done)
    if output is not Output.TABLE:
        show([one.mapping() for one in written], output)
    if any(one.result == REFUSED for one in written):
        raise typer.Exit(1)


def _manifests(files: list[str], recursive: bool) -> Iterator[Mapping[str, Any]]:
    """The objects of all files. Raises `InvalidObject` with the file's name."""
    from wharfinger.objects.documents.documents import objects_of

    for source, content in contents_of(files, recursive=recursive):
        try:
            for obj in objects_of(source, content):
                if not isinstance(obj, Mapping):
                    raise InvalidObject("has a document that is no object")
                yield obj
        except InvalidObject as error:
            raise InvalidObject(f"{source}: {error}") from error


def _ordered(manifests: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """In the order in which they are best created."""
    return sorted(manifests, key=lambda one: (one.get("kind") in LAST) - (one.get("kind") in FIRST))
