"""What would be decided for a pod or a gang, and why, in plain lists and mappings; computed when asked for.

A simulation awaits nothing and calls no extender. The command line passes a function that asks extenders; without one,
a decision is made as if the extenders that the pod concerns accepted it on every node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from wharfinger.errors import PluginError
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extenders.consulting import consult
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
)
from wharfinger.framework.gangs.gangs import GangPlacement
from wharfinger.framework.plugins.default_preemption import NEVER, UNDER_WAY
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status
from wharfinger.objects.model.conditions import SCHEDULING_GATED
from wharfinger.objects.model.decision import Decision
from wharfinger.objects.model.extenders import EXTENDER, Extender
from wharfinger.objects.model.gang import GANG_SCHEDULING, GangKey
from wharfinger.objects.model.pod import Pod, PodKey


class SimulatedDecision:
    """What would be decided for a pod, and why."""

    def __init__(self, evaluation: Evaluation, gate: Status) -> None:
        """`gate`: what PreEnqueue says. A gated pod was evaluated on no node at all."""
        self._evaluation = evaluation
        self._gate = gate

    @cached_property
    def _decision(self) -> Decision:
        return self._evaluation.decide(None)

    @property
    def node(self) -> str | None:
        """The chosen node's name, None when no node is feasible or the pod is gated."""
        return self._evaluation.node

    @property
    def feasible(self) -> list[str]:
        """Names of the nodes that passed every filter (of those examined), sorted; none for a gated pod."""
        return list(self._evaluation.feasible)

    @property
    def scores(self) -> dict[str, dict[str, int]]:
        """Node -> plugin -> weighted normalised score; empty when scoring was skipped (one feasible node)."""
        return {node: dict(plugins) for node, plugins in self._decision.scores.items()}

    @property
    def totals(self) -> dict[str, int]:
        """Node -> total; empty when scoring was skipped."""
        return dict(self._decision.totals)

    def score_of(self, node: str) -> int | None:
        """The total of one node; None where it is not feasible, or scoring was skipped. Cheaper than `totals`."""
        return self._evaluation.total_of(node)

    @property
    def message(self) -> str:
        """The FailedScheduling text, `SchedulingGated: ...` for a gated pod, empty when placed."""
        return self._evaluation.message if self._gate.ok else f"{SCHEDULING_GATED}: {self._gate.message}"

    @property
    def rejectors(self) -> list[str]:
        """Plugins that refused first on some node, or in PreFilter or PreEnqueue, sorted."""
        return list(self._evaluation.rejectors) if self._gate.ok else [self._gate.plugin]

    @property
    def first_refusals(self) -> dict[str, dict[str, int]]:
        """Plugin that refused first -> reason -> number of nodes, in profile order; a gated pod's gate on no node."""
        if not self._gate.ok:
            return {self._gate.plugin: {self._gate.message: 0}}
        return {plugin: dict(reasons) for plugin, reasons in self._evaluation.refusals.items()}

    @property
    def gated(self) -> bool:
        """Whether PreEnqueue holds the pod back."""
        return not self._gate.ok

    @property
    def refusals(self) -> dict[str, dict[str, list[str]]]:
        """Node -> plugin -> reasons, of every plugin that refuses, in profile order."""
        return {
            node: {plugin: list(status.reasons) for plugin, status in verdicts.items()}
            for node, verdicts in self._evaluation.verdicts().items()
            if verdicts
        }

    def refusals_on(self, node: str) -> dict[str, list[str]]:
        """Plugin -> reasons, of every plugin that refuses this node, in profile order; cheaper than `refusals`.

        KeyError when there is no node of this name.
        """
        verdicts = self._evaluation.verdicts_on(node)
        return {plugin: list(status.reasons) for plugin, status in verdicts.items()}

    @property
    def nominated_node(self) -> str | None:
        """Where preemption would make room; None when the pod is placed, or when that would not help."""
        return self._evaluation.nominated_node

    @property
    def nomination(self) -> str | None:
        """What becomes of the nomination that the pod has: a node's name, empty when it ends, None when it stays.

        It ends when preemption was considered and does not help; that is not done while room is being made already.
        """
        messages = self._evaluation.post_filter_messages
        if self.nominated_node is not None or not messages:
            return self.nominated_node
        return None if any(message.endswith((NEVER, UNDER_WAY)) for message in messages) else ""

    @property
    def victims(self) -> list[PodKey]:
        """The pods that preemption would evict there, sorted."""
        return sorted(victim.key for victim in self._evaluation.victims)


