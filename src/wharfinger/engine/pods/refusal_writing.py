"""What a refusal does about preemption when it is recorded, and what it adds to a transaction.

A decision may be old when it is recorded. So its victims are looked at again on the current snapshot: the pod is
nominated, keeps its nomination, or neither, and pods are evicted only where nothing less helps. The transaction gets
the pod with its condition and nomination, its attempt record, and the compares.

Where a Kubernetes API is the store, only the nomination is written into the copy; the API is told of the condition.
The copy is put all the same, so that record and pod are of one revision: such a record is told again if need be.
Neighbour: `recording` sends these, alone or many in a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from wharfinger.contracts.eviction import Victim, digest
from wharfinger.contracts.records import AttemptRecord
from wharfinger.contracts.scheduling import RefusalInput
from wharfinger.engine.failures import gather_to_end
from wharfinger.engine.pods import preemption
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.eligibility import PodReference, StoredPod
from wharfinger.engine.pods.extending import answered
from wharfinger.engine.transactions import Shape
from wharfinger.errors import PluginError
from wharfinger.framework.snapshot import Snapshot
from wharfinger.manifests.edit import nominate_pod
from wharfinger.manifests.times import rfc3339
from wharfinger.model.pod import Pod, PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Put

OTHERS_EVICT_WITHIN = timedelta(seconds=30)
"""How long a nomination counts as one whose evictions are about to happen."""
MOST_OTHERS = 16
"""Other pods nominated to a node whose records are read; the victims of more important ones leave first."""

OthersRecords = Mapping[PodKey, tuple[AttemptRecord, int]]


@dataclass(frozen=True, slots=True)
class RefusalToRecord:
    """A refusal to record, and the workflow that the pod waits with from then on."""

    request: RefusalInput
    parked: bool = True
    """Whether that workflow is open and waits to be woken."""
    urgent: bool = False
    decided_by: str = ""
    """`<workflow id>@<run id>` where another workflow decided than the one that waits."""
    gang_victims: tuple[Victim, ...] | None = None
    """Victims of all members of the pod's gang; None for a pod that is placed alone."""
    record_revision: int | None = None
    """Mod revision of the attempt record that may be overwritten; None = any."""
    keeps: str = ""
    """The node where the pod stays nominated, unless that is cleared meanwhile; empty where it depends."""

    @property
    def reference(self) -> PodReference:
        """The pod that was refused."""
        return PodReference(
            PodKey(self.request.namespace, self.request.name), self.request.uid, self.request.create_revision
        )

    def without_nomination(self, *, keeps: str = "") -> RefusalToRecord:
        """The refusal alone; no pod is evicted. `keeps`: the node where the pod stays nominated."""
        request = self.request.model_copy(update={"nominated_node": "", "victims": (), "victim_count": 0})
        return replace(self, request=request, keeps=keeps)


