"""Starts a workflow for each node whose pods cannot stay: absent nodes, tainted nodes, half-requeued pods.

Level-triggered: a node's caretaker starts the node's workflow again until etcd shows no need any more; a start joins
the open run. Changes in the meantime are signalled, so that the run reads etcd again. An idle cluster causes no start
and no write.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RPCError, RPCStatusCode

from wharfinger.etcd import keys
from wharfinger.objects.model.names import is_dns_subdomain
from wharfinger.objects.model.node_evictions import leaves, no_execute
from wharfinger.objects.model.pod import Pod
from wharfinger.process.names import COMMON, NODE_EVICTION, SEARCH_NODE, node_workflow_id, task_queue
from wharfinger.process.rendezvous import Ring
from wharfinger.scheduling.contracts.node_eviction import NodeInput, node_retry
from wharfinger.scheduling.effects.open_runs import RPC_TIMEOUT, TASK_TIMEOUT, kept, queue_of_open
from wharfinger.scheduling.loops.shards import Instances, Shards
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import printable
from wharfinger.scheduling.state.informer.view import View
from wharfinger.settings import NodeEvictionSettings


class Caretakers:
    """Which worker looks after a node: rendezvous hashing over the ready workers of the common pool.

    While the common pool has no ready worker, the workers of all tenants share the nodes. Two workers that disagree
    for a moment start the same workflow id, and the second start joins the first.
    """

    def __init__(self, instances: Instances, shards: Shards) -> None:
        self._instances = instances
        self._shards = shards
        self._ring = Ring()

    def mine(self, node: str) -> bool:
        """Whether this worker looks after the node, present or absent."""
        me = self._shards.me
        return me is not None and self._current().owner(f"node/{node}") == me

    def serves(self, tenant: str) -> bool:
        """Whether a worker of the pool is ready."""
        return bool(self._instances.pool(tenant).ready())

    def _current(self) -> Ring:
        members = self._instances.pool(COMMON).ready() or self._instances.ready()
        if members != self._ring.members:
            self._ring = Ring(members)
        return self._ring


class LostPods:
    """The pods that are bound to a node that does not exist, read from the rows that the cache keeps of absent nodes.

    A node whose stored object cannot be read exists, so its pods are not lost. Finished pods use nothing and are not
    lost.
    """

    def __init__(self, view: View, caretakers: Caretakers) -> None:
        self._view = view
        self._cache: Cache = view.cache
        self._caretakers = caretakers

    def nodes(self) -> Iterator[str]:
        """The absent nodes that pods are bound to and that this worker looks after."""
        return (name for name in self._cache.absent_nodes if self._caretakers.mine(name) and any(self.on(name)))

    def on(self, node: str) -> Iterator[Pod]:
        """The lost pods of the node; none while the node exists."""
        row = self._cache.absent_nodes.get(node)
        if row is None or self._view.exists(keys.node(node)):
            return iter(())
        return (pod for pod in row.pods.values() if pod.node_name == node)

    def count(self) -> int:
        """The lost pods of all nodes that this worker looks after: the sum over all workers counts each pod once."""
        return sum(len(list(self.on(name))) for name in self.nodes())


log = logging.getLogger(__name__)

EVERY = 1.0
"""Seconds between two looks."""
AGAIN = 60.0
"""Seconds until a workflow is started again while its node is in need."""
OPEN = 500
"""Workflows that one caretaker keeps open; other nodes come later. A tenth of the nodes is cleared at a time anyway."""
RECONCILE = "poke"
RETURNED = "returned"
_PASSING = frozenset({RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.RESOURCE_EXHAUSTED})
"""Temporal is away or busy, whatever the node."""


@dataclass(frozen=True, slots=True)
class Need:
    """Why a node needs its workflow; a changed need is signalled."""

    absent: bool
    mark: Hashable = None


class NodeEvictionStarter:
    """Notes changes as a `Subscriber`; starts and signals workflows in a task of its own."""

    follows = ("nodes",)

    def __init__(
        self,
        settings: NodeEvictionSettings,
        view: View,
        caretakers: Caretakers,
        starter: TemporalNodes,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._requeues = settings.lost_pods == "requeue"
        self._evicts = settings.taint_eviction
        self._view = view
        self.lost = LostPods(view, caretakers)
        self._caretakers = caretakers
        self._starter = starter
        self._clock = clock
        self._every = EVERY
        self._tainted: set[str] = set()
        """Nodes with a NoExecute taint."""
        self._told: dict[str, tuple[Need, float]] = {}
        """Nodes whose workflow was started, for what need and when."""
        self._returned: set[str] = set()
        """Absent ones of them that appeared again."""
        self._vanished: set[str] = set()
        """Nodes that existed until a short time ago: a run that is still open has not seen them."""
        self._marks: dict[str, tuple[int, Hashable]] = {}
        """Of tainted nodes: the row's stamp, and which pods have to leave."""

    def apply(self, changes: Changes) -> None:
        """Note which nodes came back, and which have taints that evict."""
        for change in changes.nodes:
            if self._evicts and change.new is not None and no_execute(change.new.taints):
                self._tainted.add(change.name)
            else:
                self._tainted.discard(change.name)
                self._marks.pop(change.name, None)
            if self._requeues and change.new is None:
                self._vanished.add(change.name)
            told = self._told.get(change.name)
            if change.new is not None and told is not None and told[0].absent:
                self._returned.add(change.name)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except RPCError as error:
                log.debug("node_eviction_not_started error=%r effect=tried_again", str(error))
            except Exception:  # one failing look must not end the loop
                log.exception("node_eviction_look_failed")

    async def look(self) -> None:
        """Start and signal what is due. Raises `RPCError` where Temporal is away; the next look goes on from there."""
        wanted = self._wanted()
        for node in sorted(self._returned):
            await self._starter.signal(node, RETURNED)
            self._returned.discard(node)
        for node in [node for node in self._told if node not in wanted]:
            if self._caretakers.mine(node):
                await self._starter.signal(node, RECONCILE)
            del self._told[node]
        now = self._clock()
        for node, need in wanted.items():
            before, at = self._told.get(node, (None, 0.0))
            if before is None and len(self._told) >= OPEN:
                continue
            if before is None or before != need or now - at >= AGAIN:
                await self._start(node, self._signal_for(node, need, before))
                self._told[node] = need, now
        self._vanished &= wanted.keys() - self._told.keys()

    def _signal_for(self, node: str, need: Need, before: Need | None) -> str:
        """The signal that an open run needs; empty = none.

        One that was open before this worker looked after the node may wait for the node since an earlier absence.
        """
        if before is None:
            return RETURNED if need.absent and node in self._vanished else ""
        return RECONCILE if before != need else ""

    async def _start(self, node: str, signal: str) -> None:
        """Start one workflow; a refusal that concerns this node alone must not delay the others."""
        try:
            await self._starter.start(node, signal=signal, serves=self._caretakers.serves)
        except RPCError as error:
            if error.status in _PASSING:
                raise
            log.warning("node_eviction_refused node=%s retry_in=%g error=%r", printable(node), AGAIN, str(error))

    def _wanted(self) -> dict[str, Need]:
        """The nodes in need that this worker looks after.

        A pod may name any text as its node. What cannot be the name of a node is only reported.
        """
        wanted = {node: Need(absent=False) for node in self._view.requeued if self._caretakers.mine(node)}
        if self._evicts:
            marks = {node: self._mark(node) for node in self._tainted if self._caretakers.mine(node)}
            wanted |= {node: Need(absent=False, mark=mark) for node, mark in marks.items() if mark is not None}
        if self._requeues:
            lost = [node for node in self.lost.nodes() if any(map(self._readable, self.lost.on(node)))]
            wanted |= dict.fromkeys(lost, Need(absent=True))
        return {node: need for node, need in wanted.items() if is_dns_subdomain(node)}

    def _mark(self, node: str) -> Hashable:
        """Which pods have to leave the tainted node, and for what; None = no pod has to."""
        row = self._view.cache.node_info(node)
        if row is None:
            return None
        stamp, mark = self._marks.get(node, (0, None))
        if stamp != row.stamp:
            taints = no_execute(row.node.taints)
            staying = (pod for pod in row.pods.values() if pod.bound and not pod.deletion_timestamp)
            pods = [pod.identity for pod in staying if leaves(pod.tolerations, taints) and self._readable(pod)]
            mark = (tuple((taint, taint.time_added) for taint in taints), frozenset(pods)) if pods else None
            self._marks[node] = row.stamp, mark
        return mark

    def _readable(self, pod: Pod) -> bool:
        return keys.pod(*pod.key) not in self._view.invalid


