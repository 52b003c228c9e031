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
    PRIORITY_CLASSES,
    *STORAGE,
)
"""What decisions read beside nodes and pods."""
CLUSTER_WIDE = (
    NODES,
    NAMESPACES,
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
IMPORTER = OURS + "importer"
IMPORTED = OURS + "imported"
ACTIVE = OURS + "active"
"""Where a Kubernetes API is the store (`contracts.upstream_records`)."""
NODE_BUDGET = OURS + "nodebudget"
"""Which nodes were cleared of their pods a short time ago."""
PROFILES = OURS + "profiles/"
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
MEMBER_CLUSTERS = ROOT + "cluster.kubernetes-fleet.io/memberclusters/"
PLACEMENT_OBJECTS = ROOT + "placement.kubernetes-fleet.io/"
"""What users write of placements, by kind."""
CLUSTER_PLACEMENTS = PLACEMENT_OBJECTS + "clusterresourceplacements/"
NAMESPACED_PLACEMENTS = PLACEMENT_OBJECTS + "resourceplacements/"
PLACEMENT_EVICTIONS = PLACEMENT_OBJECTS + "clusterresourceplacementevictions/"
PLACEMENT_BUDGETS = PLACEMENT_OBJECTS + "clusterresourceplacementdisruptionbudgets/"
OVERRIDES = (PLACEMENT_OBJECTS + "clusterresourceoverrides/", PLACEMENT_OBJECTS + "resourceoverrides/")
UPDATE_STRATEGIES = (
    PLACEMENT_OBJECTS + "clusterstagedupdatestrategies/",
    PLACEMENT_OBJECTS + "stagedupdatestrategies/",
)
UPDATE_RUNS = (PLACEMENT_OBJECTS + "clusterstagedupdateruns/", PLACEMENT_OBJECTS + "stagedupdateruns/")
"""Each first the kind without a namespace."""
HUB = ASIDE + "hub/"
"""What hubs and the agents of members keep; `contracts.placement_records` says who writes which."""
DECISIONS = HUB + "decisions/"
POLICIES = HUB + "policies/"
ROLLOUTS = HUB + "rollouts/"
WORKS = HUB + "works/"
RESULTS = HUB + "results/"
LOSSES = HUB + "losses/"
SNAPSHOTS = HUB + "snapshots/"
PINS = HUB + "pins/"
RUNS = HUB + "runs/"
CONTENTS = ASIDE + "contents/"
"""What snapshots consist of, by digest: no hub follows it."""
MEMBERS = HUB + "members/"
MEMBER_STATUS = HUB + "memberstatus/"
EVICTED = HUB + "evictions/"
DRAINS = HUB + "drains/"
HUBS = HUB + "hubs/"
HUB_ID = HUB + "id"
"""Tells this hub's etcd from every other."""
PLACED = ASIDE + "placed/"
"""In a member's own etcd: what its hub keeps there."""
PLACED_MEMBER = PLACED + "member"
"""Whose member it is."""
PLACED_AGENT = PLACED + "agent"
"""Who writes there for the hub."""
APPLIED = PLACED + "applied/"
MARKS = PLACED + "marks/"


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


def member_cluster(name: str) -> str:
    """A MemberCluster."""
    return f"{MEMBER_CLUSTERS}{name}"


def placement(reference: str) -> str:
    """The object of a placement: of `cluster/<name>` or `ns/<namespace>/<name>`."""
    scope, _, rest = reference.partition("/")
    return f"{CLUSTER_PLACEMENTS if scope == 'cluster' else NAMESPACED_PLACEMENTS}{rest}"


def decision(reference: str) -> str:
    """Which members a placement has, and why."""
    return f"{DECISIONS}{reference}"


def policies_of(reference: str) -> str:
    """What the keys of a placement's policies begin with."""
    return f"{POLICIES}{reference}/"


def policy(reference: str, number: int) -> str:
    """One policy that was decided by; create-only."""
    return f"{policies_of(reference)}{number}"


def rollout(reference: str) -> str:
    """Who delivers a placement now; each wave rewrites it."""
    return f"{ROLLOUTS}{reference}"


def work(reference: str, member: str) -> str:
    """What shall be on one member."""
    return f"{WORKS}{reference}/{member}"


def result(reference: str, member: str) -> str:
    """What is on one member."""
    return f"{RESULTS}{reference}/{member}"


def snapshots_of(reference: str) -> str:
    """What the keys of a placement's snapshots begin with."""
    return f"{SNAPSHOTS}{reference}/"


def snapshot(reference: str, number: int) -> str:
    """What was selected at one revision; create-only."""
    return f"{snapshots_of(reference)}{number}"


def contents_of(reference: str) -> str:
    """What the keys of the parts of a placement's snapshots begin with."""
    return f"{CONTENTS}{reference}/"


def contents(reference: str, digest: str) -> str:
    """One part of snapshots; create-only."""
    return f"{contents_of(reference)}{digest}"


def pin(reference: str) -> str:
    """Which snapshot is wanted, instead of the newest."""
    return f"{PINS}{reference}"


def update_strategy(namespace: str, name: str) -> str:
    """A staged update strategy; one without a namespace is of the cluster's kind."""
    return f"{UPDATE_STRATEGIES[1]}{namespace}/{name}" if namespace else f"{UPDATE_STRATEGIES[0]}{name}"


def update_run(namespace: str, name: str) -> str:
    """A staged update run; one without a namespace is of the cluster's kind."""
    return f"{UPDATE_RUNS[1]}{namespace}/{name}" if namespace else f"{UPDATE_RUNS[0]}{name}"


def run_records(reference: str, run: str, identity: int) -> str:
    """What the keys of one life of an update run begin with; `contracts.update_run_records` has what lies there."""
    return f"{RUNS}{reference}/{run}/{identity}/"


def run_approval(reference: str, run: str, identity: int, key: str) -> str:
    """An approval: of `<stage>.before` or `<stage>.after`; create-only."""
    return f"{run_records(reference, run, identity)}approvals/{key}"


def applied(reference: str) -> str:
    """In a member's own etcd: what of a placement is there."""
    return f"{APPLIED}{reference}"


def mark(stored: str) -> str:
    """In a member's own etcd: whose an object is, by the object's own key."""
    return f"{MARKS}{stored.removeprefix(ROOT)}"


def losses(reference: str) -> str:
    """Rewritten with each result of the placement that ceases to be available."""
    return f"{LOSSES}{reference}"


def member(name: str) -> str:
    """A member's agent, under its lease."""
    return f"{MEMBERS}{name}"


def member_status(name: str) -> str:
    """What a member's agent says of it."""
    return f"{MEMBER_STATUS}{name}"


def evicted(name: str) -> str:
    """How an eviction ended; create-only."""
    return f"{EVICTED}{name}"


def drain(member: str) -> str:
    """A member is cordoned, or drained."""
    return f"{DRAINS}{member}"


def hub(name: str) -> str:
    """A hub, under its lease."""
    return f"{HUBS}{name}"


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
        IMPORTED,
        ACTIVE,
        GRANTS,
        PROFILES,
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
