"""The activity `call_plugin`: calls an asynchronous PreBind or Bind plugin for a pod whose room is held.

::

    look ── the room is not held any more ──► lost
      │ └── bound already, and Bind was called ──► success          an earlier call did it, and its worker died
    call ── a Status ──► the answer        ── raised, or too late ──► fails, and is tried again
      └── meanwhile: a sign of life every few seconds, and the watch may show that the room is not held any more

The plugin runs on this worker's event loop. It is cancelled when its time is over, when the attempt is cancelled, and
when there is nothing to prepare any more. Neither an answer nor a failure changes anything in etcd: `bind` does.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from temporalio.exceptions import ApplicationError

from wharfinger.apiserver.bodies import Body, binding
from wharfinger.errors import PluginError, StoreError, UpstreamError
from wharfinger.framework.async_plugins import BindCall, PluginCall
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Code, Status, unschedulable
from wharfinger.framework.timing import Lap
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.texts import one_line
from wharfinger.process.failures import MESSAGE_LIMIT
from wharfinger.scheduling.contracts.plugin_calls import PLUGIN_FAILED, Held, PluginAnswer
from wharfinger.scheduling.contracts.scheduling import BindInput, BindOutcome, Bound, CallInput, Gone
from wharfinger.scheduling.effects.binding.after_commit import HeldPod, HeldPods
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodReference
from wharfinger.scheduling.effects.binding.rounds import Bindings
from wharfinger.scheduling.effects.placing import payload

log = logging.getLogger(__name__)

AT_ONCE = 50
"""Calls that one worker makes at a time, of the activities that it runs at a time; more are told to wait."""
BUSY = f"the worker calls {AT_ONCE} plugins already"
ENDS_WITHIN = 1.0
"""Seconds that a cancelled call gets to end."""
BEATS = 3
"""Signs of life within the time after which a worker counts as dead."""
_CODES = {
    Code.SUCCESS: "success",
    Code.SKIP: "skip",
    Code.WAIT: "wait",
    Code.ERROR: "error",
}


class PluginCalls:
    """Calls the asynchronous plugins of one worker's profiles."""

    def __init__(self, core: Core, bindings: Bindings) -> None:
        self._profiles = core.pool.profiles
        self._cache = core.pool.cache
        self._held = HeldPods(core)
        self._kubernetes = core.kubernetes
        self._bindings = bindings
        self._running = 0

    async def call(self, request: CallInput, *, attempt: int, beat: Callable[[], None]) -> PluginAnswer:
        """Call the plugin of this step. `attempt`: of the activity; `beat`: gives a sign of life.

        Raises `StoreError`, `UpstreamError` and `ApplicationError` of the type `PluginFailed`.
        """
        if self._running >= AT_ONCE:
            return _answer(request, "wait", BUSY)
        self._running += 1
        try:
            return await self._called(request, attempt, beat)
        finally:
            self._running -= 1

    async def _called(self, request: CallInput, attempt: int, beat: Callable[[], None]) -> PluginAnswer:
        """Look, then call."""
        step = request.step
        found = await self._look(request, again=attempt > 1)
        if found.bound_to == request.calls.node and step.point == "Bind":
            return _answer(request, "success")
        if found.lost or found.pod is None:
            return _answer(request, "lost", found.lost)
        if found.promise is not None and self._kubernetes is not None and step.point == "Bind":
            reference = _reference(request)
            if not await self._kubernetes.promises.may_be_sent(reference.key, found.promise):
                return _answer(request, "lost", "the promise is another one by now")
        profile = self._profiles.get(found.pod.scheduler_name)
        if profile is None or step.plugin not in profile.called.at["bind" if step.point == "Bind" else "preBind"]:
            raise _failure(request, "this worker's configuration has no such asynchronous plugin")
        return await self._call(request, found, profile, attempt, beat)

    async def _look(self, request: CallInput, *, again: bool) -> HeldPod:
        """The pod as etcd has it. `again`: an earlier call may have bound it in the Kubernetes API, unseen by etcd."""
        reference, node = _reference(request), request.calls.node
        found = await self._held.read(reference, _attempt(request), node)
        if again and request.step.point == "Bind" and found.promise is not None and self._kubernetes is not None:
            await self._kubernetes.promises.look(reference.key, found.promise)
            found = await self._held.read(reference, _attempt(request), node)
        return found

    async def _call(
        self, request: CallInput, found: HeldPod, profile: Profile, attempt: int, beat: Callable[[], None]
    ) -> PluginAnswer:
        step, calls = request.step, request.calls
        assert found.pod is not None
        state = CycleState(calls.data(request.placed.plugin_data))
        carried = state.carried(step.plugin)
        task = asyncio.create_task(
            profile.called.call(
                step.point,
                step.plugin,
                state=state,
                pod=found.pod,
                node_name=calls.node,
                plugin_call=self._plugin_call(request, found, attempt),
                lap=Lap(profile.times, profile.name),
            )
        )
        try:
            async with asyncio.timeout(step.timeout):
                while not (await asyncio.wait({task}, timeout=step.heartbeat / BEATS))[0]:
                    beat()
                    if await self._is_lost(request):
                        return _answer(request, "lost", "the pod, or what holds its room, is gone")
                status = task.result()
        except TimeoutError as error:
            if task.done() and not task.cancelled():  # its own
                raise _failure(request, f"{type(error).__name__}: {error}") from None
            raise _failure(request, f"no answer within {step.timeout:g} s") from None
        except PluginError as error:
            return _answer(request, "error", error.reason)
        except (StoreError, UpstreamError, ApplicationError):
            raise
        except Exception as error:  # code of another package may raise anything
            raise _failure(request, f"{type(error).__name__}: {error}") from error
        finally:
            await _ended(task)
        now = state.carried(step.plugin)
        code = _CODES.get(status.code, "refused")
        return _answer(request, code, status.message).model_copy(update={"data": now if now != carried else None})

    async def _is_lost(self, request: CallInput) -> bool:
        """Whether the room is surely not held any more: where the watch does not show it, etcd is asked."""
        node = request.calls.node
        if self._may_be_held(request):
            return False
        try:
            found = await self._held.read(_reference(request), _attempt(request), node)
        except StoreError:
            return False
        by_plugin = request.step.point == "Bind" and found.bound_to == node  # it has, and is about to say so
        return bool(found.lost) and not by_plugin

    def _may_be_held(self, request: CallInput) -> bool:
        """Whether the room may be held still, as far as the watch has shown; cheap."""
        key = PodKey(request.namespace, request.name)
        holder = (_attempt(request), request.calls.node)
        pod, side = self._cache.pods.get(key), self._cache.kubernetes
        if pod is None or pod.create_revision != request.placed.create_revision or pod.deletion_timestamp:
            return False
        if side is None:
            place = self._cache.held_places.get(key)
            return place is not None and place.is_for(pod) and (place.attempt, place.node) == holder
        promise = side.promises.get(key)
        return promise is not None and not promise.withdrawn and (promise.attempt, promise.node) == holder

    def _plugin_call(self, request: CallInput, found: HeldPod, attempt: int) -> PluginCall:
        placed = request.placed
        uid = placed.uid or f"{request.namespace}/{request.name}/{placed.create_revision}"
        key = f"{uid}/{request.run_id}"
        if request.step.point != "Bind":
            return PluginCall(key, attempt)

        async def default() -> Status:
            return _status(await self._bindings.bind(_by_default(request)))

        return BindCall(key, attempt, binding=_body(request, found), default=default)


