r"""What follows the transactions of a bind: promises are kept, and rooms that are held for plugins' calls are ended.

===================  ==================================================  ==========================================
\                    the room is held by                                  until the pod is bound, the copy is
===================  ==================================================  ==========================================
etcd itself          the record `holds/<namespace>/<name>`               pending
a Kubernetes API     a promise that is not ready                         on its node already
===================  ==================================================  ==========================================

Where a Kubernetes API is the store, what is committed in etcd is sent there::

    lone pod, group    each promise by itself                            kept, or this pod's own outcome
    gang               all by a dry run; refused ones give all up  ─►  then all for good
    lone pod, with plugins
      no answer yet       calls are due ─────────────────────────────► held
      the node is gone    given up, and Unreserve ───────────────────► contended
      all agree           the promise is ready, and is sent ─────────► as any other
      Bind: success       look at the API ── on the node ────────────► kept
                                          └─ pending ────────────────► given up: the plugin failed
      refused, error, ..  given up, and Unreserve ───────────────────► rejected, failed or contended

A try that fails leaves the promises; the activity is tried again, finds the pods bound in etcd, and goes on here. After
a gang's dry runs the gang is completed whatever comes: only a member that goes or changes after its own leaves it torn.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from wharfinger.errors import InvalidObject, PluginError, UpstreamDenied, UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete, Get
from wharfinger.framework.status import Status
from wharfinger.objects.model.extenders import EXTENDER
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.texts import shortened
from wharfinger.process.failures import gather_to_end
from wharfinger.process.records import HoldRecord
from wharfinger.scheduling.contracts.attempts import GoneReason
from wharfinger.scheduling.contracts.plugin_calls import NO_CALLS, Held, PluginAnswer
from wharfinger.scheduling.contracts.promise_records import known_object
from wharfinger.scheduling.contracts.scheduling import Bound, Contended, Gone
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodReference
from wharfinger.scheduling.effects.binding.outcome import (
    BINDER,
    LOST,
    BindGroup,
    Failed,
    Outcome,
    Outcomes,
    PendingBind,
    of_gang,
    reference,
    rejected,
    why_unbound,
)
from wharfinger.scheduling.effects.binding.pending_binds import PendingBinds
from wharfinger.scheduling.effects.binding.verification import steps_due
from wharfinger.scheduling.effects.binding.writers import (
    ApiWriters,
    KeptKind,
    KeptPromise,
    PromiseKeeper,
    TornPolicy,
    rehearse_gang,
)
from wharfinger.scheduling.model.promises import Promise

log = logging.getLogger(__name__)

PREPARING = 300
"""Characters of what a pod that is bound in etcd waits for, before the Kubernetes API is told."""
NOT_BOUND = "it answered success, and the pod is not bound on its node"
NOT_HELD_ANY_MORE = "its room on node {node} is not held any more"


HeldRoom = tuple[list[PendingBind], Mapping[int, Outcome], PendingBind | None]
"""A lone pod's seat while it is still to be bound, or its outcome; and the seat, where this attempt holds its room."""