NODE_KEY = SearchAttributeKey.for_keyword(SEARCH_NODE)


class TemporalNodes:
    """Workflows of nodes on the task queue of one pool."""

    def __init__(self, client: Client, *, cluster: str, tenant: str) -> None:
        self._client = client
        self._cluster = cluster
        self._queue = task_queue(cluster, tenant)

    async def start(self, node: str, *, signal: str, serves: Callable[[str], bool]) -> None:
        """Start the node's workflow, or join the open run; a signal that is not empty goes to whichever is open then.

        An open run on the task queue of a pool for which `serves` is False is terminated first: no worker polls there.
        Raises `temporalio.service.RPCError`.
        """
        stranded = await self._stranded(node, serves)
        terminate, use = WorkflowIDConflictPolicy.TERMINATE_EXISTING, WorkflowIDConflictPolicy.USE_EXISTING
        await self._client.start_workflow(
            NODE_EVICTION,
            NodeInput(node=node).model_dump(exclude_defaults=True),
            id=node_workflow_id(self._cluster, node),
            task_queue=self._queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=terminate if stranded else use,
            retry_policy=node_retry(),
            task_timeout=TASK_TIMEOUT,
            search_attributes=TypedSearchAttributes([SearchAttributePair(NODE_KEY, node)]),
            static_summary=f"node {node}",
            static_details="Removes the pods of a node that does not exist, or that do not tolerate its taints.",
            start_signal=signal or None,
            rpc_timeout=RPC_TIMEOUT,
        )

    async def signal(self, node: str, signal: str) -> None:
        """Signal the open run; without effect when there is none. Raises `RPCError`."""
        handle = self._client.get_workflow_handle(node_workflow_id(self._cluster, node))
        await kept(handle.signal(signal, rpc_timeout=RPC_TIMEOUT))

    async def _stranded(self, node: str, serves: Callable[[str], bool]) -> bool:
        """Whether the open run lies on the task queue of a pool that has no ready worker."""
        queue = await queue_of_open(self._client, node_workflow_id(self._cluster, node))
        return queue not in ("", self._queue) and not serves(queue.rpartition("/")[2])
