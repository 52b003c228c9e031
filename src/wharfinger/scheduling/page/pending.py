"""Which pods wait and why: the reasons with their pods and their trend; gates, gangs and pods that no worker serves.

For a pod that no plugin refused nothing is decided: that it would fit somewhere means nothing, for it is not tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wharfinger.errors import NotFound
from wharfinger.objects.documents.times import seconds_since
from wharfinger.objects.model.conditions import SCHEDULING_GATED
from wharfinger.objects.model.gang import GangKey
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.page.follow.plain import text
from wharfinger.page.follow.rings import SLOT_SECONDS, LevelRing
from wharfinger.process.names import TENANT_LABEL, pool_of
from wharfinger.process.records import served_names
from wharfinger.scheduling.page.following import Following
from wharfinger.scheduling.page.objects import pod_in_short
from wharfinger.scheduling.page.reasons import CALLING_PLUGINS, GANG_INCOMPLETE, NOT_SERVED, NOT_TRIED, ReasonKey
from wharfinger.scheduling.reading.held_back import WITHOUT_INSTANCES

MOST_TRENDS = 100
"""Reasons whose numbers are kept over time, in each namespace that somebody looks at."""
MOST_NAMESPACES = 100
"""Namespaces of which they are kept."""
MOST_PODS = 5000
"""Pods of one answer."""
UNSEEN = 2 * SLOT_SECONDS
"""Seconds without a look at a namespace after which its numbers begin anew: in between nobody counted."""
EXAMPLES = 3
NONE_WAITS = "no pod waits for that now"
HOLD, HOLD_BY_POD = 0.1, 2e-5
"""Seconds for which the groups hold, and for each pod in them."""


@dataclass(slots=True)
class _Trends:
    """How many pods waited in a namespace, by reason."""

    since: float
    """Since when that is known, monotonic seconds."""
    noted: float
    rings: dict[ReasonKey, LevelRing] = field(default_factory=dict)


class PendingPods:
    """Groups the waiting pods, and remembers how many there were."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._trends: dict[str, _Trends] = {}
        """By namespace; the one that was looked at last comes last."""
        self._restarts = 0
        self._kept: dict[str, tuple[int, float, list[tuple[ReasonKey, list[PodKey]]]]] = {}

    def groups(self, namespace: str = "") -> list[tuple[ReasonKey, list[PodKey]]]:
        """The waiting pods by reason, the largest group first, in each the oldest first.

        Those of a moment ago are answered again: at thousands of changes a second, sorting is not for each, and the
        more pods wait, the longer it takes.
        """
        model, clock = self._following.model, self._following.clock()
        kept = self._kept.get(namespace)
        if kept is not None and (kept[0] == model.changes or clock < kept[1]):
            return kept[2]
        groups: dict[ReasonKey, list[PodKey]] = {}
        for key, pods in model.waiting(namespace):
            groups.setdefault(self._told(key), []).extend(pods)
        for key, pods in groups.items():
            if key.reason in (NOT_TRIED, NOT_SERVED, GANG_INCOMPLETE):  # of several schedulers, tenants or gangs
                pods.sort(key=lambda one: model.cache.pods[one].create_revision)
        found = sorted(groups.items(), key=lambda one: (-len(one[1]), one[0]))
        if len(self._kept) > 2 * MOST_NAMESPACES:
            self._kept.clear()
        hold = HOLD + HOLD_BY_POD * sum(map(len, groups.values()))
        self._kept[namespace] = model.changes, clock + hold, found
        return found

    def reasons(self, namespace: str = "") -> list[dict[str, Any]]:
        """The groups, each with its number, its oldest pod and its trend."""
        return [self._reason(namespace, key, pods) for key, pods in self.groups(namespace)]

    def group(self, slug: str, namespace: str = "") -> tuple[ReasonKey, list[PodKey]]:
        """One of the groups. Raises `NotFound` when nothing waits for it."""
        for key, pods in self.groups(namespace):
            if key.slug == slug:
                return key, pods
        raise NotFound(NONE_WAITS)

    def pods(self, slug: str, namespace: str = "", most: int = MOST_PODS) -> dict[str, Any]:
        """The pods of one reason, the oldest first. Raises `NotFound` when nothing waits for it."""
        key, pods = self.group(slug, namespace)
        model = self._following.model
        rows = [pod_in_short(model, model.cache.pods[one]) for one in pods[:most] if one in model.cache.pods]
        return self._reason(namespace, key, pods) | {"pods": rows, "omitted": max(0, len(pods) - most)}

    def number(self, namespace: str = "") -> int:
        """How many pods wait for more than their turn: refused, held back, or taken by nobody."""
        return sum(len(pods) for key, pods in self.groups(namespace) if key.reason != NOT_TRIED)

    def trend(self, namespace: str = "") -> list[int | None] | None:
        """How many waited, over time; None where that is not kept."""
        ring = self._ring(namespace, _ALL)
        return ring.series() if ring is not None else None

    def note(self, namespaces: set[str]) -> None:
        """Remember the present numbers, of all namespaces together and of those that somebody looks at."""
        clock = self._following.clock()
        if self._restarts != self._following.restarts:
            self._restarts = self._following.restarts
            self._trends.clear()
        for namespace in ("", *sorted(namespaces)):
            groups = self.groups(namespace)
            present = {key: len(pods) for key, pods in groups[:50]}
            present[_ALL] = sum(len(pods) for _, pods in groups)
            trends = self._trends.pop(namespace, None)
            if trends is None or clock - trends.noted > UNSEEN:
                trends = _Trends(clock, clock)
            self._trends[namespace] = trends
            trends.noted = clock
            for key, ring in trends.rings.items():
                if key not in present:
                    ring.note(clock, 0)
            for key, count in present.items():
                _ring(trends, key).note(clock, count)
        for unseen in [one for one in self._trends if one][: max(0, len(self._trends) - 1 - MOST_NAMESPACES)]:
            del self._trends[unseen]

    def _ring(self, namespace: str, key: ReasonKey) -> LevelRing | None:
        trends = self._trends.get(namespace)
        return trends.rings.get(key) if trends is not None else None

    def _reason(self, namespace: str, key: ReasonKey, pods: list[PodKey]) -> dict[str, Any]:
        model = self._following.model
        oldest = model.cache.pods.get(pods[0])
        ring = self._ring(namespace, key)
        record = model.record_of(oldest) if oldest is not None else None
        return {
            "slug": text(key.slug),
            "reason": text(key.reason),
            "plugins": [text(plugin) for plugin in key.plugins] if key.reason not in _OF_PLACES else [],
            "title": text(key.title()),
            "count": len(pods),
            "oldest": text(str(pods[0])),
            "oldestSeconds": seconds_since(oldest.creation_timestamp, model.now()) if oldest is not None else None,
            "message": text(record.message) if record is not None else None,
            "examples": [text(str(one)) for one in pods[:EXAMPLES]],
            "trend": ring.series()[-60:] if ring is not None else None,
        }

    def _told(self, key: ReasonKey) -> ReasonKey:
        """Of pods that were not tried: whether anybody takes them, and whether their gang is complete."""
        if key.reason != NOT_TRIED or len(key.plugins) != 3:
            return key
        scheduler, label, gang = key.plugins
        if not self._served(scheduler, label):
            return ReasonKey(NOT_SERVED, (scheduler,))
        if gang and self._following.model.gang_standing(GangKey(*gang.split("/", 1))).held:
            return ReasonKey(GANG_INCOMPLETE)
        return ReasonKey(NOT_TRIED)

    def _served(self, scheduler: str, label: str) -> bool:
        model = self._following.model
        pool = pool_of(label, model.cache.tenants)
        records = [record for (tenant, _, _), record in model.instances.items() if tenant == pool]
        names = served_names(records) if records else WITHOUT_INSTANCES
        return names is None or scheduler in names


def _ring(trends: _Trends, key: ReasonKey) -> LevelRing:
    ring = trends.rings.get(key)
    if ring is None:
        if len(trends.rings) >= MOST_TRENDS:
            faded = next((one for one, kept in trends.rings.items() if kept.faded), None)
            trends.rings.pop(faded or next(one for one in trends.rings if one != _ALL))
        ring = trends.rings[key] = LevelRing(trends.since)
    return ring


_ALL = ReasonKey("")
_OF_PLACES = (NOT_TRIED, NOT_SERVED, GANG_INCOMPLETE, CALLING_PLUGINS)


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
        held = following.model.gang_standing(GangKey(pod.namespace, pod.group)).held
        return text(f"gang {pod.group}: {held.removeprefix('PodGroup: ')}") if held else "its gang was incomplete"
    if key.reason == NOT_SERVED:
        pool = pool_of(pod.labels.get(TENANT_LABEL, ""), following.cache.tenants)
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
