"""Records that an attempt did not place a pod: the pod's condition, its nomination and its attempt record.

One transaction writes them. It compares the pod's revision, and whether the tenant that the pod's label names exists,
so no record describes a pod that is bound, deleted, replaced or in another pool by then. A nomination also compares and
rewrites the node's binding version, so every later bind on that node has seen it. The decision may be old by then:
`nominations` checks it on the current snapshot.

A cohort's pods share transactions. Pods that changed meanwhile are recorded one by one from what etcd holds now, as are
members of a gang that have victims.

Neighbour: `refusal_writing` makes one refusal's part of a transaction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from wharfinger.errors import RequestTooLarge, Unavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Get, KeyValue, TxnResult
from wharfinger.framework.cycle_state import CycleState
from wharfinger.objects.model.pod import Pod
from wharfinger.process.failures import gather_to_end
from wharfinger.process.names import pod_workflow_id
from wharfinger.process.transactions import Limits, cut
from wharfinger.scheduling.contracts.cohort_scheduling import RecordedMany, RecordManyInput, TurnedAway
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.contracts.group_payloads import recorded_group, refusal_input
from wharfinger.scheduling.contracts.scheduling import Gone, Recorded, RefusalInput, RefusalOutcome
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import StoredPod
from wharfinger.scheduling.effects.refusing.nominations import NominationsNow
from wharfinger.scheduling.effects.refusing.refusal_writing import RefusalToRecord, RefusalWriting, RefusalWritings


@dataclass(slots=True)
class Records:
    """What became of a group's refusals so far."""

    recorded: int = 0
    gone: Counter[str] = field(default_factory=Counter)
    """How many pods need no record any more, by reason."""
    revision: int = 0
    lapsed: list[str] = field(default_factory=list)
    nominated: dict[str, int] = field(default_factory=dict)

    def take(self, request: RefusalInput, outcome: RefusalOutcome) -> None:
        """Count a refusal that was recorded by itself."""
        one = recorded_group(request, outcome)
        self.written(one.recorded, one.revision)
        self.gone.update(one.gone_reasons)
        self.lapsed += one.lapsed
        self.nominated |= one.record_revisions

    def written(self, pods: int, revision: int) -> None:
        """Count records that one transaction wrote."""
        self.recorded += pods
        self.revision = max(self.revision, revision)

    def result(self) -> RecordedMany:
        """The activity's result."""
        return RecordedMany(
            recorded=self.recorded,
            gone=self.gone.total(),
            gone_reasons=dict(self.gone),
            revision=self.revision,
            lapsed=tuple(self.lapsed),
            record_revisions=self.nominated,
        )


