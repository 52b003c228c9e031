"""Whose pod is it: by scheduler name, then by tenant.

Shards are not decided here: which of our workers starts a pod is `scheduling.loops.shards`; any of them may
place and bind it.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from wharfinger.objects.model.pod import Pod

COMMON_POOL = "common"


@dataclass(frozen=True, slots=True)
class Ownership:
    """What a worker takes: pods naming one of its profiles, of its tenant (or of the common pool)."""

    scheduler_names: frozenset[str]
    """Names of our profiles; a pod with an empty scheduler name counts as `default-scheduler`."""
    tenant: str = COMMON_POOL
    tenant_label: str = "wharfinger.dev/tenant"

    def tenant_of(self, pod: Pod, tenants: Container[str]) -> str:
        """The tenant whose instances schedule the pod: its label while that tenant exists."""
        label = pod.labels.get(self.tenant_label, "")
        return label if label and label in tenants else COMMON_POOL

    def owns(self, pod: Pod, tenants: Container[str]) -> bool:
        """Whether this worker's pool schedules the pod. `tenants`: those that exist now."""
        return pod.scheduler_name in self.scheduler_names and self.tenant_of(pod, tenants) == self.tenant
