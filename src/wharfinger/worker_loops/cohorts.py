"""How many pods go into the next cohort, and which: policy, without I/O.

A lone pod never waits for company. A backlog that single attempts clear within about two seconds, at the throughput
measured for plain pods and for pods with rules across nodes, is left to them. A deeper one is a flood: what has
gathered goes into the next cohort, so that cohorts grow with the load, and are few.
"""

from __future__ import annotations

import json
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from wharfinger.contracts.cohorts import MOST_BYTES, CohortPod, Turn
from wharfinger.contracts.search import MOST_LISTED
from wharfinger.queue.entry import Entry
from wharfinger.settings import DispatchSettings

log = logging.getLogger(__name__)

CLEARED = 2.0
"""Seconds within which single attempts are to clear a backlog of which no cohort is made."""
MOST_ALONE = 1000
"""Pods in such a backlog at most, however quickly single attempts were completed so far."""
FEW = 4
"""Pods in flight one by one or ready, while cohorts are open: as many go on one by one, beyond them goes a cohort."""
PATIENCE = 1.0
"""Seconds that pods wait for one of the cohorts to end before they are started one by one all the same."""
STUCK = 5.0
"""Seconds that a deep backlog waits for one of the cohorts to end before one more is formed: etcd shows
no outcome for a pod that was left out, and a few such pods would stop everything until they are overdue."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is to be done, and what is being done."""

    ready: int
    """Pods that can be placed by cohorts now."""
    ruled: int
    """Those of them with rules across nodes."""
    together: int
    """Those of them that can be placed only so."""
    alone: int
    """Pods in flight by an attempt of their own."""
    cohorts: int
    """Open cohorts."""
    chains: int
    """Waiting pods with a parked chain."""


class Forming:
    """When a cohort is formed, of how many, and when pods are started one by one."""

    def __init__(
        self, settings: DispatchSettings, throughput: Callable[[bool], float | None] = lambda _ruled: None
    ) -> None:
        """`throughput`: single attempts a second, of pods with or without rules; None until it is measured."""
        self._formed_at = 0.0
        self._throughput = throughput
        self._formed: deque[tuple[float, float]] = deque()
        """When cohorts were formed, and how much of a flood each of them was; see `_share`."""
        self.configure(settings)

    def configure(self, settings: DispatchSettings) -> None:
        """Go by these from now on."""
        self._on = settings.cohorts
        self._from = settings.cohort_from
        self._most = min(settings.cohort_most, MOST_LISTED)  # Temporal finds each of them by name
        if settings.cohort_most > MOST_LISTED:
            log.warning("cohorts_capped cohort_most=%d effect=%d", settings.cohort_most, MOST_LISTED)
        self._at_a_time = settings.cohorts_in_flight
        self._chains = settings.parked_chains

    def size(self, load: Backlog, now: float) -> int:
        """How many pods to put into a cohort now, at most; 0 for none."""
        if not self._deep(load, now):
            return 0
        if load.cohorts >= self._at_a_time and now - self._formed_at < STUCK:
            return 0
        self._formed_at = now
        self._forget(load, now)
        size = min(self._most, max(self._from, -(-load.ready // self._at_a_time)))
        self._formed.append((now, self._share(load) * min(size, load.ready) / load.ready))
        return size

    def most_alone(self, *, ruled: bool) -> int:
        """How many pods, at most, are left to single attempts: as many as these complete in about two seconds.

        As many as `cohort_from` says until that is measured, and never fewer.
        """
        measured = self._throughput(ruled)
        return self._from if measured is None else max(self._from, min(MOST_ALONE, round(measured * CLEARED)))

    def one_by_one(self, load: Backlog, now: float) -> bool:
        """Whether pods that might as well be in a cohort are started by themselves now."""
        if not self._deep(load, now):
            return True
        stuck = load.cohorts >= self._at_a_time and now - self._formed_at >= PATIENCE
        return stuck and load.ready < self._from

    def may_park(self, load: Backlog) -> bool:
        """Whether waiting pods without a chain may be given one: there is room, and nothing better to do."""
        return not self._on or (not load.cohorts and load.ready < self._from and load.chains < self._chains)

    def _deep(self, load: Backlog, now: float) -> bool:
        if not self._on:
            return load.together > 0  # woken when cohorts were on: nothing else places them
        if not load.ready:
            return False
        if load.together or load.chains >= self._chains:  # one more that is refused would park one more
            return True
        share = self._share(load)
        if share >= 1:
            return True
        # The rest of a flood: single attempts beside its cohorts would end last.
        return load.cohorts > 0 and load.ready + load.alone > FEW and share + self._lately(load, now) >= 1

    def _share(self, load: Backlog) -> float:
        """How deep the backlog is, where 1 is the least of which a cohort is made."""
        return (load.ready - load.ruled) / self.most_alone(ruled=False) + load.ruled / self.most_alone(ruled=True)

    def _lately(self, load: Backlog, now: float) -> float:
        """How much of a flood went into the cohorts that are open, or were formed in the last two seconds."""
        self._forget(load, now)
        return sum(share for _, share in self._formed)

    def _forget(self, load: Backlog, now: float) -> None:
        """Forget the cohorts that are neither open nor of the last two seconds."""
        while len(self._formed) > load.cohorts and now - self._formed[0][0] >= CLEARED:
            self._formed.popleft()


@dataclass(frozen=True, slots=True)
class Cohort:
    """Pods to be placed together, in this order."""

    name: str
    members: tuple[Entry, ...]
    turn: Turn

    @property
    def cause(self) -> str:
        """Why its pods are started, for the explanation."""
        return ", ".join(sorted({entry.cause for entry in self.members}))


class CohortNames:
    """Unique names, and the turns of one dispatcher."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._dispatcher = self.fresh()
        self._number = 0

    def fresh(self) -> str:
        """A name for a cohort."""
        return f"{self._rng.getrandbits(128):032x}"

    def next_turn(self) -> Turn:
        """The turn of the next cohort."""
        self._number += 1
        return Turn(dispatcher=self._dispatcher, number=self._number)


class InputBudget:
    """What a cohort's input may still come to in bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._left = most

    def fits(self, entry: Entry) -> bool:
        """Whether there is room for the pod, which takes it."""
        size = len(json.dumps(cohort_pod(entry).model_dump(exclude_defaults=True))) + 2
        if size > self._left:
            return False
        self._left -= size
        return True


def cohort_pod(entry: Entry) -> CohortPod:
    """What a cohort's input says of a pod."""
    refusal = entry.refusal
    return CohortPod(
        namespace=entry.pod.namespace,
        name=entry.pod.name,
        uid=entry.pod.uid,
        revision=entry.pod.mod_revision,
        attempt=refusal.attempt + 1 if refusal is not None else 1,
        recorded=refusal is not None,
        chained=entry.chained,
        record_revision=entry.record_revision,
    )


def cohort_pods(members: Sequence[Entry]) -> list[CohortPod]:
    """What a cohort's input says of its pods."""
    return [cohort_pod(entry) for entry in members]
