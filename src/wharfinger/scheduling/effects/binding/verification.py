"""Verifies that the pod, as it is now, fits one node, as this worker last saw it.

This happens right before every transaction, without an await between it and the reading of the binding version that the
transaction compares. Where neither the pod nor the node has changed since this worker decided, the answer is known. One
node is examined, unless rules across nodes are involved: the pod's own, the anti-affinity of placed pods, a claim that
one pod may use, or a plugin from another package that is not marked as local.

PreBind and Bind of the pod's plugins follow, and PostBind once the transaction has succeeded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from weakref import WeakValueDictionary

from wharfinger.errors import PluginError
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Bind, Filter, Local, Plugin, PreFilter, QueueSort, offers
from wharfinger.framework.node_info import NodeInfo
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Code, Status
from wharfinger.objects.model.pod import NO_LABELS, Pod, PodIdentity
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.plugin_calls import NO_CALLS, CallPoint, CallsMade, PluginStep
from wharfinger.scheduling.effects.binding.across_nodes import AcrossNodes
from wharfinger.scheduling.effects.binding.volumes import own_claims
from wharfinger.scheduling.state.cache.cache import Cache

log = logging.getLogger(__name__)

ROOM = frozenset(
    {
        "NodeResourcesFit",
        "GpuMemory",
        "NodePorts",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "PodTopologySpread",
        "InterPodAffinity",
    }
)
"""Filters that keep a node from being filled beyond what it has, and rules across nodes from being broken."""
GUARDED = frozenset({"PodTopologySpread", "InterPodAffinity"})
"""Plugins that look at other nodes for pods with rules across nodes only, or for pods that such rules are about."""
OF_VOLUMES = frozenset({"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"})
"""Plugins that say nothing of pods without volumes. Of a pod with volumes they look at the one node and at storage; at
other nodes, only for a claim that one pod may use."""
OF_ONE_NODE = frozenset({"UnsupportedFeatures"})
"""Plugins that look at the one node, and at objects beside nodes and pods."""
REMEMBERED = 4096
"""Decisions kept until their bind asks; it may run on another worker and never ask here."""
GONE = 0
"""The state of a node that is not there; stamps begin at 1."""
LEANS = "it relies on pods that are not bound yet"
"""Begins the refusal of a placement whose rules hold only if other pods are bound where this worker expects them."""


@dataclass(slots=True, weakref_slot=True, eq=False)
class Undisturbed:
    """A node to which nothing happens but our own decisions, each made with all before it."""

    state: int
    """The `stamp` of what the last of them left; a heart-beat keeps it."""


class Seen(NamedTuple):
    """What a decision for a plain pod rests on."""

    pod: Pod
    undisturbed: Undisturbed
    nominated: tuple[Pod, ...]
    anti_affinity: int
    """Its epoch."""
    namespace_labels: Mapping[str, str]
    """What others' terms may select the pod's namespace by."""


class ProfileForms:
    """A profile, and what verification derives from it when it is first needed, once for each profile."""

    def __init__(self, profile: Profile) -> None:
        self.whole = profile

    @cached_property
    def room_only(self) -> Profile:
        """With no other filters than those that guard the node's room."""
        return _with(self.whole, lambda plugin: plugin.name in ROOM)

    @cached_property
    def local_only(self) -> Profile:
        """With no other filters than those that look at the one node."""
        return _with(self.whole, lambda plugin: offers(plugin, Local))

    @cached_property
    def sees_beyond(self) -> bool:
        """Whether one of its plugins may look at other nodes, for whatever pod."""
        return any(map(sees_beyond, self.whole.plugins))


