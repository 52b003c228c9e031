"""Every key of placements, of their members and of update runs, on a hub and in a member's own etcd.

What users write lies as Kubernetes keeps it; what hubs and agents keep lies under `ASIDE`, where no worker looks.
Neighbours: `keys` has those of pods, nodes, fleets and configuration, and of all objects by their kind's folder.
"""

from __future__ import annotations

from wharfinger.registry.keys import ASIDE, ROOT

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
