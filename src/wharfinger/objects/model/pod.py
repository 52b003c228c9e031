"""The pod as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, TypedDict

from wharfinger.objects.model.selectors import (
    NodeSelectorTerm,
    PodAffinityTerm,
    PreferredTerm,
    SpreadConstraint,
    Toleration,
    WeightedPodAffinityTerm,
)
from wharfinger.objects.model.volumes import InLineVolume, PodClaim

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
"""A container's end may restart all containers of the pod."""
HOST_NETWORK_IN_USER_NAMESPACE = "UserNamespacesHostNetworkSupport"
"""A pod may be on the host's network and in a user namespace of its own."""
NO_FEATURES: frozenset[str] = frozenset()

DEFAULT_SCHEDULER = "default-scheduler"
NOTHING: Mapping[str, int] = MappingProxyType({})
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Revisions(TypedDict, total=False):
    """Of a stored object; 0 where they are left out."""

    create_revision: int
    mod_revision: int


class PodKey(NamedTuple):
    """Where a pod lies; sorts by namespace, then name."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodIdentity(NamedTuple):
    """One life of a pod: key and etcd create revision (a re-created pod is another one)."""

    namespace: str
    name: str
    create_revision: int


class HostPort(NamedTuple):
    """A port wanted on the node itself; `ip` 0.0.0.0 = every address."""

    protocol: str
    ip: str
    port: int

    def conflicts(self, other: HostPort) -> bool:
        """Same protocol and port, and addresses that overlap."""
        return (
            self.port == other.port
            and self.protocol == other.protocol
            and (self.ip == other.ip or "0.0.0.0" in (self.ip, other.ip))  # noqa: S104 - a wildcard, not a bind
        )


@dataclass(frozen=True, slots=True)
class GangTerms:
    """What a pod itself says of its gang; see `model.gang`."""

    by_object: bool = False
    """Whether a PodGroup object says the rest, and has to be there."""
    min_available: int = 0
    """Of the label, or of what the pod says in a PodGroup's place; 0 = it has none."""
    topology_keys: tuple[str, ...] = ()
    """Node labels that the nodes of all members have one value each of, sorted; empty = the pod names none."""
    problem: str = ""
    """What is wrong with what it says, in words; it waits for that to be mended."""


class Request(NamedTuple):
    """A pod's whole request, and the amounts it counts with when nodes are scored."""

    requests: Mapping[str, int]
    """Milli-cpu, else units; resources of which nothing is asked are left out."""
    scoring_cpu: int
    scoring_memory: int


NO_TERMS = GangTerms()
PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
"""The preemption policy where nothing names another."""


@dataclass(frozen=True, slots=True)
class ClassTerms:
    """What a pod leaves to its PriorityClass; `model.priority` resolves it."""

    name: str = ""
    """`spec.priorityClassName`; empty = the global default."""
    priority: int | None = None
    """`spec.priority`, which counts as it is; None = the value of the class."""
    preemption_policy: str = ""
    """`spec.preemptionPolicy`, which counts as it is; empty = the policy of the class."""

    @property
    def complete(self) -> bool:
        """Whether nothing is left to a class, as in a pod that Kubernetes' admission has seen."""
        return self.priority is not None and bool(self.preemption_policy)


