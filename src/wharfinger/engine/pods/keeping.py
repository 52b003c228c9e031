"""Keeping the promises of a bind, where a Kubernetes API is the store: what is committed in etcd is sent there.

::

    lone pod, cohort   each promise by itself                            kept, or this pod's own outcome
    ... with plugins   called first (`keeping_called`)                   held, then the same
    gang               all by a dry run; refused ones give all up  ─►  then all for good

A try that fails leaves the promises; the activity is tried again, finds the pods bound in etcd, and goes on here. After
a gang's dry runs the gang is completed whatever comes: only a member that goes or changes after its own leaves it torn.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from wharfinger.contracts.attempts import GoneReason
from wharfinger.contracts.scheduling import Gone
from wharfinger.engine.pods.core import Core
from wharfinger.engine.pods.filling import BINDER
from wharfinger.engine.pods.keeping_called import CalledPromises
from wharfinger.engine.pods.locks import gather_to_end
from wharfinger.engine.pods.seats import Work
from wharfinger.engine.upstream.promising import KeptKind, KeptPromise, Promises
from wharfinger.engine.upstream.rehearsing import GangRehearsal, rehearse_gang
from wharfinger.engine.upstream.writers import TornPolicy
from wharfinger.errors import PluginError, UpstreamDenied, UpstreamUnavailable
from wharfinger.model.extenders import EXTENDER
from wharfinger.model.pod import Pod, PodKey
from wharfinger.registry import keys

log = logging.getLogger(__name__)


class Keeping:
    """Keeps the promises of one worker's binds; does nothing where etcd itself is the store."""

    def __init__(self, core: Core) -> None:
        self._store = core.process.store
        self._upstream = core.upstream
        self._promises = core.upstream.promises if core.upstream is not None else None
        self._teller = core.upstream.teller if core.upstream is not None else None
        self._metrics = core.process.metrics
        self._called = CalledPromises(core)

    async def keep(self, work: Work) -> None:
        """Send the promises of all seats that are bound in etcd, and correct the outcomes of those that are not kept.

        Raises `StoreError` and `UpstreamError`, once everything that was sent has been answered: promises stay.
        """
        promises = self._promises
        if promises is None or work.error is not None:
            return
        await gather_to_end(self._keep(work, promises, number) for number in work.outcomes.bound_seats)

    async def keep_whole(self, work: Work) -> None:
        """The same for a gang: all or none, as far as a dry run can tell. Raises as `keep`."""
        promises = self._promises
        numbers = work.outcomes.bound_seats
        if promises is None or not numbers:
            return
        pods = [_key(work, number) for number in numbers]
        rehearsal = await rehearse_gang(promises, pods, f"{work.request.workflow_id}@")
        refused = rehearsal.refused or self._lost_before(work, rehearsal)
        if not refused:
            if rehearsal.unsupported and self._teller is not None:
                self._teller.dry_run_unsupported(
                    self._pod(work, numbers[0]), _gang(work), rehearsal.unsupported, run=work.request.run_id
                )
            await self.keep(work)
            await self._tell_torn(work, work.outcomes.unbound_seats)
            return
        why = f"the gang was not bound: {refused}"
        await gather_to_end(promises.give_up(_key(work, number), why) for number in numbers)
        for number in numbers:
            work.outcomes.contended(number, why)

    def _lost_before(self, work: Work, rehearsal: GangRehearsal) -> str:
        """Which member went or changed before anything was sent, and how; empty when none did, or it is too late.

        Members are bound in etcd as one, so that is seen where an earlier try ended in between.
        """
        if rehearsal.begun or rehearsal.unsupported:  # without dry runs, nobody can tell whether it was begun
            return ""
        return next(
            (f"pod {_key(work, one)}: {work.outcomes.why_unbound(one)}" for one in work.outcomes.unbound_seats), ""
        )

    async def _keep(self, work: Work, promises: Promises, number: int) -> None:
        if work.error is not None:
            return
        try:
            kept = await self._kept(work, promises, number)
        except (UpstreamUnavailable, UpstreamDenied) as error:
            work.error = error  # what has not been sent yet would wait as long for the same answer
            raise
        if kept is not None:
            self._take_in(work, number, kept)

    async def _kept(self, work: Work, promises: Promises, number: int) -> KeptPromise | None:
        """What became of a promise; None where its outcome is noted already, because plugins are called."""
        if work.calls is None:
            known = work.promised.get(number)
            kept = await promises.keep(_key(work, number), f"{work.request.workflow_id}@", known)
            if not (kept.calls and work.lone):
                return kept
        return await self._called.keep(work, promises, number)

    def _take_in(self, work: Work, number: int, kept: KeptPromise) -> None:
        if kept.kind is KeptKind.KEPT and self._teller is not None:
            self._teller.scheduled(self._pod(work, number), kept.node, run=work.request.run_id)
        match kept.kind:
            case KeptKind.GONE if kept.node:
                work.outcomes.gone(number, Gone(reason="bound", node=kept.node, bound_by=kept.bound_by))
            case KeptKind.GONE:
                work.outcomes.gone(number, Gone(reason="deleted", detail=kept.message, cause=GoneReason.DELETED))
            case KeptKind.CHANGED:
                work.outcomes.contended(number, kept.message)
            case KeptKind.REFUSED:
                work.outcomes.rejected(number, BINDER, kept.message)
            case KeptKind.FAILED if len(work.request.seats) == 1:
                work.error = PluginError(EXTENDER, "Bind", kept.message)
            case KeptKind.FAILED:  # it came to concern an extender after the cohort had been decided
                work.outcomes.contended(number, kept.message)
            case KeptKind.NOT_READY:
                work.outcomes.preparing(number, kept.message)
            case KeptKind.KEPT:
                pass

    async def _tell_torn(self, work: Work, torn: list[int]) -> None:
        """Say that members went or changed after their dry run, and do with the bound ones what the policy says."""
        upstream = self._upstream
        if not torn or upstream is None:
            return
        bound, policy = work.outcomes.bound_seats, upstream.torn_gangs
        cause = work.outcomes.why_unbound(torn[0])
        log.warning("gang_torn gang=%s bound=%d torn=%d policy=%s", _gang(work), len(bound), len(torn), policy)
        self._metrics.gangs_torn.inc()
        for number in bound[:1] or torn[:1]:
            upstream.teller.gang_torn(
                self._pod(work, number),
                _gang(work),
                bound=len(bound),
                members=len(bound) + len(torn),
                cause=cause,
                policy=policy.value,
                run=work.request.run_id,
            )
        if policy is TornPolicy.EVICT:
            for number in bound:
                pod = replace(self._pod(work, number), node_name=work.outcomes.node_of(number))
                copy = (await self._store.get(keys.pod(*pod.key))).kv
                if copy is not None:
                    await upstream.evictions.evict(pod, copy.value, scheduler=pod.scheduler_name, preemptor="podgroup")

    def _pod(self, work: Work, number: int) -> Pod:
        """As much of a seat's pod as events and evictions need."""
        seat = work.request.seats[number]
        scheduler = work.request.computations[seat.stretch].profile_name
        return Pod(seat.namespace, seat.name, seat.uid, scheduler_name=scheduler)


def _gang(work: Work) -> str:
    """`<namespace>/<name>`: the last two parts of the gang's workflow id."""
    return "/".join(work.request.workflow_id.split("/")[-2:])


def _key(work: Work, number: int) -> PodKey:
    seat = work.request.seats[number]
    return PodKey(seat.namespace, seat.name)
