"""The queue of one worker: which of its pods are to be started, are started, or wait.

::

             gate refuses                  pop, pop_group                 record written
    put ──► GATED ──gate gone──► ACTIVE ───────────────► IN_FLIGHT ──────────────────────► WAITING
      └───────────────────────────► ▲ ◄── not confirmed, failed ──┘                          │
                                    ├─────────── restart: its chain is gone ◄────────────────┤
                                    └─────────── wake: it fits now ◄─────────────────────────┘

    remove: from any part (bound, deleted, finished, no longer ours)

A pod waits with a chain of its own, which the waker may signal, or without one (`state.queue.waiting`). A chain holds
the pod's attempt number and back-off. Without one, the pod's record holds the number, and the queue the back-off, which
runs from when the record was first seen here: a worker that takes the pod over makes it wait a little longer at most.

In: facts about this worker's pending pods, which `loops.pod_events` passes on as etcd shows them;
a fact that is passed twice changes nothing. Out: pods to start (`loops.dispatcher`) and waiting pods an
event may concern (`loops.waker`). It is a view: a restart rebuilds it from etcd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wharfinger.objects.model.conditions import SCHEDULER_ERROR
from wharfinger.objects.model.gang import Gang
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.scheduling.state.queue.active_queue import IN_GROUPS, ONE_BY_ONE, Lane
from wharfinger.scheduling.state.queue.entry import (
    CHAIN_GONE,
    LEVEL,
    RUN_FAILED,
    START_FAILED,
    UNANSWERED,
    UNCONFIRMED,
    Entry,
    Part,
    Reason,
)
from wharfinger.scheduling.state.queue.parts import QueueParts


class SchedulingQueue(QueueParts):
    """The facade over the four parts. Lives on one event loop; every call is synchronous."""

    # --- facts ------------------------------------------------------------------------------------

    def put(self, pod: Pod, refusal: Refusal | None, *, cause: str = "seen", not_before: float = 0.0) -> Entry:
        """The pod is pending and ours, as etcd shows it now, with its record if it has one.

        `cause` and `not_before` (clock seconds) count only when the pod is new to the queue.
        """
        if refusal is not None and refusal.create_revision not in (0, pod.create_revision):
            refusal = None  # of an earlier life of the name
        entry = self._entries.get(pod.key)
        if entry is not None and entry.pod.create_revision != pod.create_revision:
            self.remove(pod.key)
            entry = None
        held, gang = self._rules.gang(pod)
        gate = self._rules.gate(pod) or held
        if entry is None:
            promised = self._answered(pod.key)
            entry = self._put_new(pod, refusal, gate, gang, cause=cause, not_before=not_before)
            if promised is not None and promised.pod.create_revision == pod.create_revision:
                entry.since = promised.since
            return entry
        self._update(entry, pod, refusal, gate, regrouped=self.gangs.assign(entry, gang))
        return entry

    def remove(self, key: PodKey) -> Entry | None:
        """The pod is bound, deleted, finished or not ours any more; its last entry, if it was queued."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(entry, told=True)
            self.gangs.discard(entry)
        return entry or self._answered(key)

    def promised(self, key: PodKey) -> None:
        """The pod is bound in etcd, and its copy does not show the Kubernetes API's answer yet.

        It counts in its group until `remove` or `put`.
        """
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._leave(entry, told=True, counts=True)
            self.gangs.discard(entry)
            self._promised[key] = entry

    # --- starting ---------------------------------------------------------------------------------

    @property
    def under_way(self) -> int:
        """How many attempts of one pod were started, in no group, of which etcd has not told."""
        return self.in_flight.alone + self.waiting.urgent.unconfirmed

    def ready(self, lanes: Iterable[Lane] = IN_GROUPS) -> int:
        """How many pods of these lanes could be started now."""
        return self.active.ready(self._clock(), lanes)

    def pop(self, lanes: Iterable[Lane] = ONE_BY_ONE) -> Entry | None:
        """The next pod of these lanes to start by itself, in no group; None when there is none now."""
        entry = self.active.pop(self._clock(), lanes)
        if entry is not None:
            self.in_flight.add(entry)
            self._arrive(entry, Part.IN_FLIGHT, "pop")
        return entry

    def pop_group(
        self,
        group: str,
        limit: int,
        fits: Callable[[Entry], bool],
        lanes: Iterable[Lane] = IN_GROUPS,
        *,
        may_park: bool = True,
    ) -> list[Entry]:
        """The pods of one group, in order, in flight from now on: at most `limit`, up to the first that does not fit.

        One that does not even fit alone joins no group. They go as a cohort, whose name is the group's, but for a
        single pod that was never refused: it goes by an attempt of its own, if one more chain may be parked for it
        (`may_park`). A pod with a record goes on counting its attempts in a cohort, even of one.
        """
        now = self._clock()
        members: list[Entry] = []
        while len(members) < limit and (entry := self.active.first(now, lanes)) is not None:
            if not fits(entry):
                if members:
                    break
                self._set_apart(entry)
                continue
            self.active.pop(now, lanes)
            self.in_flight.add(entry, group=group)
            self._arrive(entry, Part.IN_FLIGHT, "pop_group")
            members.append(entry)
        if len(members) == 1 and may_park and not (members[0].together or members[0].chainless):
            members[0].cohort = ""
        return members

    def pop_gang(self) -> list[Entry]:
        """The members of the next gang to start that are to be started, in flight from now on.

        None when there is none now, or when other pods go before it: a gang goes as its first member does.
        """
        first = self.active.first_of_all(self._clock(), Lane.GANG)
        if first is None or first.gang is None:
            return []
        gang = first.gang.key
        members = self.gangs.members(gang, Part.ACTIVE)
        self.active.give(first, members)
        for entry in members:
            self.in_flight.add(entry, gang=str(gang))
            self._arrive(entry, Part.IN_FLIGHT, "pop_gang")
        return members

    def started(self, entry: Entry) -> None:
        """Temporal accepted the start; when etcd does not confirm it in time, it is repeated."""
        if self._entries.get(entry.key) is not entry:
            return
        entry.start_failed = None
        entry.own_chain = entry.own_chain or (not entry.cohort and entry.gang is None)
        if entry.part is Part.WAITING:
            self.waiting.urgent.started(entry, self._clock())
        else:
            self.in_flight.started(entry, self._clock())

    def defer(self, entry: Entry, seconds: float) -> None:
        """The start failed: try it again within so many seconds, spread, and let others of its namespace go first."""
        if self._entries.get(entry.key) is not entry:
            return
        at = self._clock() + seconds * (0.5 + self._spread() / 2)
        if entry.part is Part.IN_FLIGHT:
            entry.not_before = at
            self._move(entry, Part.ACTIVE, entry.cause)
        elif entry.part is Part.WAITING:
            self.waiting.start_at(entry, self._clock(), at)

    def start_failed(self, members: Sequence[Entry], later: float, *, blamed: bool) -> None:
        """The start of a group failed for good. Its members go back to the head of the queue, in their order.

        Where the input is to blame (`blamed`), each goes alone from now on. Otherwise one pod at a time probes. A
        probe that fails twice is tried again within `later` seconds, so that it stands in the way of no others. It goes
        alone only where Temporal accepted another start since it failed last: in one outage no pod is at fault.
        """
        if not blamed:
            self.window.failed()
        single = len(members) == 1
        for entry in members:
            if not self._in_flight(entry):
                continue
            before = entry.start_failed
            apart = blamed or (single and before is not None and before < self.window.acceptances)
            if single:
                entry.start_failed = self.window.acceptances
            if single and (apart or before is not None):
                self.defer(entry, later)
            else:
                self._move(entry, Part.ACTIVE, START_FAILED)
            if apart:
                self._set_apart(entry)

    def run_failed(self, group: str, *, blamed: bool) -> int:
        """The run of a group failed: its pods without an outcome in etcd go back to the head of the queue; how many.

        After the second such run in a row, each of them goes alone: one of them may be what the runs fail by
        (`blamed`). A single pod whose own attempt failed counts no more, because its chain goes on.
        """
        members = [entry for entry in self.in_flight.groups.get(group, {}).values() if self._in_flight(entry)]
        for entry in members:
            if entry.cohort:
                self._give_back(entry, RUN_FAILED if blamed else UNANSWERED)
            else:
                self.in_flight.uncount(entry)
        return len(members)

    def restart(self, entry: Entry, cause: str) -> bool:
        """Start a waiting pod as if it were new, after its back-off if it has any. Whether it still waited."""
        if self._entries.get(entry.key) is not entry or entry.part is not Part.WAITING:
            return False
        if entry.refusal is not None and cause != CHAIN_GONE:  # of a chain that is gone, nothing of it is left
            entry.not_before = max(entry.not_before, entry.refused_at + self._rules.backoff(entry.refusal.attempt))
        self._move(entry, Part.ACTIVE, cause)
        return True

    def wake(self, entry: Entry, reason: Reason) -> bool:
        """Place a waiting pod that fits now with the next group. Whether it still waited."""
        chained = entry.chained
        if not self.restart(entry, reason.event):
            return False
        entry.woken_by = reason
        if chained:
            entry.together = True
            self.active.add(entry, self._clock())
        return True

    def return_overdue(self) -> int:
        """Make pods active again whose start etcd has not confirmed in time; how many.

        A start may have joined a run that was just ending, and no event would show it. They go behind pods of equal
        priority, and take turns with those of other namespaces: as many as may be in flight, held by a Permit plugin
        for long, would keep all others out.
        Pods without an outcome from two cohorts in a row join none again.
        """
        now = self._clock()
        late = self.in_flight.overdue(now)
        for entry in late:
            self._arrives(entry)
            self._give_back(entry, UNCONFIRMED)
        self.waiting.urgent.return_overdue(now)
        return len(late)

    def may_be_parked(self, entry: Entry) -> bool:
        """Whether the chain that an unconfirmed start joined is to be woken: a parked one would not react for an hour.

        Without a record (it was deleted, or etcd was restored to before it) only once: more often a run is held by
        a Permit plugin, or slow.
        """
        first, entry.woken = not entry.woken, True
        return entry.refusal is not None or first

    def due_restarts(self, limit: int) -> list[Entry]:
        """At most `limit` waiting pods whose chain's slow, eternal repetition of the start is due.

        Those without a chain that are due become active: the next group takes them.
        """
        now = self._clock()
        due = self.waiting.due_restarts(now, lambda: now + self._next_restart(), limit)
        for entry in due:
            if entry.chainless:
                self.restart(entry, LEVEL)
        return [entry for entry in due if entry.part is Part.WAITING]

    def due_chain(self) -> Entry | None:
        """The next urgent pod to get a chain of its own; it goes on waiting. None when there is none now."""
        return self.waiting.urgent.pop(self._clock())

    # --- transitions ------------------------------------------------------------------------------

    def _answered(self, key: PodKey) -> Entry | None:
        """The entry of a promised pod, which counts in its group no more; None when the pod is not promised."""
        entry = self._promised.pop(key, None)
        if entry is not None and entry.group:
            self.in_flight.uncount(entry, told=True)
        return entry

    def _put_new(
        self, pod: Pod, refusal: Refusal | None, gate: str, gang: Gang | None, *, cause: str, not_before: float
    ) -> Entry:
        part = Part.GATED if gate else Part.WAITING if refusal is not None else Part.ACTIVE
        now = self._clock()
        entry = Entry(
            pod=pod,
            since=now,
            arrival=now,
            part=part,
            cause=cause,
            refusal=refusal,
            refused_at=now,
            number=next(self._numbers),
            not_before=not_before,
            gate=gate,
            unopened=bool(gate),
        )
        self._entries[pod.key] = entry
        self.gangs.assign(entry, gang)
        # Taken over with a record: the chain is started again soon, on any worker.
        restart_at = now + self._next_restart() if entry.chainless else not_before
        self._enter(entry, part, cause, restart_at=restart_at, hold=not_before)
        return entry

    def _update(self, entry: Entry, pod: Pod, refusal: Refusal | None, gate: str, *, regrouped: bool) -> None:
        old, entry.pod = entry.pod, pod
        newer = refusal is not None and refusal.record_revision > entry.record_revision
        if newer:
            entry.refused_at = self._clock()
            decided = refusal is not None and refusal.reason != SCHEDULER_ERROR
            # A decision of its own shows that its cohorts did not fail by this pod. Set apart twice, it stays alone.
            entry.alone = entry.alone and not (decided and entry.set_apart == 1)
        entry.refusal, entry.gate = refusal, gate
        if gate or entry.part is Part.GATED:
            if not gate:
                self._start_clock(entry)
                # A gang's chain has ended when it found too few members: it is started anew, all of them together.
                waits = refusal is not None and entry.gang is None
                cause = "gates gone" if entry.gang is None else "gang complete"
                self._move(entry, Part.WAITING if waits else Part.ACTIVE, cause)
            elif entry.part is not Part.GATED:
                self._move(entry, Part.GATED, "gated")
            return
        if newer:
            self._move(entry, Part.WAITING, "refused", told=True)
        elif entry.part is Part.WAITING and refusal is None:
            self._move(entry, Part.ACTIVE, "record gone")
        elif entry.part is Part.WAITING and regrouped and entry.gang is not None:
            self._move(entry, Part.ACTIVE, "gang changed")
        elif pod != old or regrouped:
            self._refresh(entry)

    def _start_clock(self, entry: Entry) -> None:
        """The pod's gates open: it queues from now on, as in kube-scheduler."""
        self._arrives(entry)
        if entry.unopened:
            entry.since, entry.unopened = entry.arrival, False

    def _refresh(self, entry: Entry) -> None:
        """The pod itself changed: its place within its part may have, too."""
        if entry.part is Part.ACTIVE:
            self.active.add(entry, self._clock())
        elif entry.part is Part.WAITING:
            self.waiting.candidates.add(entry)
            self.waiting.regrouped(entry)
