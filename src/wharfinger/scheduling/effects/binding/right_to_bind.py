"""Whether this installation may bind now: `active` is in etcd, by a read that began a moment ago.

The last bind must end before another scheduler can take the Lease. All times count from when the holder's last renewal
began; with the usual terms of the Lease::

    renewed                                     10 s      10.5 s       11 s            15 s
       ├── kept alive ──┬──── ttl of `active` ─────┼─────────┤ a read  ├── a bind ────────┤
       0              ≤ 4.1 s                    deleted   ended       counts so long     another scheduler binds

    gone_after = min(renewDeadline, ended_by)
    ended_by = leaseDuration - 4 s of a bind - 0.5 s of a read

A read whose answer came later than it counts is made again: etcd was slow, or this process stood still. The holder
deletes `active` at `gone_after`. Where it cannot reach etcd, the lease of `active` ends by `ended_by`: its holder
renews that lease only while even a renewal that is sent again for a third of the TTL, and ends late, ends by then.
That holds for one leader of etcd: a new leader begins each lease anew, so a change of etcd's leader in these very
seconds adds one TTL and an election time-out. See decision 28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.apiserver.client import REQUEST_DEADLINE
from wharfinger.errors import UpstreamUnavailable
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.scheduling.model.promises import KubernetesSide
from wharfinger.settings import ElectionSettings

FRESH = 0.5
"""Seconds that a read counts, from when it began."""
LONGEST_TTL, SHORTEST_TTL = 4.0, 2.0
"""Seconds of the lease of `active`: more would waste the time in which renewals may fail; etcd grants no fewer."""
ENDS_LATE = 1.0
"""Seconds by which etcd may end a lease late: it looks twice a second, and writes then."""
RENEWED_WITHIN = 1 / 3
"""Share of the TTL within which a renewal is sent, and sent again, after it was decided."""
NOT_HELD = (
    "this installation does not hold the Lease of the Kubernetes API: another scheduler binds now, or the importer "
    "has only just ended; `wharfinger kubernetes status` shows the holder"
)
READS = 3
"""Reads that may take longer than they count, before the caller has to come again."""
TOO_SLOW = f"etcd takes more than {FRESH:g} s to say whether this installation may bind"
NO_SIGN = "no importer has given a sign since this worker began, so `active` may be a backup's"


@dataclass(frozen=True, slots=True)
class ActiveTerms:
    """How long `active` may live, in seconds."""

    gone_after: float
    """From when the last renewal of the Lease began: then its holder deletes it."""
    ended_by: float
    """From the same moment: by then its lease has ended, if its holder cannot delete it."""
    ttl: float
    """Of its lease in etcd, as it is asked for."""

    @classmethod
    def of(cls, election: ElectionSettings) -> ActiveTerms:
        """By the terms of the Lease. Where that is so short that no lease of etcd fits, the shortest is answered."""
        ended_by = int(election.lease_duration) - REQUEST_DEADLINE - FRESH
        left = ended_by - ENDS_LATE - election.retry_period  # it is renewed once between two renewals of the Lease
        ttl = float(int(max(SHORTEST_TTL, min(LONGEST_TTL, left / (1 + RENEWED_WITHIN)))))
        return cls(min(election.renew_deadline, ended_by), ended_by, ttl)

    def may_put(self, age: float, ttl: float) -> bool:
        """Whether a lease of `ttl` seconds that was granted by now ends in time. `age`: of the last renewal."""
        return age + ttl + ENDS_LATE <= self.ended_by

    def may_keep(self, age: float, ttl: float) -> bool:
        """Whether the lease may be renewed now: it ends in time even where the request has to be sent again."""
        return self.may_put(age + ttl * RENEWED_WITHIN, ttl)


class RightToBind:
    """Asks for `active`; one read serves everything that is sent in the next seconds."""

    def __init__(self, store: Store, *, clock: Callable[[], float], side: KubernetesSide | None = None) -> None:
        """`clock`: seconds that go on while the machine is suspended (`objects.model.boot_time`); `side`: what this
        worker's watch has shown, None = `active` always counts.
        """
        self._store = store
        self._clock = clock
        self._side = side
        self._read_at = float("-inf")
        self._revision = 0
        self._reading: asyncio.Lock = asyncio.Lock()

    async def confirm(self) -> int:
        """The mod revision of `active`. Raises `UpstreamUnavailable` when it is not there, and `StoreError`.

        A promise with an older revision may have been dropped since, because the API was restored: read it again.
        """
        if self._clock() - self._read_at <= FRESH:
            return self._revision
        async with self._reading:
            for _ in range(READS):
                began = self._clock()
                if began - self._read_at <= FRESH:
                    return self._revision
                # A restored etcd has `active` again, with a lease that begins anew, and its holder may be gone. The
                # restored key of the importer outlives `active`, so a sign comes from the holder or after that.
                if self._side is not None and not self._side.signed:
                    raise UpstreamUnavailable(NO_SIGN)
                active = (await self._store.get(keys.ACTIVE)).kv
                if active is None:
                    raise UpstreamUnavailable(NOT_HELD)
                self._read_at, self._revision = began, active.mod_revision
                if self._clock() - began <= FRESH:  # else etcd was slow, or this process stood still
                    return self._revision
            raise UpstreamUnavailable(TOO_SLOW)