class Verification:
    """Runs the filters of a placement again."""

    def __init__(self, *, cache: Cache, profiles: Mapping[str, Profile]) -> None:
        self._cache = cache
        self._profiles = profiles
        self._forms: dict[str, ProfileForms] = {}
        """By scheduler name."""
        self._decided: dict[PodIdentity, Seen] = {}
        self._undisturbed: WeakValueDictionary[str, Undisturbed] = WeakValueDictionary()
        """By node."""

    def decided(self, pod: Pod, node_name: str, before: NodeInfo | None) -> None:
        """The pod was found to fit that node, as it was before, and is assumed there, without an await in between."""
        undisturbed = self._undisturbed.get(node_name)
        if undisturbed is None or undisturbed.state != _state(before):
            undisturbed = self._undisturbed[node_name] = Undisturbed(GONE)
        undisturbed.state = _state(self._cache.node_info(node_name))
        self._decided[pod.identity] = self._seen(pod, node_name, undisturbed)
        if len(self._decided) > REMEMBERED:
            del self._decided[next(iter(self._decided))]

    def refusal(
        self,
        pod: Pod,
        node_name: str,
        computation: Computation,
        rules: AcrossNodes,
        together: Collection[PodIdentity] = (),
    ) -> str:
        """Why the pod must not be bound there; empty when it may. Raises `PluginError`.

        `together`: pods that are bound in the same transaction, or not at all; its rules may rely on them.
        """
        lost = self.node_lost(node_name, computation)
        if lost:
            return lost
        forms = self._forms_for(pod)
        ours = computation.profile == forms.whole.digest
        if self._untouched(pod, node_name, rules) and ours:
            return ""
        # Another configuration decided: its rules are not this worker's to overrule, but no node may be overfilled.
        profile = forms.whole if ours else forms.room_only
        only = None if self._looks_beyond(pod, rules) else node_name
        snapshot = self._cache.snapshot(excluding=pod.identity, only=only)
        status = profile.verify(pod, snapshot, node_name)
        # Affinity and even spreading hold because of other pods: binds that are not confirmed may never happen.
        if status.ok and rules.leans and self._cache.assumed():
            others = frozenset(together) - {pod.identity}
            status = profile.verify(pod, self._cache.snapshot(confirmed=True, counting=others), node_name)
            if not status.ok:
                return f"{LEANS}: {status.message}"
        return "" if status.ok else f"{status.plugin}: {status.message}"

    def refusal_after(self, pod: Pod, node_name: str, computation: Computation, surely: Snapshot) -> str:
        """Why a pod with rules across nodes must not be bound there; empty when it may. Raises `PluginError`.

        `surely`: facts, and pods whose bind has happened or precedes this one in its transaction. All filters must
        allow the pod there; those that look at the node alone must also allow it beside all pods assumed on the node.
        """
        lost = self.node_lost(node_name, computation) if node_name in surely.index else "the node is gone"
        if lost:
            return lost
        forms = self._forms_for(pod)
        ours = computation.profile == forms.whole.digest
        status = (forms.whole if ours else forms.room_only).verify(pod, surely, node_name)
        if status.ok and not (ours and self._row_untouched(self._decided.get(pod.identity), pod, node_name)):
            alone = self._cache.snapshot(excluding=pod.identity, only=node_name)
            status = forms.local_only.verify(pod, alone, node_name)
        return "" if status.ok else f"{status.plugin}: {status.message}"

    def node_lost(self, node_name: str, computation: Computation) -> str:
        """Why the node is not the one that was decided on; empty when it is."""
        node = self._cache.nodes.get(node_name)
        if node is None:
            return "the node is gone"
        return "the node was created anew since the decision" if node.create_revision > computation.revision else ""

    def _row_untouched(self, seen: Seen | None, pod: Pod, node_name: str) -> bool:
        """Whether nothing but our own decisions happened to the node since this pod was decided."""
        return (
            seen is not None
            and seen.pod is pod
            and seen.undisturbed.state != GONE
            and seen.undisturbed.state == _state(self._cache.node_info(node_name))
            and seen.nominated == self._cache.nominated_on(node_name)
        )

    def _forms_for(self, pod: Pod) -> ProfileForms:
        """Those of the pod's profile as it is now: another may take its place at any time."""
        profile, forms = self._profiles[pod.scheduler_name], self._forms.get(pod.scheduler_name)
        if forms is None or forms.whole is not profile:
            forms = self._forms[pod.scheduler_name] = ProfileForms(profile)
        return forms

    def _looks_beyond(self, pod: Pod, rules: AcrossNodes) -> bool:
        """Whether the answer depends on pods of other nodes."""
        if rules or self._forms_for(pod).sees_beyond or any(own_claims(pod, self._cache)):
            return True
        labels = self._cache.surroundings.namespace_labels(pod.namespace)
        return self._cache.anti_affinity.concerns(pod, labels)

    def _untouched(self, pod: Pod, node_name: str, rules: AcrossNodes) -> bool:
        """Whether pod and node still are the very ones that were decided on: both are replaced by any change.

        Asked once a decision. Rules across nodes depend on more than these two.
        """
        seen = self._decided.pop(pod.identity, None)
        if seen is None or rules or pod.claims or pod.in_line_volumes or self._forms_for(pod).sees_beyond:
            return False
        now = self._seen(pod, node_name, seen.undisturbed)
        return (
            self._row_untouched(seen, pod, node_name)
            and seen.anti_affinity == now.anti_affinity  # a pod placed anywhere since may keep this one away
            and seen.namespace_labels == now.namespace_labels
        )

    def _seen(self, pod: Pod, node_name: str, undisturbed: Undisturbed) -> Seen:
        cache = self._cache
        epoch = cache.anti_affinity.epoch
        labels = cache.surroundings.namespace_labels(pod.namespace) if epoch else NO_LABELS  # no term asks for them
        return Seen(pod, undisturbed, cache.nominated_on(node_name), epoch, labels)


