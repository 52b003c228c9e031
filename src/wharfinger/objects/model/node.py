"""The node as the scheduler sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wharfinger.objects.model.pod import NO_FEATURES, NO_LABELS, NOTHING
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
    """Those that scheduling may ask for, and any others (those of `pod`)."""

    @property
    def ready(self) -> bool:
        """The Ready condition is True, or absent (platforms that do not report it)."""
        return self.conditions.get("Ready", "True") == "True"


GPU = "nvidia.com/gpu"
"""The extended resource that counts whole cards."""
GPU_MEMORY = "wharfinger.dev/gpu-memory"
"""An extended resource: bytes of memory that each of the pod's cards must have at least.

It is a resource and not a field of the pod, because a resource that no node offers is safe by itself: NodeResourcesFit
refuses the pod unless the profile has the plugin GpuMemory, which judges it. Like every resource, it is summed over
containers, so one container names it for the whole pod.
"""
COUNT_LABEL = "nvidia.com/gpu.count"
"""How many cards a node has, as rk8s has it; its nodes then offer `GPU`."""
GIB_LABEL = "nvidia.com/gpu.memory-gib"
"""Memory of each card in GiB, as rk8s has it."""
MIB_LABEL = "nvidia.com/gpu.memory"
"""Memory of each card in MiB, as NVIDIA's feature discovery for Kubernetes has it."""
_UNITS = ((GIB_LABEL, 1 << 30), (MIB_LABEL, 1 << 20))
_UINT32 = 2**32 - 1


def card_memory(labels: Mapping[str, str]) -> int:
    """Bytes of memory of each of a node's cards, by its labels; 0 when no label has a positive number."""
    for label, unit in _UNITS:
        amount = unsigned_number(labels.get(label, ""))
        if amount:
            return amount * unit
    return 0


def unsigned_number(text: str) -> int:
    """An unsigned 32-bit number as labels spell it; 0 for anything else."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    return found if found <= _UINT32 else 0
