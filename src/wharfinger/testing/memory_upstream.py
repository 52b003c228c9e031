"""`MemoryUpstream`: a Kubernetes API server in memory, for tests of what imports from one and binds there.

Objects have true revisions, uids, preconditions and watches; binding, deletion and status have kube-apiserver's rules
(`memory_server`). `client()` gives another client of the same server, such as a second scheduler
or a user. Each client has faults of its own::

    upstream.faults.lose_answers(subresource="binding")    see `memory_faults` for all of them
    upstream.before_request = hook                         runs before a request is carried out
    upstream.after_request = hook                          runs after it was carried out, before its answer
    upstream.cut_watches(PODS)                             watches break
    upstream.silence_watches()                             watches show nothing, until `resume_watches()`

and the server itself can `forget_before` a revision, `bookmark`, `backup` and `restore`. Tests change
objects at once with `put` and `remove`, for example as a kubelet or a node would.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing

from wharfinger.apiserver.client import (
    OWN_ACCESS_REVIEWS,
    ApiAnswer,
    ApiCall,
    ApiResource,
    Batch,
    Object,
    PatchType,
    ReadRefused,
)
from wharfinger.errors import HistoryGone
from wharfinger.testing import memory_refusals as refusals
from wharfinger.testing import memory_watch
from wharfinger.testing.memory_client import MemoryClient
from wharfinger.testing.memory_objects import Json, loaded
from wharfinger.testing.memory_patches import selection
from wharfinger.testing.memory_watch import WatchOrder

Pages = AsyncGenerator[tuple[tuple[Object, ...], int], None]


class MemoryUpstream(MemoryClient):
    """One client of an API server in memory; all its clients live on one event loop. Implements `ApiClient`."""

    @property
    def server(self) -> str:
        """Where it is, for messages."""
        return self._server

    async def send(self, call: ApiCall) -> ApiAnswer:
        """Have the server carry a request out."""
        return await self._call(call, lambda: self._carried_out(call))

    def _carried_out(self, call: ApiCall) -> ApiAnswer | int:
        api, resource, namespace, name, body = self._api, call.resource, call.namespace, call.name, call.body or {}
        if resource is None:
            return api.read(name)
        match call.verb:
            case "get":
                return api.get(resource, namespace, name)
            case "create" if resource == OWN_ACCESS_REVIEWS and self._is_forbidden(body):
                return ApiAnswer(201, {**body, "status": {"allowed": False}})
            case "create":
                return api.create(resource, body, namespace, name, call.subresource, dry_run=call.dry_run)
            case "update":
                return api.replace(resource, namespace, name, body)
            case "patch":
                subresource, type_ = call.subresource, PatchType(call.type)
                return api.patch(resource, namespace, name, body, subresource=subresource, type_=type_)
            case _:
                return api.delete(resource, namespace, name, body)

    async def list(
        self, resource: ApiResource, *, namespace: str = "", field_selector: str = "", page: int = 500
    ) -> AsyncGenerator[tuple[tuple[Object, ...], int], None]:
        """All objects at one revision, in pages; they are printed without apiVersion and kind."""
        request = ApiCall("list", resource, namespace)
        objects = self._api.objects
        found: list[Json] | None = None
        revision = 0
        while True:

            def look(known: bool = found is not None, at: int = revision) -> ApiAnswer:
                if known:
                    return ApiAnswer(200) if at >= objects.forgotten else ApiAnswer(410, None, "Expired", "too old")
                return self._listed(resource, namespace, field_selector)

            answer = await self._call(request, look)
            if answer.code == 410:
                raise HistoryGone(f"the list of {resource.plural} took too long: revision {revision} is not kept")
            if not answer.done:
                raise ReadRefused(f"cannot list {resource.plural}: {answer.message}", answer.code)
            if answer.object is not None:
                found, revision = answer.object["items"], answer.object["revision"]
            assert found is not None
            yield tuple(found[:page]), revision
            found = found[page:]
            if not found:
                return

    def _listed(self, resource: ApiResource, namespace: str, field_selector: str) -> ApiAnswer:
        if resource not in self._api.kinds:
            return refusals.not_served()
        try:
            selects = selection(field_selector, self._api.kinds[resource])
        except ValueError as error:
            return refusals.bad_request(str(error))
        found = [obj for data in self._api.objects.all(resource, namespace) if selects(obj := loaded(data))]
        bare = [{name: part for name, part in obj.items() if name not in {"apiVersion", "kind"}} for obj in found]
        return ApiAnswer(200, {"items": bare, "revision": self.revision})

    def watch(
        self,
        resource: ApiResource,
        *,
        revision: int | None = None,
        newest: int = 0,  # noqa: ARG002 - all changes are at hand
        field_selector: str = "",
        gather: float = 0.0,  # noqa: ARG002 - nothing waits here for more
    ) -> AbstractAsyncContextManager[AsyncIterator[Batch]]:
        """Changes after a revision; None = first all objects. `newest` and `gather` have no effect."""
        return aclosing(self._batches(resource, revision, field_selector))

    async def _batches(
        self, resource: ApiResource, revision: int | None, field_selector: str
    ) -> AsyncGenerator[Batch, None]:
        first: list[Batch] = []
        order: WatchOrder | None = None

        def begin() -> ApiAnswer:
            nonlocal first, order
            answer = self._listed(resource, "", field_selector)
            if answer.done:
                selects = selection(field_selector, self._api.kinds[resource])
                if revision is None:
                    first = memory_watch.first_list(self._api.objects, resource, selects)
                at = self.revision if revision is None else revision
                cuts, bookmarks = self._watches.cuts_of(resource), self._bell.bookmarks
                order = WatchOrder(resource, selects, at, cuts, bookmarks, resumed=revision is not None)
            return answer

        answer = await self._call(ApiCall("watch", resource), begin)
        if order is None:
            raise ReadRefused(f"cannot watch {resource.plural}: {answer.message}", answer.code)
        for batch in first:
            yield batch
        shown = memory_watch.changes(self._api.objects, self._bell, self._watches, order)
        async with aclosing(shown) as batches:
            async for batch in batches:
                yield batch

    async def close(self) -> None:
        """Close this client: its watches break, and what it asks is not answered."""
        self._watches.closed = True
        self._bell.ring()

    def _is_forbidden(self, review: Object) -> bool:
        asked = (review.get("spec") or {}).get("resourceAttributes") or {}
        given = [str(asked.get(name) or "") for name in ("verb", "group", "resource", "subresource")]
        return self.faults.forbidden(*given)
