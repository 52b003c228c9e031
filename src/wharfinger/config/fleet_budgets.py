"""The times of a fleet as one chain: each must leave room for what happens within it.

::

    killTimeoutSeconds < drainTimeoutSeconds
    2 x minReadySeconds < instanceDeadlineSeconds < progressDeadlineSeconds
    drainTimeoutSeconds + killTimeoutSeconds < progressDeadlineSeconds
    strategy.rollingUpdate.soakSeconds < progressDeadlineSeconds
"""

from __future__ import annotations

from collections.abc import Iterator

from wharfinger.config.errors import Problem
from wharfinger.config.fleet_fields import SpecFields


def too_short(spec: SpecFields) -> Iterator[Problem]:
    """Where the chain breaks: the field that is too short, and why. Paths begin below `spec`."""
    ready, instance, progress = spec.min_ready_seconds, spec.instance_deadline_seconds, spec.progress_deadline_seconds
    drain, kill = spec.drain_timeout_seconds, spec.kill_timeout_seconds
    if drain <= kill:
        yield (
            "drainTimeoutSeconds",
            f"{drain:g} must be greater than killTimeoutSeconds ({kill:g}): finishing work takes longer than giving up",
        )
    if instance <= 2 * ready:
        yield (
            "instanceDeadlineSeconds",
            f"{instance:g} must be greater than twice minReadySeconds ({ready:g}): "
            "the successor of a crashed instance is watched that long before and after it says ready",
        )
    if progress <= instance:
        yield (
            "progressDeadlineSeconds",
            f"{progress:g} must be greater than instanceDeadlineSeconds ({instance:g}): "
            "a rollout makes no progress while it waits for an instance",
        )
    if progress <= drain + kill:
        yield (
            "progressDeadlineSeconds",
            f"{progress:g} must be greater than drainTimeoutSeconds and killTimeoutSeconds together "
            f"({drain + kill:g}): a rollout makes no progress while an instance ends",
        )
    if spec.soak_seconds >= progress:
        yield (
            "strategy.rollingUpdate.soakSeconds",
            f"{spec.soak_seconds:g} must be less than progressDeadlineSeconds ({progress:g}): "
            "a rollout updates no further slot while it observes one",
        )
