"""What wharfinger needs of a Kubernetes API server: consistent lists, watches, and writes with preconditions.

Objects are the API's JSON as mappings. ApiResource versions are compared as numbers (`revision_of`), also across
the API servers of one cluster. What a server can be expected to say of a write (done, not there, conflict,
invalid, forbidden) is a value, `ApiAnswer`; exceptions are for no answer, and for credentials that are refused.

Implementations: `wharfinger.apiserver.transport.HttpApiClient` and `wharfinger.testing.memory_upstream.MemoryUpstream`.
One conformance suite holds for both (`tests/apiserver/conformance`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from wharfinger.errors import UpstreamError

Object = Mapping[str, Any]
"""One object, as the API prints it."""

REQUEST_DEADLINE = 4.0
"""Seconds that a write or a read of one object may take."""
JSON = "application/json"
NOT_FOUND, CONFLICT = 404, 409
"""Codes of answers."""


class ApiResource(NamedTuple):
    """A kind as its URLs spell it."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """Group and version, as objects have them: `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of the collection, of one object, or of a part of it."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{root}{scope}/{self.plural}", name, subresource) if part)


PODS = ApiResource("", "v1", "pods", namespaced=True)
NODES = ApiResource("", "v1", "nodes", namespaced=False)
NAMESPACES = ApiResource("", "v1", "namespaces", namespaced=False)
SERVICES = ApiResource("", "v1", "services", namespaced=True)
REPLICATION_CONTROLLERS = ApiResource("", "v1", "replicationcontrollers", namespaced=True)
REPLICA_SETS = ApiResource("apps", "v1", "replicasets", namespaced=True)
STATEFUL_SETS = ApiResource("apps", "v1", "statefulsets", namespaced=True)
DISRUPTION_BUDGETS = ApiResource("policy", "v1", "poddisruptionbudgets", namespaced=True)
PRIORITY_CLASSES = ApiResource("scheduling.k8s.io", "v1", "priorityclasses", namespaced=False)
PERSISTENT_VOLUMES = ApiResource("", "v1", "persistentvolumes", namespaced=False)
PERSISTENT_VOLUME_CLAIMS = ApiResource("", "v1", "persistentvolumeclaims", namespaced=True)
STORAGE_CLASSES = ApiResource("storage.k8s.io", "v1", "storageclasses", namespaced=False)
CSI_NODES = ApiResource("storage.k8s.io", "v1", "csinodes", namespaced=False)
CSI_DRIVERS = ApiResource("storage.k8s.io", "v1", "csidrivers", namespaced=False)
CSI_STORAGE_CAPACITIES = ApiResource("storage.k8s.io", "v1", "csistoragecapacities", namespaced=True)
VOLUME_ATTACHMENTS = ApiResource("storage.k8s.io", "v1", "volumeattachments", namespaced=False)
STORAGE = (
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
"""What decisions about volumes read."""
LEASES = ApiResource("coordination.k8s.io", "v1", "leases", namespaced=True)
EVENTS = ApiResource("events.k8s.io", "v1", "events", namespaced=True)
TOKEN_REVIEWS = ApiResource("authentication.k8s.io", "v1", "tokenreviews", namespaced=False)
ACCESS_REVIEWS = ApiResource("authorization.k8s.io", "v1", "subjectaccessreviews", namespaced=False)
OWN_ACCESS_REVIEWS = ApiResource("authorization.k8s.io", "v1", "selfsubjectaccessreviews", namespaced=False)


class PatchType(StrEnum):
    """How a patch is merged into the object."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class ApiAnswer:
    """What the server said to a request that it has decided: done, or refused for good as the request stands."""

    code: int
    """HTTP status: 2xx, or 4xx except 401 and 429."""
    object: Object | None = None
    """The object as it is now, where the server printed one; for a bind, the server's `Status`."""
    reason: str = ""
    """Of a refusal, for programs: `NotFound`, `Conflict`, `AlreadyExists`, `Forbidden`, `Invalid`."""
    message: str = ""
    """Of a refusal, for people; the server's own words."""

    @property
    def done(self) -> bool:
        """Whether the request was carried out."""
        return 200 <= self.code < 300

    @property
    def words(self) -> str:
        """Of a refusal: its code, and what the server says of it."""
        return f"{self.code}: {self.message or self.reason}"


class ChangeKind(StrEnum):
    """What a watch says of an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class ApiChange(NamedTuple):
    """One object, as a watch shows it. A deletion has the object's last state, at the revision of the deletion."""

    kind: ChangeKind
    object: Object
    revision: int


class Batch(NamedTuple):
    """What a watch has shown since the last batch."""

    changes: tuple[ApiChange, ...]
    revision: int
    """Everything up to here was shown: from here a broken watch is resumed. 0 while the first list is under way."""
    listed: bool = False
    """Whether the first list ends with this batch: what it did not name does not exist at `revision`."""


class ReadRefused(UpstreamError):
    """The API server refuses a list or a watch for good; `code` is that of HTTP: 400, 403, 404, 422."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class ApiCall(NamedTuple):
    """One request, by the verb that RBAC has for it: get, list, watch, create, update, patch, delete."""

    verb: str
    resource: ApiResource | None = None
    """None = a document, by its path."""
    namespace: str = ""
    name: str = ""
    """Of a document: its path."""
    subresource: str = ""
    body: Object | None = None
    type: str = JSON
    """The body's media type, which says of a patch how it is merged."""
    dry_run: bool = False

    @property
    def writes(self) -> bool:
        """Whether it may change something."""
        return self.verb not in {"get", "list", "watch"} and not self.dry_run


class ApiClient(ABC):
    """A Kubernetes API server. Every call ends within its deadline.

    Raises, besides what each method says: `UpstreamUnavailable` (no answer, 429 or 5xx; `maybe_applied` for
    writes) and `UpstreamDenied` (401, after the credentials were read again). Lists and watches raise `ReadRefused`
    for what would be an `ApiAnswer` elsewhere: forbidden, a kind that is not served, a selector that is not offered.
    """

    @property
    @abstractmethod
    def server(self) -> str:
        """Where it is, for messages: URL without credentials."""

    @abstractmethod
    async def send(self, call: ApiCall) -> ApiAnswer:
        """Send a request that is no list and no watch; its answer."""

    async def get(self, resource: ApiResource, name: str, *, namespace: str = "") -> ApiAnswer:
        """One object as it is now (linearizable); code 404 when there is none."""
        return await self.send(ApiCall("get", resource, namespace, name))

    async def read(self, path: str) -> ApiAnswer:
        """Any JSON document of the server, by its path: `/version`, `/apis/<group>/<version>`."""
        return await self.send(ApiCall("get", None, "", path))

    @abstractmethod
    def list(
        self, resource: ApiResource, *, namespace: str = "", field_selector: str = "", page: int = 500
    ) -> AsyncGenerator[tuple[tuple[Object, ...], int], None]:
        """All objects at one revision, in pages of that many: the objects, and the revision.

        Raises `HistoryGone` when the list takes so long that its revision is no longer kept.
        """

    @abstractmethod
    def watch(
        self,
        resource: ApiResource,
        *,
        revision: int | None = None,
        newest: int = 0,
        field_selector: str = "",
        gather: float = 0.0,
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        """Changes after a revision; None = first all objects that there are (consistent), then what changes.

        `gather`: seconds that changes of objects that were there before may wait for more of them, so that they come
        in fewer batches. A new object is shown with all that waits: at once, or 20 ms after the batch before.
        `newest`: a revision that the server has reached. The first batch of a watch of changes has all changes up to
        it, and may be empty.

        Does not end by itself. Raises `HistoryGone` when changes after the revision are no longer kept, and
        `UpstreamUnavailable` when the connection breaks, or is silent for 70 s (an idle one shows its revision
        every minute). Whoever leaves the selector is shown as deleted.
        """

    async def create(
        self,
        resource: ApiResource,
        body: Object,
        *,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> ApiAnswer:
        """POST an object; with `name` and `subresource`, to a part of one (`pods/<name>/binding`)."""
        named = name or str((body.get("metadata") or {}).get("name") or "")
        return await self.send(ApiCall("create", resource, namespace, named, subresource, body, dry_run=dry_run))

    async def replace(self, resource: ApiResource, name: str, body: Object, *, namespace: str = "") -> ApiAnswer:
        """PUT an object; its resourceVersion is compared where it is given."""
        return await self.send(ApiCall("update", resource, namespace, name, body=body))

    async def patch(
        self,
        resource: ApiResource,
        name: str,
        body: Object,
        *,
        namespace: str = "",
        subresource: str = "",
        type_: PatchType = PatchType.STRATEGIC,
    ) -> ApiAnswer:
        """PATCH an object or a part of it; `metadata.uid` and `.resourceVersion` in the body are compared.

        Another revision is a conflict (code 409). Without a revision, another uid is invalid (code 422).
        """
        return await self.send(ApiCall("patch", resource, namespace, name, subresource, body, type_))

    async def delete(
        self,
        resource: ApiResource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        revision: int = 0,
        grace_seconds: int | None = None,
    ) -> ApiAnswer:
        """DELETE an object, if it still has the uid and the revision (code 409 when not)."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        conditions = {"uid": uid, "resourceVersion": str(revision or "")}
        if any(conditions.values()):
            options["preconditions"] = {condition: value for condition, value in conditions.items() if value}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return await self.send(ApiCall("delete", resource, namespace, name, body=options))

    @abstractmethod
    async def close(self) -> None:
        """Give up every connection. Idempotent."""


def revision_of(obj: Object) -> int:
    """An object's (or a list's) resourceVersion as a number; 0 when it has none. Raises `ValueError` otherwise."""
    return int(obj["metadata"].get("resourceVersion") or 0)


def uid_of(obj: Object) -> str:
    """An object's uid; empty when it has none."""
    return str(obj["metadata"].get("uid", ""))
