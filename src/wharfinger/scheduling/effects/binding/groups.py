"""A group of pods that are decided together, by its policy, and what a decision comes to.

===========  =====================  ===========================  ==================
group        Permit asks to wait    preemption                   unit
===========  =====================  ===========================  ==================
lone pod     the seat is held       nominates, names victims     the pod
cohort       an own attempt         an own attempt               each pod
gang         refuses                for all members, or none     all members
===========  =====================  ===========================  ==================
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.status import Status
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.contracts.computation import LateVerdict
from wharfinger.scheduling.contracts.eviction import Victim
from wharfinger.scheduling.contracts.scheduling import PermitWait

Nomination = tuple[str, tuple[Victim, ...]]
"""A node, and the pods that must leave it."""


@dataclass(frozen=True, slots=True)
class Policy:
    """How a group differs from others where it is decided."""

    activity: str
    """Named in the error of a plugin that answers with one."""
    holds: bool = False
    """The seat of a pod that Permit lets wait is held; else the wait is a refusal."""
    own_attempt: bool = False
    """Preemption, and pods that only assumed ones hinder, are left to an attempt of the pod's own."""


LONE = Policy("place", holds=True)
COHORT = Policy("place_many", own_attempt=True)
GANG = Policy("place_many")


@dataclass(frozen=True, slots=True)
class Chosen:
    """A pod has a node, and is assumed there."""

    pod: Pod
    node: str
    evaluation: Evaluation
    wait: PermitWait | None = None
    """How long Permit holds the pod; None = it may be bound at once."""


@dataclass(frozen=True, slots=True)
class Late:
    """A refusal of Reserve or Permit, which has been undone already."""

    status: Status
    verdict: LateVerdict


@dataclass(frozen=True, slots=True)
class MadeRoom:
    """What preemption can do for pods that fit nowhere."""

    nominated: Mapping[PodKey, Nomination] = field(default_factory=dict)
    """Where each pod will fit once its victims have left."""
    only_assumed: bool = False
    """Only pods that are not bound yet are in the way, so no event may ever come: place again."""
    leaving: float = 0.0
    """Seconds until earlier victims are overdue; 0 = the pods wait for none, or too long."""
    waits: bool = False
    """Victims of an earlier attempt are still there: the pods keep their nominations."""
    report: str = ""
    """For people: what hinders preemption. Begins with a space unless it is empty."""
    clock: str = ""
    """The time of day that was read (RFC 3339); empty where none was."""

    def of(self, pod: Pod) -> Nomination:
        """The pod's nomination from now on (empty = none), and who is evicted for it."""
        return self.nominated.get(pod.key) or (pod.nominated_node_name if self.waits else "", ())


NO_ROOM = MadeRoom()


@dataclass(frozen=True, slots=True)
class Denied:
    """No node now, as it is decided; it travels as `Refused` of a lone pod, or as `TurnedAway`."""

    counts: Mapping[str, Mapping[str, int]]
    """Plugin -> reason -> nodes that it refused first."""
    message: str
    rejectors: tuple[str, ...]
    room: MadeRoom = NO_ROOM
    own_attempt: bool = False
    """An attempt of the pod's own may help at once."""
    late: LateVerdict | None = None
    """Who refused the node that was chosen; None = no node was."""
