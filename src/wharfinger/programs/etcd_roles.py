"""Which component may read and write which keys of etcd: the roles of its users.

One table for everything: `etcd_users` makes roles of it, `wharfinger etcd roles` prints it, and tests try on an etcd
what each role may write and what it may not. Keys are those of `keys` and `placement_keys`.

A role reads whole trees, because a component follows `/registry/` in one watch. It writes only what its component
writes.
"""

from __future__ import annotations

from wharfinger.etcd import keys
from wharfinger.etcd.etcd_users import ADMIN, ROOT, TREES, EtcdRole
from wharfinger.placement.contracts import placement_keys

READER = EtcdRole("reader", "`get`, `explain`, `pending`, `simulate --live` and others that change nothing", TREES)
PAGE = EtcdRole(
    "page",
    "the web page; what it writes are actions of `--allow-actions`",
    TREES,
    (keys.FLEETS, *placement_keys.UPDATE_RUNS, placement_keys.run_record.prefix),
)
WORKER = EtcdRole(
    "worker",
    "`wharfinger worker`, and the instances of agents",
    (keys.ROOT,),
    (
        keys.PODS,
        keys.PERSISTENT_VOLUMES,
        keys.PERSISTENT_VOLUME_CLAIMS,
        keys.INSTALLATION,
        keys.BINDINGS,
        keys.BOUND,
        keys.TERMS,
        keys.ATTEMPTS,
        keys.BOUND_BY,
        keys.INSTANCES,
        keys.CONFIG_STATUS,
        keys.REQUEUED,
        keys.VOLUMES,
        keys.HOLDS,
        keys.NODE_BUDGET,
        keys.PROFILES,
        keys.SOFTWARE,
    ),
)
IMPORTER = EtcdRole(
    "importer",
    "workers of a cluster whose store is a Kubernetes API, beside `worker`: its copies and its promises",
    (keys.ROOT,),
    (keys.NODES, *keys.SURROUNDINGS, keys.PROMISES, keys.IMPORTER, keys.IMPORTED, keys.ACTIVE),
)
AGENT = EtcdRole(
    "agent",
    "`wharfinger agent`: its host, and the fleets whose workflows it runs",
    (keys.ROOT,),
    (
        keys.INSTALLATION,
        keys.HOSTS,
        keys.LOST_HOSTS,
        keys.EXITS,
        keys.INSTANCES,
        keys.FLEETS,
        keys.REVISIONS,
        keys.OUTCOMES,
        keys.ACTORS,
        keys.FLEET_STATUS,
        keys.SLOTS,
        keys.GRANTS,
        keys.TENANTS,
    ),
)
HUB = EtcdRole(
    "hub",
    "`wharfinger hub`: decisions, works, snapshots and runs of placements",
    TREES,
    (
        keys.INSTALLATION,
        placement_keys.member_cluster.prefix,
        placement_keys.PLACEMENT_OBJECTS,
        placement_keys.HUB_ID,
        placement_keys.hub.prefix,
        placement_keys.decision.prefix,
        placement_keys.policy.prefix,
        placement_keys.rollout.prefix,
        placement_keys.work.prefix,
        placement_keys.result.prefix,
        placement_keys.losses.prefix,
        placement_keys.snapshot.prefix,
        placement_keys.pin.prefix,
        placement_keys.run_record.prefix,
        placement_keys.evicted.prefix,
        placement_keys.drain.prefix,
        placement_keys.member_status.prefix,
        placement_keys.contents.prefix,
    ),
)
MEMBER = EtcdRole(
    "member",
    "`wharfinger member`, in the etcd of its hub: the state and the results of its members",
    (
        keys.INSTALLATION,
        placement_keys.member_cluster.prefix,
        placement_keys.PLACEMENT_OBJECTS,
        placement_keys.HUB,
        placement_keys.contents.prefix,
    ),
    (
        placement_keys.HUB_ID,
        placement_keys.member.prefix,
        placement_keys.member_status.prefix,
        placement_keys.result.prefix,
        placement_keys.losses.prefix,
    ),
)
APPLIER = EtcdRole(
    "applier",
    "`wharfinger member`, in the etcd of a member: the objects that are placed there",
    (keys.ROOT, placement_keys.PLACED, placement_keys.HUB_ID),
    (keys.ROOT, placement_keys.PLACED),
    without=keys.OURS,
)
HEALTH = EtcdRole("health", "health checks, which only have to log in")
ROLES = (ROOT, ADMIN, READER, PAGE, WORKER, IMPORTER, AGENT, HUB, MEMBER, APPLIER, HEALTH)
"""Every role; a user of each has its name, but `importer` goes to the user `worker`."""
