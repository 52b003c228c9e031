"""A release that changed the order of commands, and has no patch for open runs."""

from __future__ import annotations

from typing import Any

from temporalio import workflow

from wharfinger.process.names import SCHEDULE_ATTEMPT
from wharfinger.scheduling.contracts.attempts import AttemptResult
from wharfinger.workflows.schedule_attempt import ScheduleAttempt

RELEASED = workflow._Definition.must_from_class(ScheduleAttempt)


@workflow.defn(name=SCHEDULE_ATTEMPT, failure_exception_types=RELEASED.failure_exception_types)
class SleepsFirst(ScheduleAttempt):
    """Waits before it places the pod."""

    @workflow.run
    async def run(self, request: Any = None) -> AttemptResult:
        await workflow.sleep(1)
        return await super().run(request)
