"""How long each extension point takes, measured where a worker decides and binds for real.

A profile that is not measured (simulations, explanations) calls no clock. The names of points and statuses
are kube-scheduler's, because its metric has them (`telemetry.PointDurations`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from wharfinger.errors import PluginError
from wharfinger.framework.status import Code, Status

P = ParamSpec("P")
R = TypeVar("R")

STATUSES = {
    Code.SUCCESS: "Success",
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.WAIT: "Wait",
    Code.SKIP: "Skip",
    Code.PENDING: "Pending",
}


class PointTimes(Protocol):
    """A clock, and what keeps what it measured."""

    def now(self) -> float:
        """Seconds of a monotonic clock."""

    def observe(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of the point together took so long."""


class Lap:
    """Measures the points of one decision, one after the other; without `times`, nothing."""

    __slots__ = ("_profile", "_since", "_times")

    def __init__(self, times: PointTimes | None = None, profile: str = "") -> None:
        self._times = times
        self._profile = profile
        self._since = times.now() if times is not None else 0.0

    def begin(self) -> None:
        """Leave out the time until now."""
        if self._times is not None:
            self._since = self._times.now()

    def done(self, point: str, code: Code = Code.SUCCESS) -> None:
        """The point has ended; the next one begins."""
        if self._times is not None:
            now = self._times.now()
            self._times.observe(point, STATUSES[code], self._profile, now - self._since)
            self._since = now


UNMEASURED = Lap()


class Measurable(Protocol):
    """A profile."""

    name: str
    at: Mapping[str, tuple[str, ...]]
    times: PointTimes | None


M = TypeVar("M", bound=Measurable)


def measured(point: str, key: str) -> Callable[[Callable[Concatenate[M, P], R]], Callable[Concatenate[M, P], R]]:
    """Measure a method that runs all plugins of a point, which configurations call `key`.

    Its status is what the method returns, or Error when it raises. A point without plugins is not measured: most pods
    pass several of them, and each look at a clock costs more than what it would measure.
    """

    def around(method: Callable[Concatenate[M, P], R]) -> Callable[Concatenate[M, P], R]:
        @functools.wraps(method)
        def run(profile: M, /, *args: P.args, **kwargs: P.kwargs) -> R:
            if profile.times is None or not profile.at.get(key):
                return method(profile, *args, **kwargs)
            lap = Lap(profile.times, profile.name)
            try:
                answer = method(profile, *args, **kwargs)
            except PluginError:
                lap.done(point, Code.ERROR)
                raise
            status = getattr(answer, "status", answer)  # Permit's has one
            lap.done(point, status.code if isinstance(status, Status) else Code.SUCCESS)
            return answer

        return run

    return around
