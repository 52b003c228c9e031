"""What a refusal adds to a transaction: the pod with its condition and nomination, its attempt record, the compares.

Where a Kubernetes API is the store, only the nomination is written into the copy; the API is told of the condition.
The copy is put all the same, so that record and pod are of one revision: such a record is told again if need be.
Neighbours: `nominations` looks at the nomination anew; `recording` sends these, alone or many in a transaction.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace

from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Put
from wharfinger.objects.documents.edit import nominate_pod
from wharfinger.objects.documents.times import rfc3339
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.records import AttemptRecord
from wharfinger.process.transactions import Shape
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.contracts.scheduling import RefusalInput
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodReference, StoredPod


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

    def __init__(self, core: Core, kept: Callable[[Pod], str]) -> None:
        """`kept`: the node where a pod stays nominated, empty for none."""
        self._cache = core.pool.cache
        self._eligibility = core.eligibility
        self._utc_now = core.process.utc_now
        self._kept = kept
        self._kubernetes = core.kubernetes is not None

    def of(self, refusal: RefusalToRecord, found: StoredPod) -> RefusalWriting:
        """Condition, nomination and record for the pod as it was found."""
        request, now = refusal.request, rfc3339(self._utc_now())
        pod_key = keys.pod(request.namespace, request.name)
        keeps = refusal.keeps if refusal.keeps == found.pod.nominated_node_name else ""  # unless it was cleared since
        nominated = request.nominated_node or keeps or self._kept(found.pod)
        kept = request.nominated_node if found.format.marks_pods else nominated
        record = _record(refusal, found, now, kept)
        puts = [Put(keys.attempt(request.namespace, request.name), record.to_bytes())]
        binding = None
        if request.victims:
            key = keys.binding(request.nominated_node)
            binding = Compare(key, "mod", self._cache.bindings[request.nominated_node])
            puts.append(Put(key, _version(request)))
        if self._kubernetes:
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
