"""Was a pod bound to the node it was decided for, or to another one of that name? The recorded histories tell.

decided     a pod was bound to a node that was made again since the decision
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.faults.judge import Violation
from wharfinger.client import Wharfinger
from wharfinger.objects.model.node import Node
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.reading.history import Attempt
from wharfinger.settings import EtcdSettings

MOST = 40
"""Histories read a round."""


@dataclass(slots=True)
class Outdated:
    """What the histories say."""

    read: int = 0
    violations: list[Violation] = field(default_factory=list)


async def outdated(binds: Sequence[tuple[Pod, Node]], etcd: str, temporal: str) -> Outdated:
    """Which of these binds were decided in an earlier life of their node; of pods that are still there."""
    found = Outdated()
    async with Wharfinger.connect(etcd=EtcdSettings(endpoints=(etcd,)), temporal=temporal) as wharfinger:
        for pod, node in binds[-MOST:]:
            told = await wharfinger.explain(*pod.key)
            bound = [attempt for attempt in told.attempts if _bound_it(attempt, pod)]
            if not bound:
                continue
            found.read += 1
            found.violations += judged(pod, node, int(bound[-1].computation["revision"]))
    return found


def judged(pod: Pod, node: Node, decided: int) -> list[Violation]:
    """Whether the state that was decided on had this life of the node."""
    if decided >= node.create_revision:
        return []
    text = f"{pod.key} on {node.name}, which is there since {node.create_revision}; decided at {decided}"
    return [Violation("decided", pod.mod_revision, text)]


def _bound_it(attempt: Attempt, pod: Pod) -> bool:
    """This attempt bound this life of the pod, to this node, and its history tells what it was decided on."""
    return (
        attempt.outcome == "bound"
        and attempt.node == pod.node_name
        and attempt.placement.get("create_revision") == pod.create_revision
        and "revision" in attempt.computation
    )
