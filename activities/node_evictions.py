"""The activities of `NodeEviction`, as one worker carries them out.

The cache names the pods to look at. `scheduling.effects.clearing_nodes` decides about each on etcd's answer, compares
it in its transaction, and bounds how many nodes are cleared at a time.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable

from temporalio import activity

from wharfinger.etcd import keys
from wharfinger.objects.model.pod import Pod
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.eviction import LISTED
from wharfinger.scheduling.contracts.node_eviction import (
    LONGEST_QUEUED,
    Cleared,
    ClearInput,
    Looked,
    LookInput,
    NodeEvictions,
)
from wharfinger.scheduling.effects.clearing_nodes import NodeBudget, Requeued, Requeueing, TaintEviction
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.settings import NodeEvictionSettings

log = logging.getLogger(__name__)

REQUEUE = "requeue"
CATCH_UP = 2.0
"""Seconds for the cache to see what etcd holds now."""
MOST = 500
"""Pods that one call removes; the next one goes on."""


class NodeEvictionActivities(NodeEvictions):
    """Register with a Temporal worker."""

    def __init__(
        self,
        process: ProcessParts,
        cache: Cache,
        settings: NodeEvictionSettings,
        *,
        mode: str,
        new_uid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """`mode`: how pods leave tainted nodes, `immediate` or `graceful`."""
        store, utc_now = process.store, process.utc_now
        self._store = store
        self._cache = cache
        self._settings = settings
        self._metrics = process.metrics
        self._requeueing = Requeueing(store, new_uid=new_uid, utc_now=utc_now)
        self._taints = TaintEviction(store, cache, mode=mode, utc_now=utc_now)
        self._budget = NodeBudget(store, window=settings.lost_after, known=self._known, utc_now=utc_now)

    @property
    def all(self) -> list[Callable[..., object]]:
        """The activities, for `temporalio.worker.Worker(activities=...)`."""
        return [self.look_at_node, self.clear_node]

    @activity.defn(name="look_at_node")
    async def look_at_node(self, request: LookInput) -> Looked:
        """See `NodeEvictions.look_at_node`."""
        return await self._look(request)

    @activity.defn(name="clear_node")
    async def clear_node(self, request: ClearInput) -> Cleared:
        """See `NodeEvictions.clear_node`."""
        return await self._clear(request)

    async def _look(self, request: LookInput) -> Looked:
        name = request.node
        node = await self._store.get(keys.node(name))
        await self._cache.progress.wait_for(node.revision, CATCH_UP)
        if await self._requeueing.half_done(name):
            due = node.kv is None and self._look_at_absent(name, request.absent_for).action == "clear"
            return Looked(action="clear", why=f"pods of node {name} were deleted and are made anew", absent=due)
        if node.kv is None:
            return self._look_at_absent(name, request.absent_for)
        tainted = (
            self._taints.read(node.kv, request.tainted_since, request.now) if self._settings.taint_eviction else None
        )
        if tainted is None or not tainted.taints:
            return Looked(action="done", why=f"node {name} is there")
        leaving = await self._taints.leaving(tainted, request.now, MOST)
        since = dict(tainted.since)
        if not leaving:
            return Looked(action="done", why=f"every pod tolerates the taints of node {name}")
        left = min(leaving.values()) - request.now
        if left > 0:
            why = f"{len(leaving)} pods tolerate the taints of node {name} for another {left:.0f} s or longer"
            return Looked(action="wait", why=why, seconds=left, tainted_since=since)
        why = f"evict pods that do not tolerate the taints of node {name}"
        return Looked(action="clear", why=why, tainted_since=since)

    def _look_at_absent(self, name: str, absent_for: float) -> Looked:
        pods = self._lost(name)
        if self._settings.lost_pods != REQUEUE or not pods:
            why = f"node {name} does not exist and has no pods" if not pods else "lost pods are only reported"
            return Looked(action="done", why=why, absent=True)
        left = self._settings.lost_after - absent_for
        if left > 0:
            why = f"node {name} does not exist; its {len(pods)} pods are requeued unless it returns in {left:.0f} s"
            return Looked(action="wait", why=why, absent=True, seconds=left)
        return Looked(action="clear", why=f"requeue the {len(pods)} pods of absent node {name}", absent=True)

    async def _clear(self, request: ClearInput) -> Cleared:
        if request.absent and _queued_too_long():
            return Cleared(again=True, notes=(f"no worker was free for {LONGEST_QUEUED.seconds} s: look again",))
        finished = await self._requeueing.finish(request.node)
        if request.absent:
            cleared = await self._requeue(request.node)
        elif self._settings.taint_eviction:
            cleared = await self._evict(request)
        else:
            cleared = Cleared()
        return cleared.model_copy(update={"made_anew": cleared.made_anew + finished})

    async def _requeue(self, node: str) -> Cleared:
        pods = self._lost(node)[:MOST]
        if self._settings.lost_pods != REQUEUE or not pods:
            return Cleared()
        held = await self._held(node)
        if held is not None:
            return held
        done: list[str] = []
        notes: list[str] = []
        made_anew = 0
        for pod in pods:
            _heartbeat()
            became = await self._requeueing.requeue(pod.identity, node)
            if became is Requeued.NODE_RETURNED:
                notes.append(became.value)
                break
            if became not in (Requeued.DELETED, Requeued.MADE_ANEW):
                notes.append(f"{pod.key} {became.value}")
                continue
            done.append(str(pod.key))
            made_anew += became is Requeued.MADE_ANEW
            then = "made_anew" if became is Requeued.MADE_ANEW else "controller" if pod.controller else "nothing"
            self._metrics.requeued_pods.labels(then).inc()
        log.info("node_cleared node=%s pods=%d made_anew=%d", node, len(done), made_anew)
        return Cleared(removed=len(done), made_anew=made_anew, pods=tuple(done[:LISTED]), notes=tuple(notes[:LISTED]))

    async def _evict(self, request: ClearInput) -> Cleared:
        node = await self._store.get(keys.node(request.node))
        tainted = self._taints.read(node.kv, request.tainted_since, request.now) if node.kv is not None else None
        if tainted is None:
            return Cleared()
        now = request.now
        leaving = [identity for identity, at in (await self._taints.leaving(tainted, now, MOST)).items() if at <= now][
            :MOST
        ]
        if not leaving:
            return Cleared()
        held = await self._held(request.node)
        if held is not None:
            return held
        done: list[str] = []
        for one in leaving:
            _heartbeat()
            if await self._taints.evict(one, tainted, now):
                done.append(f"{one.namespace}/{one.name}")
        self._metrics.taint_evictions.inc(len(done))
        log.info("node_evicted node=%s pods=%d", request.node, len(done))
        return Cleared(removed=len(done), pods=tuple(done[:LISTED]))

    async def _held(self, node: str) -> Cleared | None:
        """The outcome where the node may not be cleared now."""
        admission = await self._budget.admit(node)
        if not admission.wait:
            return None
        self._metrics.node_evictions_held.inc()
        log.warning(
            "node_eviction_held node=%s cleared=%d allowed=%d retry_in=%.0f",
            node,
            len(admission.admitted),
            admission.allowed,
            admission.wait,
        )
        window = f"{self._settings.lost_after:.0f} s"
        note = (
            f"{len(admission.admitted)} nodes were cleared within {window}, {admission.allowed} may be: only reported"
        )
        return Cleared(held=admission.wait, notes=(note,))

    def _lost(self, node: str) -> list[Pod]:
        row = self._cache.absent_nodes.get(node)
        pods = row.pods.values() if row is not None else ()
        return sorted((pod for pod in pods if pod.node_name == node), key=lambda pod: pod.key)

    def _known(self, cleared: Iterable[str]) -> int:
        """Nodes that exist, absent ones that pods are bound to, and those that were cleared a short time ago."""
        nodes, absent = self._cache.nodes, self._cache.absent_nodes.items()
        lost = {name for name, row in absent if any(pod.node_name == name for pod in row.pods.values())}
        return len(nodes) + len(lost.union(cleared) - nodes.keys())


def _queued_too_long() -> bool:
    """Whether the activity waited so long for a worker that the look may be wrong; both times are the server's."""
    if not activity.in_activity():
        return False
    info = activity.info()
    return info.started_time - info.scheduled_time > LONGEST_QUEUED


def _heartbeat() -> None:
    if activity.in_activity():
        activity.heartbeat()
