"""The queue's entry of one pod, the parts it can be in, and a heap of entries."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from wharfinger.objects.model.gang import Gang
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal

SEEN = "seen"
"""Why a pod is started that is new."""
CHAIN_GONE = "chain gone"
"""Why a waiting pod is started anew: its record names a chain that is not there any more."""
UNCONFIRMED = "unconfirmed"
"""Why a pod is started again: etcd showed no outcome of the start before."""
RUN_FAILED = "run failed"
"""Why a pod is started again: the run of its group failed."""
UNANSWERED = "unanswered"
"""Why a pod is started again: etcd or the Kubernetes API did not answer the run of its group."""
START_FAILED = "start failed"
"""Why a pod is started again: Temporal did not accept the start of its group."""
LEVEL = "level"
"""Why a waiting pod is started again, slowly and for ever."""


class Part(StrEnum):
    """The four parts of the queue; a pod is in exactly one of them."""

    GATED = "gated"
    ACTIVE = "active"
    IN_FLIGHT = "in-flight"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Reason:
    """What made a waiting pod a candidate; for the explanation."""

    event: str
    object: str = ""
    plugin: str = ""


@dataclass(slots=True, eq=False)
class Entry:
    """One life of a pod in the queue. Changed by the queue only."""

    pod: Pod
    """As last seen."""
    since: float
    """Clock seconds at which the pod could first be started here: when it was seen, or when its gates opened."""
    arrival: float
    """Orders pods of equal priority, clock seconds: when it was last ungated, or a start was not confirmed in time."""
    part: Part
    cause: str
    """Why it is to be started: `seen`, `take-over`, `unconfirmed`, `chain gone`, ..."""
    woken_by: Reason | None = None
    """What it was woken by last; it counts while `cause` is its event."""
    refusal: Refusal | None = None
    """Its record, as last seen; None when it has none."""
    number: int = 0
    """Orders pods that arrived at one moment; a pod that comes back keeps it, and so its place."""
    not_before: float = 0.0
    """Clock seconds before which it is not started (a gained pod's owner must be unchanged a while)."""
    refused_at: float = 0.0
    """Clock seconds at which its record was first seen here: its back-off runs from then on."""
    started_at: float | None = None
    """Clock seconds of the last start that Temporal accepted; None while the start is on its way."""
    gate: str = ""
    """The PreEnqueue plugin that holds it back, or what its gang lacks; for gated pods."""
    unopened: bool = False
    """Whether it has been gated since it was first seen."""
    group: str = ""
    """The group in flight in which it counts, see `active_queue.Window`; empty when it counts in none."""
    cohort: str = ""
    """The cohort or gang that was last started for it and others; empty when it was started by itself."""
    gang: Gang | None = None
    """What it is placed as one of; None when it is placed by itself."""
    together: bool = False
    """Woken while its chain is parked, to be placed by a cohort only; until it is bound or refused again."""
    woken: bool = False
    """Whether a chain without any record in etcd was woken, see `SchedulingQueue.may_be_parked`."""
    own_chain: bool = False
    """Whether a start of its own chain was accepted: should a cohort bind the pod, that may be parked unbeknown."""
    alone: bool = False
    """Not to be put into a group: one could not be started with it, or two gave no outcome for it."""
    set_apart: int = 0
    """How often that was found. After the first time, it joins groups again once its own attempt was decided."""
    start_failed: int | None = None
    """`Window.acceptances` when the start of this pod alone failed last; None after a start that was accepted."""

    @property
    def key(self) -> PodKey:
        """The pod's key."""
        return self.pod.key

    @property
    def chained(self) -> bool:
        """Whether a chain of its own is parked, as far as is known here."""
        return self.refusal is not None and self.refusal.parked and self.cause != CHAIN_GONE

    @property
    def chainless(self) -> bool:
        """Whether it has a record, and no chain."""
        return self.refusal is not None and not self.refusal.parked

    @property
    def record_revision(self) -> int:
        """Mod revision of its record, 0 when it has none."""
        return self.refusal.record_revision if self.refusal is not None else 0


GARBAGE = 64
"""Items left behind that are never worth a clean-up; beyond that, no more than there are live ones."""

_Item = tuple[Any, int, Entry]
"""An order, a ticket that orders equals (first come, first served), and the entry."""


class EntryHeap:
    """Entries by an order, smallest first; one a pod. Every step is O(log n) in the long run.

    Removal is lazy, and what it leaves behind is bounded.
    """

    def __init__(self) -> None:
        self._heap: list[_Item] = []
        self._live: dict[PodKey, _Item] = {}
        self._tickets = itertools.count()

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: PodKey) -> bool:
        return key in self._live

    def __iter__(self) -> Iterator[Entry]:
        """The entries, in no order."""
        return (entry for _, _, entry in self._live.values())

    def push(self, entry: Entry, order: Any) -> None:
        """Put the entry in, or to another place when its order is another."""
        known = self._live.get(entry.key)
        if known is not None and known[2] is entry and known[0] == order:
            return
        item = (order, next(self._tickets), entry)
        self._live[entry.key] = item
        heapq.heappush(self._heap, item)
        self._clean_up()

    def discard(self, key: PodKey) -> bool:
        """Take the pod's entry out; whether it was in."""
        if self._live.pop(key, None) is None:
            return False
        self._clean_up()
        return True

    def first(self) -> tuple[Any, Entry] | None:
        """The smallest order and its entry, which stays in; None when there is none."""
        while self._heap:
            item = self._heap[0]
            if self._live.get(item[2].key) is item:
                return item[0], item[2]
            heapq.heappop(self._heap)
        return None

    def pop(self) -> Entry | None:
        """The entry of the smallest order, taken out; None when there is none."""
        if self.first() is None:
            return None
        _, _, entry = heapq.heappop(self._heap)
        del self._live[entry.key]
        return entry

    def _clean_up(self) -> None:
        """Drop what removal left behind, once it is more than what lives."""
        if len(self._heap) > 2 * len(self._live) + GARBAGE:
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)
