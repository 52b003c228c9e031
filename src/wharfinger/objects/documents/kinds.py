"""The kinds of objects that may be stored, Kubernetes' and our own, and where their keys lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any

from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.documents.fields import mapping, text
from wharfinger.objects.model import placement_kinds
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.names import is_dns_label, is_dns_subdomain
from wharfinger.objects.model.placement_kinds import CLUSTER_GROUP, PLACEMENT_GROUP

OURS = "wharfinger.dev"
"""API group of our own kinds."""
_TOGETHER = (OURS, CLUSTER_GROUP, PLACEMENT_GROUP)


@cache
def plural_of(kind: str) -> str:
    """The plural of a kind in URLs and keys, by Kubernetes' own rule (`meta.UnsafeGuessKindToResource`)."""
    singular = kind.lower()
    if singular.endswith("y"):
        return f"{singular[:-1]}ies"
    return f"{singular}es" if singular.endswith("s") else f"{singular}s"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects."""

    name: str
    group: str
    """API group, empty for the core one."""
    namespaced: bool = True
    aliases: tuple[str, ...] = ()
    other_groups: tuple[str, ...] = ()
    """API groups of other makers, whose objects of this name are stored as the same kind."""

    @property
    def plural(self) -> str:
        """As URLs and keys spell it: `pods`."""
        return plural_of(self.name)

    @property
    def folder(self) -> str:
        """What keys of its objects begin with, below the root: kinds that are not Kubernetes' lie by their group."""
        return f"{self.group}/{self.plural}" if self.group in _TOGETHER else self.plural

    @property
    def singular(self) -> str:
        """Lower case, as reports name it: `pod`."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Reference:
    """Which object: kind, namespace (empty where the kind has none), name."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        parts = (self.kind.singular, self.namespace, self.name)
        return "/".join(part for part in parts if part)


POD = Kind("Pod", "", aliases=("po",))
NODE = Kind("Node", "", namespaced=False, aliases=("no",))
NAMESPACE = Kind("Namespace", "", namespaced=False, aliases=("ns",))

FLEET = Kind("SchedulerFleet", OURS, namespaced=False, aliases=("fleet", "fleets"))

POD_GROUPS = ("scheduling.k8s.io", "scheduling.x-k8s.io", "scheduling.sigs.k8s.io")
"""API groups that have PodGroups: Kubernetes itself, and the scheduler-plugins, whose fields are others."""
POD_GROUP = Kind("PodGroup", POD_GROUPS[0], aliases=("pg",), other_groups=POD_GROUPS[1:])

PRIORITY_CLASS = Kind("PriorityClass", "scheduling.k8s.io", namespaced=False, aliases=("pc",))

MEMBER_CLUSTER = Kind(placement_kinds.MEMBER_CLUSTER, CLUSTER_GROUP, namespaced=False, aliases=("member", "members"))
CLUSTER_PLACEMENT = Kind(placement_kinds.CLUSTER_PLACEMENT, PLACEMENT_GROUP, namespaced=False, aliases=("crp",))
NAMESPACED_PLACEMENT = Kind(placement_kinds.NAMESPACED_PLACEMENT, PLACEMENT_GROUP, aliases=("rp",))
PLACEMENT_EVICTION = Kind(placement_kinds.EVICTION, PLACEMENT_GROUP, namespaced=False, aliases=("crpe",))
PLACEMENT_BUDGET = Kind(placement_kinds.BUDGET, PLACEMENT_GROUP, namespaced=False, aliases=("crpdb",))
PLACEMENTS = (CLUSTER_PLACEMENT, NAMESPACED_PLACEMENT)
DECIDING = (MEMBER_CLUSTER, *PLACEMENTS, PLACEMENT_EVICTION, PLACEMENT_BUDGET)
"""What the hub decides by."""
OVERRIDES = (
    Kind(placement_kinds.CLUSTER_OVERRIDE, PLACEMENT_GROUP, namespaced=False, aliases=("cro",)),
    Kind(placement_kinds.OVERRIDE, PLACEMENT_GROUP, aliases=("ro",)),
)
UPDATE_STRATEGIES = (
    Kind(placement_kinds.CLUSTER_UPDATE_STRATEGY, PLACEMENT_GROUP, namespaced=False, aliases=("csus",)),
    Kind(placement_kinds.UPDATE_STRATEGY, PLACEMENT_GROUP, aliases=("sus",)),
)
UPDATE_RUNS = (
    Kind(placement_kinds.CLUSTER_UPDATE_RUN, PLACEMENT_GROUP, namespaced=False, aliases=("csur",)),
    Kind(placement_kinds.UPDATE_RUN, PLACEMENT_GROUP, aliases=("sur",)),
)
ENVELOPES = (
    Kind("ClusterResourceEnvelope", PLACEMENT_GROUP, namespaced=False),
    Kind("ResourceEnvelope", PLACEMENT_GROUP),
)
DELIVERING = (*OVERRIDES, *ENVELOPES, *UPDATE_STRATEGIES, *UPDATE_RUNS)
"""How placements are delivered: overrides, envelopes, staged update strategies and runs."""
COUNTING = (MEMBER_CLUSTER, *PLACEMENTS)
"""Whose metadata.generation counts the changes of the spec, and which are deleted in two steps: marked first."""

