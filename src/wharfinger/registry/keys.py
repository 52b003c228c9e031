"""Every key wharfinger reads or writes in etcd is made, and taken apart, here.

Objects that users own lie as Kubernetes keeps them, `/registry/<plural>/[<namespace>/]<name>`; our own
under `/registry/wharfinger.dev/<kind>/...`, so that one watch over `/registry/` sees both in order.
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
SURROUNDINGS = (
    NAMESPACES,
    SERVICES,
    REPLICATION_CONTROLLERS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DISRUPTION_BUDGETS,
    POD_GROUPS,
)
"""What decisions read beside nodes and pods."""
OURS = ROOT + "wharfinger.dev/"
INSTALLATION = OURS + "installation"
BINDINGS = OURS + "bindings/"
BOUND = OURS + "bound/"
TERMS = OURS + "terms/"
EVERY = "*"
"""In the place of a namespace: all of them."""
ATTEMPTS = OURS + "attempts/"
INSTANCES = OURS + "instances/"
TENANTS = OURS + "tenants/"
PROFILES = OURS + "profiles/"


def pod(namespace: str, name: str) -> str:
    """The key of a pod."""
    return f"{PODS}{namespace}/{name}"


def node(name: str) -> str:
    """The key of a node."""
    return f"{NODES}{name}"


def stored(plural: str, namespace: str, name: str) -> str:
    """The key of any object that users own; `namespace` is empty where its kind has none."""
    return f"{stored_prefix(plural, namespace)}{name}"


def stored_prefix(plural: str, namespace: str = "") -> str:
    """What the keys of a kind begin with, of one namespace or of all."""
    return f"{ROOT}{plural}/{namespace}/" if namespace else f"{ROOT}{plural}/"


def binding(node_name: str) -> str:
    """The binding version of a node: rewritten by every bind there, and by nothing else."""
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


def instance(tenant: str, slot: str, incarnation: int) -> str:
    """A worker's registration, under its lease."""
    return f"{INSTANCES}{tenant}/{slot}/{incarnation}"


def tenant(name: str) -> str:
    """Present while pods labelled with the tenant go to the tenant's own instances."""
    return f"{TENANTS}{name}"


def profile(digest: str) -> str:
    """A completed configuration under its SHA-256, never changed."""
    return f"{PROFILES}{digest}"


class ParsedKey(NamedTuple):
    """A key taken apart: the kind's prefix and what follows it, split at slashes."""

    prefix: str
    parts: tuple[str, ...]


_PREFIXES = frozenset((BINDINGS, BOUND, TERMS, ATTEMPTS, INSTANCES, TENANTS, PROFILES, PODS, NODES, *SURROUNDINGS))


def parse(key: str) -> ParsedKey | None:
    """Which kind of object a key names; None for kinds we do not read."""
    end = key.find("/", len(OURS if key.startswith(OURS) else ROOT)) + 1
    prefix = key[:end]
    return ParsedKey(prefix, tuple(key[end:].split("/"))) if prefix in _PREFIXES else None
