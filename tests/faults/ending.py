"""What must be true once the faults are over: no pod is lost, each pod that fits is bound, nothing is left over.

lost        a pending, ungated pod of ours has neither a record nor an open chain
waits       ... though a node fits it (decided by the shipped simulator)
left-over   a record of a pod that is bound or gone
lost-node   a pod is bound to a node that is not there, or is between two lives
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tests.faults.history import Change
from tests.faults.judge import GROUP, MIN_AVAILABLE, Violation
from wharfinger.etcd import keys
from wharfinger.objects.documents.decode import decode_pod
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER, Pod, PodKey
from wharfinger.process.names import DEFAULT_CLUSTER, gang_workflow_id, pod_workflow_id
from wharfinger.process.records import AttemptRecord
from wharfinger.whatif.simulator.simulator import Simulator


class End:
    """The cluster as etcd has it at the end."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._objects: dict[str, Any] = {}
        self.pods: dict[PodKey, Pod] = {}
        self.records: dict[PodKey, AttemptRecord] = {}
        self.nodes: set[str] = set()
        self.requeued: list[str] = []
        for change in changes:
            parsed = keys.parse(change.key)
            if parsed is None or change.value is None:
                continue
            if parsed.prefix == keys.ATTEMPTS:
                namespace, name = parsed.parts
                self.records[PodKey(namespace, name)] = AttemptRecord.model_validate_json(change.value)
            elif parsed.prefix == keys.REQUEUED:
                self.requeued.append(change.key)
            elif parsed.prefix in (keys.PODS, keys.NODES, *keys.SURROUNDINGS):
                self._objects[change.key] = json.loads(change.value)
            if parsed.prefix == keys.NODES:
                self.nodes.add(*parsed.parts)
            if parsed.prefix == keys.PODS:
                key = PodKey(*parsed.parts)
                self.pods[key] = decode_pod(
                    change.value, namespace=key.namespace, name=key.name,
                    create_revision=change.create_revision, mod_revision=change.mod_revision,
                )  # fmt: skip

    @property
    def pending(self) -> list[Pod]:
        """Pods of ours that ought to be placed; members of a gang only once there are enough of them."""
        return [
            pod
            for pod in self.pods.values()
            if pod.pending
            and not pod.scheduling_gates
            and pod.scheduler_name == DEFAULT_SCHEDULER
            and len(self._members(pod)) >= least(pod)
        ]

    def _members(self, pod: Pod) -> list[Pod]:
        """The pod's gang, itself included; a pod without one is a gang of its own."""
        name = pod.labels.get(GROUP)
        if not name:
            return [pod]
        return [
            other
            for other in self.pods.values()
            if other.namespace == pod.namespace and other.labels.get(GROUP) == name and (other.pending or other.bound)
        ]

    def waiting_though_they_fit(self) -> list[Violation]:
        """Decides every pending pod anew, as if it came first; of a gang, as many as must be bound at once."""
        simulator = self._simulator()
        whole: dict[tuple[str, str], bool] = {}
        found = []
        for pod in self.pending:
            decision = simulator.decide(pod.key, preempt=False)
            if not decision.node:
                continue
            missing = least(pod) - sum(1 for member in self._members(pod) if member.bound)
            if missing > 1:
                gang = pod.namespace, pod.labels[GROUP]
                if gang not in whole:
                    whole[gang] = self._fits_whole(pod, missing, simulator)
                if not whole[gang]:
                    continue
            found.append(Violation("waits", 0, f"{pod.key} fits {decision.node}; record: {self._told(pod)}"))
        return found

    def _fits_whole(self, pod: Pod, missing: int, simulator: Simulator) -> bool:
        """Whether so many members of the pod's gang find places one after the other; leaves all as it was.

        The members have no volumes: what a bind does to those would stay.
        """
        assert not any(member.claims for member in self._members(pod))
        placed: list[PodKey] = []
        for member in self._members(pod):
            node = None if member.bound else simulator.decide(member.key, preempt=False).node
            if node and len(placed) < missing:
                simulator.bind(member.key, node)
                placed.append(member.key)
        for key in placed:
            simulator.delete("Pod", key.name, key.namespace)
            simulator.add(self._objects[keys.pod(*key)])
        return len(placed) == missing

    def _simulator(self) -> Simulator:
        simulator = Simulator()
        for obj in self._objects.values():
            simulator.add(obj)
        return simulator

    def on_lost_nodes(self) -> list[Violation]:
        """Pods that are bound to no node that there is, and those whose new life was not put."""
        lost = (pod for pod in self.pods.values() if pod.bound and not pod.finished and pod.node_name not in self.nodes)
        found = [Violation("lost-node", 0, f"{pod.key} is bound to {pod.node_name}, which is gone") for pod in lost]
        return [*found, *(Violation("lost-node", 0, f"{key} is left") for key in self.requeued)]

    def left_over(self) -> list[Violation]:
        """Records without a pod that waits."""
        found = []
        for key, record in self.records.items():
            pod = self.pods.get(key)
            if pod is None or pod.bound:
                what = "is gone" if pod is None else f"is bound to {pod.node_name}"
                found.append(Violation("left-over", 0, f"{key} {what}; record: {record.reason}, {record.workflow_id}"))
        return found

    def without_record(self) -> list[Pod]:
        """Pending pods that no record of this life tells of."""
        return [
            pod
            for pod in self.pending
            if (record := self.records.get(pod.key)) is None or record.create_revision not in (0, pod.create_revision)
        ]

    def _told(self, pod: Pod) -> str:
        record = self.records.get(pod.key)
        return "none" if record is None else f"{record.reason} at {record.revision}, {record.message[:200]}"


async def lost(pods: Sequence[Pod], client: Client) -> list[Violation]:
    """Those of the pods that have no open chain either, of their own or of their gang."""
    found = []
    for pod in pods:
        own = pod_workflow_id(DEFAULT_CLUSTER, pod.namespace, pod.name, pod.uid)
        group = pod.labels.get(GROUP, "")
        ids = [own, *([gang_workflow_id(DEFAULT_CLUSTER, pod.namespace, group)] if group else [])]
        states = [await _state(client, workflow_id) for workflow_id in ids]
        if "RUNNING" not in states:
            found.append(Violation("lost", 0, f"{pod.key} has no record, and its chain is {' and '.join(states)}"))
    return found


async def strays(end: End, client: Client) -> list[str]:
    """Open chains of pods that are bound or gone, or live another life: a safety timer ends them at the latest."""
    wanted = {
        pod_workflow_id(DEFAULT_CLUSTER, pod.namespace, pod.name, pod.uid) for pod in end.pods.values() if pod.pending
    }
    wanted |= {
        gang_workflow_id(DEFAULT_CLUSTER, pod.namespace, pod.labels[GROUP])
        for pod in end.pods.values()
        if pod.pending and GROUP in pod.labels
    }
    running = [run.id async for run in client.list_workflows('ExecutionStatus = "Running"')]
    return sorted(workflow_id for workflow_id in running if workflow_id not in wanted)


async def _state(client: Client, workflow_id: str) -> str:
    try:
        description = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        return "not there"
    return description.status.name if description.status is not None else "unknown"


def least(pod: Pod) -> int:
    """How many members of the pod's gang are to be bound at once; 1 for a pod without one."""
    return int(pod.labels.get(MIN_AVAILABLE, "1")) if GROUP in pod.labels else 1


def counts(end: End) -> Mapping[str, int]:
    """For the report."""
    return {
        "pods": len(end.pods),
        "bound": sum(1 for pod in end.pods.values() if pod.bound),
        "pending": len(end.pending),
    }
