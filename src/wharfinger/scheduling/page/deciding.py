"""Decides on the present state without changing anything, beside the event loop and within limits.

Each slot has profiles of its own, because profiles are not shared between threads, and a snapshot of its own family. A
slot is taken until its work has ended, even when who asked has been told that it took too long: so no number of
questions makes more threads than there are slots.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from wharfinger.errors import ConfigurationError, StoreError
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import Configured, load_configuration
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.documents import documents
from wharfinger.objects.model.pod import Pod
from wharfinger.page.web.inputs import TooLong
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.serving_profiles import ServedProfile, StoredProfiles, read_profiles

log = logging.getLogger(__name__)

T = TypeVar("T")

LIMIT = 10.0
"""Seconds that a question may take, with its wait for a slot."""
LOOK_AFTER = 5.0
"""Seconds after which it is looked anew at the stored configurations, and at which of them are served."""


class DecidingSlot:
    """What one thread decides with."""

    def __init__(self) -> None:
        self._configured: dict[str, Configured] = {}

    def configured(self, stored: StoredProfiles, scheduler: str, digest: str) -> Configured:
        """The configuration of that digest (empty: the built-in one), which has the scheduler name.

        Raises `ConfigurationError` where it cannot be made here, and for a name that it does not have.
        """
        known = self._configured.get(digest)
        if known is None:
            if len(self._configured) > 8:
                self._configured.clear()
            source = documents.parse(stored.contents[digest]) if digest else None
            known = self._configured[digest] = load_configuration(source, format_=stored.format)
        if scheduler not in known.profiles:
            raise ConfigurationError(f"no profile serves the scheduler name {scheduler}")
        return known


@dataclass(frozen=True, slots=True)
class PresentState:
    """What a question is asked on."""

    slot: DecidingSlot
    stored: StoredProfiles
    snapshot: Snapshot

    def served(self, pod: Pod) -> ServedProfile:
        """By which configuration the pod is decided, and why by that one."""
        return self.stored.of(pod)

    def configured(self, pod: Pod) -> Configured:
        """That configuration. Raises `ConfigurationError`."""
        return self.slot.configured(self.stored, pod.scheduler_name, self.served(pod).digest)

    def profile(self, pod: Pod) -> Profile:
        """The profile that the pod names. Raises `ConfigurationError`."""
        return self.configured(pod).profiles[pod.scheduler_name]


class Deciders:
    """Answers questions, so many at a time."""

    def __init__(self, following: Following, *, slots: int, limit: float = LIMIT) -> None:
        self._following = following
        self._limit = limit
        self._slots: asyncio.Queue[DecidingSlot] = asyncio.Queue()
        for _ in range(slots):
            self._slots.put_nowait(DecidingSlot())
        self._threads = ThreadPoolExecutor(slots, thread_name_prefix="page-decides")
        self._stored: tuple[float, StoredProfiles] | None = None

    async def ask(self, work: Callable[[PresentState], T]) -> T:
        """Run the work on the present state. Raises `TooLong`, `StoreError`, and what the work raises."""
        try:
            async with asyncio.timeout(self._limit):
                stored = await self._profiles()
                slot = await self._slots.get()
                try:
                    snapshot = self._following.cache.snapshot()
                    loop = asyncio.get_running_loop()
                    running = loop.run_in_executor(self._threads, _on_stage, work, slot, stored, snapshot)
                except BaseException:  # no thread has taken the slot
                    self._slots.put_nowait(slot)
                    raise
                running.add_done_callback(lambda _: self._slots.put_nowait(slot))
                return await asyncio.shield(running)
        except TimeoutError as error:
            raise TooLong(f"this took longer than {self._limit:.0f} s and was given up") from error

    def close(self) -> None:
        """Take no more questions."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _profiles(self) -> StoredProfiles:
        """Those that are stored; while etcd does not answer, those that were. Raises `StoreError`."""
        now = time.monotonic()
        if self._stored is None or now - self._stored[0] > LOOK_AFTER:
            try:
                self._stored = now, await read_profiles(self._following)
            except StoreError as error:
                if self._stored is None:
                    raise
                log.debug("profiles_kept error=%r", str(error))
        return self._stored[1]


def _on_stage(work: Callable[[PresentState], T], slot: DecidingSlot, stored: StoredProfiles, snapshot: Snapshot) -> T:
    own = Snapshot.of(
        snapshot.rows, snapshot.revision, surroundings=snapshot.surroundings, nominated=snapshot.nominated
    )
    return work(PresentState(slot, stored, own))
