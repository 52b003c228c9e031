"""Every key wharfinger reads or writes in etcd is made, and taken apart, here.

Objects that users own lie as Kubernetes keeps them, `/registry/<plural>/[<namespace>/]<name>`; our own
under `/registry/wharfinger.dev/<kind>/...`, so that one watch over `/registry/` sees both in order. What only
people read back lies under `/wharfinger.dev/`, where no such watch is.
"""

from __future__ import annotations

from typing import NamedTuple

ROOT = "/registry/"
PODS = ROOT + "pods/"
NODES = ROOT + "nodes/"
NAMESPACES = ROOT + "namespaces/"
SERVICES = ROOT + "services/"
REPLICATION_CONTROLLERS = ROOT + "replicationcontrollers/"
REPLICA_SETS = ROOT + "replicasets/"
STATEFUL_SETS = ROOT + "statefulsets/"
DISRUPTION_BUDGETS = ROOT + "poddisruptionbudgets/"
POD_GROUPS = ROOT + "podgroups/"
DEVICE_CLASSES = ROOT + "deviceclasses/"
PRIORITY_CLASSES = ROOT + "priorityclasses/"
PERSISTENT_VOLUMES = ROOT + "persistentvolumes/"
PERSISTENT_VOLUME_CLAIMS = ROOT + "persistentvolumeclaims/"
STORAGE_CLASSES = ROOT + "storageclasses/"
CSI_NODES = ROOT + "csinodes/"
CSI_DRIVERS = ROOT + "csidrivers/"
CSI_STORAGE_CAPACITIES = ROOT + "csistoragecapacities/"
VOLUME_ATTACHMENTS = ROOT + "volumeattachments/"
STORAGE = (
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    CSI_STORAGE_CAPACITIES,
    VOLUME_ATTACHMENTS,
)
"""Volumes, claims, and what decides about them."""
SURROUNDINGS = (
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DISRUPTION_BUDGETS,
    POD_GROUPS,
    DEVICE_CLASSES,
    PRIORITY_CLASSES,
    *STORAGE,
)
"""What decisions read beside nodes and pods."""
CLUSTER_WIDE = (
    NODES,
    NAMESPACES,
    DEVICE_CLASSES,
    PRIORITY_CLASSES,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    VOLUME_ATTACHMENTS,
)
"""Objects without a namespace."""
OURS = ROOT + "wharfinger.dev/"
INSTALLATION = OURS + "installation"
BINDINGS = OURS + "bindings/"
BOUND = OURS + "bound/"
TERMS = OURS + "terms/"
EVERY = "*"
"""In the place of a namespace: all of them."""
ATTEMPTS = OURS + "attempts/"
BOUND_BY = OURS + "boundby/"
INSTANCES = OURS + "instances/"
TENANTS = OURS + "tenants/"
REQUEUED = OURS + "requeued/"
VOLUMES = OURS + "volumes/"
PROMISES = OURS + "promises/"
HOLDS = OURS + "holds/"
IMPORTER = OURS + "importer"
IMPORTED = OURS + "imported"
ACTIVE = OURS + "active"
"""Where a Kubernetes API is the store (`contracts.upstream_records`)."""
NODE_BUDGET = OURS + "nodebudget"
"""Which nodes were cleared of their pods a short time ago."""
PROFILES = OURS + "profiles/"
SOFTWARE = OURS + "software/"
FLEETS = OURS + "schedulerfleets/"
REVISIONS = OURS + "revisions/"
OUTCOMES = OURS + "outcomes/"
ACTORS = OURS + "actors/"
FLEET_STATUS = OURS + "fleetstatus/"
SLOTS = OURS + "slots/"
GRANTS = OURS + "grants/"
EXITS = OURS + "exits/"
HOSTS = OURS + "hosts/"
CORDONS = OURS + "cordons/"
LOST_HOSTS = OURS + "losthosts/"
CONFIG = OURS + "config/"
CONFIG_STATUS = OURS + "configstatus/"
"""The fleet's: who writes which stands in `contracts.fleet_records` and `contracts.records`."""
ASIDE = "/wharfinger.dev/"
"""What no worker follows: outside of `ROOT`, so that its size costs nothing to clients that list and watch that."""
CONFIG_HISTORY = ASIDE + "confighistory/"


def pod(namespace: str, name: str) -> str:
    """The key of a pod."""
    return f"{PODS}{namespace}/{name}"


def node(name: str) -> str:
    """The key of a node."""
    return f"{NODES}{name}"


def stored(folder: str, namespace: str, name: str) -> str:
    """The key of any object that users own; `folder` is its kind's, `namespace` empty where that has none."""
    return f"{stored_prefix(folder, namespace)}{name}"


def stored_prefix(folder: str, namespace: str = "") -> str:
    """What the keys of a kind begin with, of one namespace or of all."""
    return f"{ROOT}{folder}/{namespace}/" if namespace else f"{ROOT}{folder}/"


def binding(node_name: str) -> str:
    """The binding version of a node: rewritten by every bind and every nomination there."""
    return f"{BINDINGS}{node_name}"


def bound(namespace: str) -> str:
    """Rewritten by every bind of a pod of the namespace; compared by those whose rules look at its pods."""
    return f"{BOUND}{namespace}"


def terms(namespace: str) -> str:
    """Rewritten by every bind of a pod whose anti-affinity selects pods of the namespace (`*`: of any)."""
    return f"{TERMS}{namespace}"


def attempt(namespace: str, name: str) -> str:
    """The record of a pod's last refused attempt; absent when it has none."""
    return f"{ATTEMPTS}{namespace}/{name}"


