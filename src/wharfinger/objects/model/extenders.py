"""HTTP extenders: processes outside the scheduler that filter and score nodes, and may bind, for some pods.

Facts alone. `framework.config.extender_fields` reads them from a KubeSchedulerConfiguration,
`framework.extenders.consulting` decides with them, and the package around that calls them. Source:
`pkg/scheduler/extender.go` of kube-scheduler 1.36.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from wharfinger.objects.model.pod import Pod

EXTENDER = "Extender"
"""The rejector of a pod that an extender refused: no plugin, and interested in every event."""
DEFAULT_TIMEOUT = 5.0
"""Seconds that a call may take where the configuration names none."""


@dataclass(frozen=True, slots=True)
class ExtenderTls:
    """How an extender is trusted, and who we are there. Data go before files; nothing secret is in the `repr`."""

    insecure: bool = False
    """Its certificate is not verified."""
    server_name: str = ""
    """Name that its certificate must have; empty = the host of the URL."""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = field(default=b"", repr=False)
    """PEM of our certificate."""
    key_data: bytes = field(default=b"", repr=False)
    """PEM of our key."""
    ca_data: bytes = field(default=b"", repr=False)
    """PEM of the authorities that may have signed its certificate; without any, those of the system."""


@dataclass(frozen=True, slots=True)
class Extender:
    """One extender. A verb that is empty is not called."""

    name: str
    """The URL prefix, with a number behind it where an earlier extender has the same one."""
    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 1
    """Of its scores; above 0 wherever there is a verb for them."""
    https: bool = False
    """`enableHTTPS`; a URL of `https` is called by TLS in any case."""
    tls: ExtenderTls | None = None
    timeout: float = DEFAULT_TIMEOUT
    """Seconds that one call may take."""
    node_cache_capable: bool = False
    """It knows the nodes and is sent their names alone; else it is sent the objects."""
    managed: frozenset[str] = frozenset()
    """It is called for pods that ask for one of these resources; empty = for all pods."""
    ignored: frozenset[str] = frozenset()
    """Those of them that NodeResourcesFit leaves to it."""
    ignorable: bool = False
    """Where it fails, pods are decided without it."""

    def interested(self, pod: Pod) -> bool:
        """Whether the pod concerns this extender.

        A request or limit of 0 does not make a pod its concern, unlike in kube-scheduler: the pod asks for nothing.
        """
        return not self.managed or not self.managed.isdisjoint(pod.requests)

    def url(self, verb: str) -> str:
        """Where a verb is called."""
        return f"{self.url_prefix.rstrip('/')}/{verb}"


def in_calling_order(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Those that may be ignored come last; otherwise the order of the configuration."""
    return tuple(sorted(extenders, key=lambda extender: extender.ignorable))


def binder_of(extenders: Iterable[Extender], pod: Pod) -> Extender | None:
    """The extender that binds the pod; None where none does. A configuration has at most one with such a verb."""
    return next((one for one in extenders if one.bind_verb and one.interested(pod)), None)
