"""Sending promises to the API, and finding out what became of them.

::

    promise ── withdrawn ─────────────────────► fence (`withdrawing`), then as after a look
       ├────── not ready ─────────────────────► its node is told and its volumes are prepared (`preparing`), or plugins
       │                                        are called first
       │
      POST ── 201 ────────────────────────────► kept
       ├───── 409, 404 ─► look: GET, adopt ───► on its node with our annotation: kept · elsewhere, gone: gone
       │                                        promised again at another revision: POST · else: changed
       ├───── 403, 422, other 4xx ────────────► given up: refused with the API's words
       └───── 5xx, 429, no answer ────────────► the promise stays, the caller tries again
    unproven ───────────────────────────────► nothing is sent; the sweep takes in what the API has

Where an extender binds the pod, it is asked in the place of the POST (`extender_binding`).

Any worker may send any promise, any number of times: the revision that it names makes it harmless. A 403 because the
worker may not bind at all says nothing of the pod, so it is no refusal.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace

from wharfinger.apiserver import client
from wharfinger.apiserver.access_checks import BIND_ACCESS, is_allowed
from wharfinger.apiserver.bodies import binding
from wharfinger.apiserver.client import CONFLICT, NOT_FOUND, ApiAnswer, ApiClient
from wharfinger.errors import InvalidObject, UpstreamDenied, UpstreamUnavailable
from wharfinger.etcd.store import KeyValue
from wharfinger.kubernetes.effects import withdrawing
from wharfinger.kubernetes.effects.adopting import Adopter, present
from wharfinger.kubernetes.effects.extender_binding import ExtenderBinders
from wharfinger.kubernetes.effects.preparing import Preparation, Preparations
from wharfinger.kubernetes.effects.states import PODS
from wharfinger.kubernetes.effects.withdrawing import Withdrawals
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.metadata import attempt_of
from wharfinger.objects.documents.times import seconds_since
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.contracts.promise_records import KnownObject
from wharfinger.scheduling.effects.binding.right_to_bind import RightToBind
from wharfinger.scheduling.effects.binding.writers import KeptKind, KeptPromise, Rehearsal, RehearsalKind
from wharfinger.scheduling.model.promises import Promise

REMEMBERED = 5_000
"""Binds that were carried out, the last ones. About 0.5 KB each."""
_Bind = tuple[str, int, str, str]
AT_ONCE = 60
"""Binds that one worker has on the way. Of sixty each costs the API server and its etcd a fifth less than of thirty."""
TURNS = 5
"""Looks at a pod that keeps changing, before its chain places it anew."""
WEBHOOK_PATIENCE = 600.0
"""Seconds that a promise waits for an admission webhook that fails; then it is given up."""
BAD_REQUEST, FORBIDDEN = 400, 403
NOT_SENT = "NotSent"
"""Reason of an answer that is not the API's: the promise was not sent, because it is another one, or none, by now."""
MAY_NOT_BIND = (
    "the API server does not allow this worker to create pods/binding in {namespace}: grant it with the ClusterRole of "
    "deploy/kubernetes"
)


class SentOnce:
    """The binds that one worker has on the way, and those that the API has carried out: none is sent a second time.

    A bind that takes longer than its activity may take is tried again while the first try still sends; and a promise
    stands until its pod was copied, which is later than the API's answer. Without this, the second try would have each
    pod refused as changed, and read. It is an economy: another worker may send any promise again.
    """

    def __init__(self) -> None:
        self._done: OrderedDict[_Bind, ApiAnswer] = OrderedDict()
        self._on_the_way: dict[_Bind, asyncio.Future[None]] = {}

    async def answer(self, promise: Promise, send: Callable[[], Awaitable[ApiAnswer]]) -> ApiAnswer:
        """The API's answer to a bind: that of an earlier try which it carried out, or what `send` brings now.

        Raises what `send` raises. Each caller sends for itself where a try that it has waited for came to nothing.
        """
        bind = (promise.uid, promise.revision, promise.node, promise.attempt)
        while (other := self._on_the_way.get(bind)) is not None:
            await asyncio.wait([other])
        if (known := self._done.get(bind)) is not None:
            return known
        ended = self._on_the_way[bind] = asyncio.get_running_loop().create_future()
        try:
            answer = await send()
        finally:
            del self._on_the_way[bind]
            ended.set_result(None)
        if answer.done:
            self._done[bind] = ApiAnswer(answer.code)
            if len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
        return answer


