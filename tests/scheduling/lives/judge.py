"""What must hold of each worker at every moment at which nothing more happens by itself.

A worker is looked at whenever the time is about to move: all that was to run at this moment has run. So a worker that
has something to do and waits for its own timer is seen, though the timer would come in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.scheduling.lives.temporal import Chain
from tests.scheduling.lives.worker import SimulatedWorker
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.state.queue.active_queue import IN_GROUPS, Lane
from wharfinger.scheduling.state.queue.entry import Entry, Part

CONSISTENT_EVERY = 40
"""Looks at a worker between two at all that it has in its queue."""

NOTICED = 8.0
"""Seconds without trouble after which a worker has heard that the run of its group failed in another one."""

AT_A_TIME = 4
"""Calls to Temporal that may be under way in any case (`scheduling.loops.starts.LEAST`)."""


class WorkerJudge:
    """Judges one life of a worker; `violated` is called with each rule that is broken."""

    def __init__(self, worker: SimulatedWorker, violated: Callable[..., None]) -> None:
        self._worker = worker
        self.name = worker.name
        self._queue = worker.loops.scheduling.queue
        self._violated = violated
        self._looks = 0
        self._ready: dict[Entry, tuple[int, float]] = {}
        """Pods that could be started at the last look, with their order."""
        self._counts: tuple[int, ...] = ()
        self._failed: dict[str, float] = {}
        """Groups whose runs failed anywhere, and since when that could have been heard of."""

    def look(self) -> None:
        """Look at the worker now."""
        if not self._worker.alive:
            return
        self._looks += 1
        if self._looks % CONSISTENT_EVERY == 0:
            self.look_through()
        if self._worker.failed:
            self._returned()
        if self._failed:
            self._heard()
        if self._worker.loops.scheduling.shards.me is None:
            return
        queue = self._queue
        if not len(queue):
            self._ready = {}
            return
        flying, waiting = len(queue.in_flight), len(queue.waiting)
        active = len(queue) - flying - waiting - len(queue.gated)
        counts = active, flying, waiting
        if counts != self._counts:
            self._counts = counts
            self._order()
        if active and not self._worker.hindered and len(self._worker.calls) < AT_A_TIME:
            self._idle(flying)

    def _idle(self, flying: int) -> None:
        """Pods that are ready are started at once: together where no group counts, and alone whatever groups do."""
        queue, name = self._queue, self._worker.name
        together = IN_GROUPS if self._worker.settings.dispatching.cohorts else (Lane.TOGETHER,)
        if not len(queue.window) and (ready := queue.ready(together)):
            self._violated(name, "is idle:", ready, "pods are ready, and no group counts")
        if not queue.under_way and (ready := queue.ready((Lane.ALONE,))):
            self._violated(name, "is idle:", ready, "pods are ready alone, and none is in flight so")
        if not flying and (ready := queue.ready(Lane)):
            self._violated(name, "is idle:", ready, "pods are ready, and none is in flight")

    def _returned(self) -> None:
        """The pods of groups whose runs failed here are in flight with them no more."""
        failed, self._worker.failed = self._worker.failed, []
        names = [workflow_id.rpartition("/")[2] for workflow_id in failed]
        left = [key.name for key in self._queue if (entry := self._queue.get(key)) and entry.group in names]
        if left:
            self._violated(self._worker.name, "leaves", " ".join(left), "with a run that failed")

    def failed(self, chain: Chain) -> None:
        """The run of a group of this worker has failed, here or in another worker."""
        self._failed[chain.workflow_id.rpartition("/")[2]] = self._worker.loop.now

    @property
    def unheard(self) -> list[str]:
        """Groups that count though their runs have failed."""
        return [group for group in self._failed if group in self._queue.window] if self._worker.alive else []

    def _heard(self) -> None:
        """The pods of groups whose runs failed are not in flight with them for long."""
        now = self._worker.loop.now
        if self._worker.hindered or self._worker.temporal.stopped:
            self._failed = dict.fromkeys(self._failed, now)
        due = [group for group, since in self._failed.items() if now - since >= NOTICED]
        for group in due:
            del self._failed[group]
            if group in self._queue.window:
                self._violated(self._worker.name, "has not heard that the run failed of", group)

    def _order(self) -> None:
        """What was started since the last look went before all that could have been started; and it is not too much."""
        before, now = self._ready, self._worker.loop.now
        self._ready = {}
        queue = self._queue
        groups: dict[str, None] = {}
        for key in queue:
            entry = queue.get(key)
            if entry is not None and entry.part is Part.IN_FLIGHT and entry.group:
                groups[entry.group] = None
            if entry is None or entry.part is not Part.ACTIVE or entry.not_before > now or not queue.may_join(entry):
                continue
            self._ready[entry] = (-entry.pod.priority, entry.arrival)
        most = self._worker.settings.dispatching.cohorts_in_flight
        if len(groups) > most:
            self._violated(self._worker.name, "has", len(groups), "groups in flight, at most", most)
        started = [order for entry, order in before.items() if entry.part is Part.IN_FLIGHT and entry.gang is None]
        left = [order for entry, order in before.items() if self._ready.get(entry) == order]
        if started and left and max(started) > min(left):
            names = " ".join(entry.pod.name for entry, order in before.items() if self._ready.get(entry) == order)
            self._violated(self._worker.name, "started pods before", names)

    def look_through(self) -> None:
        """Each of its pods is in one part of its queue, and no other pod is in any."""
        loops, cache, queue = self._worker.loops, self._worker.cache, self._queue
        ownership = self._worker.pool.ownership
        expected = {
            key: None
            for key, pod in cache.pods.items()
            if pod.pending and ownership.owns(pod, cache.tenants) and loops.scheduling.shards.mine(pod)
        }
        for key in queue:
            if key not in expected:
                self._violated(self._worker.name, "keeps", key.name, "in its queue")
            entry = queue.get(key)
            assert entry is not None
            parts = [
                part
                for part, members in (
                    (Part.GATED, queue.gated),
                    (Part.ACTIVE, queue.active),
                    (Part.IN_FLIGHT, queue.in_flight),
                    (Part.WAITING, queue.waiting),
                )
                if key in members
            ]
            if parts != [entry.part]:
                self._violated(self._worker.name, "has", key.name, "in", entry.part.value, "and finds it in", parts)
        for key in expected:
            if key not in queue:
                self._violated(self._worker.name, "has lost", key.name)

    def started(self, chain: Chain, others: Iterable[Chain]) -> None:
        """Temporal takes a start of this worker, while other chains are open."""
        now, worker = self._worker.loop.now, self._worker
        if not chain.uids or worker.failed_at > now - worker.settings.dispatching.confirm_after:
            return
        for other in others:
            if other.by != worker.name or other.began <= now - worker.settings.dispatching.confirm_after:
                continue
            for name, uid in zip(chain.pods, chain.uids, strict=True):
                entry = self._queue.get(PodKey("default", name))
                if uid in other.uids and entry is not None and entry.since < other.began and entry.refusal is None:
                    self._violated(worker.name, "started", name, "twice")

    def has(self, name: str) -> Part | None:
        """In which part of its queue the pod is, while the worker serves."""
        if self._worker.gone or self._worker.loops.scheduling.shards.me is None:
            return None
        entry = self._queue.get(PodKey("default", name))
        return entry.part if entry is not None else None
