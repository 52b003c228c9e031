"""Runs whose pod is bound already but which Temporal has not completed yet.

A dispatcher that looked at etcd alone would start the next attempt at each bind. Under load the last tasks of
runs would then queue behind ever new first ones, time out on the sticky queue, and be replayed from the start: twice
the work, when there is least room for it. So a run counts until its end is seen too. This process sees most ends
itself, because an eager start keeps a run in the process that started it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import workflow
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

ENDED = "wharfinger_run_ended"
PATIENCE = 2.0
"""Seconds that a run counts at most; one that ends on another worker is not seen here."""
REMEMBERED = 1024
"""Ends kept that were seen before the bind was."""


class Completing:
    """Bound pods' runs that are still to end, by workflow id. Lives on one event loop."""

    def __init__(self, clock: Callable[[], float], *, patience: float = PATIENCE) -> None:
        self._clock = clock
        self._patience = patience
        self._since: dict[str, float] = {}
        self._early: dict[str, None] = {}
        self._kick: Callable[[], None] = lambda: None

    def on_end(self, kick: Callable[[], None]) -> None:
        """Call `kick` whenever there is more room."""
        self._kick = kick

    def bound(self, workflow_id: str) -> None:
        """The pod was seen bound; its run ends soon."""
        if workflow_id in self._early:
            del self._early[workflow_id]
        else:
            self._since[workflow_id] = self._clock()

    def ended(self, workflow_id: str) -> None:
        """The run ended in this process."""
        if self._since.pop(workflow_id, None) is not None:
            self._kick()
            return
        self._early[workflow_id] = None
        if len(self._early) > REMEMBERED:
            del self._early[next(iter(self._early))]

    def __len__(self) -> int:
        """The number of runs that still count."""
        now = self._clock()
        while self._since:
            oldest = next(iter(self._since))
            if now - self._since[oldest] < self._patience:
                break
            del self._since[oldest]
        return len(self._since)


class RunEnds(Interceptor):
    """Reports ends of runs to `Completing`, on the event loop on which this is made."""

    def __init__(self, completing: Completing) -> None:
        self._completing = completing
        self._loop = asyncio.get_running_loop()

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each run, and how it reaches us from the workflow's thread."""
        input.unsafe_extern_functions[ENDED] = self._ended
        return _RunEnd

    def _ended(self, workflow_id: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._completing.ended, workflow_id)


class _RunEnd(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        """Run, and report the end; a run that is only evicted from the cache has not ended."""
        try:
            result = await super().execute_workflow(input)
        except Exception:  # a run that failed has ended, too; an eviction raises no Exception
            _tell()
            raise
        _tell()
        return result


def _tell() -> None:
    workflow.extern_functions()[ENDED](workflow.info().workflow_id)
