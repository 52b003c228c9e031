"""Which runs of groups have failed: etcd contains nothing of it, and their pods would wait until the start is overdue.

An eager start keeps a run in the process that started it, which so sees most ends itself (`RunEnds`). Another process
may have taken the run over. So Temporal is asked for the ends of groups that take longer than usual (`OverdueRuns`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

from wharfinger.process.names import FailureType

log = logging.getLogger(__name__)

FAILED = "wharfinger_run_failed"
AGAIN = 1.0
"""Seconds until Temporal is asked again after it has not answered."""

Report = Callable[[str, BaseException], None]
"""Called with the workflow id of a run that failed, and with its failure."""


def blames_pods(failure: BaseException) -> bool:
    """Whether a run may have failed by its pods: not where etcd or the Kubernetes API did not answer."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ApplicationError) and cause.type == FailureType.UNAVAILABLE:
            return False
        cause = cause.__cause__
    return True


class RunEnds(Interceptor):
    """Reports the workflow ids of runs that fail, on the event loop of the Temporal worker that has it."""

    def __init__(self) -> None:
        self._report: Report = lambda _workflow_id, _failure: None

    def on_failure(self, report: Report) -> None:
        """Call `report` with each run that fails from now on."""
        self._report = report

    def workflow_interceptor_class(self, input: WorkflowInterceptorClassInput) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each run, and how it reaches us from the workflow's thread."""
        loop = asyncio.get_running_loop()

        def failed(workflow_id: str, failure: Exception) -> None:
            if not loop.is_closed():  # threads of workflows may outlive the loop when the process ends
                loop.call_soon_threadsafe(self.failed, workflow_id, failure)

        input.unsafe_extern_functions[FAILED] = failed
        return _RunEnd

    def failed(self, workflow_id: str, failure: BaseException) -> None:
        """Report a run that failed."""
        self._report(workflow_id, failure)


class _RunEnd(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        """Run, and report a failure. A run that is only evicted from the cache raises no Exception."""
        try:
            return await super().execute_workflow(input)
        except Exception as failure:
            if not workflow.unsafe.is_replaying():  # such as for a query, long after the run has ended
                workflow.extern_functions()[FAILED](workflow.info().workflow_id, failure)
            raise


class OverdueRuns:
    """Waits for the ends of runs that take longer than usual, and reports those that fail."""

    def __init__(
        self,
        failure_of: Callable[[str], Awaitable[BaseException | None]],
        report: Report,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """`failure_of` waits for a run's end; None = it did not fail."""
        self._failure_of = failure_of
        self._report = report
        self._pause = pause
        self._waits: dict[str, asyncio.Task[None]] = {}

    def follow(self, workflow_ids: Iterable[str]) -> None:
        """Wait for the ends of these runs, and of no others any more."""
        wanted = dict.fromkeys(workflow_ids)
        for gone in [workflow_id for workflow_id in self._waits if workflow_id not in wanted]:
            self._waits.pop(gone).cancel()
        for fresh in wanted:
            if fresh not in self._waits:
                self._waits[fresh] = asyncio.create_task(self._wait(fresh))

    async def _wait(self, workflow_id: str) -> None:
        while True:
            try:
                failure = await self._failure_of(workflow_id)
            except Exception as error:  # whatever it is, the run may still fail
                if not isinstance(error, RPCError):
                    log.warning("run_end_unknown effect=asked_again workflow=%s error=%r", workflow_id, str(error))
                await self._pause(AGAIN)
                continue
            if failure is not None:
                self._report(workflow_id, failure)
            return
