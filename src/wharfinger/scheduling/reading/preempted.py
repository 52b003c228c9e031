"""For whom a pod left: by which preemptor it was evicted, also when it is gone.

Asked when somebody wants to know about one pod, and looked for where it is cheapest first:

1. the record of a preemptor that still waits, which names its victims;
2. the pod itself: an evicted one carries a condition that names the preemptor;
3. etcd's history: the last state of a pod that is gone, and the preemptor's record of then, until they are compacted;
4. Temporal: pods that were bound to the same node later, whose earlier attempts name their victims.

`explain` (`reading.explanation`) and the page ask it, each with its own way to read attempts and records.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError

from wharfinger.errors import Compacted, InvalidObject, ServerError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.documents.metadata import condition_met
from wharfinger.objects.model.conditions import DISRUPTION_TARGET, PREEMPTION
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import SCHEDULE_ATTEMPT, SEARCH_NODE, quoted
from wharfinger.process.records import AttemptRecord
from wharfinger.scheduling.effects.open_runs import POD_KEY
from wharfinger.scheduling.reading.attempts import decoded
from wharfinger.scheduling.reading.history import Attempt

MOST_RECORDS = 500
"""Records that are looked at for a victim."""
LATER_RUNS, LATER_PODS = 100, 12
"""Runs that bound a pod to the node later, and pods of these whose attempts are read."""
RECORD, POD, HISTORY, TEMPORAL = "record", "pod", "history", "temporal"
_FOR = re.compile(r"preempting to accommodate a higher priority \w+ ([a-z0-9-]{1,63})/([a-z0-9.-]{1,253})")


@dataclass(frozen=True, slots=True)
class Departure:
    """That a pod has left, or has to leave, for another one."""

    preemptor: PodKey | None
    """None: the pod says that it was preempted, and not for whom."""
    node: str
    found: str
    """Where this is known from: `record`, `pod`, `history` or `temporal`."""
    time: str = ""
    """RFC 3339: when it was marked, or when the preemptor decided."""
    message: str = ""
    attempt: int | None = None
    """Of the preemptor: the one that chose its victims."""
    workflow_id: str = ""
    run_id: str = ""

    def sentence(self) -> str:
        """For people, without its end."""
        whom = f"by {self.preemptor}" if self.preemptor is not None else "for another pod"
        run = f", attempt {self.attempt}" if self.attempt is not None else ""
        return f"Preempted {whom}{run}, on {self.node}{f' ({self.time})' if self.time else ''}"

    def to_plain(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "preemptor": str(self.preemptor) if self.preemptor is not None else None,
            "node": self.node,
            "time": self.time or None,
            "message": self.message or None,
            "attempt": self.attempt,
            "workflowId": self.workflow_id or None,
            "runId": self.run_id or None,
            "knownFrom": self.found,
        }


@dataclass(frozen=True, slots=True)
class _Seen:
    """A pod as it is stored, or was."""

    node: str
    create_revision: int
    evicted: bool
    """Whether it is marked as the target of an eviction by preemption."""
    time: str
    message: str


class PreemptedPods:
    """Answers for whom single pods left."""

    def __init__(
        self,
        store: Store,
        connect: Callable[[], Awaitable[Client]],
        *,
        cluster: str,
        recorded: Callable[[PodKey], Awaitable[Sequence[Attempt]]],
        nominated: Callable[[str], Awaitable[Sequence[PodKey]]],
    ) -> None:
        """How it reads what it needs.

        Args:
            store: Etcd.
            connect: Answers the client of Temporal.
            cluster: The name of the cluster.
            recorded: The attempts of a pod, oldest first; none where they cannot be read.
            nominated: The pods whose record now nominates them to that node; with an empty name, to any.
        """
        self._store = store
        self._connect = connect
        self._cluster = cluster
        self._recorded = recorded
        self._nominated = nominated
        self._format = format_of(store.format)

    async def left(self, key: PodKey, own: Sequence[Attempt]) -> tuple[Departure | None, str | None]:
        """For whom the pod left, or has to leave; None where nobody is known, with why not where that can be said.

        `own`: the recorded attempts of the pod. Raises `StoreError`.
        """
        read = await self._store.get(keys.pod(*key))
        if read.kv is not None:
            seen = self._seen(read.kv, key)
            if seen is None or not seen.node:
                return None, None
            return await self._departing(key, seen, 0, POD), None
        bound = [one for one in own if one.node]
        node = bound[-1].node or "" if bound else ""
        waiting = await self._from_records(key, node, None, 0)
        if waiting is not None:
            return waiting, None
        last, revision = await self._last_state(key, read.revision, own)
        if last is not None:
            found = await self._departing(key, last, revision, HISTORY)
            return found, None if found is not None else "its last state in etcd does not say that it was preempted"
        if not bound:
            return None, "etcd has no state of it any more, and Temporal no attempt that bound it"
        return await self._from_temporal(key, bound[-1])

    async def _departing(self, key: PodKey, seen: _Seen, revision: int, found: str) -> Departure | None:
        """For whom a pod in this state leaves, or left. `revision`: of the state; 0 = it is as now."""
        match = _FOR.search(seen.message)
        preemptor = PodKey(match[1], match[2]) if match is not None else None
        named = await self._from_records(key, seen.node, preemptor, revision, seen)
        if named is not None:
            return named
        if not seen.evicted:
            return None
        found_by = Departure(preemptor, seen.node, found, seen.time, seen.message)
        if preemptor is None:
            return found_by
        chosen = await self._chose(key, preemptor)
        if chosen is None:
            return found_by
        return replace(found_by, attempt=chosen.attempt, workflow_id=chosen.workflow_id, run_id=chosen.run_id)

    async def _from_records(
        self, key: PodKey, node: str, preemptor: PodKey | None, revision: int, seen: _Seen | None = None
    ) -> Departure | None:
        """By the record of a preemptor, of now or of then, that names the pod among its victims."""
        async for kv, where in self._records(node, preemptor, revision):
            record = AttemptRecord.from_bytes(kv.value)
            if record is None or str(key) not in record.victims:
                continue
            place = record.victims.index(str(key))
            revisions = record.victim_revisions
            if seen is not None and revisions is not None and revisions[place] != seen.create_revision:
                continue  # another pod of that name
            time = seen.time if seen is not None and seen.evicted else record.time
            message = seen.message if seen is not None else ""
            found = HISTORY if revision else RECORD
            return Departure(
                where, record.nominated_node, found, time, message, record.attempt, record.workflow_id, record.run_id
            )
        return None

    async def _records(
        self, node: str, preemptor: PodKey | None, revision: int
    ) -> AsyncIterator[tuple[KeyValue, PodKey]]:
        """Records of pods that are, or were, nominated to the node, with the pods' names."""
        if preemptor is not None:
            kv = await self._at(keys.attempt(*preemptor), revision)
            if kv is not None:
                yield kv, preemptor
            return
        if not revision:
            for one in (await self._nominated(node))[:MOST_RECORDS]:
                kv = await self._at(keys.attempt(*one), 0)
                if kv is not None:
                    yield kv, one
            return
        count = 0
        try:
            async for pod, kv in keys.attempt.rows(self._store, revision=revision):
                yield kv, PodKey(*pod)
                count += 1
                if count >= 20 * MOST_RECORDS:
                    return
        except Compacted:
            return

    async def _at(self, key: str, revision: int) -> KeyValue | None:
        try:
            return (await self._store.get(key, revision=revision)).kv
        except Compacted:
            return None

    async def _last_state(self, key: PodKey, now: int, own: Sequence[Attempt]) -> tuple[_Seen | None, int]:
        """The last state of a pod that is gone, and a revision at which it was so; None where etcd has forgotten it.

        Between a revision at which it was there and now it has gone: halves of that span are looked at.
        """
        there = max((one.placement.get("pod_revision") or 0 for one in own), default=0)
        if not there:
            return None, 0
        low, high, last = int(there), now, None
        while high - low > 1:
            middle = (low + high) // 2
            try:
                kv = (await self._store.get(keys.pod(*key), revision=middle)).kv
            except Compacted:
                low = middle
                continue
            if kv is None:
                high = middle
            else:
                low, last = middle, kv
        if last is None:
            last = await self._at(keys.pod(*key), low)
        return (self._seen(last, key), low) if last is not None else (None, 0)

    async def _chose(self, key: PodKey, preemptor: PodKey) -> Attempt | None:
        """The preemptor's attempt that chose the pod as a victim; None where Temporal does not say."""
        found = await self._recorded(preemptor)
        return next((one for one in reversed(found) if str(key) in one.victims), None)

    async def _from_temporal(self, key: PodKey, bound: Attempt) -> tuple[Departure | None, str | None]:
        """By the attempts of pods that were bound to its node later."""
        started = bound.started.isoformat().replace("+00:00", "Z")
        query = (
            f"{SEARCH_NODE} = {quoted(bound.node or '')} AND WorkflowType = {quoted(SCHEDULE_ATTEMPT)} AND "
            f"WorkflowId STARTS_WITH {quoted(f'{self._cluster}/pod/')} AND StartTime > {quoted(started)}"
        )
        try:
            client = await self._connect()
            runs = [run async for run in client.list_workflows(query, limit=LATER_RUNS)]
        except (ServerError, RPCError) as error:
            return None, f"etcd has forgotten it, and Temporal does not answer: {error}"
        names = dict.fromkeys(run.typed_search_attributes.get(POD_KEY) or "" for run in reversed(runs))
        others = [PodKey(*name.split("/", 1)) for name in names if "/" in name and name != str(key)]
        for other in others[:LATER_PODS]:
            chosen = await self._chose(key, other)
            if chosen is not None:
                where, run = (chosen.workflow_id, chosen.run_id), chosen.attempt
                return Departure(other, bound.node or "", TEMPORAL, evicted_at(chosen), "", run, *where), None
        return None, "etcd has forgotten its last state, and no later pod of its node names it as a victim"

    def _seen(self, kv: KeyValue, key: PodKey) -> _Seen | None:
        """A stored pod; None for what cannot be read."""
        try:
            pod = decoded(self._store, kv, key)
            obj = documents.parse(kv.value) if self._format.marks_pods else {}
        except InvalidObject:
            return None
        met = condition_met(obj, DISRUPTION_TARGET)
        time, message = str(met.get("lastTransitionTime") or ""), str(met.get("message") or "")
        return _Seen(pod.node_name, kv.create_revision, met.get("reason") == PREEMPTION, time, message)


def evicted_at(attempt: Attempt) -> str:
    """When an attempt chose its victims: when it evicted them, or else began."""
    began = next((step.started for step in attempt.steps if step.name == "evict"), attempt.started)
    return began.isoformat(timespec="milliseconds").replace("+00:00", "Z")
