"""What each kind of dynamic configuration does to a worker that runs: understand a value, then take it in at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from wharfinger.configuration.trials import Commit
from wharfinger.etcd.store import Store
from wharfinger.framework.config.dynamic import (
    CohortValue,
    LogValue,
    ProfileValue,
    QueueValue,
    check_backoff,
    cohort_settings,
    read_value,
)
from wharfinger.framework.profile import InForce, Profile
from wharfinger.process.installation import keep_profiles
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
