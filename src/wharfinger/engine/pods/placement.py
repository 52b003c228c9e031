"""Choosing a node for one pod, on this worker's snapshot, and holding the seat.

From the snapshot to the assumption nothing is awaited: two decisions of one worker never see the same
room. What the cache says never ends an attempt (it may be behind): `Gone` follows a linearizable read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import datetime

from wharfinger.cache.cache import Cache
from wharfinger.contracts.computation import Computation, NodeScore, OwnNodes
from wharfinger.contracts.eviction import Victim
from wharfinger.contracts.names import pod_workflow_id
from wharfinger.contracts.scheduling import Gone, PermitWait, Placed, PlaceInput, PlaceOutcome, Refused
from wharfinger.engine.failures import behind, wrong_id
from wharfinger.engine.pods import payload, preemption
from wharfinger.engine.pods.eligibility import Eligibility, Life, StoredPod
from wharfinger.engine.pods.gang_members import GangMembers
from wharfinger.engine.pods.preemption import Leaving
from wharfinger.engine.pods.tally import Tally
from wharfinger.engine.pods.verification import Verification
from wharfinger.errors import PluginError, Unavailable
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.framework.sampling import Start
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status
from wharfinger.model.pod import Pod, PodKey
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

READ_LIMIT = 0.8
"""Seconds for the one read of a decision; with the waits for the watch it stays below the activity's time-out."""


