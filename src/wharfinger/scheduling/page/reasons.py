"""Why a pod waits, in a form by which waiting pods are grouped: the plugins that refused it, never their message.

Messages have numbers in them (`0/5000 nodes are available: ...`), so nearly every pod has its own; the plugins that
refused are the same for all pods with the same trouble.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from wharfinger.objects.model.conditions import SCHEDULER_ERROR, SCHEDULING_GATED
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.pod_records import CONTENDED, HeldPlace, Refusal

NOT_TRIED = "NotTried"
NOT_SERVED = "NotServed"
GANG_INCOMPLETE = "GangIncomplete"
CALLING_PLUGINS = "CallingPlugins"

WORDS: Mapping[str, str] = {
    "NodeResourcesFit": "not enough room",
    "NodeAffinity": "labels of nodes do not match",
    "NodeDeclaredFeatures": "nodes lack a feature that the pod needs",
    "NodeName": "the named node is not there",
    "NodePorts": "host ports are taken",
    "NodeUnschedulable": "nodes are cordoned",
    "TaintToleration": "taints are not tolerated",
    "InterPodAffinity": "rules about other pods",
    "PodTopologySpread": "pods would be spread unevenly",
    "VolumeBinding": "no volume can be had there",
    "VolumeZone": "the volume lies in another zone",
    "VolumeRestrictions": "the volume is used elsewhere",
    "NodeVolumeLimits": "no more volumes can be attached",
    "GangScheduling": "the gang does not fit together",
    "DefaultPreemption": "no pods can be preempted for it",
    "UnsupportedFeatures": "devices, or too many rules, are not decided here",
}
"""What a refusal by a plugin means, for people."""


class ReasonKey(NamedTuple):
    """What pods wait for together."""

    reason: str
    """`Unschedulable`, `SchedulerError`, `Contended`, `SchedulingGated`, `CallingPlugins`, `NotTried`, or a condition's
    reason.
    """
    plugins: tuple[str, ...] = ()
    """That refused first, sorted; of pods that were not tried: scheduler name, label of the tenant, and gang; of those
    whose room is held: which plugins are called for them, in their order.
    """

    @property
    def slug(self) -> str:
        """The key as one word of an address."""
        return "~".join((self.reason, *self.plugins)) if self.reason != NOT_TRIED else self.reason

    def title(self) -> str:
        """What it means, as a short sentence without a full stop."""
        if self.reason == SCHEDULING_GATED:
            return "held back by scheduling gates or a missing class"
        if self.reason == GANG_INCOMPLETE:
            return "waits for more members of its gang"
        if self.reason == NOT_SERVED:
            return "no live worker serves its scheduler name"
        if self.reason == CALLING_PLUGINS:
            return f"plugins are called before the bind{': ' if self.plugins else ''}{', '.join(self.plugins)}"
        if self.reason == NOT_TRIED:
            return "no attempt has ended yet"
        if self.reason == CONTENDED:
            return "lost its room to another pod, tried again"
        if self.reason == SCHEDULER_ERROR:
            return "the attempt failed"
        words = [WORDS.get(plugin, f"refused by {plugin}") for plugin in self.plugins]
        return ", or ".join(words) if words else "refused"


def reason_of(pod: Pod, record: Refusal | None, tenant_label: str, room: HeldPlace | None) -> ReasonKey:
    """Why this pending pod waits. `record`: of its last attempt; `room`: what is held while plugins are called. Both
    perhaps of an earlier pod of its name.
    """
    if pod.scheduling_gates or pod.class_missing:
        return ReasonKey(SCHEDULING_GATED)
    if room is not None and room.is_for(pod):
        return ReasonKey(CALLING_PLUGINS, tuple(dict.fromkeys(call.partition("/")[2] for call in room.calls)))
    if record is not None and record.create_revision in (0, pod.create_revision):
        return ReasonKey(record.reason, record.rejectors)
    if pod.condition is not None and pod.condition[0] != "True" and pod.condition[1]:
        return ReasonKey(pod.condition[1])
    gang = f"{pod.namespace}/{pod.group}" if pod.group else ""
    return ReasonKey(NOT_TRIED, (pod.scheduler_name, pod.labels.get(tenant_label, ""), gang))
