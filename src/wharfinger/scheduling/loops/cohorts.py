"""What goes into the start of a cohort: its name, its turn, and its pods within the bytes that Temporal takes."""

from __future__ import annotations

import json
import random

from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.contracts.cohort_scheduling import MOST_BYTES, CohortPod, Turn
from wharfinger.scheduling.state.queue.entry import SEEN, Entry


class CohortNames:
    """Unique names, and the turns of one dispatcher."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._dispatcher = self.fresh()
        self._number = 0
        self._unused: set[int] = set()

    def fresh(self) -> str:
        """A name for a cohort."""
        return f"{self._rng.getrandbits(128):032x}"

    def next_turn(self) -> Turn:
        """The turn of the next cohort."""
        self._number += 1
        return Turn(dispatcher=self._dispatcher, number=self._number)

    def started(self, turn: Turn) -> None:
        """A cohort has that turn: those before it are not taken any more."""
        self._unused = {number for number in self._unused if number > turn.number}

    def not_started(self, turn: Turn) -> None:
        """No cohort has that turn: the next one takes it, for workers wait for the cohort before."""
        self._unused.add(turn.number)
        while self._number in self._unused:
            self._unused.remove(self._number)
            self._number -= 1


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
    refusal, woken = entry.refusal, entry.woken_by
    if woken is not None and entry.cause != woken.event:
        woken = None  # it was started for another reason since
    return CohortPod(
        namespace=entry.pod.namespace,
        name=entry.pod.name,
        uid=entry.pod.uid,
        revision=entry.pod.mod_revision,
        attempt=refusal.attempt + 1 if refusal is not None else 1,
        recorded=refusal is not None,
        chained=entry.chained,
        record_revision=entry.record_revision,
        woken_by=entry.cause if woken is None and entry.cause != SEEN else "",
        wake=Wake(event=woken.event, object=woken.object, plugin=woken.plugin) if woken is not None else None,
    )
