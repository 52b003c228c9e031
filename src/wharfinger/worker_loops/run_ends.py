"""Runs that fail in this process, as the Temporal worker sees them.

Etcd tells nothing of a run that fails. Without this, its pods would wait until their start is overdue. This process
sees most ends itself, because an eager start keeps a run in the process that started it.
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

FAILED = "wharfinger_run_failed"


class RunEnds(Interceptor):
    """Reports the workflow ids of runs that fail, on the event loop of the Temporal worker that has it."""

    def __init__(self) -> None:
        self._report: Callable[[str], None] = lambda _workflow_id: None

    def on_failure(self, report: Callable[[str], None]) -> None:
        """Call `report` with the workflow id of each run that fails from now on."""
        self._report = report

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each run, and how it reaches us from the workflow's thread."""
        loop = asyncio.get_running_loop()

        def failed(workflow_id: str) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.failed, workflow_id)

        input.unsafe_extern_functions[FAILED] = failed
        return _RunEnd

    def failed(self, workflow_id: str) -> None:
        """Report a run that failed."""
        self._report(workflow_id)


class _RunEnd(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        """Run, and report a failure. A run that is only evicted from the cache raises no Exception."""
        try:
            return await super().execute_workflow(input)
        except Exception:
            if not workflow.unsafe.is_replaying():  # such as for a query, long after the run has ended
                workflow.extern_functions()[FAILED](workflow.info().workflow_id)
            raise
