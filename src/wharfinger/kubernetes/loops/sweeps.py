"""What a worker does again for its own pods: it sends promises without an attempt, and reports refusals once more.

A bind is sent by the attempt that committed it. Where that attempt was lost (its worker and Temporal are gone, its run
was terminated), the promise is still in etcd, and its room is held. Sending it twice does no harm. A promise that waits
for its volumes, and one that cannot be fenced, is tried at growing intervals: neither depends on this worker. It is
tried at once when it changes, and when the copies show that its claims are bound. An unproven promise
(`effects.withdrawing`) is never sent. It ends after the same while.

A refusal is recorded in etcd, and told right afterwards. Where that failed, record and copy differ: the copy has what
the API has. So nothing has to be remembered, and a worker that takes over sees it as well.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from wharfinger.errors import StoreError, UpstreamError
from wharfinger.kubernetes.effects.promising import Promises
from wharfinger.kubernetes.effects.telling import Teller
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.pod_records import CONTENDED, Refusal
from wharfinger.objects.model.storage import ClaimKey
from wharfinger.scheduling.effects.binding.writers import KeptKind, rehearse_gang
from wharfinger.scheduling.loops.shards import Shards
from wharfinger.scheduling.model.promises import KubernetesSide, Promise
from wharfinger.scheduling.state.cache.cache import Cache
from wharfinger.scheduling.state.informer.changes import Changes

log = logging.getLogger(__name__)

EVERY = 2.0
"""Seconds between two looks."""
AT_A_TIME = 8
FIRST_PAUSE, LONGEST_PAUSE = 4.0, 30.0
"""Seconds until a promise is tried again that waits for others; each pause is twice as long as the one before."""
SAY_EVERY = 60.0
"""Seconds after which a promise that still cannot be kept is logged again."""
REFUSALS_EVERY = 15.0
"""Seconds between two looks; what differs at two of them is told."""
REMEMBERED = 1_000
"""Records of which it is known that they were logged."""
MOST = 500
"""Refusals that one look tells."""


class SentGang(NamedTuple):
    """Promises that are kept all or not at all."""

    namespace: str
    group: str
    attempt: str


class PromiseSweep:
    """A timer over the promises that this worker has seen; `KubernetesLoops` passes changes on to it."""

    def __init__(
        self,
        promises: Promises,
        side: KubernetesSide,
        cache: Cache,
        shards: Shards,
        *,
        after: float,
        clock: Callable[[], float],
        every: float = EVERY,
    ) -> None:
        """`after`: seconds that a promise is left to its attempt."""
        self._promises = promises
        self._side = side
        self._cache = cache
        self._shards = shards
        self._after = after
        self._clock = clock
        self._every = every
        self._since: dict[PodKey, tuple[Promise, float]] = {}
        self._unproven: dict[PodKey, tuple[int, float]] = {}
        """The mod revision of each, and since when it is there or was looked at."""
        self._said: dict[PodKey, float] = {}
        self._put_off: dict[PodKey, tuple[float, float]] = {}
        """Until when a promise that waits for others is left alone, and how long that pause is."""
        self._agreed: set[SentGang] = set()
        """Gangs of which some promises may have been sent already, after dry runs of all."""

    def apply(self, changes: Changes) -> None:
        """Note since when each promise is as it is."""
        for key in changes.promises:
            self._note_unproven(key)
            promise = self._side.promises.get(key)
            if promise is None:
                self._since.pop(key, None)
                self._said.pop(key, None)
                self._put_off.pop(key, None)
            else:
                earlier, since = self._since.get(key, (None, 0.0))
                # an edit of the pod moves the revision of its promise; that says nothing of whether somebody sends it
                same = earlier is not None and earlier.at(promise.revision) == promise
                self._since[key] = (promise, since if same else self._clock())
                if not same:
                    self._put_off.pop(key, None)

    def _note_unproven(self, key: PodKey) -> None:
        unproven = self._side.unproven.get(key)
        if unproven is None:
            self._unproven.pop(key, None)
        elif self._unproven.get(key, (0, 0.0))[0] != unproven:
            self._unproven[key] = (unproven, self._clock())

    @property
    def oldest(self) -> float:
        """Seconds since the oldest promise is as it is; 0 without any."""
        return max((self._clock() - since for _, since in self._since.values()), default=0.0)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except Exception:  # one promise must not end the sweep of all others
                log.exception("promise_sweep_failed")

    async def look(self) -> None:
        """Send what is due and ours, a few at a time."""
        due = [key for key, (promise, since) in self._since.items() if self._is_due(key, promise, since)]
        several = asyncio.Semaphore(AT_A_TIME)
        together: dict[object, list[PodKey]] = {}
        for key in due:
            together.setdefault(self._gang_of(key) or key, []).append(key)

        async def one(what: object, pods: list[PodKey]) -> None:
            async with several:
                if not isinstance(what, SentGang) or await self._may_be_sent(what, pods[0]):
                    for key in pods:
                        await self._send(key)

        await asyncio.gather(*(one(what, pods) for what, pods in together.items()))
        for key in [key for key, (_, since) in self._unproven.items() if self._clock() - since >= self._after]:
            if self._is_mine(key):
                await self._clear(key)
        self._agreed &= {gang for key in self._since if (gang := self._gang_of(key)) is not None}

    def _is_due(self, key: PodKey, promise: Promise, since: float) -> bool:
        early = self._clock() - since < self._after or self._clock() < self._put_off.get(key, (0.0, 0.0))[0]
        if early and not self._has_its_volumes(key, promise):
            return False
        return self._is_mine(key)

    def _is_mine(self, key: PodKey) -> bool:
        pod = self._cache.pods.get(key)
        return self._shards.mine(pod) if pod is not None else self._shards.owns_key(key)

    async def _clear(self, key: PodKey) -> None:
        """End an unproven promise; where that fails, it is tried again as late as the first time."""
        if (unproven := self._unproven.get(key)) is not None:
            self._unproven[key] = (unproven[0], self._clock())
        try:
            await self._promises.withdrawals.clear_unproven(key)
        except (StoreError, UpstreamError) as error:
            self._say(key, str(error))

    def _has_its_volumes(self, key: PodKey, promise: Promise) -> bool:
        """Whether all claims that a promise waits for are bound by now: its attempt may look seconds later."""
        claims = self._cache.surroundings.storage.claims
        waited_for = [claims.get(ClaimKey(key.namespace, step.claim)) for step in promise.volumes]
        return (
            not promise.ready
            and not promise.calls
            and promise.asked
            and all(claim is not None and claim.bound for claim in waited_for)
        )

    async def _send(self, key: PodKey) -> None:
        try:
            kept = await self._promises.keep(key)
        except (StoreError, UpstreamError) as error:
            self._say(key, str(error))
            promise = self._side.promises.get(key)
            if promise is not None and promise.withdrawn:
                self._wait(key)
            return
        if kept.kind is KeptKind.NOT_READY:
            self._wait(key)
        else:
            log.info("promise_swept pod=%s outcome=%s node=%s", key, kept.kind.value.replace(" ", "_"), kept.node)

    def _wait(self, key: PodKey) -> None:
        _, before = self._put_off.get(key, (0.0, 0.0))
        pause = min(2 * before, LONGEST_PAUSE) if before else FIRST_PAUSE
        self._put_off[key] = (self._clock() + pause, pause)

    def _gang_of(self, key: PodKey) -> SentGang | None:
        """What the pod's promise belongs to; None where it has no group."""
        pod, promise = self._cache.pods.get(key), self._side.promises.get(key)
        if pod is None or promise is None or not pod.group:
            return None
        return SentGang(pod.namespace, pod.group, promise.attempt)

    async def _may_be_sent(self, gang: SentGang, key: PodKey) -> bool:
        """Whether all of the gang can be sent, by dry runs; else none of its promises is kept any more.

        A gang is sent after dry runs of all of its members, whoever sends it; and what was begun is completed.
        """
        if gang in self._agreed:
            return True
        members = [other for other in self._side.promises if self._gang_of(other) == gang]
        try:
            refused = self._lacks_members(gang, members)
            if not refused:
                refused = (await rehearse_gang(self._promises, members, gang.attempt)).refused
            if not refused:
                self._agreed.add(gang)
                return True
            for member in members:
                await self._promises.give_up(member, f"the gang was not bound: {refused}")
        except (StoreError, UpstreamError) as error:
            self._say(key, str(error))
            return False
        log.info("gang_given_up pod=%s group=%s reason=%r", key, gang.group, refused)
        return False

    def _lacks_members(self, gang: SentGang, members: list[PodKey]) -> str:
        """Why the gang is not whole any more though none of it was sent: a member went before its dry run."""
        together = max((self._side.promises[member].together for member in members), default=0)
        begun = any(
            pod.bound and key not in self._side.promises
            for key, pod in self._cache.pods.items()
            if (pod.namespace, pod.group) == (gang.namespace, gang.group)
        )
        if begun or len(members) >= together:
            return ""
        return f"{together - len(members)} of its {together} pods are gone"

    def _say(self, key: PodKey, why: str) -> None:
        now = self._clock()
        if now - self._said.get(key, float("-inf")) >= SAY_EVERY:
            self._said[key] = now
            log.warning("promise_not_kept effect=retried pod=%s error=%r", key, why)


