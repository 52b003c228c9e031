"""What the pages of a process contain: callables that the composition roots give, and replace as more is known."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry

from wharfinger.objects.model.pod import NOTHING

OK = "ok"

Checks = Callable[[], Mapping[str, str]]
"""Returns each check's name with `ok`, or why not."""


class PodAmounts(NamedTuple):
    """What a pod asks for, as `/metrics/resources` shows it. Amounts: milli-cpu, else units (bytes, cards)."""

    namespace: str
    name: str
    node: str
    """Empty while it is pending."""
    scheduler: str
    priority: int | None
    requests: Mapping[str, int]
    limits: Mapping[str, int] = NOTHING


@dataclass(slots=True)
class Content:
    """Read at each request, so a provider may be replaced while the server runs."""

    registry: CollectorRegistry
    """Of this process's instruments (`telemetry.Metrics.registry`)."""
    checks: Checks = dict
    """Of `/readyz`."""
    healthz: Checks = dict
    livez: Checks = dict
    refresh: Callable[[], None] = lambda: None
    """Called before metrics are read."""
    sdk_metrics_url: str = ""
    """Where the metrics of the Temporal SDK are; they follow ours. Empty = nowhere."""
    configuration: Callable[[], Mapping[str, Any]] | None = None
    """The completed configuration (`/configz`), with `kind` and `apiVersion`; None = the page does not exist."""
    flags: Callable[[], Mapping[str, str]] | None = None
    """Options by name without dashes (`/flagz`); must have no secrets. None = the page does not exist."""
    pods: Callable[[], AsyncGenerator[Sequence[PodAmounts], None]] | None = None
    """All pods, some at a time (`/metrics/resources`); None = the page does not exist."""
    holds: Callable[[], bool] = lambda: True
    """Whether this process answers `/metrics/resources`; of several that schedule together one does."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """For `/statusz`: name to version, in order; empty = the page does not exist."""
