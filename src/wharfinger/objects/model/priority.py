"""PriorityClasses: which priority and preemption policy a pod has.

Kubernetes' admission writes both into a pod as it is created. Pods in etcd may lack them, so every reader resolves them
here, by the classes as they are: live scheduling, waking, preemption, gangs, simulation and explanation alike. Fields
that the pod has count as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from wharfinger.objects.model.pod import PREEMPT_LOWER_PRIORITY, ClassTerms, Pod

HIGHEST_OF_USERS = 1_000_000_000
"""The largest value of a class that users may create."""
SYSTEM_PREFIX = "system-"
"""Names of classes that begin with it are the system's."""
PRIORITY_CLASS = "PriorityClass"
"""Under this name a pod is held back whose class does not exist."""


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A PriorityClass."""

    name: str
    value: int
    global_default: bool = False
    """Whether it counts for pods that name no class."""
    preemption_policy: str = PREEMPT_LOWER_PRIORITY


SYSTEM_CLASSES: Mapping[str, PriorityClass] = MappingProxyType({
    one.name: one
    for one in (
        PriorityClass("system-cluster-critical", 2_000_000_000),
        PriorityClass("system-node-critical", 2_000_001_000),
    )
})  # fmt: skip
"""The classes that every cluster has, whether or not they are stored."""


@dataclass(frozen=True, slots=True)
class PriorityClasses:
    """The stored classes at one revision; a change makes a new value."""

    by_name: Mapping[str, PriorityClass] = field(default_factory=dict)
    default: PriorityClass | None = field(init=False, compare=False)
    """The global default. Of several the one with the lowest value counts, as in Kubernetes' admission, and of equal
    ones the first by name; None = there is none.
    """

    def __post_init__(self) -> None:
        defaults = [one for one in self.by_name.values() if one.global_default]
        object.__setattr__(self, "default", min(defaults, key=lambda one: (one.value, one.name), default=None))

    def with_class(self, one: PriorityClass) -> PriorityClasses:
        """With this class, in the place of an older state of it."""
        return PriorityClasses({**self.by_name, one.name: one})

    def without(self, name: str) -> PriorityClasses:
        """Without one class."""
        return PriorityClasses({known: one for known, one in self.by_name.items() if known != name})

    def find(self, name: str) -> PriorityClass | None:
        """The class that a pod means by this name; empty = the global default. None when there is none."""
        if not name:
            return self.default
        return SYSTEM_CLASSES.get(name) or self.by_name.get(name)

    def give(self, terms: ClassTerms) -> tuple[int, str, bool]:
        """Priority and preemption policy by these terms, and whether the class that gives the priority is missing.

        What the pod says itself counts, else what its class says, else 0 and the usual policy. The global default is
        for pods that say neither a class nor a priority: to one with a priority of its own it gives no policy either.
        """
        name, priority, policy = terms.name, terms.priority, terms.preemption_policy
        if name:
            found = SYSTEM_CLASSES.get(name) or self.by_name.get(name)
        else:
            found = self.default if priority is None else None
        if found is not None:
            return found.value if priority is None else priority, policy or found.preemption_policy, False
        return priority or 0, policy or PREEMPT_LOWER_PRIORITY, bool(name) and priority is None

    def differ(self, other: PriorityClasses) -> frozenset[str]:
        """The names by which pods find another class here than there."""
        names = {"", *self.by_name, *other.by_name}
        return frozenset(name for name in names if self.find(name) != other.find(name))


NO_CLASSES = PriorityClasses()


def resolve(pod: Pod, classes: PriorityClasses) -> Pod:
    """The pod with the priority and the preemption policy that it has while these are the classes.

    The pod itself when it has them already.
    """
    terms = pod.class_terms
    if terms is None:
        return pod
    priority, policy, missing = classes.give(terms)
    if pod.priority == priority and pod.class_missing is missing and pod.preemption_policy == policy:
        return pod
    other = object.__new__(Pod)  # `dataclasses.replace` takes three times as long, and a class may have 100,000 pods
    for read, write in _MEMBERS:
        write(other, read(pod))
    object.__setattr__(other, "priority", priority)
    object.__setattr__(other, "preemption_policy", policy)
    object.__setattr__(other, "class_missing", missing)
    return other


_MEMBERS: tuple[tuple[Callable[[Pod], Any], Callable[[Pod, Any], None]], ...] = tuple(
    (getattr(Pod, one.name).__get__, getattr(Pod, one.name).__set__) for one in fields(Pod)
)
"""How each field of a pod is read and written."""


def affected(pods: Iterable[Pod], names: frozenset[str]) -> list[Pod]:
    """The pods that leave something to one of these classes (empty = the global default)."""
    return [pod for pod in pods if (terms := pod.class_terms) is not None and terms.name in names]


def missing(pod: Pod) -> str:
    """Why the pod is held back; empty when its class exists, or it needs none."""
    if not pod.class_missing or pod.class_terms is None:
        return ""
    return f"no PriorityClass with name {pod.class_terms.name} was found, or it is invalid"
