"""What goes wrong in a life, as shares: between a worker and etcd, in Temporal, and at extenders."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Weather:
    """Shares of what goes wrong; all zero: nothing does."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    """Of writes that have happened."""
    lag: float = 0.0
    """Seconds, at most, by which a watch's batch comes later than the one before allows."""
    cut: float = 0.0
    """Batches instead of which the watch ends."""
    doubled: float = 0.0
    """Batches that come twice."""
    shuffled: bool = False
    """Whether events of one revision come in any order."""
    latency: float = 0.002
    """Seconds, about, of a call."""


@dataclass(frozen=True)
class Troubles:
    """Shares of what goes wrong; all zero: nothing does."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    """Of calls of clients, and of outcomes of activities."""
    twice: float = 0.0
    """Activities that are carried out, and then again as if they had never been."""
    late: float = 0.0
    """Activities that a worker begins when their time is over."""
    elsewhere: float = 0.1
    """Tasks that do not go to the worker that had the run's last."""
    terminated: float = 0.0
    """Chains that an operator terminates before their first task."""
    unanswered: float = 0.0
    """Calls of extenders that fail."""
    latency: float = 0.004
    """Seconds, about, from the server to a worker or back."""
