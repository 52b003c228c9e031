"""Which component may read and write which keys of etcd: the roles of its users.

One table for everything: `etcd_users` makes roles of it, `wharfinger etcd roles` prints it, and tests try on an etcd
what each role may write and what it may not. Keys are those of `keys` and `placement_keys`.

A role reads whole trees, because a component follows `/registry/` in one watch. It writes only what its component
writes. A transaction needs the permission for each key that it compares, reads or writes, in both branches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from wharfinger.registry import keys, placement_keys
from wharfinger.registry.etcd_wire import key_bytes, prefix_end

TREES = (keys.ROOT, keys.ASIDE)
"""Everything that wharfinger keeps."""


class KeyRange(NamedTuple):
    """Keys from `start` to before `end`; without an end, the one key."""

    start: bytes
    end: bytes = b""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, bytes) and (self.start <= key < self.end if self.end else key == self.start)


@dataclass(frozen=True, slots=True)
class EtcdRole:
    """What the users of a role may do. Keys that end with a slash stand for all keys below them."""

    name: str
    what: str
    """Which component has it."""
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    without: str = ""
    """A tree that it may not write, below one that it may."""

    def permissions(self) -> Mapping[KeyRange, str]:
        """Ranges with etcd's names of permissions: READ, WRITE, READWRITE."""
        read = {_range(key) for key in self.reads}
        write = {part for key in self.writes for part in _but(_range(key), self.without)}
        return {
            one: "READWRITE" if one in read and one in write else "READ" if one in read else "WRITE"
            for one in sorted(read | write)
        }

    def may_write(self, key: str) -> bool:
        """Whether it may put and delete the key."""
        return any(key_bytes(key) in one for one, kind in self.permissions().items() if kind != "READ")


def _range(key: str) -> KeyRange:
    start = key_bytes(key)
    return KeyRange(start, prefix_end(start)) if key.endswith("/") else KeyRange(start)


def _but(whole: KeyRange, without: str) -> Iterable[KeyRange]:
    """The range, or what is left of it before and behind the tree."""
    hole = _range(without) if without else None
    if hole is None or hole.start not in whole or hole == whole:
        return (whole,)
    return (KeyRange(whole.start, hole.start), KeyRange(hole.end, whole.end))


ROOT = EtcdRole("root", "etcd's administrator: users, snapshots, compaction; etcd defines what it may do")
ADMIN = EtcdRole(
    "admin", "people: `apply`, `delete`, `fleet`, `config`, `placement` and all other commands", TREES, TREES
)
READER = EtcdRole("reader", "`get`, `explain`, `pending`, `simulate --live` and others that change nothing", TREES)
PAGE = EtcdRole(
    "page",
    "the web page; what it writes are actions of `--allow-actions`",
    TREES,
    (keys.FLEETS, *placement_keys.UPDATE_RUNS, placement_keys.RUNS),
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
        placement_keys.MEMBER_CLUSTERS,
        placement_keys.PLACEMENT_OBJECTS,
        placement_keys.HUB_ID,
        placement_keys.HUBS,
        placement_keys.DECISIONS,
        placement_keys.POLICIES,
        placement_keys.ROLLOUTS,
        placement_keys.WORKS,
        placement_keys.RESULTS,
        placement_keys.LOSSES,
        placement_keys.SNAPSHOTS,
        placement_keys.PINS,
        placement_keys.RUNS,
        placement_keys.EVICTED,
        placement_keys.DRAINS,
        placement_keys.MEMBER_STATUS,
        placement_keys.CONTENTS,
    ),
)
MEMBER = EtcdRole(
    "member",
    "`wharfinger member`, in the etcd of its hub: the state and the results of its members",
    (
        keys.INSTALLATION,
        placement_keys.MEMBER_CLUSTERS,
        placement_keys.PLACEMENT_OBJECTS,
        placement_keys.HUB,
        placement_keys.CONTENTS,
    ),
    (
        placement_keys.HUB_ID,
        placement_keys.MEMBERS,
        placement_keys.MEMBER_STATUS,
        placement_keys.RESULTS,
        placement_keys.LOSSES,
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