def bound_by(namespace: str, name: str) -> str:
    """Which attempt bound a pod, in a cluster whose pods do not carry it themselves."""
    return f"{BOUND_BY}{namespace}/{name}"


def volume(name: str) -> str:
    """Rewritten by every bind that chooses this volume."""
    return f"{VOLUMES}{name}"


def claim(namespace: str, name: str) -> str:
    """Rewritten by every bind of a pod that has this claim for itself; no volume's name has a colon."""
    return f"{VOLUMES}{namespace}:{name}"


def promise(namespace: str, name: str) -> str:
    """A bind that the Kubernetes API has not shown yet."""
    return f"{PROMISES}{namespace}/{name}"


def hold(namespace: str, name: str) -> str:
    """The room of a pod that is not bound yet, while asynchronous plugins are called for it."""
    return f"{HOLDS}{namespace}/{name}"


def instance(tenant: str, slot: str, incarnation: int) -> str:
    """A worker's registration, under its lease."""
    return f"{INSTANCES}{tenant}/{slot}/{incarnation}"


def requeued_from(node_name: str) -> str:
    """What the keys of a lost node's pods begin with that were deleted and are not made anew yet."""
    return f"{REQUEUED}{node_name}/"


def requeued(node_name: str, namespace: str, name: str) -> str:
    """The new manifest of a lost pod, from the deletion of the old pod until the new pod is put."""
    return f"{requeued_from(node_name)}{namespace}/{name}"


def tenant(name: str) -> str:
    """Present while pods labelled with the tenant go to the tenant's own instances."""
    return f"{TENANTS}{name}"


def profile(digest: str) -> str:
    """A completed configuration under its SHA-256, never changed."""
    return f"{PROFILES}{digest}"


def software(digest: str) -> str:
    """What decided, build and packages, under its digest; never changed, and a few for each upgrade."""
    return f"{SOFTWARE}{digest}"


def fleet(tenant: str) -> str:
    """A SchedulerFleet: desired state, the only one."""
    return f"{FLEETS}{tenant}"


def revision(tenant: str, number: int) -> str:
    """One template that was wanted; create-only."""
    return f"{REVISIONS}{tenant}/{number}"


def outcome(tenant: str, number: int) -> str:
    """How the rollout of a revision ended; create-only."""
    return f"{OUTCOMES}{tenant}/{number}"


def actor(tenant: str) -> str:
    """The workflow that acts on the fleet's slots; each of its writes compares it."""
    return f"{ACTORS}{tenant}"


def fleet_status(tenant: str) -> str:
    """The projection for readers."""
    return f"{FLEET_STATUS}{tenant}"


def slot(tenant: str, number: int) -> str:
    """The counter of a slot's incarnations, and its revision."""
    return f"{SLOTS}{tenant}/{number}"


def grant(tenant: str, slot_number: int, incarnation: int) -> str:
    """Permission for one incarnation to live; deleting it is the fence."""
    return f"{GRANTS}{tenant}/{slot_number}/{incarnation}"


def exited(tenant: str, slot_number: int, incarnation: int) -> str:
    """How an incarnation ended; deleted with its grant."""
    return f"{EXITS}{tenant}/{slot_number}/{incarnation}"


def host(name: str) -> str:
    """An agent, under its lease."""
    return f"{HOSTS}{name}"


def cordon(name: str) -> str:
    """Keep instances off a host."""
    return f"{CORDONS}{name}"


def lost_host(name: str) -> str:
    """A person says that the host is gone for good; removed by the agent that comes back."""
    return f"{LOST_HOSTS}{name}"


def config(kind: str, target: str) -> str:
    """One value of the dynamic configuration; `target` is `instance/<T>/<slot>`, `tenant/<T>` or `default`."""
    return f"{CONFIG}{kind}/{target}"


def config_status(tenant: str, slot: str, incarnation: int) -> str:
    """What a worker has in force of the dynamic configuration, under its lease; named as its registration is."""
    return f"{CONFIG_STATUS}{tenant}/{slot}/{incarnation}"


def config_history_of(kind: str, target: str) -> str:
    """What the keys of a value's changes begin with."""
    return f"{CONFIG_HISTORY}{kind}/{target}/"


def config_history(kind: str, target: str, number: int) -> str:
    """One change of a value of the dynamic configuration; create-only. Numbers sort as text."""
    return f"{config_history_of(kind, target)}{number:09d}"


class ParsedKey(NamedTuple):
    """A key taken apart: the kind's prefix and what follows it, split at slashes."""

    prefix: str
    parts: tuple[str, ...]


_PREFIXES = frozenset(
    (
        BINDINGS,
        BOUND,
        TERMS,
        ATTEMPTS,
        BOUND_BY,
        INSTANCES,
        TENANTS,
        REQUEUED,
        VOLUMES,
        PROMISES,
        HOLDS,
        IMPORTED,
        ACTIVE,
        GRANTS,
        PROFILES,
        SOFTWARE,
        CONFIG,
        PODS,
        NODES,
        *SURROUNDINGS,
    )
)


def parse(key: str) -> ParsedKey | None:
    """Which kind of object a key names; None for kinds we do not read."""
    end = key.find("/", len(OURS if key.startswith(OURS) else ROOT)) + 1
    if not end:
        return ParsedKey(key, ()) if key in _PREFIXES else None
    prefix = key[:end]
    return ParsedKey(prefix, tuple(key[end:].split("/"))) if prefix in _PREFIXES else None