class SimulatedGang:
    """What would be decided for a gang, and why."""

    nomination = None
    """What becomes of its members' nominations when they are parked: they stay as they are."""

    def __init__(self, key: GangKey, placement: GangPlacement | None, *, held: str = "") -> None:
        """`held`: why its members wait for others of it; then nothing was decided."""
        self.key = key
        self._placement = placement if placement is not None else GangPlacement()
        self._held = held

    @property
    def gated(self) -> bool:
        """Whether its members are held back: too few of them exist, or what they say of it cannot be followed."""
        return bool(self._held)

    @property
    def nodes(self) -> dict[PodKey, str]:
        """Member -> node, in the order in which they were decided; empty when too few of them fit."""
        return {one.pod.key: one.node for one in self._placement.seats}

    @property
    def domain(self) -> str:
        """`<key>=<value>` of the topology domain that it was decided in; empty without one."""
        return str(self._placement.domain) if self._placement.domain is not None else ""

    @property
    def nominations(self) -> dict[PodKey, str]:
        """Member -> node, where room could be made for all of them; else empty."""
        return {one.pod.key: one.node for one in self._placement.nominations}

    @property
    def victims(self) -> dict[PodKey, list[PodKey]]:
        """Member -> the pods that would have to leave its node for that, sorted; of members for which some would."""
        return {
            one.pod.key: sorted(victim.key for victim in one.victims)
            for one in self._placement.nominations
            if one.victims
        }

    @property
    def message(self) -> str:
        """Why it is not placed; empty when it is."""
        return f"{SCHEDULING_GATED}: {self._held}" if self._held else self._placement.message

    @property
    def rejectors(self) -> list[str]:
        """Plugins that refused members, sorted."""
        return [GANG_SCHEDULING] if self._held else list(self._placement.rejectors)

    @property
    def first_refusals(self) -> Mapping[str, Mapping[str, int]]:
        """Of the first member that did not fit: plugin that refused first -> reason -> number of nodes."""
        if self._held:
            return {GANG_SCHEDULING: {self._held: 0}}
        return self._placement.away[0].evaluation.refusals if self._placement.away else {}


Ask: TypeAlias = Callable[
    [Pod, ExtenderQuestion | PreemptionQuestion, Sequence[Extender], Snapshot],
    ExtenderVerdicts | PreemptionVerdicts | ExtenderFailure,
]
"""Asks extenders about a pod, and waits for their answer."""
NOT_ASKED = "{pods:,} pods concern extenders, which were not asked and are taken to accept them"


class SimulatedExtenders:
    """Decides for pods that may concern extenders."""

    def __init__(self) -> None:
        self.ask: Ask | None = None
        """None = no extender is asked."""
        self.unasked: set[PodKey] = set()
        """Pods that were decided without the extenders that they concern."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What one should know of the decisions so far."""
        return (NOT_ASKED.format(pods=len(self.unasked)),) if self.unasked else ()

    def evaluate(
        self, profile: Profile, pod: Pod, snapshot: Snapshot, *, start: int = 0, preempt: bool = True
    ) -> Evaluation:
        """Decide as `Profile.evaluate` does. Raises PluginError, also for an extender that may not be ignored."""
        extenders = profile.extenders_of(pod)
        if not extenders or not len(snapshot):  # a pod that is held back is decided on no node
            return profile.evaluate(pod, snapshot, start=start, preempt=preempt)
        if self.ask is None:
            self.unasked.add(pod.key)
            return profile.evaluate(pod, snapshot, start=start, preempt=preempt)
        verdicts: ExtenderVerdicts | None = None
        preemption: PreemptionVerdicts | None = None
        while True:
            found = consult(profile, pod, snapshot, start=start, verdicts=verdicts, preemption=preemption)
            if isinstance(found, Evaluation) and preempt:
                return found
            if not isinstance(found, ExtenderQuestion) and not preempt:
                return profile.evaluate(pod, snapshot, start=start, preempt=False, verdicts=verdicts)
            assert not isinstance(found, Evaluation)
            match self.ask(pod, found, extenders, snapshot):
                case ExtenderFailure() as failure:
                    point = "Filter" if isinstance(found, ExtenderQuestion) else "PostFilter"
                    raise PluginError(EXTENDER, point, failure.message)
                case ExtenderVerdicts() as verdicts:
                    pass
                case PreemptionVerdicts() as preemption:
                    pass
