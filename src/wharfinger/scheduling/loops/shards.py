"""Which worker starts a pod: rendezvous hashing over the ready workers, as etcd shows them.

Sharing out is a courtesy, not a lock: two workers that disagree for a moment start the same workflow
id, and one of them joins. So nothing here needs to be exact, only the same everywhere soon.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.process.records import InstanceRecord
from wharfinger.process.rendezvous import Ring
from wharfinger.scheduling.state.informer.changes import Changes, InstanceChange
from wharfinger.scheduling.state.pool import Pool

log = logging.getLogger(__name__)


def shard_key(pod: Pod) -> str:
    """What is hashed: the group's name, the namespace for pods with hard terms across nodes, else the pod's.

    Pods that look at each other are decided by one worker, so that they seldom contend.
    """
    if pod.group:
        return f"group/{pod.namespace}/{pod.group}"
    if pod.hard_terms_across_nodes:
        return f"namespace/{pod.namespace}"
    return f"pod/{pod.namespace}/{pod.name}"


class Roster:
    """The registrations of all workers of one tenant (or of the common pool), as the watch shows them."""

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._slots: dict[str, dict[int, InstanceRecord]] = {}

    def set(self, slot: str, incarnation: int, record: InstanceRecord | None) -> None:
        """A registration as it is now; None = gone."""
        lives = self._slots.setdefault(slot, {})
        if record is None:
            lives.pop(incarnation, None)
        else:
            lives[incarnation] = record
        if not lives:
            del self._slots[slot]

    def records(self) -> Iterator[InstanceRecord]:
        """Every registration, whatever its state."""
        return (record for lives in self._slots.values() for record in lives.values())

    def ready(self) -> frozenset[str]:
        """The members, `<tenant>/<slot>`: slots with a ready incarnation that dispatches."""
        return frozenset(f"{self._tenant}/{slot}" for slot in self._slots if self.serving(slot) is not None)

    def serving(self, slot: str) -> int | None:
        """The highest incarnation of the slot that is ready and dispatches: the member's owner."""
        lives = self._slots.get(slot, {})
        return max((n for n, record in lives.items() if record.state == "ready" and record.dispatches), default=None)


class Shards:
    """Which pods are this worker's, and from when on.

    A pod's owner must be unchanged for `hold` seconds before it starts pods it gained: the one before
    may still be starting them, and a membership that flaps moves nothing. Pods that stay with their
    owner, new pods on a settled ring, and pods that no worker owned before are not held.
    """

    def __init__(self, *, hold: float, clock: Callable[[], float]) -> None:
        self._hold = hold
        self._clock = clock
        self._ring = Ring()
        self._me: str | None = None
        self._alone = False
        """Whether there is no other member."""
        self._recent: deque[tuple[float, Ring, str | None]] = deque()
        """Earlier states, with the time each ended, oldest first; those of the last `hold` seconds."""

    @property
    def members(self) -> frozenset[str]:
        """The ready members."""
        return self._ring.members

    @property
    def me(self) -> str | None:
        """This worker's member name while it serves, else None."""
        return self._me

    def update(self, members: frozenset[str], me: str | None) -> bool:
        """Take over a membership; `me` is None while this worker serves nothing. Whether it changed."""
        me = me if me in members else None
        if members == self._ring.members and me == self._me:
            return False
        self._recent.append((self._clock(), self._ring, self._me))
        self._ring, self._me, self._alone = Ring(members), me, members == {me}
        return True

    def mine(self, pod: Pod) -> bool:
        """Whether this worker owns the pod now."""
        return self._alone or (self._me is not None and self._ring.owner(shard_key(pod)) == self._me)

    def owns_key(self, key: PodKey) -> bool:
        """Whether this worker looks after what a pod that is gone left behind."""
        return self._me is not None and self._ring.owner(f"pod/{key.namespace}/{key.name}") == self._me

    def not_before(self, pod: Pod) -> float:
        """Clock seconds before which a pod of ours is not started; 0 = at once."""
        horizon = self._clock() - self._hold
        while self._recent and self._recent[0][0] <= horizon:
            self._recent.popleft()
        key = shard_key(pod) if self._recent else ""
        for ended, ring, me in reversed(self._recent):
            owner = ring.owner(key)
            if owner is not None and (me is None or owner != me):
                return ended + self._hold
        return 0.0


class ShareOut:
    """Follows the registrations of this worker's pool, and hands each change of the shards on."""

    def __init__(
        self,
        pool: Pool,
        shards: Shards,
        instances: Instances,
        *,
        serve: Callable[[bool], None],
        resharded: Callable[[], None],
    ) -> None:
        """`serve` lets the dispatcher start pods, or stops it; `resharded` queues the pods that are this worker's now.

        They are called in this order.
        """
        self._tenant = pool.ownership.tenant
        self._preferred_nodes = pool.preferred_nodes
        self._shards = shards
        self._serve = serve
        self._resharded = resharded
        self._roster = instances.pool(self._tenant)

    def ours(self, changes: Iterable[InstanceChange]) -> list[InstanceChange]:
        """Those of our pool."""
        return [change for change in changes if change.tenant == self._tenant]

    def update(self, slot: str, incarnation: int, *, anew: bool) -> None:
        """Share out to the ready workers; `slot`: this worker's, empty while it is off duty; `anew`: in any case."""
        me = f"{self._tenant}/{slot}" if slot and self._roster.serving(slot) == incarnation else None
        if self._shards.update(self._roster.ready(), me) or anew:
            self._preferred_nodes.share(self._shards.members, self._shards.me)
            log.info("shards_changed members=%d serving=%s", len(self._shards.members), me is not None)
            self._serve(me is not None)
            self._resharded()


class Instances:
    """The registrations of all pools, one roster a pool; a `Subscriber`."""

    follows = ("instances",)

    def __init__(self) -> None:
        self._pools: dict[str, Roster] = {}

    def apply(self, changes: Changes) -> None:
        """Follow every registration."""
        for change in changes.instances:
            self.pool(change.tenant).set(change.slot, change.incarnation, change.new)

    def ready(self) -> frozenset[str]:
        """The members of all pools, `<tenant>/<slot>`."""
        return frozenset().union(*(roster.ready() for roster in self._pools.values()))

    def pool(self, tenant: str) -> Roster:
        """The registrations of one tenant, or of the common pool."""
        return self._pools.setdefault(tenant, Roster(tenant))