@dataclass(frozen=True, slots=True)
class Pod:
    """What scheduling reads of a `v1.Pod`.

    Quantities are integers: cpu in milli-units, everything else in units (bytes, cards), both
    rounded up. `requests` already is the pod's whole request (containers, init containers, overhead,
    pod-level resources; `objects.documents` applies the formula of `model.resources.pod_request`).
    """

    namespace: str
    name: str
    uid: str
    """As in the object, or `rev-<create revision>` where it has none. A fence, never an index."""
    create_revision: int = field(default=0, compare=False)
    mod_revision: int = field(default=0, compare=False)
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    priority: int = 0
    """As far as it is known: of a decoded pod that leaves it to a class, `model.priority.resolve` makes it right."""
    preemption_policy: str = PREEMPT_LOWER_PRIORITY
    """Likewise."""
    class_terms: ClassTerms | None = None
    """What it leaves to its PriorityClass; None = nothing."""
    class_missing: bool = False
    """Whether it leaves its priority to a class that does not exist: such a pod is held back."""
    scheduler_name: str = DEFAULT_SCHEDULER
    node_name: str = ""
    """The node it is bound to, empty while pending."""
    nominated_node_name: str = ""
    phase: str = ""
    deletion_timestamp: str = ""
    """RFC 3339, empty unless the pod is being deleted."""
    creation_timestamp: str = ""
    start_time: str = ""
    requests: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    scoring_cpu: int = 0
    """Milli-cpu for scoring: containers that ask for none count 100."""
    scoring_memory: int = 0
    """Bytes for scoring: containers that ask for none count 200 MiB."""
    once_moved: Request | None = None
    """What it counts once it is bound, or of a bound pod once it is placed anew; None = the same.

    The two differ where a bound pod is resized in place, and for scoring where it has pod-level requests.
    """
    host_ports: tuple[HostPort, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    required_node_terms: tuple[NodeSelectorTerm, ...] | None = None
    """ORed; None = no requirement, an empty tuple matches no node."""
    preferred_node_terms: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    required_affinity: tuple[PodAffinityTerm, ...] = ()
    """Each must find a matching pod in the node's domain."""
    required_anti_affinity: tuple[PodAffinityTerm, ...] = ()
    """None may find a matching pod in the node's domain; holds for later pods too (symmetric)."""
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    spread_constraints: tuple[SpreadConstraint, ...] = ()
    """The pod's own; a profile's defaults count only where there are none."""
    images: tuple[str, ...] = ()
    """Of init containers, containers and image volumes, as written; one per use."""
    container_count: int = 1
    """Init containers and containers; scales what ImageLocality thinks is a lot."""
    claims: tuple[PodClaim, ...] = ()
    """The PersistentVolumeClaims of its volumes, each once."""
    in_line_volumes: tuple[InLineVolume, ...] = ()
    """Disks that its volumes name themselves, of the kinds that matter."""
    termination_grace_seconds: int = 30
    disruption_target: bool = False
    """Being evicted by this scheduler's preemption: condition DisruptionTarget, reason PreemptionByScheduler."""
    controller: tuple[str, str] | None = None
    """Kind and name of the controller that owns it (`ReplicaSet`, `web-6d4f`), None for a pod of its own."""
    scheduling_gates: tuple[str, ...] = ()
    required_features: frozenset[str] = NO_FEATURES
    """What its node must declare."""
    unsupported: tuple[str, ...] = ()
    """Features the pod uses that this version cannot honour, in words; such a pod is refused."""
    hard_terms_across_nodes: bool = False
    """Required inter-pod (anti-)affinity or hard spread: decides which worker owns the pod."""
    group: str = ""
    """The pod group (gang) it belongs to, empty for none."""
    gang: GangTerms = NO_TERMS
    """What it says of that gang."""
    condition: tuple[str, str, str] | None = None
    """Of the PodScheduled condition: status, reason, message; None when absent."""
    key: PodKey = field(init=False, repr=False, compare=False)
    """Namespace and name. Made once, as `identity`: many a dictionary is asked with them for each pod."""
    identity: PodIdentity = field(init=False, repr=False, compare=False)
    """Namespace, name and create revision."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", PodKey(self.namespace, self.name))
        object.__setattr__(self, "identity", PodIdentity(self.namespace, self.name, self.create_revision))

    @property
    def finished(self) -> bool:
        """Succeeded or Failed: such a pod uses nothing and is not scheduled."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def bound(self) -> bool:
        """Whether the pod has a node."""
        return bool(self.node_name)

    @property
    def pending(self) -> bool:
        """Whether the pod still is to be placed: no node, not finished, not being deleted."""
        return not self.node_name and not self.deletion_timestamp and not self.finished

    def on(self, node_name: str) -> Pod:
        """The same pod, bound to a node."""
        return replace(self, node_name=node_name) if self.bound else self._moved(node_name)

    def unbound(self) -> Pod:
        """The same pod without a node, as it would be placed anew."""
        return self._moved("") if self.bound else self

    def _moved(self, node_name: str) -> Pod:
        if self.once_moved is None:
            return replace(self, node_name=node_name)
        before = Request(self.requests, self.scoring_cpu, self.scoring_memory)
        return replace(self, node_name=node_name, once_moved=before, **self.once_moved._asdict())
