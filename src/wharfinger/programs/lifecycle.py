"""On duty or not: a worker serves while it is synced, holds its lease and reaches Temporal.

::

    starting ──synced, settled, lease, Temporal──► ready ◄──────────────► withdrawn
                                                     └──drain──► draining

Going on duty: poll, then be registered as ready; the shard follows when etcd's watch shows it. Going
off: give the shard up first, then stop polling. In any case the others know from etcd alone. While it is
not ready the registration says what it waits for.

A slot may have two ready incarnations, while a newer one takes over from the older: the shard is the
newer one's as soon as both see it, though the older keeps polling until its grant says drain.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from wharfinger.process.connecting import Reachability
from wharfinger.process.polling import Polling
from wharfinger.programs.membership import Membership
from wharfinger.scheduling.loops.shards import ShareOut
from wharfinger.scheduling.state.informer.changes import Changes

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until polling that failed is started again, and between two looks at the clock while settling."""
CEASE = 1.0
"""Seconds that polling has to end where the worker must stop at once."""
WARM_AFTER = 0.005
"""Seconds after the registration as ready is asked for: its request is on the way then."""
CONSEQUENCES = ("polling", "serving")
"""Checks that fail because another one does."""


class Lifecycle:
    """Puts the worker on and off duty; a `Subscriber` that follows the registrations."""

    follows = ("instances",)

    def __init__(
        self,
        *,
        synced: Callable[[], bool],
        membership: Membership,
        reachability: Reachability,
        polling: Polling,
        share_out: ShareOut,
        clock: Callable[[], float],
        settle: Callable[[], float] = lambda: 0.0,
        warm: Callable[[], object] = lambda: None,
    ) -> None:
        """`synced`: whether the first list is taken in, and the dynamic configuration that it showed. `settle`: seconds
        to wait once synced, before the first time of duty. `warm` makes what the first decision needs; it is called
        while the first registration as ready is on its way.
        """
        self._warm = warm
        self._clock = clock
        self._settle = settle
        self._synced_at: float | None = None
        self._begun = False
        self._synced = synced
        self._membership = membership
        self._reachability = reachability
        self._polling = polling
        self._shared = share_out
        self._news = asyncio.Event()
        self._draining = False
        self.on = False
        """Whether this worker serves."""

    def checks(self) -> dict[str, str]:
        """What readiness depends on: name -> `ok`, or why not."""
        settle = self._settle()
        waits = f"for {settle:g} s, for the instance before it here crashed"
        settling = {"settled": waits if self._unsettled() else "ok"} if settle else {}
        return {
            "synced": "ok" if self._synced() else "the first list is not done",
            **settling,
            "lease": "ok" if self._membership.held else "no lease is held",
            "temporal": "ok" if self._reachability.reachable else "Temporal does not answer",
            "polling": "ok" if self._polling.running else "no task is polled for",
            "serving": "draining" if self._draining else "ok" if self.on else "not on duty",
        }

    def changed(self) -> None:
        """Something this depends on may have changed."""
        self._news.set()

    def polling_failed(self) -> None:
        """Polling ended by itself; it is started again in a moment."""
        asyncio.get_running_loop().call_later(AGAIN, self._news.set)

    def apply(self, changes: Changes) -> None:
        """Follow the registrations of our pool."""
        relevant = self._shared.ours(changes.instances)
        for change in relevant:
            if change.new is None:
                self._membership.vanished(change.slot, change.incarnation)
        if relevant or changes.listed:
            self._share_out(anew=changes.listed)
        if changes.listed and self._synced_at is None:
            self._synced_at = self._clock()
            self._news.set()

    async def run(self) -> None:
        """Go on and off duty as things change, until cancelled."""
        while True:
            self._news.clear()
            unsettled = self._unsettled()  # before it is decided: where it passes meanwhile, one more round is due
            if self._fit() and not (self.on and self._polling.running):
                await self._begin()
            elif self.on and not self._fit():
                await self._withdraw()
            if not self.on and not self._draining:
                self._membership.want("withdrawn" if self._begun else "starting", self._missing())
            with contextlib.suppress(TimeoutError):  # not wait_for: it can swallow the cancellation that ends us
                async with asyncio.timeout(min(unsettled, AGAIN) or None):
                    await self._news.wait()

    async def drain(self) -> None:
        """Take no more work: the shard is given up at once; polling ends when activities have finished."""
        self._draining = True
        self.on = False
        self._membership.want("draining")
        self._share_out()
        await self._polling.stop()

    def _fit(self) -> bool:
        ready = self._synced() and not self._unsettled()
        return ready and not self._draining and self._membership.held and self._reachability.reachable

    def _unsettled(self) -> float:
        """Seconds left until it may go on duty for the first time."""
        if self._begun:
            return 0.0
        now = self._clock()
        return max(0.0, (self._synced_at if self._synced_at is not None else now) + self._settle() - now)

    def _missing(self) -> str:
        """What readiness misses, in one line; without the lease, for without it nothing is written."""
        missing = {name: said for name, said in self.checks().items() if said != "ok" and name != "lease"}
        causes = {name: said for name, said in missing.items() if name not in CONSEQUENCES} or missing
        return "; ".join(f"{name}: {said}" for name, said in causes.items())

    async def cease(self) -> None:
        """Stop at once: nothing is served any more, nothing written, and what runs is left to others."""
        self._draining = True
        self.on = False
        self._share_out()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CEASE):
                await self._polling.stop()

    async def _begin(self) -> None:
        try:
            await self._polling.start()
        except Exception as error:  # Temporal may refuse in many ways, and each may pass
            log.warning("polling_not_started effect=retried error=%r", str(error))
            self.polling_failed()
            return
        if not self._begun:
            asyncio.get_running_loop().call_later(WARM_AFTER, self._warm)
        # Only now do others leave the shard to this worker: it polls already.
        self.on = self._begun = True
        self._membership.want("ready")
        self._share_out()
        log.info("on_duty slot=%s", self._membership.slot)

    async def _withdraw(self) -> None:
        failed = "; ".join(f"{name}: {said}" for name, said in self.checks().items() if said != "ok")
        log.warning("withdrawn checks=%r", failed)
        # The shard goes first, so that others start its pods while the activities here come to their end.
        self.on = False
        self._membership.want("withdrawn", self._missing())
        self._share_out()
        await self._polling.stop()

    def _share_out(self, *, anew: bool = False) -> None:
        self._shared.update(self._membership.slot if self.on else "", self._membership.incarnation, anew=anew)
