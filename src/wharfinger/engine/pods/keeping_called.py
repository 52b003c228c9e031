"""Promises that wait for asynchronous plugins: which calls are due, and what their answers do to the promise.

::

    no answer yet       calls are due ─────────────────────────────► held
    the node is gone    given up, and Unreserve ───────────────────► contended
    all agree           the promise is ready, and is sent ─────────► as any other
    Bind: success       look at the API ── on the node ────────────► kept
                                        └─ pending ────────────────► given up: the plugin failed
    refused, error, ..  given up, and Unreserve ───────────────────► rejected, failed or contended

Where etcd itself is the store, `answering` does the same for rooms that are held there.
"""

from __future__ import annotations

from wharfinger.contracts.plugin_calls import NO_CALLS, PluginAnswer
from wharfinger.engine.pods import points
from wharfinger.engine.pods.answering import NOT_BOUND, unkept
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.filling import BINDER
from wharfinger.engine.pods.held_pods import HeldPod, HeldPods
from wharfinger.engine.pods.seats import Work, reference
from wharfinger.engine.upstream.promising import KeptKind, KeptPromise, Promises
from wharfinger.errors import PluginError
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import Status
from wharfinger.model.pod import Pod
from wharfinger.model.promises import Promise


class CalledPromises:
    """Keeps the promises of one worker's lone pods for which plugins are called."""

    def __init__(self, core: Core) -> None:
        self._profiles = core.pool.profiles
        self._cache = core.pool.cache
        self._held = HeldPods(core)
        self._tally = core.tally
        self._clock = core.process.clock

    async def keep(self, work: Work, promises: Promises, number: int) -> KeptPromise | None:
        """What became of the promise; None where the outcome is noted already: calls are due, or it was given up.

        Raises `StoreError` and `UpstreamError`: call again.
        """
        calls = work.calls or NO_CALLS
        node = calls.node or work.outcomes.node_of(number)
        found = await self._read(work, number, node)
        if calls.failed is not None and found.pod is not None:
            return await self._give_up(work, promises, number, found.pod, calls.failed)
        if calls.bound_by and found.promise is not None:
            await promises.look(reference(work.request.seats[number]).key, found.promise)
            found = await self._read(work, number, node)
        if found.bound_to and found.bound_to == node and calls.bound_by:
            self._tell_bound(work, number, found.pod, node)
            return KeptPromise(KeptKind.KEPT, node, bound_by=_attempt(work))
        if found.promise is None or found.pod is None:
            kept = await promises.keep(reference(work.request.seats[number]).key, f"{work.request.workflow_id}@")
            if kept.kind is not KeptKind.KEPT:
                self._unreserve(work, number, found.pod, node)
            return kept
        if calls.bound_by:
            answer = PluginAnswer(point="Bind", plugin=calls.bound_by, code="error", message=NOT_BOUND)
            return await self._give_up(work, promises, number, found.pod, answer)
        return await self._asked(work, promises, number, found.pod, found.promise)

    async def _asked(
        self, work: Work, promises: Promises, number: int, pod: Pod, promise: Promise
    ) -> KeptPromise | None:
        """Find out which calls are due; without any, the promise is sent."""
        key, calls, node = pod.key, work.calls or NO_CALLS, promise.node
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            return await promises.keep(key, f"{work.request.workflow_id}@")
        gone = self._why_no_node(work, number, promise)
        if gone:
            answer = PluginAnswer(point="Bind", plugin=BINDER, code="lost", message=gone)
            return await self._give_up(work, promises, number, pod, answer)
        state = self._state(work, number)
        try:
            agreed = points.steps_due(profile, state, pod, node, calls)
        except PluginError as error:
            answer = PluginAnswer(point="Bind", plugin=error.plugin, code="error", message=error.reason)
            return await self._give_up(work, promises, number, pod, answer)
        if not agreed.status.ok:
            return await self._give_up(work, promises, number, pod, _refused(agreed.status))
        if agreed.steps:
            work.outcomes.held(number, promise.mod_revision, node, agreed.steps)
            return None
        if promise.calls:
            await promises.agree(key, promise)
        kept = await promises.keep(key, f"{work.request.workflow_id}@")
        if kept.kind is KeptKind.KEPT and not calls.by_default:
            self._tell_bound(work, number, pod, node)
        elif kept.kind not in (KeptKind.KEPT, KeptKind.NOT_READY):
            self._unreserve(work, number, pod, node)
        return kept

    def _why_no_node(self, work: Work, number: int, promise: Promise) -> str:
        """Why there is no such node any more; empty while there is. Calls take long, and the API does not ask."""
        if self._cache.progress.revision < promise.mod_revision:
            return ""
        node = self._cache.nodes.get(promise.node)
        if node is None:
            return "the node is gone"
        decided = work.request.computations[work.request.seats[number].stretch].revision
        return "the node was created anew since the decision" if node.create_revision > decided else ""

    async def _give_up(
        self, work: Work, promises: Promises, number: int, pod: Pod, answer: PluginAnswer
    ) -> KeptPromise | None:
        """Give the promise up because of an answer, unless the pod is bound already."""
        node = (work.calls or NO_CALLS).node or work.outcomes.node_of(number)
        await promises.give_up(pod.key, f"{answer.point} of plugin {answer.plugin}: {answer.message}")
        found = await self._read(work, number, node)
        if found.pod is None or found.bound_to or found.promise is not None:
            kept = await promises.keep(pod.key, f"{work.request.workflow_id}@")
            if kept.kind is KeptKind.KEPT:  # a call whose answer was lost had bound it
                self._tell_bound(work, number, pod, node)
            else:
                self._unreserve(work, number, pod, node)
            return kept
        self._unreserve(work, number, pod, node)
        unkept(work, number, answer)
        return None

    async def _read(self, work: Work, number: int, node: str) -> HeldPod:
        return await self._held.read(reference(work.request.seats[number]), _attempt(work), node)

    def _state(self, work: Work, number: int) -> CycleState:
        carried = work.request.seats[number].plugin_data
        return CycleState(work.calls.data(carried) if work.calls is not None else carried)

    def _tell_bound(self, work: Work, number: int, pod: Pod | None, node: str) -> None:
        """PostBind, and the metric: only now the pod is bound."""
        profile = self._profile(pod)
        if profile is None or pod is None:
            return
        points.tell_bound(profile, self._state(work, number), pod, node)
        computation = work.request.computations[work.request.seats[number].stretch]
        self._tally.bound(profile.name, computation, self._clock() - work.began, 1)

    def _unreserve(self, work: Work, number: int, pod: Pod | None, node: str) -> None:
        """Undo Reserve; of a pod that is gone, plugins get as much as is known."""
        seat = work.request.seats[number]
        if pod is None:
            scheduler = work.request.computations[seat.stretch].profile_name
            pod = Pod(seat.namespace, seat.name, seat.uid, scheduler_name=scheduler)
        profile = self._profile(pod)
        if profile is not None:
            profile.unreserve(self._state(work, number), pod, node)

    def _profile(self, pod: Pod | None) -> Profile | None:
        return self._profiles.get(pod.scheduler_name) if pod is not None else None


def _attempt(work: Work) -> str:
    return f"{work.request.workflow_id}@{work.request.run_id}"


def _refused(status: Status) -> PluginAnswer:
    return PluginAnswer(point="Bind", plugin=status.plugin, code="refused", message=status.message)
