"""One kind of dynamic configuration in a worker: which value counts, which one runs, and whether that is a trial.

::

    the value that counts ──► marked as a trial ──► understood? ──► taken in ──ready for long enough──► good
                                      │                  │ no          │
                                      │                  ▼             │
                                      │    what runs goes on, a problem│
                                      ▼                                ▼
                        the process died: the next start takes the last good one

Understanding a value is part of its trial, for that makes plugins, whose code may end or hang the process. What runs
is changed by a value that was understood as a whole, or not at all; a value that was refused is not looked at again
until it is written again. What is remembered over restarts stands in `configuration.last_good`, what a kind does in
`configuration.following`, which has a follower for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from wharfinger.configuration.last_good import Good, LastGood, TriedValue
from wharfinger.errors import ConfigurationError, InvalidObject, RequestTooLarge, StoreError, WharfingerError
from wharfinger.framework.config.dynamic import VALUE_LIMIT, digest
from wharfinger.process.running import unless_stopped
from wharfinger.scheduling.state.informer.changes import ConfigChange
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

TICK = 1.0
"""Seconds between looks at a trial."""
AGAIN = 5.0
"""Seconds until a value is taken in again that etcd or the disk, not the value, was in the way of."""
CLOSE = 2.0
"""Seconds for which the end of a process waits for what is being taken in."""
LINE = 300
"""Characters of a problem."""

Commit = Callable[[], None]
"""Makes what was prepared what runs; raises nothing."""


class DynamicKind(Protocol):
    """What takes the values of one kind in."""

    @property
    def name(self) -> str:
        """As it stands in keys."""

    @property
    def said_at_start(self) -> bool:
        """Whether the worker was started with something to say of it, which goes before `default`."""

    async def prepare(self, value: Any) -> Commit:
        """Understand a value (None: as it was started) and make ready for it, changing nothing that runs.

        Raises `StoreError` when only something else is in the way; whatever else it raises, the value is wrong.
        """


@dataclass(frozen=True, slots=True)
class TrialTerms:
    """How a worker tries values."""

    remembered: LastGood
    metrics: Metrics
    clock: Callable[[], float]
    """Monotonic seconds."""
    ready: Callable[[], bool]
    """Whether the worker serves."""
    proven_after: Callable[[], Awaitable[float]]
    """For how many seconds it must serve with a value until that is good."""


class Follower:
    """One kind's: which value counts, which one runs, and whether it is a trial."""

    def __init__(
        self, kind: DynamicKind, terms: TrialTerms, *, order: Iterable[str], changed: Callable[[], None]
    ) -> None:
        """`order`: the targets that concern this worker, the most specific first."""
        self.name = kind.name
        self.digest = ""
        """SHA-256 of the value that runs; empty = as the worker was started."""
        self.problem = ""
        self.settled = asyncio.Event()
        """Set once the first value that counts was taken in or refused."""
        self._kind = kind
        self._order = tuple(order)
        self._terms = terms
        self._changed = changed
        self._values: dict[str, ConfigChange] = {}
        self._news = asyncio.Event()
        self._runs = Good(None)
        self._trial: TriedValue | None = None
        self._marked = False
        """Whether the disk says that this process tries something."""
        self._failed: frozenset[TriedValue] | None = None
        """Trials that earlier processes died of; None = not read yet."""
        self._ready_since: float | None = None
        self._enough = 0.0
        self._looked_at: tuple[str, int] | None = None
        """Target and revision of the value that was looked at for last."""
        self._began = False
        self._waiting = False
        """Whether something else than the value is in the way of it."""
        self._looking = asyncio.Lock()
        self._closing = asyncio.Event()

    def note(self, change: ConfigChange) -> None:
        """A value was written, or removed."""
        if change.target not in self._order:
            return
        if change.value is None:
            self._values.pop(change.target, None)
        else:
            self._values[change.target] = change
        self._news.set()

    def listed(self) -> None:
        """What was noted is all there is."""
        self._news.set()

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            await self._next()
            self._news.clear()
            try:
                await self.look()
            except (StoreError, OSError) as error:
                self._refuse("waiting", f"cannot be taken in, tried again: {error}")
                self._waiting = True
                continue
            except Exception as error:  # one kind's mistake must not end the worker
                log.exception("dynamic_configuration_failed kind=%s", self.name)
                self._refuse("refused", f"{type(error).__name__}: {error}")
            self._waiting = False
            self.settled.set()

    async def look(self) -> None:
        """Take in what counts now, where that has changed; see whether a trial is over."""
        async with self._looking:
            if not self._closing.is_set():
                await self._look()

    async def _look(self) -> None:
        counts = next((self._values[target] for target in self._order if target in self._values), None)
        seen = (counts.target, counts.revision) if counts is not None else ("", 0)
        if seen != self._looked_at:
            try:
                await (self._unset() if counts is None else self._take(counts))
            except (StoreError, OSError):
                raise
            except Exception:  # the value is wrong: it is not tried again until it changes
                self._looked_at = seen
                raise
            self._looked_at, self._began = seen, True
        await self._judge()

    async def close(self) -> None:
        """See `DynamicConfig.close`."""
        self._closing.set()  # ends what waits for etcd; what is left is the disk's
        try:
            async with asyncio.timeout(CLOSE), self._looking:
                await self._mark(None)
        except (OSError, TimeoutError) as error:
            log.warning("dynamic_configuration_trial_not_cleared kind=%s error=%r", self.name, str(error))

    async def _next(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(AGAIN if self._waiting else TICK if self._trial is not None else None):
                await self._news.wait()

    async def _unset(self) -> None:
        """No value is stored: as the worker was started. That needs no trial."""
        commit = await self._prepared(None)
        if commit is None:
            return
        await asyncio.to_thread(self._keep_none)
        was = self.digest
        self._runs, self._trial = Good(None), None
        self._commit(commit, "", "unset" if was else "")

    def _keep_none(self) -> None:
        self._terms.remembered.forget_failed(self.name)
        before = self._terms.remembered.load(self.name)
        if before is not None and before.value is not None:
            self._terms.remembered.keep(self.name, Good(None))
        else:
            self._terms.remembered.end(self.name)
        self._marked = False

    async def _take(self, change: ConfigChange) -> None:
        good = await asyncio.to_thread(self._terms.remembered.load, self.name)
        if self._failed is None:  # once: later our own marker is among them
            self._failed = frozenset(await asyncio.to_thread(self._terms.remembered.failed, self.name))
        try:
            written = _parsed(change.value or b"")
            trial = TriedValue(digest(written), change.revision)
        except InvalidObject as error:
            await self._fall_back(good, "refused", f"{change.target}: {error}")
            return
        proven = trial.digest == (good.digest if good is not None else None) or (
            trial.digest == self.digest and self._trial is None
        )
        if trial in self._failed and not proven:
            await self._fall_back(good, "undone", "a process ended before it had proven this value")
            return
        if not proven:
            await self._mark(trial)
        try:
            commit = await self._prepared(written)
        except WharfingerError as error:
            await self._mark(self._trial)  # of what runs
            if isinstance(error, StoreError):
                raise
            await self._fall_back(good, "refused", f"{change.target}: {error}")
            return
        if commit is None:
            return
        await asyncio.to_thread(self._forget, proven=proven)
        again = trial.digest == self.digest  # at another target, or written again to be tried once more
        self._runs, self._trial, self._ready_since = Good(written), None if proven else trial, None
        self._commit(commit, trial.digest, "" if again else "applied")

    def _forget(self, *, proven: bool) -> None:
        self._terms.remembered.forget_failed(self.name)
        if proven:
            self._terms.remembered.end(self.name)
            self._marked = False

    async def _prepared(self, value: Any) -> Commit | None:
        """None when the process is about to end.

        Raises ConfigurationError, InvalidObject when the value is wrong; StoreError when something is in the way.
        """
        try:
            return await unless_stopped(self._closing, self._kind.prepare(value))
        except RequestTooLarge as error:
            raise InvalidObject(str(error)) from error
        except WharfingerError:
            raise
        except Exception as error:  # a plugin that the value names may raise anything
            log.exception("dynamic_configuration_failed kind=%s", self.name)
            raise InvalidObject(f"{type(error).__name__}: {error}") from error

    async def _mark(self, trial: TriedValue | None) -> None:
        """Say on disk what this process tries; None = nothing."""
        if trial is not None and not self._closing.is_set():
            self._marked = True
            await asyncio.to_thread(self._terms.remembered.begin, self.name, trial)
        elif self._marked:
            await asyncio.to_thread(self._terms.remembered.end, self.name)
            self._marked = False

    async def _fall_back(self, good: Good | None, result: str, why: str) -> None:
        """What runs goes on; at a start that is the last good value, if it still can be."""
        if good is not None and good.value is not None and not self._began:
            try:
                commit = await self._prepared(good.value)
            except (ConfigurationError, InvalidObject) as error:
                why = f"{why} (nor can the last good one: {error})"
            else:
                if commit is None:
                    return
                self._runs = good
                self._commit(commit, good.digest, "")
                why = f"{why}; the last good one is in force"
        self._refuse(result, why)

    async def _judge(self) -> None:
        """A trial is over when the worker has been ready with it for long enough."""
        if self._trial is None:
            return
        now = self._terms.clock()
        if not self._terms.ready():
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since, self._enough = now, await self._terms.proven_after()
        elif now - self._ready_since >= self._enough:
            try:
                await asyncio.to_thread(self._terms.remembered.keep, self.name, self._runs)
                self._marked = False
            except OSError as error:  # it is in force and good all the same; the next look tries again
                log.warning("dynamic_configuration_not_kept kind=%s error=%r", self.name, str(error))
                return
            self._trial = None
            self._count("proven")
            log.info("dynamic_configuration_proven kind=%s value=%s", self.name, self.digest[:12])

    def _commit(self, commit: Commit, in_force: str, result: str) -> None:
        commit()
        self.digest, self.problem = in_force, ""
        self._terms.metrics.config_problems.labels(self.name).set(0)
        if result:
            self._count(result)
            log.info("dynamic_configuration result=%s kind=%s value=%s", result, self.name, in_force[:12] or "none")
        self._changed()

    def _refuse(self, result: str, why: str) -> None:
        why = " ".join(why.split())[:LINE]
        if result != "waiting" or why != self.problem:
            log.warning("dynamic_configuration result=%s kind=%s reason=%r", result, self.name, why)
            self._count(result)
        self.problem = why
        self._terms.metrics.config_problems.labels(self.name).set(1)
        self._changed()

    def _count(self, result: str) -> None:
        self._terms.metrics.config_updates.labels(self.name, result).inc()


def _parsed(value: bytes) -> Any:
    """Raises InvalidObject."""
    if len(value) > VALUE_LIMIT:
        raise InvalidObject(f"it is larger than {VALUE_LIMIT // 1024} KiB")
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise InvalidObject(f"it is no JSON: {error}") from error