class Placements:
    """Decides for the pods of one worker's attempts."""

    def __init__(
        self,
        *,
        cache: Cache,
        profiles: Mapping[str, Profile],
        eligibility: Eligibility,
        members: GangMembers,
        verification: Verification,
        cluster: str,
        identity: str,
        behind_limit: float,
        preferred_nodes: PreferredNodes,
        start: Start,
        metrics: Metrics,
        tally: Tally,
        utc_now: Callable[[], datetime],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`identity`: this worker's name for people; `behind_limit`: seconds to wait for the watch; `start`: shared
        by all that decide here.
        """
        self._cache = cache
        self._profiles = profiles
        self._eligibility = eligibility
        self._members = members
        self._verification = verification
        self._cluster = cluster
        self._identity = identity
        self._behind_limit = behind_limit
        self._preferred_nodes = preferred_nodes
        self._start = start
        self._metrics = metrics
        self._tally = tally
        self._utc_now = utc_now
        self._clock = clock

    async def place(self, request: PlaceInput) -> PlaceOutcome:
        """Decide and assume. Raises `StoreError`, `PluginError`, and the failures Behind and WrongWorkflowId."""
        pod = await self._look_up(request)
        if isinstance(pod, Gone):
            return pod
        try:
            return payload.fitted(self._decide(pod))
        except Exception:
            self._tally.failed(pod.scheduler_name)
            raise

    # --- which pod ----------------------------------------------------------------------------

    async def _look_up(self, request: PlaceInput) -> Pod | Gone:
        """The pod as the cache has it, not older than the request says; Gone after asking etcd."""
        life = Life(PodKey(request.namespace, request.name), request.uid)
        began = self._clock()
        caught_up = await self._cache.progress.wait_for(request.revision, self._behind_limit)
        left = self._behind_limit - (self._clock() - began) if caught_up else 0.0
        if caught_up and request.revision:
            found = self._known(life, request)
            if found is not None:
                return found
        stored = await self._read(life)
        if isinstance(stored, Gone):
            return stored
        self._check_id(stored.pod, request)
        # A revision that does not exist is of the time before etcd was restored: nothing waits for it.
        exists = request.revision <= stored.read_at
        wanted = max(stored.pod.mod_revision, request.revision if exists else 0)
        found = self._known(life, request) if await self._cache.progress.wait_for(wanted, max(0.0, left)) else None
        if found is None:  # behind, or it changed once more: the next attempt sees what it became
            raise behind(self._cache.progress.revision, wanted)
        return found

    async def _read(self, life: Life) -> StoredPod | Gone:
        try:
            async with asyncio.timeout(READ_LIMIT):
                return await self._eligibility.read(life)
        except TimeoutError:
            raise Unavailable(f"etcd did not tell pod {life.key} within {READ_LIMIT:g} s") from None

    def _known(self, life: Life, request: PlaceInput) -> Pod | None:
        """The cached pod when it is to be placed by this run, None when etcd has to be asked."""
        found = self._eligibility.from_cache(life)
        if found is None or self._right_id(found.pod) != request.workflow_id:
            return None
        # While a bind of this very pod is out and unanswered, only etcd knows.
        return None if self._cache.is_sent(found.pod.identity) else found.pod

    def _right_id(self, pod: Pod) -> str:
        return pod_workflow_id(self._cluster, pod.namespace, pod.name, pod.uid)

    def _check_id(self, pod: Pod, request: PlaceInput) -> None:
        right = self._right_id(pod)
        if right != request.workflow_id:
            raise wrong_id(f"pod {pod.key}", request.workflow_id, right)

    # --- which node ---------------------------------------------------------------------------

    def _decide(self, pod: Pod) -> Placed | Refused:
        profile = self._profiles[pod.scheduler_name]
        began = self._clock()
        snapshot = self._cache.snapshot(excluding=pod.identity)
        gate = self._members.keeps(pod) or profile.gate(pod)
        if not gate.ok:
            return self._refused_by(pod, gate, self._computation(pod, profile, snapshot, began))
        start = self._start.position
        evaluation = profile.evaluate(pod, snapshot, start=start, preference=self._preferred_nodes.preference(snapshot))
        self._start.position = evaluation.next_start
        node_name = evaluation.node
        self._metrics.algorithm_duration.observe(self._clock() - began)
        computation = self._computation(
            pod,
            profile,
            snapshot,
            began,
            feasible=evaluation.feasible_count,
            start=start,
            own_nodes=payload.own_nodes(self._preferred_nodes) if evaluation.by_preference else None,
        )
        if node_name is None:
            return self._refused(pod, profile, snapshot, evaluation, computation)
        return self._placed(pod, profile, evaluation, node_name, computation)

    def _placed(
        self, pod: Pod, profile: Profile, evaluation: Evaluation, node_name: str, computation: Computation
    ) -> Placed | Refused:
        """Reserve, permit, and assume the pod on its node."""
        state = evaluation.state
        status = profile.reserve(state, pod, node_name)
        if not status.ok:
            return self._refused_by(pod, status, computation)
        permission = profile.permit(state, pod, node_name)
        wait = None
        if permission.status.code is Code.WAIT:
            wait = PermitWait(plugin=permission.status.plugin, seconds=permission.timeout)
        elif not permission.status.ok:
            profile.unreserve(state, pod, node_name)
            return self._refused_by(pod, permission.status, computation)
        before = self._cache.node_info(node_name)
        self._cache.assume(pod, node_name, held=wait.seconds if wait is not None else 0.0)
        self._verification.decided(pod, node_name, before)
        ranking, passed_over = evaluation.ranking(payload.RANKED_LIMIT), evaluation.passed_over
        return Placed(
            uid=pod.uid,
            create_revision=pod.create_revision,
            pod_revision=pod.mod_revision,
            node=node_name,
            node_revision=self._cache.nodes[node_name].mod_revision,
            score=ranking[0].total if ranking else None,
            ranking=payload.ranking(ranking),
            passed_over=NodeScore(node=passed_over.node, total=passed_over.total) if passed_over else None,
            refusals=payload.refusals(evaluation.refusals),
            computation=computation,
            permit=wait,
            plugin_data=state.baggage,
        )

    def _refused(
        self, pod: Pod, profile: Profile, snapshot: Snapshot, evaluation: Evaluation, computation: Computation
    ) -> Refused:
        self._tally.refused(profile.name, computation.micros / 1e6)
        leaving = self._leaving(pod, snapshot)
        nominated, victims = evaluation.nominated_node or "", preemption.victims(evaluation.victims)
        if profile.at.get("postFilter"):
            self._metrics.preemption_attempts.inc()
        # Who is only assumed is not in etcd to be evicted: the next attempt sees it bound, or gone.
        only_assumed = self._fits_without_assumed(pod, profile) or self._any_assumed(victims)
        if only_assumed:
            nominated, victims = "", ()
        if victims:
            self._metrics.preemption_victims.observe(len(victims))
        return Refused(
            uid=pod.uid,
            create_revision=pod.create_revision,
            pod_revision=pod.mod_revision,
            message=payload.message(evaluation.message + leaving.report),
            refusals=payload.refusals(evaluation.refusals),
            rejectors=evaluation.rejectors,
            only_assumed=only_assumed,
            nominated_node=nominated or (pod.nominated_node_name if leaving.present else ""),
            victims=victims,
            leaving=leaving.seconds,
            computation=computation,
        )

    def _refused_by(self, pod: Pod, status: Status, computation: Computation) -> Refused:
        """Refused by one plugin before or after the nodes were looked at."""
        if status.code is Code.ERROR:
            raise PluginError(status.plugin, "place", status.message)
        profile = self._profiles[pod.scheduler_name]
        self._tally.refused(profile.name, computation.micros / 1e6)
        return Refused(
            uid=pod.uid,
            create_revision=pod.create_revision,
            pod_revision=pod.mod_revision,
            message=payload.message(status.message),
            refusals=payload.refusals({status.plugin: {status.message: computation.nodes}}),
            rejectors=(status.plugin,),
            computation=computation,
        )

    def _fits_without_assumed(self, pod: Pod, profile: Profile) -> bool:
        """Whether only pods that this worker assumes are in the way: then no event may ever come."""
        identity = pod.identity
        if all(one.identity == identity for one in self._cache.assumed()):
            return False
        snapshot = self._cache.snapshot(without_assumed=True)
        return profile.evaluate(pod, snapshot, preempt=False).node is not None

    def _any_assumed(self, victims: tuple[Victim, ...]) -> bool:
        assumed = {one.identity for one in self._cache.assumed()}
        return any(preemption.identity(victim) in assumed for victim in victims)

    def _leaving(self, pod: Pod, snapshot: Snapshot) -> Leaving:
        """Victims of an earlier attempt that the pod waits for."""
        leaving = preemption.leaving(pod, snapshot, self._utc_now())
        if leaving.overdue:
            self._metrics.evictions_overdue.inc()
            log.warning("evictions_overdue preemptor=%s victims=%s", pod.key, list(map(str, leaving.overdue)))
        return leaving

    def _computation(
        self,
        pod: Pod,
        profile: Profile,
        snapshot: Snapshot,
        began: float,
        *,
        feasible: int = 0,
        start: int = 0,
        own_nodes: OwnNodes | None = None,
    ) -> Computation:
        """What is needed to decide the same again, and what it took."""
        identity = pod.identity
        assumed, approximate = payload.overlay(one for one in self._cache.assumed() if one.identity != identity)
        nominated, too_many = payload.nominated(snapshot.nominated, pod)
        return Computation(
            revision=snapshot.revision,
            profile=profile.digest,
            profile_name=profile.name,
            assumed=assumed,
            nominated=nominated,
            start=start,
            own_nodes=own_nodes,
            approximate=approximate or too_many,
            nodes=len(snapshot),
            feasible=feasible,
            worker=self._identity,
            fleet_revision=self._tally.fleet_revision,
            micros=round((self._clock() - began) * 1e6),
        )
