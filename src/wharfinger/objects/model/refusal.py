"""What a waiting pod's record says: the refusal it waits with."""

from __future__ import annotations

from dataclasses import dataclass

CONTENDED = "Contended"
"""The only reason of a record that is no reason of a condition: another pod took the room first."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A pod's last refused attempt as read back from its record in etcd."""

    attempt: int
    reason: str
    """`Unschedulable`, `SchedulerError` or `Contended`."""
    rejectors: tuple[str, ...]
    """Plugins that refused first; their hints decide what wakes the pod."""
    revision: int
    """Of the refusing snapshot."""
    message: str
    workflow_id: str
    run_id: str
    create_revision: int
    """Of the pod it is about."""
    record_revision: int = 0
    """Mod revision of the record itself."""
    parked: bool = True
    """Whether the workflow it names waits to be woken; a cohort does not."""
    urgent: bool = False
    """Whether an attempt of the pod's own may help at once, although nothing has happened since."""
    nominated_node: str = ""
    """Where preemption makes room for the pod; it counts where pods do not carry their nominations themselves."""
    with_pod: bool = False
    """Whether the transaction that wrote the record wrote the pod too; known only where a Kubernetes API is the store.
    """
