"""Member clusters, as deciding sees them: labels, taints, what their agent says, and what they have.

Texts and names are those of KubeFleet's `MemberCluster`; times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wharfinger.objects.model.pod import NO_LABELS
from wharfinger.objects.model.selectors import Taint

RESOURCES = "resources.kubernetes-fleet.io/"
"""What names of resource properties begin with: `<this><total|allocatable|available>-<resource>`."""
NODE_COUNT = "kubernetes-fleet.io/node-count"
"""A property: how many nodes a member has."""
_KINDS = ("total", "allocatable", "available")


@dataclass(frozen=True, slots=True)
class AgentCondition:
    """One condition of a member's agent."""

    status: str
    """True, False or Unknown."""
    since: float | None
    """Its last transition; None = unknown."""

    @property
    def true(self) -> bool:
        """Whether it holds."""
        return self.status == "True"


@dataclass(frozen=True, slots=True)
class MemberAgent:
    """What the agent of a member has said."""

    heartbeat: float | None = None
    """When it was last heard; None when it never was."""
    joined: AgentCondition | None = None
    healthy: AgentCondition | None = None


class Ages(NamedTuple):
    """What is said in seconds of a member's agent; None: there was no such moment."""

    heartbeat: float | None
    """Since the last heart-beat."""
    health: float | None
    """Since its health changed."""


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Resource name to amount, as written, over all nodes of a member."""

    capacity: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    allocatable: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    available: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A member cluster, as it is at one revision of its object. It never changes: another revision is another one."""

    name: str
    identity: int
    """The create revision of its object: a member that went and came back is another one."""
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    taints: tuple[Taint, ...] = ()
    leaving: bool = False
    """Whether its object has a deletion timestamp."""
    agent: MemberAgent | None = None
    """None: it has not reported yet."""
    properties: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    """Name to value, as written."""
    usage: ResourceUsage = field(default_factory=ResourceUsage)
    collects_namespaces: bool = False
    """Whether it tells which namespaces it has."""
    namespaces: frozenset[str] | None = None
    """None: it tells none."""
    known: dict[object, object] = field(default_factory=dict, repr=False)
    """What deciding has found out about it already: a member never changes (`deciding.affinity`)."""


def resource_of(name: str) -> tuple[str, str] | None:
    """Kind (total, allocatable or available) and resource of such a name; None when it names neither."""
    kind, _, resource = name.removeprefix(RESOURCES).partition("-")
    return (kind, resource) if kind in _KINDS and resource else None
