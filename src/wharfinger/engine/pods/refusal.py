"""Telling a pod, and keeping as its record, that an attempt did not place it; and where room is made for it.

Condition, nomination and record are written in one transaction that compares the pod's revision, and whether the tenant
that its label names exists; so a record never speaks of a pod that is bound, deleted, another one or another pool's by
now. A nomination also compares and rewrites the node's
binding version: every later bind there has seen it. The victims must still be enough then: they are checked on this
worker's snapshot of the moment, for the decision may be a while ago.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from wharfinger.cache.cache import Cache
from wharfinger.contracts.eviction import Victim, digest
from wharfinger.contracts.records import AttemptRecord
from wharfinger.contracts.scheduling import Gone, Recorded, RefusalInput, RefusalOutcome
from wharfinger.engine.pods import preemption
from wharfinger.engine.pods.eligibility import Eligibility, Life, StoredPod
from wharfinger.errors import PluginError, RequestTooLarge, Unavailable
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.profile import Profile
from wharfinger.manifests.edit import refuse_pod
from wharfinger.manifests.times import rfc3339
from wharfinger.model.pod import Pod, PodKey
from wharfinger.registry import keys
from wharfinger.registry.store import Compare, Get, KeyValue, Operation, Put, Store, TxnResult

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Chain:
    """Who sees to the pod from now on, as its record says."""

    parked: bool = True
    """Whether the workflow that records the refusal waits to be woken."""
    urgent: bool = False
    decided_by: str = ""
    """`<workflow id>@<run id>` where another workflow decided than the one that waits."""


PARKED = Chain()


@dataclass(frozen=True, slots=True)
class Writing:
    """A refusal as it is written: all of it compares the pod."""

    pod_key: str
    compares: list[Compare]
    writes: list[Operation]
    pod: Put | None
    """The pod with its condition; None when it says the same already."""
    tenancy: list[Compare]
    """Of the compares: those that say whose pod it is."""

    @property
    def keys(self) -> list[str]:
        """Every compared key."""
        return [compare.key for compare in self.compares]

    @property
    def reads(self) -> list[Operation]:
        """When a compare fails: every compared key."""
        return [Get(key) for key in self.keys]


class Refusals:
    """Writes the refusals of one worker's attempts."""

    def __init__(
        self,
        *,
        store: Store,
        cache: Cache,
        profiles: Mapping[str, Profile],
        eligibility: Eligibility,
        catch_up: float,
        utc_now: Callable[[], datetime],
    ) -> None:
        """`catch_up`: seconds to wait for the watch when the nominated node's binding version has moved."""
        self._store = store
        self._cache = cache
        self._profiles = profiles
        self._eligibility = eligibility
        self._catch_up = catch_up
        self._utc_now = utc_now

    async def record(
        self,
        request: RefusalInput,
        chain: Chain = PARKED,
        *,
        of_gang: tuple[Victim, ...] | None = None,
        found: StoredPod | Gone | None = None,
    ) -> RefusalOutcome:
        """Write condition, nomination and record; Gone when the pod needs none any more.

        Repeated for as long as the pod changes under it: what matters is read again each time. A nomination that
        would not help any more, or that etcd has no room for, is left out, with its victims. Raises `StoreError`;
        running it again is safe, also after an answer that was lost. `of_gang`: the victims of all members of the
        gang that the pod is placed with; `found`: the pod as it was just read.
        """
        life = Life(PodKey(request.namespace, request.name), request.uid, request.create_revision)
        found = found or self._eligibility.from_cache(life) or await self._eligibility.read(life)
        if request.reserved_node:
            self._unreserve(request, found)
        nominated = True
        if isinstance(found, StoredPod) and request.victim_count > len(request.victims):
            request, nominated = await self._with_all_victims(request, found.pod)
        while isinstance(found, StoredPod):
            gone = self._eligibility.verdict(life, found.pod)  # tenants may have come or gone since it was found
            if gone is not None:
                return gone
            # An assumption that an earlier step of this attempt left is of no use any more.
            self._cache.forget_unsent(found.pod.identity)
            if request.victims and not self._makes_room(request, found.pod, of_gang):
                request, nominated = without_nomination(request), False
            try:
                writing = self.writing(request, found, chain)
                answer = await self._write(request, writing)
            except RequestTooLarge:
                if not request.victims:
                    raise
                request, nominated = without_nomination(request), False
                continue
            if answer.succeeded:
                return Recorded(revision=answer.revision, nominated=nominated)
            read = dict(zip(writing.keys, answer.reads, strict=True))
            if request.victims and not await self._caught_up_with(read[keys.binding(request.nominated_node)]):
                request, nominated = without_nomination(request), False
            await self._learn_of(writing.tenancy, read, answer.revision)
            found = self._eligibility.of_stored(life, read[writing.pod_key], answer.revision)
        return found

    def _unreserve(self, request: RefusalInput, found: StoredPod | Gone) -> None:
        """The placement was held and then not permitted: nobody else tells the plugins that reserved for it."""
        pod = found.pod if isinstance(found, StoredPod) else Pod(request.namespace, request.name, request.uid)
        profile = self._profiles.get(pod.scheduler_name)
        try:
            if profile is not None:
                profile.unreserve(CycleState(request.plugin_data), pod, request.reserved_node)
        except PluginError as error:
            log.warning("plugin_failed error=%r", str(error))

    async def _with_all_victims(self, request: RefusalInput, pod: Pod) -> tuple[RefusalInput, bool]:
        """Who is to leave, when they are too many to travel: the decision made again, if it is the same by now."""
        await self._cache.progress.wait_for(request.revision, self._catch_up)
        profile = self._profiles.get(pod.scheduler_name)
        if profile is not None:
            found = profile.evaluate(pod, self._cache.snapshot(excluding=pod.identity))
            victims = preemption.victims(found.victims)
            if found.nominated_node == request.nominated_node and digest(victims) == request.victims_digest:
                return request.model_copy(update={"victims": victims}), True
        return without_nomination(request), False

    def _makes_room(self, request: RefusalInput, pod: Pod, of_gang: tuple[Victim, ...] | None) -> bool:
        """Whether the pod fits its nominated node as it is now, but for the victims; and no node with them.

        Of a gang some members may fit where they are: what counts is that all will.
        """
        profile = self._profiles.get(pod.scheduler_name)
        snapshot = self._cache.snapshot(excluding=pod.identity)
        if profile is None or request.nominated_node not in snapshot:
            return False
        if of_gang is None and profile.evaluate(pod, snapshot, preempt=False).node is not None:
            return False  # room has come meanwhile: nobody has to leave
        left = preemption.without(snapshot, request.nominated_node, of_gang or request.victims)
        return profile.verify(pod, left, request.nominated_node).ok

    async def _caught_up_with(self, binding: KeyValue | None) -> bool:
        """Whether the watch has come to the last bind on the nominated node: only it can tell what that means."""
        revision = binding.mod_revision if binding is not None else 0
        return await self._cache.progress.wait_for(revision, self._catch_up)

    async def _learn_of(self, tenancy: Sequence[Compare], read: Mapping[str, KeyValue | None], revision: int) -> None:
        """Wait for the watch to show a tenant that came or went; raises `Unavailable` when it does not in time."""
        for compare in tenancy:
            kv = read[compare.key]
            if holds(compare, kv):
                continue
            seen = kv.mod_revision if kv is not None else revision
            if not await self._cache.progress.wait_for(seen, self._catch_up):
                raise Unavailable(f"this worker's watch is behind: {compare.key} is another one than it knows")

    async def _write(self, request: RefusalInput, writing: Writing) -> TxnResult:
        if writing.pod is not None:
            try:
                return await self._store.txn(writing.compares, [writing.pod, *writing.writes], writing.reads)
            except RequestTooLarge:
                if request.victims:
                    raise
                # No room for the condition in a pod of this size; the reason is kept in the record.
        return await self._store.txn(writing.compares, writing.writes, writing.reads)

    def writing(self, request: RefusalInput, found: StoredPod, chain: Chain) -> Writing:
        """Condition, nomination and record, about the pod as it was found."""
        now = rfc3339(self._utc_now())
        pod_key = keys.pod(request.namespace, request.name)
        compares = [Compare(pod_key, "mod", found.pod.mod_revision)]
        tenancy = self._eligibility.tenancy(found.pod)
        record = self._record(request, found, chain, now)
        writes: list[Operation] = [Put(keys.attempt(request.namespace, request.name), record.to_bytes())]
        if request.victims:
            key = keys.binding(request.nominated_node)
            compares.append(Compare(key, "mod", self._cache.bindings[request.nominated_node]))
            writes.append(Put(key, version(request)))
        value = refuse_pod(
            found.raw,
            reason=request.reason,
            message=request.message,
            now=now,
            nominated_node_name=request.nominated_node or self._kept(found.pod),
        )
        return Writing(pod_key, [*compares, *tenancy], writes, None if value is None else Put(pod_key, value), tenancy)

    def _kept(self, pod: Pod) -> str:
        """The nomination that stays though the attempt names no node: whoever is in the way there is leaving."""
        if not pod.nominated_node_name:
            return ""
        leaving = preemption.leaving(pod, self._cache.snapshot(), self._utc_now())
        return pod.nominated_node_name if leaving.present else ""

    def _record(self, request: RefusalInput, found: StoredPod, chain: Chain, now: str) -> AttemptRecord:
        return AttemptRecord(
            attempt=request.attempt,
            reason=request.reason,
            plugins=request.rejectors,
            revision=request.revision,
            message=request.message,
            nominated_node=request.nominated_node,
            victims=tuple(victim.pod for victim in request.victims),
            victim_revisions=(
                tuple(victim.create_revision for victim in request.victims) if request.victim_count else None
            ),
            workflow_id=request.workflow_id,
            run_id=request.run_id,
            parked=chain.parked,
            urgent=chain.urgent,
            decided_by=chain.decided_by,
            create_revision=found.pod.create_revision,
            time=now,
        )


def holds(compare: Compare, kv: KeyValue | None) -> bool:
    """Whether the compare would hold for what was read."""
    if kv is None:
        return compare.revision == 0
    return compare.revision == (kv.mod_revision if compare.target == "mod" else kv.create_revision)


def without_nomination(request: RefusalInput) -> RefusalInput:
    """The refusal alone: nobody is evicted."""
    return request.model_copy(update={"nominated_node": "", "victims": (), "victim_count": 0})


def version(request: RefusalInput) -> bytes:
    """The node's binding version, for people: who was nominated there."""
    attempt, pod = f"{request.workflow_id}@{request.run_id}", f"{request.namespace}/{request.name}"
    return json.dumps({"attempt": attempt, "nominated": pod}, separators=(",", ":")).encode()