class Promises:
    """Sends the promises of one worker."""

    def __init__(
        self,
        apiserver: ApiClient,
        adopter: Adopter,
        right: RightToBind,
        *,
        binders: ExtenderBinders | None = None,
    ) -> None:
        """`binders`: the extenders that bind pods; None = none does."""
        self._apiserver = apiserver
        self._adopter = adopter
        self.withdrawals = Withdrawals(apiserver, adopter)
        self._preparations = Preparations(apiserver, adopter)
        self._right = right
        self._binders = binders
        self._several = asyncio.Semaphore(AT_ONCE)
        self._sent = SentOnce()

    @property
    def some_wait(self) -> bool:
        """Whether as many binds as may be are on the way, so that others wait for their turn."""
        return self._several.locked()

    async def keep(self, pod: PodKey, attempt: str = "", known: Promise | None = None) -> KeptPromise:
        """Send the pod's promise until it is settled. `attempt`: who asks, `<workflow id>` at least; empty = anyone.

        `known`: the promise, where the caller has only just put it; else it is read.

        Safe to run again. Raises `StoreError`, and `UpstreamUnavailable` or `UpstreamDenied`: the promise stays.
        """
        there = KnownObject(None, known) if known is not None else await self._adopter.read_pod(pod)
        binder = self._binders.of(pod) if self._binders is not None else None
        asked_for = ""
        """The node on which an extender was asked to bind the pod: such a pod does not carry our annotation."""
        for _ in range(TURNS):
            promise = there.promise
            if promise is None:
                return self._without(pod, there, attempt, asked_for)
            attempt = attempt or promise.attempt
            if promise.withdrawn:
                there = await self.withdrawals.fence(pod, promise)
                if self._is_refused(there, promise.told):
                    return KeptPromise(KeptKind.REFUSED, message=promise.told)
                continue
            if not promise.ready:
                if await self._preparations.tell(pod, promise):
                    there = await self._adopter.read_pod(pod)
                    continue
                found = await self._prepare(pod, promise)
                if found is not None:
                    return KeptPromise(
                        KeptKind.NOT_READY, promise.node, found.waits_for, promise.attempt, calls=found.calls
                    )
                there = await self._adopter.read_pod(pod)
                continue
            if binder is not None:
                asked_for = promise.node
                failed, there = await self._have_bound(pod, promise, binder)
                if failed and binder.ignorable:
                    binder = None
                elif failed:
                    there = await self.withdrawals.give_up(pod, failed, told=failed)
                    if self._is_refused(there, failed):
                        return KeptPromise(KeptKind.FAILED, message=failed)
                continue
            refused, there = await self._send(pod, promise)
            if refused is None:
                return KeptPromise(KeptKind.KEPT, promise.node, bound_by=promise.attempt)
            still = there.promise is not None and there.promise.revision == promise.revision
            if still and refused.reason != NOT_SENT:
                told = f"the API server refuses the bind: {refused.message or refused.reason or refused.code}"
                there = await self.withdrawals.give_up(pod, told, told=told)
                if self._is_refused(there, told):
                    return KeptPromise(KeptKind.REFUSED, message=told)
        why = f"the pod changed {TURNS} times while it was being bound"
        there = await self.withdrawals.give_up(pod, why)  # it is placed anew, so nothing may bind it late
        kept = self._without(pod, there, attempt, asked_for)
        return replace(kept, message=why) if kept.kind is KeptKind.CHANGED else kept

    async def _prepare(self, pod: PodKey, promise: Promise) -> Preparation | None:
        """Bring the volumes of a pod further: what it still waits for; None when that is settled, either way."""
        found = await self._preparations.prepare(pod, promise)
        if found.ready:
            return None
        why = found.failed or found.late(promise, seconds_since(promise.since, self._adopter.utc_now()) or 0.0)
        if not why:
            return found
        await self.withdrawals.give_up(pod, why)
        return None

    async def agree(self, pod: PodKey, promise: Promise) -> bool:
        """The plugins that the promise waits for agree: it may be sent from now on. Raises `StoreError`."""
        return await self._preparations.agree(pod, promise)

    async def give_up(self, pod: PodKey, why: str, told: str = "") -> KnownObject:
        """Give the pod's promise up; what etcd has afterwards. Raises as `keep`."""
        return await self.withdrawals.give_up(pod, why, told)

    async def promise_of(self, pod: PodKey) -> Promise | None:
        """The pod's promise as etcd has it; None when there is none. Raises `StoreError`."""
        return (await self._adopter.read_pod(pod)).promise

    async def may_be_sent(self, pod: PodKey, promise: Promise) -> bool:
        """Whether the promise may be sent now: it stands. Raises as `RightToBind.confirm` where nothing may be bound.

        After the API was restored all promises are dropped, and then `active` is put anew. So a promise that is older
        than `active` is looked at once more: a bind of before the restore must not be sent after it.
        """
        seen = promise.mod_revision
        while seen < (active := await self._right.confirm()):  # once more after the read, which takes its time
            there = await self.promise_of(pod)
            if there is None or there.withdrawn:
                return False
            if (there.revision, there.node, there.attempt) != (promise.revision, promise.node, promise.attempt):
                return False
            seen = active
        return True

    async def rehearse(self, pod: PodKey, attempt: str) -> Rehearsal:
        """Whether the API would carry the promise out, by a dry run. `attempt`: who asks, `<workflow id>` at least.

        Raises as `keep`.
        """
        known = await self._adopter.read_pod(pod)
        for _ in range(TURNS):
            promise = known.promise
            if promise is None:
                kept = self._without(pod, known, attempt)
                kind = RehearsalKind.SENT if kept.kind is KeptKind.KEPT else RehearsalKind.REFUSED
                return Rehearsal(kind, kept.message or f"the pod is bound to {kept.node}")
            if promise.withdrawn:
                return Rehearsal(RehearsalKind.REFUSED, promise.withdrawn)
            answer = await self._answer(pod, promise, dry_run=True)
            if answer.done:
                return Rehearsal(RehearsalKind.AGREED)
            if answer.code == BAD_REQUEST:
                return Rehearsal(RehearsalKind.NOT_OFFERED, answer.message)
            if answer.code in {NOT_FOUND, CONFLICT}:  # an earlier try may have sent it, or its revision has moved
                known = await self.look(pod, promise)
                if known.promise is None or known.promise.revision != promise.revision:
                    continue
            return Rehearsal(RehearsalKind.REFUSED, answer.message or answer.reason or str(answer.code))
        return Rehearsal(RehearsalKind.REFUSED, f"the pod changed {TURNS} times")

    # --- one try ------------------------------------------------------------------------------

    async def _send(self, pod: PodKey, promise: Promise) -> tuple[ApiAnswer | None, KnownObject]:
        """POST it: None when it was carried out, else the answer and what etcd has after a look at the pod."""
        answer = await self._sent.answer(promise, lambda: self._answer(pod, promise))
        if answer.done:
            return None, KnownObject(None, promise)
        return answer, await self.look(pod, promise)

    async def _have_bound(self, pod: PodKey, promise: Promise, binder: Extender) -> tuple[str, KnownObject]:
        """Ask the extender: why it did not bind the pod, empty where the promise is another one or none by now.

        Raises `UpstreamUnavailable` where the extender has agreed and the API does not show it.
        """
        assert self._binders is not None
        known = await self.look(pod, promise)
        if known.promise is None or known.promise.mod_revision != promise.mod_revision:
            return "", known
        async with self._several:
            if not await self.may_be_sent(pod, promise):
                return "", await self._adopter.read_pod(pod)
            failed = await self._binders.bind(binder, pod, promise)
        known = await self.look(pod, promise)
        if known.promise is None or known.promise.revision != promise.revision:
            return "", known
        if not failed:
            raise UpstreamUnavailable(
                f"extender {binder.name} has bound pod {pod}, and the API server does not show it"
            )
        return failed, known

    async def _answer(self, pod: PodKey, promise: Promise, *, dry_run: bool = False) -> ApiAnswer:
        """What the API says of the bind; raises where that says nothing of the pod."""
        try:
            answer = await self._post(pod, promise, dry_run=dry_run)
        except UpstreamUnavailable as error:
            age = seconds_since(promise.since, self._adopter.utc_now()) or 0.0
            if "webhook" not in str(error) or age <= WEBHOOK_PATIENCE:
                raise
            answer = ApiAnswer(500, reason="InternalError", message=str(error))
        access = replace(BIND_ACCESS, namespace=pod.namespace)
        if answer.code == FORBIDDEN and await is_allowed(self._apiserver, access) is False:
            raise UpstreamDenied(MAY_NOT_BIND.format(namespace=pod.namespace))
        return answer

    async def _post(self, pod: PodKey, promise: Promise, *, dry_run: bool) -> ApiAnswer:
        body = binding(
            namespace=pod.namespace,
            name=pod.name,
            uid=promise.uid,
            revision=promise.revision,
            node=promise.node,
            attempt=promise.attempt,
        )
        async with self._several:  # its turn may come long after it was asked for
            if not await self.may_be_sent(pod, promise):
                return ApiAnswer(CONFLICT, reason=NOT_SENT, message="the promise is another one by now")
            return await self._apiserver.create(
                client.PODS, body, namespace=pod.namespace, name=pod.name, subresource="binding", dry_run=dry_run
            )

    async def look(self, pod: PodKey, promise: Promise) -> KnownObject:
        """Read the pod and adopt what it is; a pod that is gone, or another one, ends the promise."""
        found = await self._apiserver.get(client.PODS, pod.name, namespace=pod.namespace)
        if found.code == NOT_FOUND or (found.object is not None and client.uid_of(found.object) != promise.uid):
            return KnownObject(None)  # the importer removes copy and promise
        if found.object is None:
            raise UpstreamUnavailable(f"pod {pod} cannot be read: {found.words}")
        return await self._adopter.adopt(present(PODS, found.object))

    # --- without a promise --------------------------------------------------------------------

    def _is_refused(self, known: KnownObject, told: str) -> bool:
        """Whether the pod of a promise that was given up because of a refusal is there, and is not bound after all."""
        return bool(told) and known.promise is None and known.copy is not None and not _binding_in(known.copy)[0]

    def _without(self, pod: PodKey, known: KnownObject, attempt: str, asked_for: str = "") -> KeptPromise:
        """There is no promise any more: what the copy says of the pod.

        Raises `UpstreamUnavailable` where the promise of a copy that is bound is unproven: only the API can tell.
        """
        copy = known.copy
        if known.unproven:
            self.withdrawals.warn_unproven(pod, known)
            if copy is not None and _binding_in(copy)[0]:
                raise UpstreamUnavailable(withdrawing.WHY.format(pod=pod))
        if copy is None:
            return KeptPromise(KeptKind.GONE, message="the pod does not exist any more")
        node, bound_by = _binding_in(copy)
        if not node:
            return KeptPromise(KeptKind.CHANGED, message="the pod changed before the API server had bound it")
        by_extender = node == asked_for and not bound_by
        ours = by_extender or (bool(attempt) and bound_by.startswith(attempt))
        return KeptPromise(KeptKind.KEPT if ours else KeptKind.GONE, node, bound_by=bound_by)


def _binding_in(copy: KeyValue) -> tuple[str, str]:
    """The node of a stored pod, empty for none, and what bound it."""
    try:
        obj = documents.parse(copy.value)
        return str(obj["spec"].get("nodeName") or ""), attempt_of(obj)
    except (InvalidObject, KeyError, AttributeError, TypeError):
        return "", ""
