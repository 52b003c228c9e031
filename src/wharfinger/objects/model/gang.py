"""Gangs: pods that are placed together or not at all, and what says which pods those are.

A pod names its group by labels or by `spec.schedulingGroup`; a PodGroup object may say the rest. `gang_of` puts
together what all of them say. A gang that cannot be told from it waits, and its members' gate says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from wharfinger.objects.model.names import is_dns_subdomain, is_label_value, is_qualified_name
from wharfinger.objects.model.pod import Pod

MOST_TOGETHER = 500
"""Members that can be placed together, whatever etcd takes in one transaction."""
_KIND = "PodGroup"
GANG_SCHEDULING = "GangScheduling"
"""Under this name a gang's own rules refuse, as kube-scheduler's plugin does: too few members, no domain for all."""


class GangKey(NamedTuple):
    """Where a gang lies; sorts by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PodGroup:
    """A PodGroup object: how many of its pods are placed together, and where."""

    namespace: str
    name: str
    min_count: int = 0
    """0 = the basic policy: its pods are ordinary ones."""
    topology_keys: tuple[str, ...] = ()
    """Labels of nodes; all members are placed on nodes with one value of each."""


@dataclass(frozen=True, slots=True)
class Gang:
    """What holds for the members of one group."""

    key: GangKey
    min_available: int
    """Members that have to be bound at least; 0 or 1 = they need no other member."""
    topology_keys: tuple[str, ...] = ()
    """The node labels that all members' nodes have the same value of, sorted; empty = anywhere."""

    def together(self, bound: int) -> bool:
        """Whether its pending members are placed as one, when so many are bound already."""
        return bool(self.topology_keys) or bound < self.min_available > 1

    def required(self, bound: int) -> int:
        """How many more members have to be placed at once, at least; never 0, for one is placed in any case."""
        return max(1, self.min_available - bound)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A gang that is to be placed."""

    members: tuple[Pod, ...]
    """To be placed, in order (see `in_order`)."""
    required: int
    """Of these, at least so many have to be placed together."""
    bound: tuple[Pod, ...] = ()
    """Members that have a node already."""
    topology_keys: tuple[str, ...] = ()
    """All members go to nodes with one value of each of these labels; empty = anywhere."""

    @property
    def least_priority(self) -> int:
        """Pods may be evicted for the gang below this: below each of its members, bound ones too."""
        return min(pod.priority for pod in (*self.members, *self.bound))


def in_order(members: Iterable[Pod]) -> tuple[Pod, ...]:
    """The order in which members are placed: by priority, then by age, then by name."""
    return tuple(sorted(members, key=lambda pod: (-pod.priority, pod.create_revision, pod.name)))


def gang_key(pod: Pod) -> GangKey | None:
    """The gang that the pod names; None for a pod of its own."""
    return GangKey(pod.namespace, pod.group) if pod.group else None


def counts(pod: Pod) -> bool:
    """Whether the pod is one of its gang's members: bound, or still to be placed."""
    return not pod.finished and (pod.bound or not pod.deletion_timestamp)


def gang_of(key: GangKey, members: Iterable[Pod], group: PodGroup | None) -> Gang | str:
    """What holds for the gang of these pods; a text when that is unclear: why they wait.

    Of different numbers the largest counts, so no member is left behind by one that asks for less. A PodGroup's number
    counts with them. One member, or the PodGroup, may name several topology keys; all that name any must name the same.
    `group`: the object of the gang's name, None when there is none.
    """
    members = tuple(members)
    wrong = next((pod for pod in members if pod.gang.problem), None)
    if wrong is not None:
        return f"{wrong.name}: {wrong.gang.problem}"
    if group is None and any(pod.gang.by_object for pod in members):
        return f"{_KIND} {key} does not exist"
    schedulers = sorted({pod.scheduler_name for pod in members})
    if len(schedulers) > 1:
        return f"its members name several schedulers: {', '.join(schedulers)}"
    named = {pod.gang.topology_keys for pod in members} | {tuple(sorted({*group.topology_keys})) if group else ()}
    keys = sorted(named - {()})
    if len(keys) > 1:
        return f"different topology keys are named: {' or '.join(map(' and '.join, keys))}"
    least = max([group.min_count if group else 0, *(pod.gang.min_available for pod in members)])
    return Gang(key, least, keys[0] if keys else ())


@dataclass(frozen=True, slots=True)
class Standing:
    """How a gang stands now."""

    held: str = ""
    """Why its members are held back, for people; empty when they are not."""
    gang: Gang | None = None
    """What its pending members are placed as; None when they are held, or each is placed by itself, as any pod."""


def standing(
    key: GangKey,
    members: Iterable[Pod],
    group: PodGroup | None,
    *,
    gated: Callable[[Pod], bool] = lambda pod: bool(pod.scheduling_gates or pod.class_missing),
) -> Standing:
    """How the gang of these pods stands. `gated`: whether a pod is held back for a reason of its own."""
    members = [pod for pod in members if counts(pod)]
    gang = gang_of(key, members, group)
    if isinstance(gang, str):
        return Standing(held=_held(gang))
    bound = sum(pod.bound for pod in members)
    waiting = sum(not pod.bound and not gated(pod) for pod in members)
    if bound + waiting < gang.min_available and gang.together(bound):
        return Standing(held=_held(f"{bound + waiting} of {gang.min_available} members exist"))
    required = gang.required(bound)
    if gang.together(bound) and required > MOST_TOGETHER:
        return Standing(held=_held(f"it needs {required} members at once, and {MOST_TOGETHER} are the most"))
    return Standing(gang=gang if gang.together(bound) else None)


def _held(why: str) -> str:
    """Why members are held back, as one sentence about their PodGroup, which it names once."""
    return why if why.startswith(f"{_KIND} ") else f"{_KIND}: {why}"


def problem_of(group: str, min_available: str | None, topology_keys: Iterable[str]) -> str:
    """What is wrong with what a pod says of its gang; empty when nothing is."""
    if not is_label_value(group) and not is_dns_subdomain(group):
        return f"its group {group[:80]!r} is no name"
    if min_available is not None and number_of(min_available) is None:
        return f"min-available {min_available[:20]!r} is no positive number"
    for key in topology_keys:
        if not is_qualified_name(key):
            return f"its topology key {key[:80]!r} is no label's name"
    return ""


def number_of(text: str) -> int | None:
    """A positive number as labels spell it; None for anything else."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        return None
    return int(text) or None
