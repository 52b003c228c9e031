"""Every key of placements, of their members and of update runs, on a hub and in a member's own etcd.

What users write lies as Kubernetes keeps it; what hubs and agents keep lies under `ASIDE`, where no worker looks.
Neighbours: `keys` has those of pods, nodes, fleets and configuration, and of all objects by their kind's folder.
"""

from __future__ import annotations

from wharfinger.etcd.keys import ASIDE, ROOT
from wharfinger.etcd.table import Table

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
HUB_ID = HUB + "id"
"""Tells this hub's etcd from every other."""
PLACED = ASIDE + "placed/"
"""In a member's own etcd: what its hub keeps there."""
PLACED_MEMBER = PLACED + "member"
"""Whose member it is."""
PLACED_AGENT = PLACED + "agent"
"""Who writes there for the hub."""
MARKS = PLACED + "marks/"

member_cluster = Table(ROOT + "cluster.kubernetes-fleet.io/memberclusters/", "name")
decision = Table(HUB + "decisions/", "placement...")
"""Which members a placement has, and why."""
policy = Table(HUB + "policies/", "placement...", "number")
"""One policy that was decided by; create-only."""
rollout = Table(HUB + "rollouts/", "placement...")
"""Who delivers a placement now; each wave rewrites it."""
work = Table(HUB + "works/", "placement...", "member")
"""What shall be on one member."""
result = Table(HUB + "results/", "placement...", "member")
"""What is on one member."""
losses = Table(HUB + "losses/", "placement...")
"""Rewritten with each result of the placement that ceases to be available."""
snapshot = Table(HUB + "snapshots/", "placement...", "number")
"""What was selected at one revision; create-only."""
contents = Table(ASIDE + "contents/", "placement...", "digest")
"""One part of snapshots; create-only, and followed by no hub."""
pin = Table(HUB + "pins/", "placement...")
"""Which snapshot is wanted, instead of the newest."""
run_record = Table(HUB + "runs/", "placement...", "run", "identity", "what...")
"""What is kept of one life of an update run, by its name in `contracts.delivery_records`."""
member = Table(HUB + "members/", "member")
"""A member's agent, under its lease."""
member_status = Table(HUB + "memberstatus/", "member")
"""What a member's agent says of it."""
evicted = Table(HUB + "evictions/", "name")
"""How an eviction ended; create-only."""
drain = Table(HUB + "drains/", "member")
"""A member is cordoned, or drained."""
hub = Table(HUB + "hubs/", "hub")
"""A hub, under its lease."""
applied = Table(PLACED + "applied/", "placement...")
"""In a member's own etcd: what of a placement is there."""


def placement(reference: str) -> str:
    """The object of a placement: of `cluster/<name>` or `ns/<namespace>/<name>`."""
    scope, _, rest = reference.partition("/")
    return f"{CLUSTER_PLACEMENTS if scope == 'cluster' else NAMESPACED_PLACEMENTS}{rest}"


def update_strategy(namespace: str, name: str) -> str:
    """A staged update strategy; one without a namespace is of the cluster's kind."""
    return f"{UPDATE_STRATEGIES[1]}{namespace}/{name}" if namespace else f"{UPDATE_STRATEGIES[0]}{name}"


def update_run(namespace: str, name: str) -> str:
    """A staged update run; one without a namespace is of the cluster's kind."""
    return f"{UPDATE_RUNS[1]}{namespace}/{name}" if namespace else f"{UPDATE_RUNS[0]}{name}"


def run_approval(reference: str, run: str, identity: int, key: str) -> str:
    """An approval: of `<stage>.before` or `<stage>.after`; create-only."""
    return run_record(reference, run, identity, f"approvals/{key}")


def mark(stored: str) -> str:
    """In a member's own etcd: whose an object is, by the object's own key."""
    return f"{MARKS}{stored.removeprefix(ROOT)}"
