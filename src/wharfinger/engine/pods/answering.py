"""What answers of asynchronous plugins do to a lone pod's bind, and the end of a room that was held in etcd.

::

    all agree                        the pod is bound on the node where its room is held, by the usual transaction
    Bind: success                    the pod must be bound there by now, else the plugin failed
    refused, error, lost, cancelled  Unreserve, the record goes, and the room with it

`calling` calls the plugins. Where a Kubernetes API is the store, `keeping_called` does the same for promises.
"""

from __future__ import annotations

from wharfinger.contracts.plugin_calls import PluginAnswer
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.filling import Filling
from wharfinger.engine.pods.held_pods import HeldPods
from wharfinger.engine.pods.seats import Work, reference
from wharfinger.errors import PluginError

NOT_BOUND = "it answered success, and the pod is not bound on its node"
LOST = "the attempt does not hold the pod's room any more"


class Answering:
    """Applies the answers of plugins for one worker."""

    def __init__(self, core: Core, filling: Filling) -> None:
        self._filling = filling
        self._held = HeldPods(core)
        self._upstream = core.upstream is not None

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
        """End the record of the room, once the bind has its outcome. Raises `StoreError`: bind again.

        `held`: whether one may have been held before this bind.
        """
        if self._upstream or not held or work.error is not None or work.outcomes.is_held(0):
            return
        attempt = f"{work.request.workflow_id}@{work.request.run_id}"
        await self._held.release(reference(work.request.seats[0]).key, attempt)


def unkept(work: Work, number: int, answer: PluginAnswer) -> None:
    """Note the outcome of a pod whose promise was given up because of that answer."""
    if answer.code == "refused":
        work.outcomes.rejected(number, answer.plugin, answer.message)
    elif answer.code == "error":
        work.outcomes.failed(number, PluginError(answer.plugin, answer.point, answer.message))
    else:
        work.outcomes.contended(number, answer.message or answer.code)
