"""A client of an API server in memory: switches for the server and for the connection to it.

`memory_upstream.MemoryUpstream` adds the requests of the Protocol, and describes the whole.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self

import orjson

from wharfinger.apiserver.client import ApiAnswer, ApiCall, ApiClient, ApiResource, Object
from wharfinger.errors import UpstreamDenied, UpstreamUnavailable
from wharfinger.testing import memory_refusals as refusals
from wharfinger.testing.memory_faults import Gate, MemoryFault, MemoryFaults
from wharfinger.testing.memory_objects import Backup, Json, loaded
from wharfinger.testing.memory_server import AccessPolicy, MemoryApiServer
from wharfinger.testing.memory_watch import Bell, WatchState

RequestHook = Callable[[ApiCall], Awaitable[None] | None]
EPOCH = 1_700_000_000.0
"""The time that stands still, unless a clock is given."""


class MemoryClient(ApiClient):
    """One client of an API server in memory, but for the requests of the Protocol."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = lambda: EPOCH,
        server: str = "https://memory.invalid:6443",
        user: str = "wharfinger",
    ) -> None:
        """`clock`: seconds since the epoch, for timestamps and silent watches; `user`: as refusals name us."""
        self._api = MemoryApiServer(clock)
        self._bell = Bell()
        self._clock = clock
        self._reset(server, user)

    def _reset(self, server: str, user: str) -> None:
        self._server = server
        self._user = user
        self._watches = WatchState(self._clock)
        self.faults = MemoryFaults()
        self.requests: list[ApiCall] = []
        """Every request of this client, in order, whatever became of it."""
        self.before_request: RequestHook | None = None
        self.after_request: RequestHook | None = None

    def client(self, *, user: str = "") -> Self:
        """Another client of the same server, with faults of its own."""
        other = object.__new__(type(self))
        other._api, other._bell, other._clock = self._api, self._bell, self._clock
        other._reset(self._server, user or self._user)
        return other

    # The server itself

    @property
    def revision(self) -> int:
        """The newest revision."""
        return self._api.objects.revision

    def put(self, resource: ApiResource, obj: Object, *, namespace: str = "default") -> Json:
        """Create or replace an object with all its parts, as its controller or kubelet would. Returns it as stored."""
        objects = self._api.objects
        new: Json = orjson.loads(orjson.dumps(obj, default=dict))
        space = str(new["metadata"].get("namespace") or namespace) if resource.namespaced else ""
        before = objects.read(resource, space, new["metadata"]["name"])
        status = new.get("status")
        if before is None:
            new = self._api.stored(resource, new, space, dry_run=True)
        else:
            kept = ("uid", "creationTimestamp", "namespace")
            new["metadata"].update({name: before["metadata"][name] for name in kept if name in before["metadata"]})
            new = {"kind": before["kind"], "apiVersion": before["apiVersion"], **new}
            status = before.get("status") if status is None else status
        if status is not None:
            new["status"] = status
        stored = objects.write(resource, new)
        self._bell.ring()
        return stored

    def remove(self, resource: ApiResource, name: str, *, namespace: str = "default") -> Json:
        """Delete an object at once, whatever it is; its last state. Raises `KeyError` without it."""
        removed = self._api.objects.remove(resource, namespace if resource.namespaced else "", name)
        self._bell.ring()
        return removed

    def objects(self, resource: ApiResource) -> list[Json]:
        """All objects of a kind, as they are now."""
        return [loaded(data) for data in self._api.objects.all(resource)]

    def find(self, resource: ApiResource, name: str, *, namespace: str = "default") -> Json | None:
        """One object as it is now."""
        return self._api.objects.read(resource, namespace if resource.namespaced else "", name)

    def serve(self, resource: ApiResource, kind: str) -> None:
        """Serve one more kind, such as one of a CustomResourceDefinition."""
        self._api.kinds[resource] = kind

    def withdraw(self, resource: ApiResource) -> None:
        """Serve a kind no more."""
        del self._api.kinds[resource]

    def decide_access(self, policy: AccessPolicy) -> None:
        """Have (Self)SubjectAccessReviews answered so."""
        self._api.allows = policy

    def know_token(self, token: str, user: Mapping[str, Any]) -> None:
        """Have TokenReviews accept a token, as this `status.user`."""
        self._api.users[token] = dict(user)

    def forget_before(self, revision: int) -> None:
        """Keep no changes before a revision: watches from there have to list."""
        self._api.objects.forget_before(revision)
        self._bell.ring()

    def bookmark(self) -> None:
        """Have all watches show where they are, as a server does each minute."""
        self._bell.bookmarks += 1
        self._bell.ring()

    def backup(self) -> Backup:
        """Everything that is there."""
        return self._api.objects.backup()

    def restore(self, backup: Backup) -> None:
        """Go back to a backup: revisions go back, too. Cut the watches of all clients as well."""
        self._api.objects.restore(backup)
        self._bell.ring()

    # The way to it

    def cut_watches(self, resource: ApiResource | None = None) -> None:
        """Break this client's watches, on one kind or on all."""
        self._watches.cuts[resource] = self._watches.cuts.get(resource, 0) + 1
        self._bell.ring()

    def silence_watches(self) -> None:
        """Let this client's watches show nothing. Those that see 70 s of it give up, when `tick` is called."""
        self._watches.silent_since = self._clock()

    def resume_watches(self) -> None:
        """Let them go on."""
        self._watches.silent_since = None
        self._bell.ring()

    def tick(self) -> None:
        """Have watches look at the clock, after a test has moved it."""
        self._bell.ring()

    # One request

    async def _call(self, request: ApiCall, act: Callable[[], ApiAnswer | int]) -> ApiAnswer:
        """A request takes its time: others run before it is served."""
        await asyncio.sleep(0)
        self.requests.append(request)
        if self._watches.closed:
            raise UpstreamUnavailable(f"{self._server}: the connection is closed")
        fault, gates = self.faults.of(request)
        answer: ApiAnswer | int
        if fault is not None and not fault.applied:
            answer = self._met(fault, request)
        else:
            await self._pass(gates, request, before=True)
            await _run(self.before_request, request)
            answer = act()
            self._bell.ring()
            await _run(self.after_request, request)
        await self._pass(gates, request, before=False)
        if fault is not None and fault.applied:
            raise self._unanswered(request)
        if isinstance(answer, int):
            text = f"{request.verb} {request.name} at {self._server}: code {answer}"
            raise UpstreamUnavailable(text, maybe_applied=request.writes)
        return answer

    async def _pass(self, gates: Sequence[Gate], request: ApiCall, *, before: bool) -> None:
        for gate in gates:
            if gate.before is before and not await gate.passed():
                raise self._unanswered(request)

    def _met(self, fault: MemoryFault, request: ApiCall) -> ApiAnswer:
        """What a fault answers; it raises what `ApiClient` raises for that."""
        text = f"{request.verb} {request.name} at {self._server}: code {fault.code}: {fault.message}"
        if fault.code == 401:
            raise UpstreamDenied(text)
        if fault.code == 403 and not fault.message and request.resource is not None:
            resource, where = request.resource, request.namespace
            named = {"namespace": where, "name": request.name, "subresource": request.subresource}
            return refusals.forbidden(self._user, request.verb, resource, **named)
        if 400 <= fault.code < 500 and fault.code != 429:
            return ApiAnswer(fault.code, None, fault.reason, fault.message)
        if fault.code:
            maybe = request.writes and fault.code != 429
            raise UpstreamUnavailable(text, maybe_applied=maybe, retry_after=fault.retry_after)
        raise UpstreamUnavailable(f"{self._server}: cannot connect", maybe_applied=fault.sent and request.writes)

    def _unanswered(self, request: ApiCall) -> UpstreamUnavailable:
        text = f"{request.verb} {request.name} at {self._server}: no answer in time"
        return UpstreamUnavailable(text, maybe_applied=request.writes)


async def _run(hook: RequestHook | None, request: ApiCall) -> None:
    if hook is not None:
        outcome = hook(request)
        if inspect.isawaitable(outcome):
            await outcome