class Recorder:
    """Records the refusals of one worker's attempts: of lone pods, cohorts and gangs."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._cache = core.pool.cache
        self._profiles = core.pool.profiles
        self._eligibility = core.eligibility
        self._cluster = core.identity.cluster
        self._nominations = NominationsNow(core)
        self._writings = RefusalWritings(core, self._nominations.kept)
        self._limits = core.limits
        self._teller = core.kubernetes.teller if core.kubernetes is not None else None
        """Tells the Kubernetes API, where one is the store."""
        self._catch_up = core.settings.catch_up
        """Seconds to wait for the watch when the nominated node's binding version has moved."""

    async def record(self, request: RefusalInput) -> RefusalOutcome:
        """Record the refusal of a lone pod; Gone when the pod needs no record any more.

        Raises `StoreError`. Running it again is safe, also after a response was lost.
        """
        return await self._alone(RefusalToRecord(request))

    async def record_many(self, request: RecordManyInput) -> RecordedMany:
        """Record the refusals of a cohort's left-overs, or of a gang. Raises `StoreError`; running it again is safe."""
        records = Records()
        victims = tuple(victim for one in request.turned_away for victim in one.victims)
        together: list[RefusalWriting] = []
        for one in request.turned_away:
            refusal = self._of_group(request, one, victims)
            writing = None if one.victims else self._from_watch(refusal)
            if writing is not None:
                together.append(writing)
                continue
            records.take(refusal.request, await self._alone(refusal))
        await self._send(together, self._limits, records)
        return records.result()

    # --- one by one ---------------------------------------------------------------------------

    async def _alone(self, refusal: RefusalToRecord, found: StoredPod | Gone | None = None) -> RefusalOutcome:
        """Write until the pod does not change meanwhile. `found`: the pod, if it was just read.

        Leaves out a nomination that would not help any more, or that etcd has no room for, with its victims.
        """
        reference = refusal.reference
        found = found or self._eligibility.from_cache(reference) or await self._eligibility.read(reference)
        if refusal.request.reserved_node:
            self._unreserve(refusal.request, found)
        nominated = True
        if isinstance(found, StoredPod) and refusal.request.victim_count > len(refusal.request.victims):
            refusal, nominated = await self._nominations.with_all_victims(refusal, found.pod)
        while isinstance(found, StoredPod):
            others = await self._nominations.others_records(refusal, found.pod)
            # From here to the transaction nothing is awaited: it compares what is looked at now.
            gone = self._eligibility.verdict(reference, found.pod)  # tenants may have come or gone since it was found
            if gone is not None:
                return gone
            # An assumption that an earlier step of this attempt left has no use any more.
            self._cache.forget_unsent(found.pod.identity)
            if refusal.request.victims:
                refusal = self._nominations.checked(refusal, found.pod, others)
                nominated = bool(refusal.request.victims)
            try:
                writing = self._writings.of(refusal, found)
                answer = await self._write(writing)
            except RequestTooLarge:
                if not refusal.request.victims:
                    raise
                refusal, nominated = refusal.without_nomination(), False
                continue
            if answer.succeeded:
                await self._tell([writing])
                return Recorded(revision=answer.revision, nominated=nominated)
            read = dict(zip([compare.key for compare in writing.compares], answer.reads, strict=True))
            if writing.binding is not None and not await self._caught_up_with(read[writing.binding.key]):
                refusal, nominated = refusal.without_nomination(), False
            await self._learn_of(writing.tenancy, read, answer.revision)
            found = await self._eligibility.found(reference, read[writing.pod.key], answer.revision)
        return found

    def _unreserve(self, request: RefusalInput, found: StoredPod | Gone) -> None:
        """Release what plugins reserved for a placement that was held and then not permitted."""
        pod = found.pod if isinstance(found, StoredPod) else Pod(request.namespace, request.name, request.uid)
        profile = self._profiles.get(pod.scheduler_name)
        if profile is not None:
            profile.unreserve(CycleState(request.plugin_data), pod, request.reserved_node)

    async def _caught_up_with(self, binding: KeyValue | None) -> bool:
        """Whether the watch has shown the last bind on the nominated node; only then is its effect known."""
        revision = binding.mod_revision if binding is not None else 0
        return await self._cache.progress.wait_for(revision, self._catch_up)

    async def _learn_of(self, tenancy: Sequence[Compare], read: Mapping[str, KeyValue | None], revision: int) -> None:
        """Wait for the watch to show a tenant that came or went; raises `Unavailable` when it does not in time."""
        for compare in tenancy:
            kv = read[compare.key]
            if compare.holds(kv):
                continue
            seen = kv.mod_revision if kv is not None else revision
            if not await self._cache.progress.wait_for(seen, self._catch_up):
                raise Unavailable(f"this worker's watch is behind: {compare.key} is another one than it knows")

    async def _write(self, writing: RefusalWriting) -> TxnResult:
        reads = [Get(compare.key) for compare in writing.compares]
        if writing.condition is not None:
            try:
                return await self._store.txn(writing.compares, writing.all_puts, reads)
            except RequestTooLarge:
                if writing.binding is not None:
                    raise
                # A pod of this size has no room for the condition; the record has the reason.
        return await self._store.txn(writing.compares, writing.puts, reads)

    # --- many in a transaction ----------------------------------------------------------------

    def _of_group(self, request: RecordManyInput, one: TurnedAway, victims: tuple[Victim, ...]) -> RefusalToRecord:
        """The refusal of one pod of a cohort or a gang, and the workflow that the pod waits with."""
        of_gang = request.gang is not None
        workflow_id, run_id, decided_by = request.workflow_id, request.run_id, ""
        chained = one.chained and not of_gang
        if chained:
            decided_by = f"{workflow_id}@{run_id}"
            workflow_id, run_id = pod_workflow_id(self._cluster, one.namespace, one.name, one.uid), ""
        return RefusalToRecord(
            refusal_input(request, request.reason, one, workflow_id=workflow_id, run_id=run_id),
            parked=of_gang or chained,
            urgent=one.own_attempt and not of_gang,
            decided_by=decided_by,
            gang_victims=victims if of_gang else None,
            record_revision=None if of_gang else one.record_revision,
        )

    def _from_watch(self, refusal: RefusalToRecord) -> RefusalWriting | None:
        """The writing for the pod as the watch showed it; None when the pod has to be read from etcd."""
        found = self._eligibility.from_cache(refusal.reference)
        if found is None or self._cache.is_sent(found.pod.identity):
            return None
        self._cache.forget_unsent(found.pod.identity)
        writing = self._writings.of(refusal, found)
        if refusal.record_revision is None:
            return writing
        record = keys.attempt(refusal.request.namespace, refusal.request.name)
        # A newer record stays: it may name a parked chain that nothing else names.
        return replace(writing, record=Compare(record, "mod", refusal.record_revision))

    async def _send(self, writings: Sequence[RefusalWriting], limits: Limits, records: Records) -> None:
        for numbers in cut([one.shape for one in writings], limits):
            batch = [writings[number] for number in numbers]
            compares = list(dict.fromkeys(compare for one in batch for compare in one.compares))
            puts = [put for one in batch for put in one.all_puts]
            try:
                answer = await self._store.txn(compares, puts, [Get(compare.key) for compare in compares])
            except RequestTooLarge:
                if len(batch) > 1:  # the server takes less than the settings say
                    await self._send(batch, limits.halved(), records)
                    continue
                refusal = batch[0].refusal
                records.take(refusal.request, await self._alone(refusal))
                continue
            if answer.succeeded:
                records.written(len(batch), answer.revision)
                await self._tell(batch)
                continue
            read = {compare.key: kv for compare, kv in zip(compares, answer.reads, strict=True)}
            await self._send(await self._sorted_out(batch, read, answer.revision, records), limits, records)

    async def _sorted_out(
        self, batch: Sequence[RefusalWriting], read: Mapping[str, KeyValue | None], revision: int, records: Records
    ) -> list[RefusalWriting]:
        """Those of a failed transaction that can be sent again as they are; the others are recorded one by one."""
        again: list[RefusalWriting] = []
        for one in batch:
            record = read[one.record.key] if one.record is not None else None
            if one.record is not None and record is not None and not one.record.holds(record):
                # This very cohort wrote it, or the pod's own chain, which only this record names.
                records.written(1, record.mod_revision)
            elif all(compare.holds(read[compare.key]) for compare in one.compares):
                again.append(one)
            else:
                found = await self._eligibility.found(one.refusal.reference, read[one.pod.key], revision)
                records.take(one.refusal.request, await self._alone(one.refusal, found))
        return again

    async def _tell(self, writings: Sequence[RefusalWriting]) -> None:
        """Tell the Kubernetes API of refusals that are recorded; what it does not take now is told again later."""
        teller = self._teller
        if teller is None:
            return
        await gather_to_end(
            teller.refused(
                one.found.pod,
                one.found.raw,
                reason=one.refusal.request.reason,
                message=one.refusal.request.message,
                nominated=one.nominated,
                run=one.refusal.request.run_id or one.refusal.decided_by,
            )
            for one in writings
        )