class Keeping:
    """Ends one worker's binds."""

    def __init__(self, core: Core, seats: PendingBinds) -> None:
        self._store = core.process.store
        self._binds = seats
        self._held = HeldPods(core)
        self._profiles = core.pool.profiles
        self._cache = core.pool.cache
        self._verification = core.verification
        self._kubernetes = core.kubernetes
        self._metrics = core.process.metrics

    # --- rooms that are held in etcd ----------------------------------------------------------

    async def look(self, group: BindGroup, left: list[PendingBind]) -> HeldRoom:
        """Find the record by which the attempt holds the pod's room, and apply the answers of plugins.

        The bind compares that record, and Unreserve comes after it. Without one the room was given back, and the pod is
        placed anew, unless an earlier try has bound it. Raises `StoreError`.
        """
        calls = group.calls
        if calls is None or not left:
            return left, {}, None
        seat = left[0]
        if self._kubernetes is None and not group.binder:
            seat = replace(seat, hold=(await self._held.read(reference(seat.seat), group.attempt, calls.node)).record)
            if not seat.hold:
                again, outcomes = await self._binds.ask(group, {0: seat})
                if not again or calls.failed is None:
                    lost = self._binds.ended(again, Contended(message=LOST)) if again else ()
                    return [], {**outcomes, **dict(lost)}, None
                seat = again[0]
        answer = calls.failed or (_error(group.binder) if group.binder else None)
        if answer is None and self._kubernetes is None:
            return [seat], {}, seat
        # Without an answer, the promise was given up meanwhile: nothing of this placement is left.
        outcome = Contended(message=LOST) if answer is None else _of_answer(answer)
        return [], dict(self._binds.ended([seat], outcome)), seat

    async def release(self, group: BindGroup, held: PendingBind | None, outcomes: Outcomes) -> Outcomes:
        """End the record of the room, once the bind has its outcome; then Unreserve.

        Raises `StoreError`: bind again.
        """
        outcome = outcomes.of[0]
        if self._kubernetes is not None or isinstance(outcome, Held):
            return outcomes
        await self._held.release(group.key(0), group.attempt)
        if held is None or not held.hold or isinstance(outcome, Bound | Gone):
            return outcomes
        again, found = await self._binds.ask(group, {0: held})  # no bind of this attempt can happen any more
        for seat in again:
            self._binds.undo(group, 0, seat.found.pod, seat.seat.node)
        return outcomes | found

    # --- promises -----------------------------------------------------------------------------

    async def keep(
        self, kubernetes: ApiWriters, group: BindGroup, outcomes: Outcomes, promised: Mapping[int, Promise]
    ) -> Outcomes:
        """Send the promises of all seats that are bound in etcd, and correct the outcomes of those that are not kept.

        Raises `StoreError` and `UpstreamError`, once everything that was sent has been answered: promises stay.
        """
        if outcomes.bound and group.policy.whole:
            refused = await self._rehearsed(group, kubernetes, outcomes)
            if refused:
                lost, pods = of_gang(refused), map(group.key, outcomes.bound)
                await gather_to_end(kubernetes.promises.give_up(pod, lost.message) for pod in pods)
                return outcomes | dict.fromkeys(outcomes.bound, lost)
        stopped = False

        async def one(number: int, bound: Bound) -> Outcome:
            nonlocal stopped
            if stopped:
                return bound
            try:
                return await self._kept(group, kubernetes, number, bound, promised.get(number))
            except (UpstreamUnavailable, UpstreamDenied):
                stopped = True  # what has not been sent yet would wait as long for the same answer
                raise

        kept = await gather_to_end(one(*each) for each in outcomes.bound.items())
        outcomes = outcomes | dict(zip(outcomes.bound, kept, strict=True))
        if group.policy.whole and kept and outcomes.unbound:
            await self._tell_torn(group, kubernetes, outcomes)
        return outcomes

    async def _kept(
        self, group: BindGroup, kubernetes: ApiWriters, number: int, bound: Bound, known: Promise | None
    ) -> Outcome:
        """What became of a promise."""
        kept: KeptPromise | Outcome | None = None
        if group.calls is None:
            kept = await kubernetes.promises.keep(group.key(number), group.chain, known)
        if kept is None or (isinstance(kept, KeptPromise) and kept.calls and group.policy.holds):
            kept = await self._called(group, kubernetes.promises, bound.node)
        if not isinstance(kept, KeptPromise):
            return kept
        match kept.kind:
            case KeptKind.KEPT:
                kubernetes.teller.events(group.pod(number), group.request.run_id).scheduled(kept.node)
                return bound
            case KeptKind.NOT_READY:
                return bound.model_copy(update={"preparing": shortened(kept.message, PREPARING)})
            case KeptKind.GONE if kept.node:
                return Gone(reason="bound", node=kept.node, bound_by=kept.bound_by)
            case KeptKind.GONE:
                return Gone(reason="deleted", detail=kept.message, cause=GoneReason.DELETED)
            case KeptKind.REFUSED:
                return rejected(BINDER, kept.message)
            case KeptKind.FAILED if group.policy.holds:
                return Failed(PluginError(EXTENDER, "Bind", kept.message))
        return Contended(message=kept.message)  # or it came to concern an extender after the group had been decided

    async def _rehearsed(self, group: BindGroup, kubernetes: ApiWriters, outcomes: Outcomes) -> str:
        """Why a gang is not bound, as far as a dry run can show; empty when it is."""
        pods = [group.key(number) for number in outcomes.bound]
        rehearsal = await rehearse_gang(kubernetes.promises, pods, group.chain)
        if rehearsal.refused:
            return rehearsal.refused
        if rehearsal.unsupported:
            first = group.pod(next(iter(outcomes.bound)))
            kubernetes.teller.events(first, group.request.run_id).dry_run_unsupported(group.gang, rehearsal.unsupported)
        # Members are bound in etcd as one, so a member is unbound where an earlier try ended in between. Without dry
        # runs, it is not known whether the gang was begun.
        if rehearsal.begun or rehearsal.unsupported:
            return ""
        return next((f"pod {group.key(one)}: {why_unbound(how)}" for one, how in outcomes.unbound.items()), "")

    async def _tell_torn(self, group: BindGroup, kubernetes: ApiWriters, outcomes: Outcomes) -> None:
        """Report that members went or changed after their dry run, and treat the bound ones by the policy."""
        bound, torn, policy = outcomes.bound, outcomes.unbound, kubernetes.torn_gangs
        log.warning("gang_torn gang=%s bound=%d torn=%d policy=%s", group.gang, len(bound), len(torn), policy)
        self._metrics.gangs_torn.inc()
        first = group.pod(next(iter(bound or torn)))
        kubernetes.teller.events(first, group.request.run_id).gang_torn(
            group.gang,
            bound=len(bound),
            members=len(bound) + len(torn),
            cause=why_unbound(next(iter(torn.values()))),
            policy=policy.value,
        )
        for number, one in bound.items() if policy is TornPolicy.EVICT else ():
            pod = replace(group.pod(number), node_name=one.node)
            copy = (await self._store.get(keys.pod(*pod.key))).kv
            if copy is not None:
                await kubernetes.evictions.evict(pod, copy.value, scheduler=pod.scheduler_name, preemptor="podgroup")

    # --- promises for which plugins are called ------------------------------------------------

    async def _called(self, group: BindGroup, promises: PromiseKeeper, bound_to: str) -> KeptPromise | Outcome:
        """What became of the promise; or the outcome, where calls are due or it was given up.

        Raises `StoreError` and `UpstreamError`: call again.
        """
        calls = group.calls or NO_CALLS
        node = calls.node or bound_to
        found = await self._held.read(reference(group.seat(0)), group.attempt, node)
        if calls.failed is not None and found.pod is not None:
            return await self._give_up(group, promises, found.pod, node, calls.failed)
        if calls.bound_by and found.promise is not None:
            await promises.look(group.key(0), found.promise)
            found = await self._held.read(reference(group.seat(0)), group.attempt, node)
        if found.bound_to and found.bound_to == node and calls.bound_by:
            self._binds.post_bind(group, 0, found.pod, node)
            return KeptPromise(KeptKind.KEPT, node, bound_by=group.attempt)
        if found.promise is None or found.pod is None:
            kept = await promises.keep(group.key(0), group.chain)
            if kept.kind is not KeptKind.KEPT:
                self._binds.undo(group, 0, found.pod, node)
            return kept
        if calls.bound_by:
            return await self._give_up(group, promises, found.pod, node, _error(calls.bound_by))
        return await self._asked(group, promises, found.pod, found.promise)

    async def _asked(
        self, group: BindGroup, promises: PromiseKeeper, pod: Pod, promise: Promise
    ) -> KeptPromise | Outcome:
        """Find out which calls are due; without any, the promise is sent."""
        calls, node = group.calls or NO_CALLS, promise.node
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            return await promises.keep(pod.key, group.chain)
        answer = self._no_node(group, promise)
        if answer is None:
            try:
                steps = steps_due(profile, group.state(0), pod, node, calls)
            except PluginError as error:
                answer = _error(error.plugin, error.reason)
            else:
                if isinstance(steps, Status):
                    answer = PluginAnswer(point="Bind", plugin=steps.plugin, code="refused", message=steps.message)
                elif steps:
                    return Held(node=node, revision=promise.mod_revision, steps=steps)
        if answer is not None:
            return await self._give_up(group, promises, pod, node, answer)
        if promise.calls:
            await promises.agree(pod.key, promise)
        kept = await promises.keep(pod.key, group.chain)
        if kept.kind is KeptKind.KEPT and not calls.by_default:
            self._binds.post_bind(group, 0, pod, node)
        elif kept.kind not in (KeptKind.KEPT, KeptKind.NOT_READY):
            self._binds.undo(group, 0, pod, node)
        return kept

    def _no_node(self, group: BindGroup, promise: Promise) -> PluginAnswer | None:
        """Why there is no such node any more; None while there is. Calls take long, and the API does not ask."""
        if self._cache.progress.revision < promise.mod_revision:
            return None
        why = self._verification.node_lost(promise.node, group.computation(0))
        return PluginAnswer(point="Bind", plugin=BINDER, code="lost", message=why) if why else None

    async def _give_up(
        self, group: BindGroup, promises: PromiseKeeper, pod: Pod, node: str, answer: PluginAnswer
    ) -> KeptPromise | Outcome:
        """Give the promise up because of an answer, unless the pod is bound already."""
        await promises.give_up(pod.key, f"{answer.point} of plugin {answer.plugin}: {answer.message}")
        found = await self._held.read(reference(group.seat(0)), group.attempt, node)
        kept: KeptPromise | None = None
        if found.pod is None or found.bound_to or found.promise is not None:
            kept = await promises.keep(pod.key, group.chain)
        if kept is not None and kept.kind is KeptKind.KEPT:  # a call whose answer was lost had bound it
            self._binds.post_bind(group, 0, pod, node)
        else:
            self._binds.undo(group, 0, pod, node)
        return kept or _of_answer(answer)


