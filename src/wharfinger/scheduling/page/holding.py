"""What holds back pods that no plugin refused: their gates, members of their gang, or that no worker serves them.

Nothing is decided for such pods: that they would fit somewhere says nothing, for they are not tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wharfinger.objects.model.conditions import SCHEDULING_GATED
from wharfinger.objects.model.gang import GangKey, standing
from wharfinger.objects.model.pod import Pod
from wharfinger.page.follow.plain import text
from wharfinger.process.names import COMMON
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.read_model import TENANT_LABEL
from wharfinger.scheduling.page.reasons import CALLING_PLUGINS, GANG_INCOMPLETE, NOT_SERVED, NOT_TRIED, ReasonKey


def held_by(following: Following, key: ReasonKey, pod: Pod) -> str | None:
    """What holds back a pod that waits for this reason, as a sentence; None for one that plugins refused."""
    if key.reason == SCHEDULING_GATED:
        said = []
        if pod.scheduling_gates:
            said.append(f"its scheduling gates have to go: {', '.join(pod.scheduling_gates)}")
        if pod.class_missing:
            name = pod.class_terms.name if pod.class_terms is not None else ""
            said.append(f"its PriorityClass {name} does not exist")
        return text("; ".join(said)) or "it was held back a moment ago"
    if key.reason == GANG_INCOMPLETE:
        gang = GangKey(pod.namespace, pod.group)
        cache = following.cache
        held = standing(gang, cache.gangs.of(gang), cache.surroundings.pod_group(*gang)).held
        return text(f"gang {pod.group}: {held.removeprefix('PodGroup: ')}") if held else "its gang was incomplete"
    if key.reason == NOT_SERVED:
        label = pod.labels.get(TENANT_LABEL, "")
        pool = label if label and label in following.cache.tenants else COMMON
        return text(f"no live worker of pool {pool} serves its scheduler name {pod.scheduler_name}")
    if key.reason == CALLING_PLUGINS:
        room = following.cache.held_places.get(pod.key)
        return text(f"{room.sentence()} on {room.node}") if room is not None else "its plugins were called a moment ago"
    if key.reason == NOT_TRIED:
        return "no attempt for it has ended yet, so no plugin has refused it"
    return None


def held_help(following: Following, key: ReasonKey, pods: Sequence[Pod]) -> dict[str, Any] | None:
    """The answer to what would help these pods, the oldest first, in the form of `helping.helps`; None where plugins
    refused them.
    """
    held = held_by(following, key, pods[0]) if pods else None
    if held is None:
        return None
    return {
        "pod": text(str(pods[0].key)),
        "revision": following.cache.progress.revision,
        "held": held,
        "gang": text(pods[0].group) or None,
        "fitsNow": None,
        "message": held,
        "refusals": {},
        "nearest": [],
        "oneMoreNode": [],
        "tried": 0,
        "events": [{"event": event, "plugin": ""} for event in _ENDS.get(key.reason, ())],
    }


_ENDS = {
    SCHEDULING_GATED: ("its scheduling gates go",),
    GANG_INCOMPLETE: ("more members of its gang are created",),
    NOT_SERVED: ("a worker that serves its scheduler name is ready",),
    CALLING_PLUGINS: (),
    NOT_TRIED: (),
}
