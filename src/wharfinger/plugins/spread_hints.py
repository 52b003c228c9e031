"""Which events may help a pod that hard spread constraints refused. As in kube-scheduler 1.36."""

from __future__ import annotations

from wharfinger.model.events import Action, ClusterEvent
from wharfinger.model.node import Node
from wharfinger.model.pod import Pod
from wharfinger.plugins.spread_constraints import Spread


def pod_helps(waiting: Pod, spreads: tuple[Spread, ...], event: ClusterEvent) -> bool:
    """A pod that counts in a constraint comes or goes or changes sides; the waiting pod's own labels or tolerations."""
    old = event.old if isinstance(event.old, Pod) else None
    new = event.new if isinstance(event.new, Pod) else None
    if any(pod is not None and not _involved(pod, waiting) for pod in (old, new)):
        return False
    if old is None or new is None:
        pod = new or old
        return pod is not None and any(spread.matches(pod.labels) for spread in spreads)
    if old.tolerations != new.tolerations and new.uid == waiting.uid and _honor_taints(spreads):
        return True
    return old.labels != new.labels and any(
        spread.matches(old.labels) is not spread.matches(new.labels) for spread in spreads
    )


def node_helps(spreads: tuple[Spread, ...], event: ClusterEvent) -> bool:
    """A node with all topology keys comes or goes, gets or loses one, gets another value, or other taints."""
    keys = [spread.constraint.topology_key for spread in spreads]
    old = event.old if isinstance(event.old, Node) else None
    new = event.new if isinstance(event.new, Node) else None
    before = old is not None and all(key in old.labels for key in keys)
    after = new is not None and all(key in new.labels for key in keys)
    if old is None or new is None:
        return before or after
    if before is not after:
        return True
    return after and (old.taints != new.taints or any(old.labels[key] != new.labels[key] for key in keys))


def _involved(pod: Pod, waiting: Pod) -> bool:
    return pod.uid == waiting.uid or (pod.bound and pod.namespace == waiting.namespace)


def _honor_taints(spreads: tuple[Spread, ...]) -> bool:
    return any(spread.constraint.honor_node_taints for spread in spreads)


POD_ACTIONS = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
NODE_ACTIONS = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
