"""The waiting pods of a simulated cluster, and which of them kube-scheduler would try again after a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from wharfinger.framework.plugins.names import POD_TOPOLOGY_SPREAD
from wharfinger.framework.profile import Profile
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey

Rejectors: TypeAlias = "tuple[str, ...]"


class WaitingPods:
    """Pods that were refused or are held back, by the plugins that said so."""

    def __init__(self, profiles: Mapping[str, Profile], pods: Mapping[PodKey, Pod]) -> None:
        """`pods`: those of the cluster, as they are now whenever one is looked up."""
        self._profiles = profiles
        self._pods = pods
        self._waits: dict[PodKey, tuple[PodIdentity, Rejectors]] = {}
        self._by_rejectors: dict[Rejectors, dict[PodKey, None]] = {}

    def __iter__(self) -> Iterator[PodKey]:
        return iter(sorted(self._waits))

    def park(self, pod: Pod, rejectors: Iterable[str]) -> None:
        """The pod waits, refused by these plugins."""
        key = pod.key
        self._discard(key)
        by_name = tuple(sorted(rejectors))
        self._waits[key] = pod.identity, by_name
        self._by_rejectors.setdefault(by_name, {})[key] = None

    def changed(self, keys: Iterable[PodKey], events: Iterable[ClusterEvent]) -> list[PodKey]:
        """The pods that are worth another try after a change, perhaps of pods, sorted; they wait no more.

        A changed pod waits no more if it is not the pending pod it was; it waits from now on if something holds it
        back. Raises PluginError.
        """
        keys = tuple(keys)
        for key in keys:
            pod = self._pods.get(key)
            if key in self._waits and (pod is None or not pod.pending or pod.identity != self._waits[key][0]):
                self._discard(key)
        found = {other for event in events for other in self._concerned(event) if self._wakes(event, other)}
        # Refused by no plugin: any change of it may be what was wrong.
        found.update(key for key in keys if key in self._waits and not self._waits[key][1])
        for woken in found:
            self._discard(woken)
        for key in keys:
            self._hold_back(self._pods.get(key))
        return sorted(found)

    def _hold_back(self, pod: Pod | None) -> None:
        """Let a pending pod wait that is not to be tried yet."""
        if pod is None or not pod.pending:
            return
        gate = self._gate(pod)
        if not gate.ok:
            self.park(pod, (gate.plugin,))

    def _discard(self, key: PodKey) -> None:
        known = self._waits.pop(key, None)
        if known is None:
            return
        _, rejectors = known
        del self._by_rejectors[rejectors][key]
        if not self._by_rejectors[rejectors]:
            del self._by_rejectors[rejectors]

    def _concerned(self, event: ClusterEvent) -> list[PodKey]:
        """Pods whose rejecting plugins may care for such an event."""
        if event.resource is Resource.UNSCHEDULED_POD:
            own = event.new.key if isinstance(event.new, Pod) else None
            return [own] if own is not None and own in self._waits else []
        profiles = self._profiles.values()
        return [
            key
            for rejectors, keys in self._by_rejectors.items()
            if any(profile.concerns(event, rejectors) for profile in profiles)
            for key in keys
        ]

    def _wakes(self, event: ClusterEvent, key: PodKey) -> bool:
        pod = self._pods[key]
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            return False
        _, rejectors = self._waits[key]
        if not offered(event, pod, rejectors):
            return False
        return profile.may_help(event, pod, rejectors, beyond=False) is not None and self._gate(pod).ok

    def _gate(self, pod: Pod) -> Status:
        profile = self._profiles.get(pod.scheduler_name)
        return SUCCESS if profile is None else profile.gate(pod)


def offered(event: ClusterEvent, waiting: Pod, rejectors: Rejectors) -> bool:
    """Whether kube-scheduler shows such an event to the pod's plugins at all.

    A bound pod that appears or changes, unless it gives room back, it shows only to pods that it may attract and to
    those that PodTopologySpread refused (1.36, `getUnschedulablePodsWithCrossTopologyTerm`).
    """
    new = event.new
    if event.resource is not Resource.ASSIGNED_POD or not isinstance(new, Pod):
        return True
    if Action.UPDATE_POD_SCALE_DOWN in event.action:
        return True
    if POD_TOPOLOGY_SPREAD in rejectors and new.namespace == waiting.namespace:
        return True
    labels = event.surroundings.namespace_labels(new.namespace)
    return any(term.selects(new.namespace, labels, new.labels) for term in waiting.required_affinity)