_RBAC = "rbac.authorization.k8s.io"
KINDS = (
    POD,
    NODE,
    NAMESPACE,
    Kind("Service", "", aliases=("svc",)),
    Kind("ConfigMap", "", aliases=("cm",)),
    Kind("Secret", ""),
    Kind("ServiceAccount", "", aliases=("sa",)),
    Kind("ReplicationController", "", aliases=("rc",)),
    Kind("PersistentVolume", "", namespaced=False, aliases=("pv",)),
    Kind("PersistentVolumeClaim", "", aliases=("pvc",)),
    Kind("ResourceQuota", "", aliases=("quota",)),
    Kind("LimitRange", ""),
    Kind("ReplicaSet", "apps", aliases=("rs",)),
    Kind("Deployment", "apps", aliases=("deploy",)),
    Kind("StatefulSet", "apps", aliases=("sts",)),
    Kind("DaemonSet", "apps", aliases=("ds",)),
    Kind("Job", "batch"),
    Kind("CronJob", "batch", aliases=("cj",)),
    Kind("PodDisruptionBudget", "policy", aliases=("pdb",)),
    PRIORITY_CLASS,
    POD_GROUP,
    Kind("DeviceClass", "resource.k8s.io", namespaced=False),
    FLEET,
    *DECIDING,
    *DELIVERING,
    Kind("StorageClass", "storage.k8s.io", namespaced=False, aliases=("sc",)),
    Kind("CSINode", "storage.k8s.io", namespaced=False),
    Kind("CSIDriver", "storage.k8s.io", namespaced=False),
    Kind("CSIStorageCapacity", "storage.k8s.io"),
    Kind("VolumeAttachment", "storage.k8s.io", namespaced=False),
    Kind("RuntimeClass", "node.k8s.io", namespaced=False),
    Kind("Ingress", "networking.k8s.io", aliases=("ing",)),
    Kind("NetworkPolicy", "networking.k8s.io", aliases=("netpol",)),
    Kind("HorizontalPodAutoscaler", "autoscaling", aliases=("hpa",)),
    Kind("Role", _RBAC),
    Kind("RoleBinding", _RBAC),
    Kind("ClusterRole", _RBAC, namespaced=False),
    Kind("ClusterRoleBinding", _RBAC, namespaced=False),
)

_SIMILAR = 0.75
"""From 0 to 1, as `difflib` measures it: from here on a word is taken for a misspelt kind."""

_BY_NAME = {kind.name: kind for kind in KINDS}
_BY_WORD = {word: kind for kind in KINDS for word in (kind.singular, kind.plural, *kind.aliases)}


def is_word(word: str) -> bool:
    """Whether a word names a kind."""
    return word.lower() in _BY_WORD


def by_word(word: str) -> Kind:
    """The kind that a person names: `pod`, `pods`, `po`. Raises `UsageError`, with the kind that is meant."""
    kind = _BY_WORD.get(word.lower())
    if kind is not None:
        return kind
    shown = repr(word if len(word) <= 80 else f"{word[:77]}...")
    before, slash, name = word.partition("/")
    if slash and name and before.lower() in _BY_WORD:
        raise UsageError(f"{shown} is no kind of objects: write the name behind it, {before} {name[:80]}")
    close = get_close_matches(word.lower()[:80], _BY_WORD, n=1, cutoff=_SIMILAR)
    if close:
        raise UsageError(f"there is no kind of objects {shown}; did you mean {close[0]}?")
    raise UsageError(f"there is no kind of objects {shown}; known are {', '.join(kind.plural for kind in KINDS)}")


def of_object(obj: Mapping[str, Any]) -> Kind:
    """The kind of a manifest, by its `kind` and `apiVersion`. Raises `InvalidObject`."""
    name, version = text(obj, "kind"), text(obj, "apiVersion")
    if not name:
        raise InvalidObject("kind is missing")
    kind = _BY_NAME.get(name)
    if kind is None:
        raise InvalidObject(f"kind {name[:40]!r} is not known here")
    if not version:
        raise InvalidObject("apiVersion is missing")
    group = version.rpartition("/")[0]
    if group not in (kind.group, *kind.other_groups):
        raise InvalidObject(f"kind {name!r} of the version {version[:40]!r} is not known here")
    return kind


def reference(obj: Mapping[str, Any], default_namespace: str) -> Reference:
    """Which object a manifest is about. Raises `InvalidObject` for an unknown kind or a malformed name."""
    kind = of_object(obj)
    metadata = mapping(obj, "metadata")
    name = text(metadata, "name", "metadata.")
    if not name:
        hint = " (generateName is not supported)" if metadata.get("generateName") else ""
        raise InvalidObject(f"metadata.name is missing{hint}")
    if not _is_name(name, kind):
        raise InvalidObject(f"metadata.name {name[:80]!r} of a {kind.name} must be {_name_rule(kind)}")
    if not kind.namespaced:
        return Reference(kind, "", name)
    namespace = text(metadata, "namespace", "metadata.") or default_namespace
    if not is_dns_label(namespace):
        raise InvalidObject(f"metadata.namespace {namespace[:80]!r} is no DNS label")
    return Reference(kind, namespace, name)


def _is_name(name: str, kind: Kind) -> bool:
    if kind.group == _RBAC:  # names of roles are path segments, such as system:node
        return name not in (".", "..") and "/" not in name and "%" not in name and len(name) <= 253
    return is_dns_subdomain(name)


def _name_rule(kind: Kind) -> str:
    """What a name must be, for people; a fleet's is its tenant, of which `fleet.spec.fleet` asks more."""
    if kind.group == _RBAC:
        return "a path segment: no / and no %, at most 253 characters"
    if kind is FLEET:
        return "lower case letters, digits and dashes, at most 63, no dash at the ends"
    return "lower case letters, digits, dashes and dots, at most 253, a letter or digit at both ends"


def check_taken(format_: ClusterFormat, group: str, kind: str) -> None:
    """Whether members of a format can have objects of a kind. Raises `InvalidObject` with the reason if not."""
    if format_ is not ClusterFormat.KUBERNETES:
        raise InvalidObject(f"objects cannot be placed on members of the format {format_.value}")
    of_object({"apiVersion": f"{group}/v1" if group else "v1", "kind": kind})
