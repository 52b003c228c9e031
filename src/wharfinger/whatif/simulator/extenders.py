"""Extenders in a simulation: asked by whoever can call them, or taken to accept everything, and counted.

A simulation awaits nothing and calls nobody. The command line passes a function that asks; without one, a decision is
made as if the extenders that the pod concerns let it everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from wharfinger.framework.profile import Profile
from wharfinger.framework.snapshot import Snapshot
from wharfinger.objects.model.extenders import EXTENDER, Extender
from wharfinger.objects.model.pod import Pod, PodKey

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
        """None = nobody is asked."""
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