def _reference(request: CallInput) -> PodReference:
    placed = request.placed
    return PodReference(PodKey(request.namespace, request.name), placed.uid, placed.create_revision)


def _attempt(request: CallInput) -> str:
    return f"{request.workflow_id}@{request.run_id}"


def _by_default(request: CallInput) -> BindInput:
    """The bind that the default binder makes where a Bind plugin asks for it."""
    return BindInput.alike(request, calls=request.calls.model_copy(update={"by_default": True}))


def _status(outcome: BindOutcome) -> Status:
    if isinstance(outcome, Bound) and not outcome.preparing:
        return SUCCESS
    if isinstance(outcome, Bound | Held):
        return unschedulable("the pod is not ready to be bound")
    return unschedulable(outcome.line if isinstance(outcome, Gone) else outcome.message)


def _body(request: CallInput, found: HeldPod) -> Body | None:
    """What is POSTed to bind the pod, where a Kubernetes API is the store."""
    promise = found.promise
    if promise is None:
        return None
    return binding(
        namespace=request.namespace,
        name=request.name,
        uid=promise.uid,
        revision=promise.revision,
        node=promise.node,
        attempt=promise.attempt,
    )


def _answer(request: CallInput, code: str, message: str = "") -> PluginAnswer:
    step = request.step
    fields = {"point": step.point, "plugin": step.plugin, "code": code, "message": payload.message(message)}
    return PluginAnswer.model_validate(fields)


def _failure(request: CallInput, why: str) -> ApplicationError:
    step = request.step
    log.warning("plugin_call_failed plugin=%s point=%s error=%r", step.plugin, step.point, why)
    return ApplicationError(one_line(why, MESSAGE_LIMIT), type=PLUGIN_FAILED)


async def _ended(task: asyncio.Task[Status]) -> None:
    """Cancel the call unless it has ended, and give it a moment to end."""
    if not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=ENDS_WITHIN)
    if task.done() and not task.cancelled():
        task.exception()  # retrieved: nobody else looks at it
