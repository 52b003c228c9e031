"""Ends the chain and removes the record of a pod that is bound, deleted, finished or owned by another worker.

A parked run is signalled; it reads its pod, finds nothing to do, and completes. The record is removed unless it was
rewritten since. After a list, the closer also removes versions that guard nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from temporalio.service import RPCError

from wharfinger.errors import StoreError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Compare, Delete
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import Refusal
from wharfinger.objects.model.storage import ClaimKey
from wharfinger.pressure import delays
from wharfinger.process.parts import ProcessParts
from wharfinger.scheduling.contracts.attempts import Wake
from wharfinger.scheduling.loops.signals import Attempts
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.scheduling.state.informer.decoding import printable
from wharfinger.scheduling.state.informer.view import View

log = logging.getLogger(__name__)

CHAINS_AT_A_TIME = 4
PACE = 0.02
"""Seconds after each, so that 200 a second end at most."""
LOOK_AGAIN = 0.25
"""Seconds between two calls of `busy`."""
LONGEST_PAUSE = 60.0
"""Seconds that a chain waits for a busy worker."""
CHAIN_TRIES = 8
MOST = 100_000
"""Chains remembered; beyond it, the oldest is left to its own timer."""


class ChainEnds:
    """Ends the parked chains of pods that a cohort bound, at most 200 a second.

    Such a chain would end by its own timer, hours later. Thousands of signals at once would delay the pods that
    are being placed, so the signals are paced.
    """

    def __init__(self, process: ProcessParts, attempts: Attempts, *, busy: Callable[[], bool]) -> None:
        """`busy`: whether pods are waiting to be placed; then chains wait, for `LONGEST_PAUSE` at most."""
        self._attempts = attempts
        self._busy = busy
        self._clock = process.clock
        self._rng = process.rng
        self._chains: deque[tuple[str, str, float]] = deque(maxlen=MOST)
        self._more = asyncio.Event()

    def __len__(self) -> int:
        return len(self._chains)

    def add(self, workflow_id: str, pod: str) -> None:
        """Signal the chain of this bound pod soon."""
        self._chains.append((workflow_id, pod, self._clock()))
        self._more.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CHAINS_AT_A_TIME):
                group.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            await self._more.wait()
            if not self._chains:
                self._more.clear()
            elif self._busy() and self._clock() - self._chains[0][2] < LONGEST_PAUSE:
                await asyncio.sleep(LOOK_AGAIN)
            else:
                workflow_id, pod, _ = self._chains.popleft()
                await self._tell(workflow_id, pod)
                await asyncio.sleep(PACE)

    async def _tell(self, workflow_id: str, pod: str) -> None:
        pauses = delays(0.2, 10.0, self._rng)
        for _ in range(CHAIN_TRIES):
            try:
                await self._attempts.wake(workflow_id, Wake(event="PodBound", object=pod))
            except Exception as error:  # one failing signal must not stop the others
                log.debug("chain_end_signal_failed effect=retried pod=%s error=%r", pod, str(error))
                await asyncio.sleep(next(pauses))
            else:
                return
        log.info("chain_end_signal_failed effect=ends_by_its_own_timer pod=%s", pod)


AT_A_TIME = 8
TRIES = 20
"""With delays up to 10 s, about three minutes; what is left then is found when lists are read."""

Ending = Callable[[], Coroutine[Any, Any, None]]
Closing = tuple[PodKey, int, bool]
"""A pod, the revision of its record, and whether that goes too."""


class Closer:
    """A few workers over a list of endings."""

    follows = ("records", "released")

    def __init__(self, process: ProcessParts, attempts: Attempts, view: View, *, ends: ChainEnds) -> None:
        self._store = process.store
        self._attempts = attempts
        self._view = view
        self._ends = ends
        self._rng = process.rng
        self._work: asyncio.Queue[tuple[Ending, Closing | None]] = asyncio.Queue()
        self._closing: set[Closing] = set()

    def close(self, key: PodKey, refusal: Refusal, *, remove_record: bool) -> None:
        """End the chain of a pod that needs it no more, soon; told again meanwhile, it is done once.

        `remove_record`: whether no other component reads it.
        """
        closing = (key, refusal.record_revision, remove_record)
        if closing in self._closing:
            return
        self._closing.add(closing)

        async def ending() -> None:
            if refusal.workflow_id and refusal.parked:
                await self._attempts.wake(refusal.workflow_id, Wake(event="PodGone", object=printable(str(key))))
            if remove_record:
                await self._delete(keys.attempt(*key), refusal.record_revision)

        self._work.put_nowait((ending, closing))

    def gone(self, key: PodKey) -> None:
        """Remove the record of what bound a pod that is gone, where there is one."""
        record = self._view.bound_by.get(key)
        if record is not None:
            self._removal(record.key, record.mod_revision, unless=keys.pod(*key))

    def leave(self, pod: Pod, refusal: Refusal | None) -> None:
        """End the chain of a pod that a cohort bound, some time soon: `ChainEnds`. None = perhaps one of its own."""
        workflow_id = refusal.workflow_id if refusal is not None else self._attempts.workflow_id(pod)
        self._ends.add(workflow_id, printable(str(pod.key)))

    def apply(self, changes: Changes) -> None:
        """Remove rooms that are held for nothing any more, and after a list, the versions of nodes and namespaces that
        nothing refers to any more.
        """
        cache, versions = self._view.cache, self._view.versions
        self._end_holds(changes)
        if not changes.listed:
            return
        for name, revision in versions[keys.BINDINGS].items():
            if name not in cache.nodes:
                self._removal(keys.binding(name), revision, unless=keys.node(name))
        for key in self._view.bound_by:
            if key not in cache.pods and not self._view.exists(keys.pod(*key)):
                self.gone(key)
        storage = cache.surroundings.storage
        for name, revision in versions[keys.VOLUMES].items():
            namespace, colon, claim = name.partition(":")
            known = ClaimKey(namespace, claim) in storage.claims if colon else name in storage.volumes
            if not known:
                self._removal(keys.volume(name), revision)
        inhabited = {key.namespace for key in cache.pods}
        for name, revision in versions[keys.BOUND].items():
            if name not in inhabited:
                self._removal(keys.bound(name), revision)
        for name, revision in versions[keys.TERMS].items():
            # A pod that is still kept away needs it, also before the first of the pods it is kept from comes.
            if name != keys.EVERY and name not in inhabited and not cache.anti_affinity.concerns_namespace(name):
                self._removal(keys.terms(name), revision)

    def _end_holds(self, changes: Changes) -> None:
        """Remove the rooms that are held for pods that are bound, gone, or refused since."""
        held = self._view.cache.held_places
        if not held:
            return
        touched = [*(one.key for one in changes.released), *(one.key for one in changes.records)]
        for key in dict.fromkeys([*held] if changes.listed else touched):
            place, pod, record = held.get(key), self._view.cache.pods.get(key), self._view.records.get(key)
            if place is None:
                continue
            refused = record is not None and record.record_revision > place.revision
            if pod is None or not place.is_for(pod) or refused:
                self._removal(keys.hold(*key), place.revision)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_A_TIME):
                group.create_task(self._loop())

    async def _loop(self) -> None:
        while True:
            ending, closing = await self._work.get()
            pauses = delays(0.2, 10.0, self._rng)
            for _ in range(TRIES):
                try:
                    await ending()
                    break
                except (RPCError, StoreError) as error:
                    log.debug("closing_failed effect=retried error=%r", str(error))
                    await asyncio.sleep(next(pauses))
                except Exception:  # one pod's ending must not end those of all others
                    log.exception("closing_failed effect=given_up")
                    break
            if closing is not None:
                self._closing.discard(closing)

    def _removal(self, key: str, revision: int, *, unless: str = "") -> None:
        self._work.put_nowait((partial(self._delete, key, revision, unless=unless), None))

    async def _delete(self, key: str, revision: int, *, unless: str = "") -> None:
        """Delete a key if it is still at that revision, and `unless` does not exist."""
        compares = [Compare(key, "mod", revision)]
        if unless:  # a pod or a node of that name may have been made again since
            compares.append(Compare(unless, "create", 0))
        await self._store.txn(compares, [Delete(key)])
