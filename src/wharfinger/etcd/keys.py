"""Every key wharfinger reads or writes in etcd is made, and taken apart, here: a `Table` a kind.

Objects that users own lie as Kubernetes keeps them, `/registry/<plural>/[<namespace>/]<name>`; our own
under `/registry/wharfinger.dev/<kind>/...`, so that one watch over `/registry/` sees both in order. What only
people read back lies under `/wharfinger.dev/`, where no such watch is.
"""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.etcd.table import Prefixes, Table

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
"""Where a Kubernetes API is the store (`scheduling.contracts.promise_records`)."""
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
"""The fleet's: who writes which stands in `fleet.contracts.fleet_records` and `process.records`."""
ASIDE = "/wharfinger.dev/"
"""What no worker follows: outside of `ROOT`, so that its size costs nothing to clients that list and watch that."""
CONFIG_HISTORY = ASIDE + "confighistory/"


pod = Table(PODS, "namespace", "name")
node = Table(NODES, "node")
binding = Table(BINDINGS, "node")
"""The binding version of a node: rewritten by every bind and every nomination there."""
bound = Table(BOUND, "namespace")
"""Rewritten by every bind of a pod of the namespace; compared by those whose rules look at its pods."""
terms = Table(TERMS, "namespace")
"""Rewritten by every bind of a pod whose anti-affinity selects pods of the namespace (`*`: of any)."""
attempt = Table(ATTEMPTS, "namespace", "name")
"""The record of a pod's last refused attempt; absent when it has none."""
bound_by = Table(BOUND_BY, "namespace", "name")
"""Which attempt bound a pod, in a cluster whose pods do not carry it themselves."""
volume = Table(VOLUMES, "volume")
"""Rewritten by every bind that chooses this volume."""
promise = Table(PROMISES, "namespace", "name")
"""A bind that the Kubernetes API has not shown yet."""
hold = Table(HOLDS, "namespace", "name")
"""The room of a pod that is not bound yet, while asynchronous plugins are called for it."""
instance = Table(INSTANCES, "tenant", "slot", "incarnation")
"""A worker's registration, under its lease."""
requeued = Table(REQUEUED, "node", "namespace", "name")
"""The new manifest of a lost pod, by its lost node, from the deletion of the old pod until the new pod is put."""
tenant = Table(TENANTS, "tenant")
"""Present while pods labelled with the tenant go to the tenant's own instances."""
profile = Table(PROFILES, "digest")
"""A completed configuration under its SHA-256, never changed."""
software = Table(SOFTWARE, "digest")
"""What decided, build and packages, under its digest; never changed, and a few for each upgrade."""
fleet = Table(FLEETS, "tenant")
"""A SchedulerFleet: desired state, the only one."""
revision = Table(REVISIONS, "tenant", "number")
"""One template that was wanted; create-only."""
outcome = Table(OUTCOMES, "tenant", "number")
"""How the rollout of a revision ended; create-only."""
actor = Table(ACTORS, "tenant")
"""The workflow that acts on the fleet's slots; each of its writes compares it."""
fleet_status = Table(FLEET_STATUS, "tenant")
"""The projection for readers."""
slot = Table(SLOTS, "tenant", "slot")
"""The counter of a slot's incarnations, and its revision."""
grant = Table(GRANTS, "tenant", "slot", "incarnation")
"""Permission for one incarnation to live; deleting it is the fence."""
exited = Table(EXITS, "tenant", "slot", "incarnation")
"""How an incarnation ended; deleted with its grant."""
host = Table(HOSTS, "host")
"""An agent, under its lease."""
cordon = Table(CORDONS, "host")
"""Keep instances off a host."""
lost_host = Table(LOST_HOSTS, "host")
"""A person says that the host is gone for good; removed by the agent that comes back."""
config = Table(CONFIG, "kind", "target...")
"""One value of the dynamic configuration; `target` is `instance/<T>/<slot>`, `tenant/<T>` or `default`."""
config_status = Table(CONFIG_STATUS, "tenant", "slot", "incarnation")
"""What a worker has in force of the dynamic configuration, under its lease; named as its registration is."""
config_history = Table(CONFIG_HISTORY, "kind", "target...", "number")
"""One change of a value of the dynamic configuration; create-only. Its number has nine digits, to sort as text."""
_TABLES = (
    pod, node, binding, bound, terms, attempt, bound_by, instance, tenant, requeued, volume, promise, hold, grant,
    config,
)  # fmt: skip
FOLLOWED: Mapping[str, Table] = {
    **{kind: Table(kind, *("name",) if kind in CLUSTER_WIDE else ("namespace", "name")) for kind in SURROUNDINGS},
    **{table.prefix: table for table in (*_TABLES, Table(IMPORTED), Table(ACTIVE))},
}
"""What informers follow, by prefix."""
parse = Prefixes((*FOLLOWED, PROFILES, SOFTWARE), OURS, ROOT).parse
"""Which kind of object a key names; None for kinds we do not read."""


def stored(folder: str, namespace: str, name: str) -> str:
    """The key of any object that users own; `folder` is its kind's, `namespace` empty where that has none."""
    return f"{stored_prefix(folder, namespace)}{name}"


def stored_prefix(folder: str, namespace: str = "") -> str:
    """What the keys of a kind begin with, of one namespace or of all."""
    return f"{ROOT}{folder}/{namespace}/" if namespace else f"{ROOT}{folder}/"


def claim(namespace: str, name: str) -> str:
    """Rewritten by every bind of a pod that has this claim for itself; no volume's name has a colon."""
    return volume(f"{namespace}:{name}")