class NominationsNow:
    """Looks anew at the nominations of one worker's refusals, on the current snapshot."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._cache = core.pool.cache
        self._profiles = core.pool.profiles
        self._utc_now = core.process.utc_now
        self._catch_up = core.settings.catch_up
        """Seconds to wait for the watch to show what a decision has seen."""

    async def with_all_victims(self, refusal: RefusalToRecord, pod: Pod) -> tuple[RefusalToRecord, bool]:
        """Decide again which pods are the victims, where they are too many to travel; the digest must be the same.

        The refusal with all of them; or without a nomination, and False.
        """
        request = refusal.request
        await self._cache.progress.wait_for(request.revision, self._catch_up)
        profile = self._profiles.get(pod.scheduler_name)
        if profile is not None:
            answers = answered(request.answers)
            found = profile.evaluate(
                pod,
                self._cache.snapshot(excluding=pod.identity),
                verdicts=answers.verdicts,
                preemption=answers.preemption,
            )
            victims = preemption.victims(found.victims)
            if found.nominated_node == request.nominated_node and digest(victims) == request.victims_digest:
                return replace(refusal, request=request.model_copy(update={"victims": victims})), True
        return refusal.without_nomination(), False

    async def others_records(self, refusal: RefusalToRecord, pod: Pod) -> OthersRecords:
        """The attempt records of the other pods that are nominated to the pod's node, with their mod revisions.

        Only where they may count: see `checked`, which makes no reads, so that what it checks is what is compared.
        Raises `StoreError`.
        """
        if not refusal.request.victims or refusal.gang_victims is not None or not pod.nominated_node_name:
            return {}
        there = self._cache.nominated_on(pod.nominated_node_name)
        others = [one for one in there if one.key != pod.key and one.priority >= pod.priority][:MOST_OTHERS]
        reads = await gather_to_end(self._store.get(keys.attempt(*one.key)) for one in others)
        return {
            one.key: (record, read.kv.mod_revision)
            for one, read in zip(others, reads, strict=True)
            if read.kv is not None and (record := AttemptRecord.from_bytes(read.kv.value)) is not None
        }

    def checked(self, refusal: RefusalToRecord, pod: Pod, others: OthersRecords) -> RefusalToRecord:
        """The refusal as it is; without its nomination where evicting would not help, or is not needed any more.

        `others`: see `others_records`.
        """
        snapshot = self._cache.snapshot(excluding=pod.identity)
        if not self._makes_room(refusal, pod, snapshot):
            return refusal.without_nomination()
        if others and self._others_give_way(pod, snapshot, others):
            return refusal.without_nomination(keeps=pod.nominated_node_name)
        return refusal

    def kept(self, pod: Pod) -> str:
        """The earlier nomination, where it stays: see `preemption.stays_nominated`."""
        profile = self._profiles.get(pod.scheduler_name)
        snapshot = self._cache.snapshot(excluding=pod.identity)
        stays = preemption.stays_nominated(pod, profile, snapshot, self._utc_now())
        return pod.nominated_node_name if stays else ""

    def _makes_room(self, refusal: RefusalToRecord, pod: Pod, snapshot: Snapshot) -> bool:
        """Whether the pod fits its nominated node now without the victims, and no node with them.

        Some members of a gang may fit with them; all must fit without.
        """
        node = refusal.request.nominated_node
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None or node not in snapshot:
            return False
        verdicts = answered(refusal.request.answers).verdicts
        if (
            refusal.gang_victims is None
            and profile.evaluate(pod, snapshot, preempt=False, verdicts=verdicts).node is not None
        ):
            return False  # the pod fits by now, so no pod has to leave
        left = preemption.without(snapshot, node, refusal.gang_victims or refusal.request.victims)
        return profile.verify(pod, left, node).ok

    def _others_give_way(self, pod: Pod, snapshot: Snapshot, others: OthersRecords) -> bool:
        """Whether the pod fits its nominated node as soon as the evictions for others nominated there are done.

        They count there with all of their requests, while their victims still run. kube-scheduler decides one pod after
        the other, so for it that moment is hardly there; here other pods would be evicted elsewhere for nothing.
        """
        node, profile = pod.nominated_node_name, self._profiles.get(pod.scheduler_name)
        if profile is None or node not in snapshot or profile.extenders_of(pod):
            return False
        about_to_leave: list[Victim] = []
        for other in snapshot.nominated.get(node, ()):
            if other.key in others:
                about_to_leave += self._about_to_leave(other, snapshot, *others[other.key])
        if not about_to_leave:
            return False
        try:
            return profile.verify(pod, preemption.without(snapshot, node, tuple(about_to_leave)), node).ok
        except PluginError:
            return False  # its next attempt meets the error again, and reports it

    def _about_to_leave(
        self, preemptor: Pod, snapshot: Snapshot, record: AttemptRecord, written: int
    ) -> tuple[Victim, ...]:
        """Victims of the preemptor's nomination that its attempt evicts about now. `written`: the record's revision."""
        node = preemptor.nominated_node_name
        if record.nominated_node != node or record.create_revision != preemptor.create_revision:
            return ()
        if not _is_young(record.time, self._utc_now()):
            return ()
        return preemption.victims(
            tuple(
                one
                for one in snapshot.info(node).pods.values()
                # A pod that was created later only has a victim's name.
                if str(one.key) in record.victims
                and one.create_revision <= written
                and one.priority < preemptor.priority
            )
        )


def _is_young(time: str, now: datetime) -> bool:
    try:
        return abs(now - datetime.fromisoformat(time)) < OTHERS_EVICT_WITHIN  # clocks differ a little
    except (ValueError, TypeError):
        return False


@dataclass(frozen=True, slots=True)
class RefusalWriting:
    """One refusal's part of a transaction."""

    refusal: RefusalToRecord
    found: StoredPod
    nominated: str
    """The pod's node of nomination from now on; empty for none."""
    pod: Compare
    tenancy: list[Compare]
    """Whether the tenant exists that decides which pool the pod belongs to."""
    binding: Compare | None
    """The nominated node's binding version."""
    record: Compare | None
    """The attempt record as the dispatcher knew it; None = any."""
    condition: Put | None
    """The pod with its condition; None when it has that condition already. Of a copy, as it is."""
    puts: list[Put]
    """The record and, with a nomination, the binding version."""

    @property
    def compares(self) -> list[Compare]:
        """All of them; when one fails, its key is read."""
        nominated = [self.binding] if self.binding is not None else []
        return [self.pod, *nominated, *self.tenancy, *([self.record] if self.record is not None else [])]

    @property
    def all_puts(self) -> list[Put]:
        """The pod, where its condition changes, and `puts`."""
        return [*([self.condition] if self.condition is not None else []), *self.puts]

    @property
    def shape(self) -> Shape:
        """What it adds to a transaction."""
        puts = self.all_puts
        size = sum(len(put.value) for put in puts)
        return Shape(tuple(compare.key for compare in self.compares), tuple(put.key for put in puts), size)


