"""This process's Temporal worker: runs while the process serves.

The SDK's worker cannot be started twice, so each start makes a new one.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from temporalio.client import Client
from temporalio.worker import Interceptor, PollerBehaviorSimpleMaximum, UnsandboxedWorkflowRunner, Worker

from wharfinger.pressure import delays
from wharfinger.process.build import build_id
from wharfinger.process.connecting import identity
from wharfinger.process.failures import ActivityFailures, Failures

log = logging.getLogger(__name__)

WORKFLOW_TASKS = 100
ACTIVITIES = 100
POLLERS = 10
STICKY_SHARE = 0.5
"""Of the pollers of workflow tasks: the SDK leaves one of five for runs whose worker died, and those would wait."""
STICKY = timedelta(seconds=5)
"""How long a run waits for a worker that died before any other gets its next task. Less than the dead one's usual
lease, and more than a task of a busy server waits: one that times out is replayed, and costs two events. A shorter
lease does not shorten it."""
EAGER_PER_TASK = 3
STOP_SLACK = 5.0
"""Seconds beyond the activities' time in which the SDK has to come to its end."""

WorkerFactory = Callable[[], Worker]


def worker_factory(
    client: Client,
    *,
    task_queue: str,
    workflows: Sequence[type],
    activities: Sequence[Callable[..., Any]],
    max_cached_workflows: int,
    drain_timeout: float,
    failures: Failures,
    interceptors: Sequence[Interceptor] = (),
    max_concurrent_activities: int = ACTIVITIES,
) -> WorkerFactory:
    """A factory of SDK workers; `drain_timeout`: seconds that running activities get at the stop.

    `failures`: how their exceptions become failures.

    Workflows run without the sandbox, which costs more than all else in a short workflow; the tests
    run them inside it.
    """

    def make() -> Worker:
        log.info("temporal_worker_starts task_queue=%s build_id=%s", task_queue, build_id())
        return Worker(
            client,
            task_queue=task_queue,
            workflows=workflows,
            activities=activities,
            identity=identity(),
            build_id=build_id(),
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_cached_workflows=max_cached_workflows,
            max_concurrent_workflow_tasks=WORKFLOW_TASKS,
            max_concurrent_activities=max_concurrent_activities,
            max_concurrent_local_activities=ACTIVITIES,
            workflow_task_poller_behavior=PollerBehaviorSimpleMaximum(POLLERS),
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(POLLERS),
            max_eager_activity_reservations_per_workflow_task=EAGER_PER_TASK,
            nonsticky_to_sticky_poll_ratio=STICKY_SHARE,
            interceptors=[*interceptors, ActivityFailures(failures)],
            sticky_queue_schedule_to_start_timeout=STICKY,
            graceful_shutdown_timeout=timedelta(seconds=drain_timeout),
        )

    return make


class Polling:
    """Whether the Temporal worker runs."""

    def __init__(self, factory: WorkerFactory, *, drain_timeout: float) -> None:
        self._factory = factory
        self._drain_timeout = drain_timeout
        self._failed: Callable[[], None] = lambda: None
        self._worker: Worker | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = asyncio.Lock()

    def on_failure(self, failed: Callable[[], None]) -> None:
        """Call `failed` when the worker ends by itself: polling has to be started again."""
        self._failed = failed

    @property
    def running(self) -> bool:
        """Whether it polls."""
        return self._task is not None and not self._task.done()

    async def start(self) -> None:
        """Poll from now on."""
        if self.running:
            return
        self._worker = self._factory()
        self._task = asyncio.create_task(self._worker.run())
        self._task.add_done_callback(self._ended)

    async def stop(self) -> None:
        """Stop polling; running activities finish, or are cancelled after `drain_timeout`.

        A second call waits for the first, so no caller continues before the activities have ended.
        """
        async with self._stopping:
            await self._stop()

    async def _stop(self) -> None:
        worker, task = self._worker, self._task
        self._worker = self._task = None
        if worker is None or task is None or task.done():
            return
        task.remove_done_callback(self._ended)
        try:
            async with asyncio.timeout(self._drain_timeout + STOP_SLACK):
                await worker.shutdown()
                await asyncio.wait({task})
        except TimeoutError:
            log.warning("temporal_worker_stop_timed_out effect=abandoned")
        except Exception as error:  # whatever the SDK raises, the process goes on to its end
            log.warning("temporal_worker_stop_failed error=%r", str(error))

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("temporal_worker_failed effect=restarted error=%r", str(task.exception()))
        self._failed()


async def keep_polling(polling: Polling, rng: random.Random) -> None:
    """Poll until cancelled, again after a pause whenever the Temporal worker ends by itself; `stop` is for others."""
    failed = asyncio.Event()
    polling.on_failure(failed.set)
    for delay in delays(0.5, 10.0, rng):
        failed.clear()
        await polling.start()
        await failed.wait()
        await asyncio.sleep(delay)