class RefusalSweep:
    """A timer over the records of waiting pods."""

    def __init__(
        self,
        teller: Teller,
        cache: Cache,
        shards: Shards,
        records: Mapping[PodKey, Refusal],
        *,
        every: float = REFUSALS_EVERY,
    ) -> None:
        """`records`: the attempt records, as the watch shows them."""
        self._teller = teller
        self._cache = cache
        self._shards = shards
        self._records = records
        self._every = every
        self._differed: dict[PodKey, int] = {}
        """Record revision by pod, of those that differed at the last look."""
        self._logged: dict[PodKey, int] = {}
        """Record revision by pod, of those that are not told."""

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(self._every)
            try:
                await self.look()
            except Exception:  # one refusal must not end the sweep of all others
                log.exception("refusal_sweep_failed")

    async def look(self) -> None:
        """Tell what differed at the last look already."""
        differ = {
            key: refusal.record_revision
            for key, refusal in self._records.items()
            if (pod := self._cache.pods.get(key)) is not None and self._is_untold(pod, refusal)
        }
        for key in [key for key in differ if not self._records[key].with_pod]:
            # Another client may have put a record that no transaction wrote together with the pod. A worker that began
            # after the pod was changed cannot see that, so it leaves the refusal to the next attempt.
            self._log(key, differ.pop(key))
        due = [key for key, revision in differ.items() if self._differed.get(key) == revision][:MOST]
        self._differed = differ
        for key in due:
            await self._tell(key)

    def _log(self, key: PodKey, revision: int) -> None:
        """Log a record that is not told, once."""
        if self._logged.get(key) == revision:
            return
        if len(self._logged) >= REMEMBERED:
            self._logged.clear()
        self._logged[key] = revision
        log.warning("refusal_unproven effect=left_to_the_next_attempt pod=%s revision=%d", key, revision)

    def _is_untold(self, pod: Pod, refusal: Refusal) -> bool:
        if not pod.pending or refusal.create_revision != pod.create_revision or refusal.reason == CONTENDED:
            return False
        told = pod.condition == ("False", refusal.reason, refusal.message)
        return not told and self._shards.mine(pod)

    async def _tell(self, key: PodKey) -> None:
        pod, raw, refusal = self._cache.pods.get(key), self._cache.raw(key), self._records.get(key)
        if pod is None or raw is None or refusal is None or not self._is_untold(pod, refusal):
            return  # it was bound, created again or told, while others were told
        # The record keeps a nomination that a more important pod has cleared since; the copy does not.
        nominated = refusal.nominated_node if refusal.nominated_node == pod.nominated_node_name else ""
        await self._teller.refused(
            pod,
            raw,
            reason=refusal.reason,
            message=refusal.message,
            nominated=nominated or None,
            run=refusal.run_id or refusal.workflow_id,
        )