class RefusalWritings:
    """Makes them from what this worker has seen."""

    def __init__(self, core: Core, nominations: NominationsNow) -> None:
        self._cache = core.pool.cache
        self._eligibility = core.eligibility
        self._utc_now = core.process.utc_now
        self._nominations = nominations
        self._upstream = core.upstream is not None

    def of(self, refusal: RefusalToRecord, found: StoredPod) -> RefusalWriting:
        """Condition, nomination and record for the pod as it was found."""
        request, now = refusal.request, rfc3339(self._utc_now())
        pod_key = keys.pod(request.namespace, request.name)
        keeps = refusal.keeps if refusal.keeps == found.pod.nominated_node_name else ""  # unless it was cleared since
        nominated = request.nominated_node or keeps or self._nominations.kept(found.pod)
        kept = request.nominated_node if found.format.marks_pods else nominated
        record = _record(refusal, found, now, kept)
        puts = [Put(keys.attempt(request.namespace, request.name), record.to_bytes())]
        binding = None
        if request.victims:
            key = keys.binding(request.nominated_node)
            binding = Compare(key, "mod", self._cache.bindings[request.nominated_node])
            puts.append(Put(key, _version(request)))
        if self._upstream:
            value = nominate_pod(found.raw, nominated)
            if value is None and found.pod.condition != ("False", request.reason, request.message):
                value = found.raw
        else:
            value = found.format.refuse_pod(
                found.raw, reason=request.reason, message=request.message, now=now, nominated_node_name=nominated
            )
        return RefusalWriting(
            refusal=refusal,
            found=found,
            nominated=nominated,
            pod=Compare(pod_key, "mod", found.pod.mod_revision),
            tenancy=self._eligibility.tenancy(found.pod),
            binding=binding,
            record=None,
            condition=Put(pod_key, value) if value is not None else None,
            puts=puts,
        )


def _record(refusal: RefusalToRecord, found: StoredPod, now: str, nominated_node: str) -> AttemptRecord:
    request = refusal.request
    revisions = tuple(victim.create_revision for victim in request.victims)
    return AttemptRecord(
        attempt=request.attempt,
        reason=request.reason,
        plugins=request.rejectors,
        revision=request.revision,
        message=request.message,
        nominated_node=nominated_node,
        victims=tuple(victim.pod for victim in request.victims),
        victim_revisions=revisions if request.victim_count else None,
        workflow_id=request.workflow_id,
        run_id=request.run_id,
        parked=refusal.parked,
        urgent=refusal.urgent,
        decided_by=refusal.decided_by,
        create_revision=found.pod.create_revision,
        time=now,
    )


def _version(request: RefusalInput) -> bytes:
    """The node's binding version, for people: which pod was nominated there."""
    attempt, pod = f"{request.workflow_id}@{request.run_id}", f"{request.namespace}/{request.name}"
    return json.dumps({"attempt": attempt, "nominated": pod}, separators=(",", ":")).encode()
