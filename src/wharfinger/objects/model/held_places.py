"""A room that is held for a pod in etcd before the pod is bound: while asynchronous plugins are called for it."""

from __future__ import annotations

from dataclasses import dataclass

from wharfinger.objects.model.pod import Pod


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
