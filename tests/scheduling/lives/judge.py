"""What must hold of each worker at every moment at which nothing more happens by itself.

A worker is looked at whenever the time is about to move: all that was to run at this moment has run. So a worker that
has something to do and waits for its own timer is seen, though the timer would come in a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from tests.scheduling.lives.temporal import Chain
from tests.scheduling.lives.worker import SimulatedWorker
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.effects.open_runs import TASK_TIMEOUT
from wharfinger.scheduling.loops.dispatcher import GANGS
from wharfinger.scheduling.loops.starts import LEAST, TRIES
from wharfinger.scheduling.state.queue.active_queue import IN_GROUPS, Lane
from wharfinger.scheduling.state.queue.entry import Entry, Part

CONSISTENT_EVERY = 40
"""Looks at a worker between two at all that it has in its queue."""

NOTICED = 8.0
"""Seconds without trouble after which a worker has heard that the run of its group failed in another one."""

RETRIED = 8.0
"""Seconds within which a start that Temporal has not answered is tried again."""

Order = tuple[int, float, int]
"""Of a pod in the queue: the smallest goes first."""


class WorkerJudge:
    """Judges one life of a worker; `violated` is called with each rule that is broken."""

    def __init__(self, worker: SimulatedWorker, violated: Callable[..., None]) -> None:
        self._worker = worker
        self.name = worker.name
        self._queue = worker.loops.scheduling.queue
        self._violated = violated
        self._looks = 0
        self._ready: dict[Entry, Order] = {}
        """Pods that could be started at the last look, with their order."""
        self._groups: dict[str, float] = {}
        """Groups that counted at the last look, and when each was first seen."""
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
            self.unconfirmed()
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
        if active and not self._worker.hindered and len(self._worker.calls) < LEAST:
            self._idle(flying)

    def _idle(self, flying: int) -> None:
        """Pods that are ready are started at once: together as far as groups may be begun, alone in any case."""
        queue, window, name, now = self._queue, self._queue.window, self._worker.name, self._worker.loop.now
        settings = self._worker.settings.dispatching
        ready = queue.ready(IN_GROUPS if settings.cohorts else (Lane.TOGETHER,))
        if ready and not len(window):
            self._violated(name, "is idle:", ready, "pods are ready, and no group counts")
        elif ready and len(window) < settings.cohorts_in_flight and not window._probing:
            if ready >= settings.cohort_most:
                self._violated(name, "is idle:", ready, "pods are ready for a full group,", len(window), "groups count")
            if self._groups and max(self._groups.values()) < now - TASK_TIMEOUT.total_seconds():
                self._violated(name, "is idle:", ready, "pods are ready, and all groups that count are overdue")
        if not queue.under_way and (ready := queue.ready((Lane.ALONE,))):
            self._violated(name, "is idle:", ready, "pods are ready alone, and none is in flight so")
        if len(queue.gangs) and queue.in_flight.gangs < GANGS and queue.active.first_of_all(now, Lane.GANG):
            self._violated(name, "is idle: a gang is ready, and goes before all others")
        # The chain of a waiting pod takes a place of `in_flight`, too.
        if not flying and queue.under_way < settings.in_flight and (ready := queue.ready(Lane)):
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
        queue, settings = self._queue, self._worker.settings.dispatching
        groups: dict[str, list[Entry]] = defaultdict(list)
        gangs: set[str] = set()
        alone = 0
        for key in queue:
            entry = queue.get(key)
            assert entry is not None
            if entry.part is Part.ACTIVE and entry.not_before <= now:
                self._ready[entry] = (-entry.pod.priority, entry.arrival, entry.number)
            elif entry.part is not Part.IN_FLIGHT:
                continue
            elif entry.group:
                groups[entry.group].append(entry)
            elif entry.gang is not None:
                gangs.add(entry.cohort)
            elif not settings.cohorts or not queue.may_join(entry):
                alone += 1
        for what, number, most in (
            ("groups", len(groups), settings.cohorts_in_flight),
            ("pods of a group", max(map(len, groups.values()), default=0), settings.cohort_most),
            ("gangs", len(gangs), GANGS),
            ("pods alone", alone, settings.in_flight),
        ):
            if number > most:
                self._violated(self._worker.name, "has", number, what, "in flight, at most", most)
        left = [entry for entry, order in before.items() if self._ready.get(entry) == order]
        self._overtaken(before, left)
        self._grouped(groups, left)
        self._groups = {group: self._groups.get(group, now) for group in groups}

    def _overtaken(self, before: Mapping[Entry, Order], left: Sequence[Entry]) -> None:
        """Groups take the first pods that may join, and a gang goes after all pods that go before its first member."""
        queue = self._queue
        started = [entry for entry in before if entry.part is Part.IN_FLIGHT]
        last = max((before[entry] for entry in started if queue.may_join(entry)), default=None)
        passed = [entry for entry in left if last is not None and queue.may_join(entry) and before[entry] < last]
        for gang in {entry.cohort for entry in started if entry.gang is not None}:
            first = min(before[entry] for entry in started if entry.cohort == gang)
            passed += [entry for entry in left if entry.gang is None and before[entry] < first]
        if passed:
            names = " ".join(entry.pod.name for entry in passed)
            self._violated(self._worker.name, "started pods before", names)

    def _grouped(self, groups: Mapping[str, Sequence[Entry]], left: Sequence[Entry]) -> None:
        """A group takes all that is ready, unless it is full; and only a full one is begun while others are in time."""
        window, settings, now = self._queue.window, self._worker.settings.dispatching, self._worker.loop.now
        if window._probing or any(group not in groups for group in self._groups):
            return
        small = [g for g, members in groups.items() if g not in self._groups and len(members) < settings.cohort_most]
        if small and settings.cohorts and (names := [one.pod.name for one in left if self._queue.may_join(one)]):
            self._violated(self._worker.name, "leaves", " ".join(names), "out of a group that is not full")
        if small and any(group not in window.overdue(now) for group in self._groups):
            self._violated(self._worker.name, "begins a small group while others are in time")

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

    def unconfirmed(self) -> None:
        """Of each pod in flight, Temporal has taken a start, or is asked again for it."""
        worker, queue, now = self._worker, self._queue, self._worker.loop.now
        for key in queue:
            entry = queue.get(key)
            if entry is None or entry.part is not Part.IN_FLIGHT:
                continue
            if entry.started_at is None:
                if not worker.calls and now - worker.called_at > RETRIED:
                    self._violated(worker.name, "has forgotten the start of", key.name)
            elif not any(one in worker.temporal.accepted for one in worker.attempts.workflow_ids(entry)):
                self._violated(worker.name, "takes", key.name, "for started, and Temporal has no run of it")

    def started(self, chain: Chain, others: Iterable[Chain]) -> None:
        """Temporal takes a start of this worker, while other chains are open.

        A pod gets a start under another id only after the one before was given up, or is overdue. Answers that are
        lost change nothing of that.
        """
        since, worker = self._worker.loop.now - self._worker.settings.dispatching.confirm_after, self._worker
        for other in others:
            if other.by != worker.name or other.began <= since or worker.unanswered[other.workflow_id] >= TRIES:
                continue
            for name, uid in zip(chain.pods, chain.uids, strict=False):
                entry = self._queue.get(PodKey("default", name))
                if uid in other.uids and entry is not None and entry.since < other.began and entry.refusal is None:
                    self._violated(worker.name, "started", name, "twice")

    def has(self, name: str) -> Part | None:
        """In which part of its queue the pod is, while the worker serves."""
        if self._worker.gone or self._worker.loops.scheduling.shards.me is None:
            return None
        entry = self._queue.get(PodKey("default", name))
        return entry.part if entry is not None else None