def _error(plugin: str, message: str = NOT_BOUND) -> PluginAnswer:
    return PluginAnswer(point="Bind", plugin=plugin, code="error", message=message)


def _of_answer(answer: PluginAnswer) -> Outcome:
    """The outcome of a pod that is not bound because of that answer."""
    if answer.code == "refused":
        return rejected(answer.plugin, answer.message)
    if answer.code == "error":
        return Failed(PluginError(answer.plugin, answer.point, answer.message))
    return Contended(message=answer.message or answer.code)


# --- as etcd has them -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldPod:
    """What etcd says of one."""

    pod: Pod | None = None
    """As plugins get it: not bound yet. None = there is no such pod any more."""
    bound_to: str = ""
    """The node that it is bound to; empty while it is not."""
    lost: str = ""
    """Why the room is not held any more for this attempt; empty while it is."""
    promise: Promise | None = None
    """What holds the room, where a Kubernetes API is the store."""
    record: int = 0
    """Mod revision of the record that holds it, where etcd itself is; 0 = it is not held."""


class HeldPods:
    """Reads such pods, and gives up rooms, for one worker."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._eligibility = core.eligibility
        self._kubernetes = core.kubernetes is not None

    async def read(self, reference: PodReference, attempt: str, node: str) -> HeldPod:
        """The pod by a linearizable read. `attempt`: `<workflow id>@<run id>` of the one that asks.

        Raises `StoreError`.
        """
        key = reference.key
        record = keys.promise(*key) if self._kubernetes else keys.hold(*key)
        kv, held = (await self._store.txn([], [Get(keys.pod(*key)), Get(record)])).reads
        if kv is None:
            return HeldPod(lost="the pod does not exist any more")
        try:
            pod = self._eligibility.decode(key, kv)
        except InvalidObject as error:
            return HeldPod(lost=f"the pod cannot be read: {error}")
        unbound = pod.unbound()
        promise = known_object(kv, held).promise if self._kubernetes else None
        if pod.bound and promise is None:
            return HeldPod(unbound, pod.node_name, f"the pod is bound to {pod.node_name}")
        gone = self._eligibility.verdict(reference, unbound)
        if gone is not None:
            return HeldPod(unbound, lost=gone.line)
        if promise is not None:
            if promise.withdrawn or (promise.attempt, promise.node) != (attempt, node):
                return HeldPod(unbound, lost=promise.withdrawn or NOT_HELD_ANY_MORE.format(node=node))
            return HeldPod(unbound, promise=promise)
        found = HoldRecord.from_bytes(held.value) if held is not None else None
        if found is None or (found.attempt, found.node, found.create_revision) != (attempt, node, pod.create_revision):
            return HeldPod(unbound, lost=NOT_HELD_ANY_MORE.format(node=node))
        return HeldPod(unbound, record=held.mod_revision if held is not None else 0)

    async def release(self, key: PodKey, attempt: str) -> None:
        """End the record by which this attempt holds a room in etcd. Safe to run again. Raises `StoreError`."""
        kv = (await self._store.get(keys.hold(*key))).kv
        found = HoldRecord.from_bytes(kv.value) if kv is not None else None
        if kv is not None and (found is None or found.attempt == attempt):
            await self._store.txn([Compare(kv.key, "mod", kv.mod_revision)], [Delete(kv.key)])
