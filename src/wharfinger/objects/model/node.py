"""The node as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.objects.model.declared_features import NO_FEATURES
from wharfinger.objects.model.pod import NO_LABELS, NOTHING
from wharfinger.objects.model.selectors import Taint

PODS = "pods"
CPU = "cpu"
MEMORY = "memory"
EPHEMERAL_STORAGE = "ephemeral-storage"


@dataclass(frozen=True, slots=True)
class Node:
    """What scheduling reads of a `v1.Node`.

    Two nodes that compare equal mean the same to every decision: revisions are left out of the
    comparison, and heart-beats touch nothing else. That is how a bind adopts a new node revision.
    """

    name: str
    uid: str = ""
    create_revision: int = field(default=0, compare=False)
    mod_revision: int = field(default=0, compare=False)
    labels: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """cpu in milli-units, the rest in units, rounded up as kube-scheduler does; includes `pods`.

    A node without allocatable has room for nothing.
    """
    images: Mapping[str, int] = field(default_factory=lambda: NOTHING)
    """Image name to size in bytes, every name an image is known by."""
    conditions: Mapping[str, str] = field(default_factory=lambda: NO_LABELS)
    """Condition type to status; heart-beat times are left out on purpose."""
    declared_features: frozenset[str] = NO_FEATURES
    """Those that scheduling may ask for, and any others (`model.declared_features`)."""

    @property
    def ready(self) -> bool:
        """The Ready condition is True, or absent (platforms that do not report it)."""
        return self.conditions.get("Ready", "True") == "True"
