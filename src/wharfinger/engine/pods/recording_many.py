"""Telling many pods, and keeping as their records, that a cohort did not place them: many pods a transaction.

Each pod's own revision is compared, as for a single refusal, and whether the tenant that its label names exists; also
the revision of its record: one that was written meanwhile stays, for it may name a chain that is parked, and that
nobody else names. Pods that changed meanwhile are written one by one, as etcd has them now, and so are members of a
gang for whom others have to leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from wharfinger.cache.cache import Cache
from wharfinger.contracts.cohort_scheduling import RecordedMany, RecordManyInput, TurnedAway
from wharfinger.contracts.eviction import Victim
from wharfinger.contracts.names import pod_workflow_id
from wharfinger.contracts.scheduling import Gone, RefusalInput, RefusalOutcome
from wharfinger.engine.pods.eligibility import Eligibility, Life, StoredPod
from wharfinger.engine.pods.refusal import Chain, Refusals, Writing, holds
from wharfinger.engine.transactions import Limits, Shape, cut
from wharfinger.errors import RequestTooLarge
from wharfinger.model.pod import PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Get, Operation, Put, Store


@dataclass(slots=True)
class Records:
    """What became of them so far."""

    recorded: int = 0
    gone: Counter[str] = field(default_factory=Counter)
    """How many pods need no record any more, by why."""
    revision: int = 0
    lapsed: list[str] = field(default_factory=list)
    nominated: dict[str, int] = field(default_factory=dict)

    def take(self, one: TurnedAway, outcome: RefusalOutcome) -> None:
        """The outcome of a single one."""
        if isinstance(outcome, Gone):
            self.gone[outcome.why] += 1
            return
        self.written(1, outcome.revision)
        name = f"{one.namespace}/{one.name}"
        if not outcome.nominated:
            self.lapsed.append(name)
        elif one.nominated_node:
            self.nominated[name] = outcome.revision

    def written(self, pods: int, revision: int) -> None:
        """Records were written in one transaction."""
        self.recorded += pods
        self.revision = max(self.revision, revision)

    def told(self) -> RecordedMany:
        """As it travels."""
        return RecordedMany(
            recorded=self.recorded,
            gone=self.gone.total(),
            gone_reasons=dict(self.gone),
            revision=self.revision,
            lapsed=tuple(self.lapsed),
            record_revisions=self.nominated,
        )


@dataclass(frozen=True, slots=True)
class Waiting:
    """One pod to be told."""

    away: TurnedAway
    refusal: RefusalInput
    chain: Chain
    writing: Writing
    record: Compare | None
    """Its record is the one that the dispatcher knew; None = whatever it is."""

    @property
    def compares(self) -> list[Compare]:
        """The pod's, and its record's."""
        return [*self.writing.compares, *([self.record] if self.record is not None else [])]

    @property
    def shape(self) -> Shape:
        """What it adds to a transaction."""
        puts = self.puts
        size = sum(len(put.value) for put in puts)
        return Shape(tuple(compare.key for compare in self.compares), tuple(put.key for put in puts), size)

    @property
    def puts(self) -> list[Put]:
        """The pod, when that changes, and its record."""
        every = [self.writing.pod, *self.writing.writes]
        return [put for put in every if isinstance(put, Put)]


class ManyRefusals:
    """Writes the refusals of one worker's cohorts."""

    def __init__(
        self, *, store: Store, cache: Cache, eligibility: Eligibility, refusals: Refusals, limits: Limits, cluster: str
    ) -> None:
        """`refusals`: who writes single ones."""
        self._store = store
        self._cache = cache
        self._eligibility = eligibility
        self._refusals = refusals
        self._limits = limits
        self._cluster = cluster

    async def record(self, request: RecordManyInput) -> RecordedMany:
        """Write condition, nomination and record of each. Raises `StoreError`; running it again is safe."""
        records = Records()
        victims = tuple(victim for one in request.turned_away for victim in one.victims)
        together: list[Waiting] = []
        for one in request.turned_away:
            waiting = None if one.victims else self._waiting(request, one)
            if waiting is not None:
                together.append(waiting)
                continue
            refusal, chain = self._refusal(request, one)
            records.take(one, await self._single(refusal, chain, victims, request))
        await self._send(request, together, self._limits, records)
        return records.told()

    def _waiting(self, request: RecordManyInput, one: TurnedAway) -> Waiting | None:
        """What is written of the pod as the watch showed it; None when etcd has to be asked."""
        life = Life(PodKey(one.namespace, one.name), one.uid, one.create_revision)
        found = self._eligibility.from_cache(life)
        if found is None or self._cache.is_sent(found.pod.identity):
            return None
        self._cache.forget_unsent(found.pod.identity)
        refusal, chain = self._refusal(request, one)
        record = None
        if request.gang is None and one.record_revision is not None:
            record = Compare(keys.attempt(one.namespace, one.name), "mod", one.record_revision)
        return Waiting(one, refusal, chain, self._refusals.writing(refusal, found, chain), record)

    async def _send(
        self, request: RecordManyInput, waiting: Sequence[Waiting], limits: Limits, records: Records
    ) -> None:
        for numbers in cut([one.shape for one in waiting], limits):
            batch = [waiting[number] for number in numbers]
            compares = list(dict.fromkeys(compare for one in batch for compare in one.compares))
            writes: list[Operation] = [put for one in batch for put in one.puts]
            try:
                answer = await self._store.txn(compares, writes, [Get(compare.key) for compare in compares])
            except RequestTooLarge:
                if len(batch) > 1:  # the server takes less than we were told
                    await self._send(request, batch, limits.halved(), records)
                    continue
                records.take(batch[0].away, await self._single(batch[0].refusal, batch[0].chain, (), request))
                continue
            if answer.succeeded:
                records.written(len(batch), answer.revision)
                continue
            rest: list[Waiting] = []
            read = {compare.key: kv for compare, kv in zip(compares, answer.reads, strict=True)}
            for one in batch:
                record = read[one.record.key] if one.record is not None else None
                if one.record is not None and record is not None and not holds(one.record, record):
                    # Somebody's newer word: this very cohort's, or that of the pod's own chain, which only it names.
                    records.written(1, record.mod_revision)
                    continue
                if all(holds(compare, read[compare.key]) for compare in one.compares):
                    rest.append(one)
                    continue
                key = PodKey(one.away.namespace, one.away.name)
                life = Life(key, one.away.uid, one.away.create_revision)
                found = self._eligibility.of_stored(life, read[one.writing.pod_key], answer.revision)
                records.take(one.away, await self._single(one.refusal, one.chain, (), request, found))
            await self._send(request, rest, limits, records)

    async def _single(
        self,
        refusal: RefusalInput,
        chain: Chain,
        victims: tuple[Victim, ...],
        request: RecordManyInput,
        found: StoredPod | Gone | None = None,
    ) -> RefusalOutcome:
        of_gang = victims if request.gang is not None else None
        return await self._refusals.record(refusal, chain, of_gang=of_gang, found=found)

    def _refusal(self, request: RecordManyInput, one: TurnedAway) -> tuple[RefusalInput, Chain]:
        """The refusal as a single one, and who sees to the pod from now on."""
        reasons = request.reasons[one.reasons]
        workflow_id, run_id, chain = request.workflow_id, request.run_id, Chain()
        if request.gang is None:
            chain = Chain(parked=False, urgent=one.own_attempt)
            if one.chained:
                decided_by = f"{workflow_id}@{run_id}"
                workflow_id, run_id = pod_workflow_id(self._cluster, one.namespace, one.name, one.uid), ""
                chain = Chain(parked=True, urgent=one.own_attempt, decided_by=decided_by)
        refusal = RefusalInput(
            namespace=one.namespace,
            name=one.name,
            uid=one.uid,
            create_revision=one.create_revision,
            pod_revision=one.pod_revision,
            attempt=one.attempt,
            reason=request.reason,
            message=reasons.message,
            rejectors=reasons.rejectors,
            revision=request.revision,
            nominated_node=one.nominated_node,
            victims=one.victims,
            workflow_id=workflow_id,
            run_id=run_id,
        )
        return refusal, chain
