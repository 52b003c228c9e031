"""Decides on the present state without changing anything, beside the event loop and within limits.

Each slot has profiles of its own, because profiles are not shared between threads, and a snapshot of its own family. A
slot is taken until its work has ended, even when who asked has been told that it took too long: so no number of
questions makes more threads than there are slots.

A pod is decided by the profile that a live worker of its pool serves under its scheduler name. Workers write each
configuration under its digest, and beside their registration which digest decides for each of their names.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from wharfinger.errors import ConfigurationError, InvalidObject, StoreError
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import Configured, load_configuration
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.documents import documents
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.texts import counted
from wharfinger.page.follow.plain import text
from wharfinger.page.web.inputs import TooLong
from wharfinger.process.installation import digests_in_force, stored_configurations
from wharfinger.process.names import COMMON, TENANT_LABEL, pool_of
from wharfinger.scheduling.page.following import Following

MOST_STORED = 200
MOST_NAMED = 20
"""Workers that are named."""
SHOWN = 12
"""Digits of a digest in a sentence."""
BUILT_IN = ""
"""Digest of the configuration that is used where none is stored."""
SERVED, UNKNOWN, UNSERVED = "served", "unknown", "unserved"


@dataclass(frozen=True, slots=True)
class ServingWorker:
    """A live worker that serves a scheduler name."""

    name: str
    """`tenant/slot`."""
    ready: bool
    digest: str
    """Of the configuration that it decides by; empty = it does not say."""


@dataclass(frozen=True, slots=True)
class ServedProfile:
    """By which configuration a pod is decided."""

    scheduler: str
    digest: str
    """`BUILT_IN` where none is stored."""
    basis: str
    """`served`: a live worker decides by it now; `unknown`: workers serve the name and do not say by what, so it is the
    newest that is stored; `unserved`: no worker serves the name, so it is the newest that is stored.
    """
    pool: str = COMMON
    workers: tuple[str, ...] = ()
    """That decide by it."""
    others: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Digest -> workers that serve the name by another configuration, as in a rollout; empty digest = not known."""

    @property
    def sentence(self) -> str:
        """Which profile this is, for people."""
        shown = self.digest[:SHOWN]
        newest = f"the newest stored profile, {shown}" if shown else "the built-in profile, for none is stored"
        where = f"scheduler name {self.scheduler} in pool {self.pool}"
        if self.basis == UNSERVED:
            return text(f"no live worker serves {where}: decided by {newest}")
        if self.basis == UNKNOWN:
            return text(f"the workers of {where} do not name their profile: decided by {newest}")
        others = sum(map(len, self.others.values()))
        beside = f"; {others} more, by another profile" if others else ""
        return text(f"decided by profile {shown}, as {_named(self.workers)} now{beside}")

    def told(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "digest": self.digest or None,
            "basis": self.basis,
            "pool": text(self.pool),
            "workers": [text(name) for name in self.workers[:MOST_NAMED]],
            "others": {digest: [text(one) for one in found[:MOST_NAMED]] for digest, found in self.others.items()},
            "sentence": self.sentence,
        }


@dataclass(frozen=True, slots=True)
class StoredProfiles:
    """The configurations in etcd, and which one each live worker decides by."""

    digest_of: Mapping[str, str]
    """Scheduler name -> digest of the newest configuration that has it."""
    contents: Mapping[str, bytes]
    """By digest."""
    format: ClusterFormat = ClusterFormat.KUBERNETES
    """Of the cluster: it decides about the built-in configuration."""
    serving: Mapping[tuple[str, str], tuple[ServingWorker, ...]] = field(default_factory=dict)
    """Pool and scheduler name -> the workers that serve it."""
    tenants: frozenset[str] = frozenset()

    def of(self, pod: Pod) -> ServedProfile:
        """The one that counts for a pod. Of several that are served, that of most ready workers, then of most."""
        pool = pool_of(pod.labels.get(TENANT_LABEL, ""), self.tenants)
        scheduler = pod.scheduler_name
        newest = self.digest_of.get(scheduler, BUILT_IN)
        workers = self.serving.get((pool, scheduler), ())
        if not workers:
            return ServedProfile(scheduler, newest, UNSERVED, pool)
        known = Counter({one.digest: 0 for one in workers if one.digest in self.contents})
        if not known:
            return ServedProfile(scheduler, newest, UNKNOWN, pool, tuple(one.name for one in workers))
        for one in workers:
            if one.digest in known:
                known[one.digest] += 1 + len(workers) * one.ready
        chosen = min(known, key=lambda digest: (-known[digest], digest))
        others: dict[str, tuple[str, ...]] = {}
        for one in workers:
            if one.digest != chosen:
                others[one.digest] = (*others.get(one.digest, ()), one.name)
        deciding = tuple(one.name for one in workers if one.digest == chosen)
        return ServedProfile(scheduler, chosen, SERVED, pool, deciding, others)


async def read_profiles(following: Following) -> StoredProfiles:
    """Read them. Raises `StoreError`."""
    digest_of: dict[str, str] = {}
    contents: dict[str, bytes] = {}
    found = await stored_configurations(following.store)
    decides_by = await digests_in_force(following.store)
    live = set(decides_by.values())
    for place, (digest, value) in enumerate(found.items()):
        if place < len(found) - MOST_STORED and digest not in live:
            continue
        try:
            profiles = documents.parse(value).get("profiles")
        except InvalidObject:
            continue
        contents[digest] = value
        for profile in profiles if isinstance(profiles, list) else ():
            name = profile.get("schedulerName") if isinstance(profile, Mapping) else None
            if isinstance(name, str):
                digest_of[name] = digest
    serving = _serving(following, decides_by)
    return StoredProfiles(
        digest_of, contents, following.store.format, serving, frozenset(following.model.cache.tenants)
    )


def _serving(
    following: Following, decides_by: Mapping[tuple[str, str], str]
) -> dict[tuple[str, str], tuple[ServingWorker, ...]]:
    found: dict[tuple[str, str], tuple[ServingWorker, ...]] = {}
    for (tenant, slot, incarnation), record in sorted(following.model.instances.items()):
        place = f"{tenant}/{slot}/{incarnation}"
        named = [name for where, name in decides_by if where == place]
        for name in record.scheduler_names if record.scheduler_names is not None else named:
            digest = decides_by.get((place, name), "")
            worker = ServingWorker(f"{tenant}/{slot}", record.state == "ready", digest)
            found[tenant, name] = (*found.get((tenant, name), ()), worker)
    return found


def _named(workers: tuple[str, ...]) -> str:
    shown = counted(workers, 3)
    return f"worker {shown} decides" if len(workers) == 1 else f"workers {shown} decide"


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
