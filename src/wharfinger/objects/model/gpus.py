"""Graphics cards: the names by which pods ask for them and nodes offer them."""

from __future__ import annotations

from collections.abc import Mapping

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
        amount = number(labels.get(label, ""))
        if amount:
            return amount * unit
    return 0


def number(text: str) -> int:
    """An unsigned 32-bit number as labels spell it; 0 for anything else."""
    found = int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
    return found if found <= _UINT32 else 0