def _state(info: NodeInfo | None) -> int:
    return GONE if info is None else info.stamp


def sees_beyond(plugin: Plugin) -> bool:
    """Whether the plugin's answer for one node may depend on others, as far as we can know."""
    looks = offers(plugin, PreFilter) or offers(plugin, Filter)
    return looks and not offers(plugin, Local) and plugin.name not in GUARDED | OF_VOLUMES | OF_ONE_NODE


def _with(profile: Profile, wanted: Callable[[Plugin], bool]) -> Profile:
    """The same profile with these plugins alone, and those without which there is none."""
    needed = [each for each in profile.plugins if wanted(each) or offers(each, QueueSort) or offers(each, Bind)]
    return Profile(profile.name, Enabled.everywhere(needed, {}))


# --- plugins around the commit --------------------------------------------------------------------


def ask_to_bind(
    profile: Profile, state: CycleState, pod: Pod, node_name: str, calls: CallsMade = NO_CALLS
) -> tuple[PluginStep, ...] | Status:
    """PreBind and Bind: the first refusal, or the calls of asynchronous plugins that are due before the pod is bound.

    `calls`: what those have answered so far. Raises `PluginError`, also for what is neither success nor refusal.
    """
    status = profile.pre_bind(state, pod, node_name)
    return steps_due(profile, state, pod, node_name, calls) if status.ok else _refusal(status, "PreBind")


def steps_due(
    profile: Profile, state: CycleState, pod: Pod, node_name: str, calls: CallsMade
) -> tuple[PluginStep, ...] | Status:
    """The same without PreBind of plugins that are not asynchronous."""
    called = profile.called.pre_binds(pod) if profile.called.any else ()
    due = [_step(profile, "PreBind", name) for name in called if not calls.has("PreBind", name)]
    if calls.by_default:
        return ()
    status = profile.bind(state, pod, node_name, after=calls.skipped_binder if calls.answers else "")
    if status.code is Code.WAIT and status.plugin in profile.called.at["bind"]:
        return (*due, _step(profile, "Bind", status.plugin))
    return tuple(due) if status.ok else _refusal(status, "Bind")


def post_bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> None:
    """PostBind: the pod is bound whatever a plugin makes of it."""
    try:
        profile.post_bind(state, pod, node_name)
    except PluginError as error:
        log.warning("plugin_failed error=%r", str(error))


def _refusal(status: Status, point: str) -> Status:
    if status.rejected:
        return status
    raise PluginError(status.plugin, point, status.message or f"answered {status.code.name}")


def _step(profile: Profile, point: CallPoint, name: str) -> PluginStep:
    return PluginStep.alike(profile.called.limits(name), point=point, plugin=name)
