"""The decision core without servers: add objects, ask for decisions, apply placements.

::

    sim = Simulator()
    sim.add(node)                       # mappings, as kubectl prints them
    sim.add(pod)
    decision = sim.decide(("default", "web-1"))
    if decision.node:
        sim.bind(("default", "web-1"), decision.node)
    else:
        sim.park(("default", "web-1"), decision)
    woken = sim.add(another_node)       # the waiting pods that are worth another try now
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from wharfinger.errors import UsageError
from wharfinger.framework.extenders.consulting import not_for_gangs
from wharfinger.framework.gangs.gangs import place
from wharfinger.framework.plugins.names import POD_TOPOLOGY_SPREAD
from wharfinger.framework.profile import Profile
from wharfinger.framework.profiles import load_configuration
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.objects.documents.decode import pod_from_mapping
from wharfinger.objects.model.events import Action, ClusterEvent, Resource
from wharfinger.objects.model.formats import ClusterFormat, known_format
from wharfinger.objects.model.gang import GangKey, Wanted, counts, gang_key, in_order, standing
from wharfinger.objects.model.pod import Pod, PodIdentity, PodKey
from wharfinger.whatif.simulator.cluster import DEFAULT_NAMESPACE, Change, Cluster, lower_nominations
from wharfinger.whatif.simulator.decision import SimulatedDecision, SimulatedExtenders, SimulatedGang

__all__ = ["SimulatedDecision", "SimulatedGang", "Simulator"]


class Simulator:
    """A cluster in memory, decided on by the same engine as a live one.

    What changes the cluster answers with the waiting pods that kube-scheduler's queueing hints would try again because
    of it, sorted; they wait no more until they are parked again. Pods are named by (namespace, name).
    """

    def __init__(
        self,
        config: Mapping[str, Any] | Path | str | None = None,
        *,
        all_plugins: bool = False,
        format: ClusterFormat | str = ClusterFormat.KUBERNETES,
    ) -> None:
        """`config`: a KubeSchedulerConfiguration v1 (mapping or path), None = the defaults of the format.

        `all_plugins`: plugins of installed packages are enabled although the configuration does not name them.
        `format`: of nodes and pods, `kubernetes` or `rk8s`; documents of rk8s are plain values, or YAML as bytes.

        Raises InvalidConfiguration, naming everything that is wrong with it; UsageError for another type or format.
        """
        chosen = known_format(format)
        configured = load_configuration(config, all_plugins=all_plugins, format_=chosen)
        self._profiles: dict[str, Profile] = configured.profiles
        self.not_enabled = configured.not_enabled
        """Installed plugins that the configuration does not name."""
        self._cluster = Cluster(chosen)
        self._waiting = WaitingPods(self._profiles, self._cluster.pods)
        self.extenders = SimulatedExtenders()
        """The extenders of the configuration; they are asked only through a function that is set here."""
        self._start = 0
        """Where the next search of a sampling profile begins."""

    # --- what happens in the cluster ----------------------------------------------------------

    def add(self, obj: Mapping[str, Any] | bytes) -> list[PodKey]:
        """Add an object of any kind that decisions read; one that exists is updated.

        Pods may be bound already. Raises InvalidObject, or UsageError for another kind.
        """
        return self._after(self._cluster.put(obj))

    def update(self, obj: Mapping[str, Any] | bytes) -> list[PodKey]:
        """The object is another one now; the same as to add it. Raises as `add` does."""
        return self.add(obj)

    def delete(self, kind: str, name: str, namespace: str = DEFAULT_NAMESPACE) -> list[PodKey]:
        """Delete an object; UsageError when there is none."""
        return self._after(self._cluster.delete(kind, namespace, name))

    def bind(self, pod: tuple[str, str], node: str) -> list[PodKey]:
        """Apply a placement, this engine's or another: the pod starts on the node, later than those before it.

        UsageError when there is no such pod or node, or the pod has a node already.
        """
        return self._after(self._cluster.bind(self._cluster.pending(pod), node))

    def evict(self, pod: tuple[str, str]) -> list[PodKey]:
        """Do what preemption does to a victim: it gets the DisruptionTarget condition and is deleted at once.

        Budgets stay as they are written. UsageError when there is no such pod.
        """
        return self._after(self._cluster.evict(self._cluster.pod(pod)))

    # --- deciding -----------------------------------------------------------------------------

    def decide(self, pod: Mapping[str, Any] | bytes | tuple[str, str], *, preempt: bool = True) -> SimulatedDecision:
        """Decide for a pod given as an object, or one that was added, by (namespace, name).

        Changes nothing but, in a sampling profile, where the next search begins. A pod held back (by its scheduling
        gates, or as its PriorityClass does not exist) is not placed. Extenders are taken to accept the pod.
        `preempt`: whether preemption is considered when no node fits.

        Raises InvalidObject, UsageError (no such pod or profile), PluginError.
        """
        subject = (
            self._cluster.resolved(pod_from_mapping(self._cluster.as_kubernetes(pod)))
            if isinstance(pod, Mapping | bytes)
            else self._cluster.pod(pod)
        )
        profile = self._profile(subject)
        gate = profile.gate(subject)
        snapshot = self._cluster.snapshot() if gate.ok else Snapshot.of(())
        evaluation = self.extenders.evaluate(profile, subject, snapshot, start=self._start, preempt=preempt)
        if gate.ok:
            self._start = evaluation.next_start
        return SimulatedDecision(evaluation, gate)

    def gang_of(self, pod: tuple[str, str]) -> GangKey | None:
        """The gang that an added pod names, None for none; UsageError when there is no such pod."""
        return gang_key(self._cluster.pod(pod))

    def decide_gang(self, pod: tuple[str, str], *, preempt: bool = True) -> SimulatedGang | None:
        """Decide for the whole gang that an added pod is placed with; None for a pod that is placed by itself.

        Changes nothing but, in a sampling profile, where the next search begins. Members that PreEnqueue holds back are
        not there yet. Raises UsageError (no such pod or profile), PluginError.
        """
        subject = self._cluster.pod(pod)
        key = gang_key(subject)
        if key is None or not subject.pending:
            return None
        members = self._cluster.gang(key)
        group = self._cluster.snapshot().surroundings.pod_group(*key)
        stands = standing(key, members, group, gated=self._held_back)
        if stands.held:
            return SimulatedGang(key, None, held=stands.held)
        if stands.gang is None:
            return None
        refused = not_for_gangs(members, self._profile(subject))
        if refused is not None:
            return SimulatedGang(key, None, held=refused.message)
        bound = tuple(one for one in members if one.bound and counts(one))
        pending = in_order(one for one in members if one.pending and not self._held_back(one))
        wanted = Wanted(pending, stands.gang.required(len(bound)), bound, stands.gang.topology_keys)
        placement = place(self._profile(subject), wanted, self._cluster.snapshot(), start=self._start, preempt=preempt)
        self._start = placement.next_start
        return SimulatedGang(key, placement)

    def snapshot(self) -> Snapshot:
        """The cluster as it is now: its nodes, and the pods on each."""
        return self._cluster.snapshot()

    def queue_key(self, pod: tuple[str, str], arrival: float) -> Any:
        """What an added pod is sorted by in the queue, smallest first, had it come at this time.

        UsageError when there is no such pod or profile.
        """
        subject = self._cluster.pod(pod)
        return self._profile(subject).queue_key(subject, arrival)

    # --- what becomes of a refused pod --------------------------------------------------------

    def park(self, pod: tuple[str, str], decision: SimulatedDecision | SimulatedGang) -> list[PodKey]:
        """Record a decision that did not bind the pod: it waits with its rejectors and its nomination.

        A nomination takes those of lower priority off the node, which may wake pods. UsageError when there is no such
        pod, or it has a node, or this is no decision.
        """
        if not isinstance(decision, SimulatedDecision | SimulatedGang):
            raise UsageError(f"what is parked is what decide() or decide_gang() answered, not {decision!r}")
        subject = self._cluster.pending(pod)
        self._profile(subject)
        events: list[ClusterEvent] = []
        if decision.nomination is not None:
            for other in lower_nominations(self._cluster.snapshot(), subject, decision.nomination):
                events += self._cluster.nominate(other, "").events
            events += self._cluster.nominate(subject, decision.nomination).events
        woken = self._waiting.changed((), events)
        self._waiting.park(subject, decision.rejectors)
        return [key for key in woken if key != subject.key]

    def nominate(self, pod: tuple[str, str], node: str | None) -> list[PodKey]:
        """Note where room is made for a pending pod, or None: nowhere. Decisions for other pods reckon with it.

        UsageError when there is no such pod, or it has a node.
        """
        return self._after(self._cluster.nominate(self._cluster.pending(pod), "" if node is None else node))

    def waiting(self) -> list[PodKey]:
        """The pods that wait, sorted: parked ones, and those that PreEnqueue holds back."""
        return list(self._waiting)

    # --- inside -------------------------------------------------------------------------------

    def _after(self, change: Change) -> list[PodKey]:
        return self._waiting.changed(change.pods, change.events)

    def _held_back(self, pod: Pod) -> bool:
        return not self._profile(pod).gate(pod).ok

    def _profile(self, pod: Pod) -> Profile:
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            raise UsageError(f"no profile is called {pod.scheduler_name}")
        return profile


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
