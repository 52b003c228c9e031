"""What answers of asynchronous plugins do to a lone pod's bind, and the end of a room that was held in etcd.

::

    all agree                        the pod is bound on the node where the attempt holds its room
    Bind: success                    the pod must be bound there by now, else the plugin failed
    refused, error, lost, cancelled  the record goes, and the room with it; then Unreserve

`calling` calls the plugins. Where a Kubernetes API is the store, `keeping_called` does the same for promises.
"""

from __future__ import annotations

from wharfinger.contracts.plugin_calls import PluginAnswer
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.filling import Filling
from wharfinger.engine.pods.held_pods import HeldPods
from wharfinger.engine.pods.seating import Seating
from wharfinger.engine.pods.seats import Work, reference
from wharfinger.engine.pods.sending import LOST
from wharfinger.errors import PluginError

NOT_BOUND = "it answered success, and the pod is not bound on its node"


class Answering:
    """Applies the answers of plugins for one worker."""

    def __init__(self, core: Core, filling: Filling, seating: Seating) -> None:
        self._filling = filling
        self._seating = seating
        self._held = HeldPods(core)
        self._upstream = core.upstream is not None

    async def look(self, work: Work) -> None:
        """Find the record by which the attempt holds the pod's room: the bind compares it, Unreserve comes after it.

        Without one the room was given back, and the pod is placed anew, unless an earlier try has bound it. Raises
        `StoreError`.
        """
        calls = work.calls
        if self._upstream or calls is None or calls.bound_by:
            return
        attempt = f"{work.request.workflow_id}@{work.request.run_id}"
        for seated in tuple(work.left):
            seated.hold = (await self._held.read(seated.reference, attempt, calls.node)).record
            if seated.hold:
                work.held.append(seated)
                continue
            work.left.remove(seated)
            lost = await self._seating.ask(work, {seated.number: seated})
            if calls.failed is not None:
                work.left += lost
                continue
            for one in lost:
                self._filling.contended(work, one, LOST)

    def apply(self, work: Work) -> None:
        """Settle a pod that is not bound, and is not to be bound because of an answer."""
        calls = work.calls
        if calls is None:
            return
        for seated in work.left:
            answer = calls.failed
            if answer is None and calls.bound_by:
                answer = PluginAnswer(point="Bind", plugin=calls.bound_by, code="error", message=NOT_BOUND)
            if answer is None and not self._upstream:
                return
            if answer is None:  # the promise was given up meanwhile: nothing of this placement is left
                self._filling.contended(work, seated, LOST)
            elif answer.code == "refused":
                self._filling.reject(work, seated, answer.plugin, answer.message)
            elif answer.code == "error":
                self._filling.fail(work, seated, PluginError(answer.plugin, answer.point, answer.message))
            else:
                self._filling.contended(work, seated, answer.message or answer.code)
        work.left = []

    async def release(self, work: Work, *, held: bool) -> None:
        """End the record of the room, once the bind has its outcome; then Unreserve. Raises `StoreError`: bind again.

        `held`: whether one may have been held before this bind.
        """
        if self._upstream or not held or work.error is not None or work.outcomes.is_held(0):
            return
        attempt = f"{work.request.workflow_id}@{work.request.run_id}"
        await self._held.release(reference(work.request.seats[0]).key, attempt)
        given_up = {seated.number: seated for seated in work.held if seated.given_up}
        if not given_up:
            return
        for seated in await self._seating.ask(work, given_up):  # no bind of this attempt can happen any more
            self._seating.undo(seated)
        if work.outcomes.bound_seats:  # one had happened
            work.outcomes.error = None


def unkept(work: Work, number: int, answer: PluginAnswer) -> None:
    """Note the outcome of a pod whose promise was given up because of that answer."""
    if answer.code == "refused":
        work.outcomes.rejected(number, answer.plugin, answer.message)
    elif answer.code == "error":
        work.outcomes.failed(number, PluginError(answer.plugin, answer.point, answer.message))
    else:
        work.outcomes.contended(number, answer.message or answer.code)
