"""Follows the dynamic configuration: takes values in while the worker runs, and never one that is wrong.

Each kind says what a value does to a worker that runs: how it is understood, and taken in at once. Kinds are
independent: each has a `Follower` of its own (`configuration.trials`), which tries its values and falls back
to the last good one, and waits for no other; here the watch is handed on to them, and what they say is put together.
Which values there are stands in `framework.config.dynamic`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from wharfinger.configuration.trials import Commit, DynamicKind, Follower, TrialTerms
from wharfinger.etcd.store import Store
from wharfinger.framework.config.dynamic import (
    DEFAULT,
    CohortValue,
    LogValue,
    ProfileValue,
    QueueValue,
    check_backoff,
    cohort_settings,
    read_value,
    targets,
)
from wharfinger.framework.profile import InForce, Profile
from wharfinger.process.installation import keep_profiles
from wharfinger.process.records import ConfigStatusRecord
from wharfinger.scheduling.state.informer.changes import Changes
from wharfinger.settings import DispatchSettings


class Made(Protocol):
    """A configuration, and what it makes."""

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """By scheduler name."""


M = TypeVar("M", bound=Made)

_COHORT_FIELDS = ("cohorts", "cohort_most", "cohorts_in_flight", "parked_chains")


class ProfileKind(Generic[M]):
    """Weights and plugin arguments.

    The new configuration lies in etcd under its digest before anything is decided by it.
    """

    name = ProfileValue.kind

    def __init__(
        self,
        profiles: InForce,
        started: M,
        *,
        store: Store,
        overlay: Callable[[ProfileValue, M], M],
        said_at_start: bool,
        changed: Callable[[bool], None],
    ) -> None:
        """`started`: what the worker was started with. `overlay` lays a value over that, with the plugins of what runs
        where they stay the same, or raises InvalidConfiguration. `changed` is called after plugins with other
        arguments decide, and told whether one of them is a gate. Weights alone let no pod fit that did not.
        """
        self.said_at_start = said_at_start
        self._started, self._running = started, started
        self._profiles = profiles
        self._store = store
        self._overlay = overlay
        self._changed = changed

    async def prepare(self, value: Any) -> Commit:
        """See `DynamicKind.prepare`."""
        made = self._started if value is None else self._overlay(read_value(ProfileValue, value), self._running)
        await keep_profiles(self._store, made.profiles.values())

        def commit() -> None:
            before = {id(plugin) for profile in self._profiles.values() for plugin in profile.plugins}
            self._profiles.replace(made.profiles)
            self._running = made
            fresh = [
                (plugin.name, profile)
                for profile in made.profiles.values()
                for plugin in profile.plugins
                if id(plugin) not in before
            ]
            if fresh:
                self._changed(any(name in profile.at.get("preEnqueue", ()) for name, profile in fresh))

        return commit


class QueueKind:
    """Back-off of the attempts that are started from now on."""

    name = QueueValue.kind

    def __init__(
        self, initial: float, longest: float, *, back_off: Callable[[float, float], None], said_at_start: bool
    ) -> None:
        """Seconds as the worker was started; `back_off` takes in others."""
        self.said_at_start = said_at_start
        self._start = initial, longest
        self._back_off = back_off

    async def prepare(self, value: Any) -> Commit:
        """See `DynamicKind.prepare`."""
        first, most = self._start if value is None else check_backoff(read_value(QueueValue, value), *self._start)
        return lambda: self._back_off(first, most)


class CohortKind:
    """When pods are placed together."""

    name = CohortValue.kind

    def __init__(self, settings: DispatchSettings, *, dispatch: Callable[[DispatchSettings], None]) -> None:
        """`settings` as the worker was started; `dispatch` takes in others."""
        usual = DispatchSettings()
        self.said_at_start = any(getattr(settings, name) != getattr(usual, name) for name in _COHORT_FIELDS)
        self._start = settings
        self._dispatch = dispatch

    async def prepare(self, value: Any) -> Commit:
        """See `DynamicKind.prepare`."""
        settings = self._start if value is None else cohort_settings(read_value(CohortValue, value), self._start)
        return lambda: self._dispatch(settings)


class LogKind:
    """How much is said."""

    name = LogValue.kind

    def __init__(self, level: str, *, set_level: Callable[[str], None], said_at_start: bool) -> None:
        self.said_at_start = said_at_start
        self._start = level
        self._set_level = set_level

    async def prepare(self, value: Any) -> Commit:
        """See `DynamicKind.prepare`."""
        level = self._start if value is None else read_value(LogValue, value).level
        return lambda: self._set_level(level)


FIRST = 10.0
"""Seconds for which going on duty waits for the values there are; then the worker begins as it was started."""


class DynamicConfig:
    """The followers of one worker; a `Subscriber`."""

    follows = ("config",)

    def __init__(
        self,
        terms: TrialTerms,
        *,
        tenant: str,
        slot: str,
        report: Callable[[ConfigStatusRecord], None],
        begun: Callable[[], None] = lambda: None,
    ) -> None:
        """`slot`: of a fleet, or empty. `report` is called with what is in force and what is wrong; `begun` once
        `taken_in`.
        """
        self.taken_in = False
        """Whether every kind's first value was taken in or refused, or it took too long."""
        self._begun = begun
        self._targets = targets(tenant, slot)
        self._terms = terms
        self._report = report
        self._followers: dict[str, Follower] = {}
        self._own: list[str] = []
        self._listed = asyncio.Event()

    def follow(self, kind: DynamicKind) -> None:
        """Take in values of this kind, from the next list on. ValueError when it is followed already."""
        if kind.name in self._followers:
            raise ValueError(f"kind {kind.name} is followed twice")
        if kind.said_at_start:
            self._own.append(kind.name)
        self._followers[kind.name] = Follower(
            kind,
            self._terms,
            order=(*self._targets, *(() if kind.said_at_start else (DEFAULT,))),
            changed=self._changed,
        )

    def follower(self, kind: str) -> Follower:
        """Who follows this kind. KeyError without one."""
        return self._followers[kind]

    def apply(self, changes: Changes) -> None:
        """Note what was written."""
        for change in changes.config:
            follower = self._followers.get(change.kind)  # other kinds are of a newer release
            if follower is not None:
                follower.note(change)
        if changes.listed:
            self._listed.set()
            for follower in self._followers.values():
                follower.listed()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for follower in self._followers.values():
                group.create_task(follower.run(), name=f"config {follower.name}")
            await self._listed.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST):
                    await asyncio.gather(*(follower.settled.wait() for follower in self._followers.values()))
            self.taken_in = True
            self._begun()

    async def close(self) -> None:
        """The process is about to end as it was told: what is tried has not failed, and nothing else is begun."""
        await asyncio.gather(*(follower.close() for follower in self._followers.values()))

    def _changed(self) -> None:
        followers = self._followers.values()
        in_force = {follower.name: follower.digest for follower in followers if follower.digest}
        problems = {follower.name: follower.problem for follower in followers if follower.problem}
        self._report(ConfigStatusRecord(in_force=in_force, problems=problems, own=tuple(self._own)))
