"""What records in etcd say of a pod that is not bound yet: its last refusal, and the room that is held for it."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.objects.model.pod import Pod

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


@dataclass(frozen=True, slots=True)
class HeldPlace:
    """The record under `holds/<namespace>/<name>`."""

    node: str
    create_revision: int
    """The pod's: a record of an earlier life of the name counts for nothing."""
    attempt: str
    """`<workflow id>@<run id>` of the attempt that holds it."""
    revision: int = 0
    """Mod revision of the record."""
    calls: tuple[str, ...] = ()
    """The calls that were due when it was taken, `PreBind/<plugin>`; empty where an earlier release took it."""
    since: str = ""
    """When it was taken, RFC 3339."""

    def is_for(self, pod: Pod) -> bool:
        """Whether it holds room for this very pod, which is not bound yet."""
        return pod.pending and pod.create_revision == self.create_revision

    def sentence(self) -> str:
        """What the pod waits for, in words without their end; the node is not named, so that pods can be grouped."""
        calls = [f"{point} of {plugin}" for point, _, plugin in (call.partition("/") for call in self.calls)]
        return f"its room is held for {', '.join(calls) or 'an asynchronous plugin'}"
