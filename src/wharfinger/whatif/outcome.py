"""What a what-if question is answered with: what becomes of each pod, and how much of the cluster is in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.node import CPU, MEMORY, PODS
from wharfinger.objects.model.pod import PodKey

FIRST = (CPU, MEMORY, PODS)
"""Resources that every cluster has, in this order; others follow by name."""


@dataclass(frozen=True, slots=True)
class Amount:
    """What the pods on the nodes request of a resource, and what the nodes offer: milli-cpu, else bytes or pieces."""

    requested: int
    allocatable: int

    @property
    def percent(self) -> float:
        """Of what is offered, in per cent with one decimal; 0 where nothing is offered."""
        return round(100 * self.requested / self.allocatable, 1) if self.allocatable else 0.0


@dataclass(frozen=True, slots=True)
class Use:
    """The whole cluster's use."""

    nodes: int
    resources: dict[str, Amount]


def use_of(snapshot: Snapshot) -> Use:
    """The use of all nodes together, cordoned ones too; resources that no node offers are left out."""
    offered = {name for info in snapshot.rows for name, amount in info.node.allocatable.items() if amount}
    names = [name for name in FIRST if name in offered] + sorted(offered.difference(FIRST))
    amounts = {
        name: Amount(
            sum(info.requested.get(name, 0) for info in snapshot.rows),
            sum(info.node.allocatable.get(name, 0) for info in snapshot.rows),
        )
        for name in names
    }
    return Use(len(snapshot), amounts)


class Cause(StrEnum):
    """Why a pod is decided for."""

    GIVEN = "given"
    """It stands in the objects given, or a workload there stands for it."""
    WAITING = "waiting"
    """It waits in the live state."""
    DRAINED = "drained"
    """Its node is drained."""
    EVICTED = "evicted"
    """It had to leave for another pod."""


class Result(StrEnum):
    """What becomes of a pod."""

    PLACED = "placed"
    PREEMPTING = "preempting"
    """It is placed after others were evicted for it."""
    REFUSED = "refused"
    GATED = "gated"
    """Its scheduling gates hold it back, or its PriorityClass does not exist."""
    NOT_MADE = "not-made"
    """Admission refuses it, so there is no pod to place."""
    FAILED = "failed"
    """It could not be decided for: a plugin failed, or no profile serves its scheduler's name."""


@dataclass(frozen=True, slots=True)
class PodOutcome:
    """What becomes of one pod."""

    pod: PodKey
    cause: Cause
    result: Result
    workload: str = ""
    """What controls it: `<kind>/<name>`, empty for a pod that no controller makes again."""
    left: str = ""
    """The node it was on before; empty for a pod that had none."""
    node: str | None = None
    nominated_node: str | None = None
    """Where others had to be evicted for it."""
    victims: tuple[PodKey, ...] = ()
    message: str = ""
    """Why it is not placed, in kube-scheduler's words, or not made, in an API server's; empty when it is."""
    refusals: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Plugin that refused first -> reason -> number of nodes; empty when placed."""
    leans_on: tuple[str, ...] = ()
    """What the answer may depend on and the question does not contain, such as the labels of a namespace."""

    @property
    def placed(self) -> bool:
        """Whether it ends up on a node."""
        return self.node is not None

    def uprooted(self, node: str) -> PodOutcome:
        """The same pod, evicted from the node that it was on or had just got: not decided for again yet."""
        return replace(
            self, cause=Cause.EVICTED, left=node, node=None, nominated_node=None, victims=(), result=Result.REFUSED
        )


@dataclass(frozen=True, slots=True)
class SupposedEviction:
    """A pod that had to leave its node for another one."""

    pod: PodKey
    node: str
    preemptor: PodKey


@dataclass(frozen=True, slots=True)
class Answer:
    """What would happen."""

    pods: tuple[PodOutcome, ...]
    """In the order in which they were given; displaced ones behind."""
    evictions: tuple[SupposedEviction, ...]
    before: Use
    after: Use
    notes: tuple[str, ...] = ()
    """What was left out or supposed, in sentences."""
    idle: tuple[str, ...] = ()
    """Of the notes, why given workloads stand for no pods."""

    @property
    def complete(self) -> bool:
        """Whether every pod ends up on a node."""
        return all(pod.placed for pod in self.pods)

    @property
    def reasons(self) -> dict[tuple[str, ...], list[PodKey]]:
        """What stands in the way, sorted -> the pods that are not placed because of just that, the most first.

        Where nothing stands in the way on any node, the message stands for it.
        """
        found: dict[tuple[str, ...], list[PodKey]] = {}
        for outcome in self.pods:
            if not outcome.placed:
                reasons = sorted({reason for counts in outcome.refusals.values() for reason in counts})
                found.setdefault(tuple(reasons) or (outcome.message,), []).append(outcome.pod)
        return dict(sorted(found.items(), key=lambda entry: -len(entry[1])))
