"""What a worker decides on, and how it is named. Both are made once, and its activities and loops share them."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

from wharfinger.framework.preferred_nodes import PreferredNodes
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.pod import Pod
from wharfinger.process.names import COMMON, TENANT_LABEL, pool_of
from wharfinger.scheduling.state.cache.cache import Cache


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a worker takes: pods naming one of its profiles, of its tenant (or of the common pool).

    Shards are not decided here: which of our workers starts a pod is `loops.shards`; any of them may place and bind it.
    """

    scheduler_names: frozenset[str]
    """Names of our profiles; a pod with an empty scheduler name counts as `default-scheduler`."""
    tenant: str = COMMON
    tenant_label: str = TENANT_LABEL

    def tenant_of(self, pod: Pod, tenants: Container[str]) -> str:
        """The tenant whose instances schedule the pod: its label while that tenant exists."""
        return pool_of(pod.labels.get(self.tenant_label, ""), tenants)

    def owns(self, pod: Pod, tenants: Container[str]) -> bool:
        """Whether this worker's pool schedules the pod. `tenants`: those that exist now."""
        return pod.scheduler_name in self.scheduler_names and self.tenant_of(pod, tenants) == self.tenant


@dataclass(frozen=True, slots=True)
class Pool:
    """What one worker decides on: its pool's pods, the state that it has seen, and its profiles."""

    cache: Cache
    profiles: Mapping[str, Profile]
    """By scheduler name."""
    ownership: Ownership
    preferred_nodes: PreferredNodes = field(default_factory=PreferredNodes)
    """The loops set which workers share the nodes; decisions read which are this worker's own."""


@dataclass(frozen=True, slots=True)
class Identity:
    """How one worker is named in what it writes."""

    cluster: str
    name: str
    """The worker's own; kept with its decisions."""
    fleet_revision: str = ""
    """Of the template that the worker was made from; empty when it was started by hand."""
    incarnation: str = ""
    """This life of the worker: `<digest of its software>-<chance>`; empty where none is kept."""
