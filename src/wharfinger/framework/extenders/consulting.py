"""A decision with extenders: where to ask them, and how to decide when they have answered.

::

    consult ──► Evaluation                                       the pod concerns no extender, or no node is left to ask
      ├──────► ExtenderQuestion ──► (calls) ──► verdicts ────► consult      filters and scores
      └──────► PreemptionQuestion ─► (calls) ─► preemption ──► consult      no node: victims

The caller puts the questions, keeps the answers, and comes back with all it has; `extender_chain` has the calls. The
cluster may move meanwhile. A node that became feasible since is not chosen unasked: where no other one is left, the
question is put again, about all nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
)
from wharfinger.framework.interface import PreemptionTurn
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.profile import Profile
from wharfinger.framework.search import Search
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import Status, unschedulable
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.gang import GANG_SCHEDULING
from wharfinger.objects.model.pod import Pod

NOT_FOR_GANGS = "PodGroup: {pod} concerns extender {extender}, and extenders are not asked for gangs"
NOT_CALLED_FOR_GANGS = "PodGroup: {pod} concerns asynchronous plugins, and those are not called for gangs"
Consulted = Evaluation | ExtenderQuestion | PreemptionQuestion
"""The decision, or what the extenders are to be asked before there is one."""


def consult(
    profile: Profile,
    pod: Pod,
    snapshot: Snapshot,
    *,
    start: int = 0,
    preference: Preference | None = None,
    verdicts: ExtenderVerdicts | None = None,
    preemption: PreemptionVerdicts | None = None,
    timed: bool = False,
) -> Consulted:
    """Decide for the pod, or say what is to be asked. Raises PluginError.

    Args:
        profile: Whose plugins and extenders decide.
        pod: The pod.
        snapshot: The cluster.
        start: Of a sampling profile, where to begin; of no account where there are verdicts, which have their own.
        preference: Nodes that go before slightly better ones; None = the best node is chosen.
        verdicts: The answer to an ExtenderQuestion; None = not asked yet.
        preemption: The answer to a PreemptionQuestion; None = not asked yet.
        timed: Whether it counts for how long extension points take.
    """
    extenders = profile.extenders_of(pod)
    if verdicts is not None:
        start = verdicts.start
    state, search = profile.search(pod, snapshot, start=start, verdicts=verdicts, timed=timed)
    question = _question(search, extenders, start)
    if question is not None:
        return question
    asked = tuple(one.name for one in extenders if one.preempt_verb)
    turn = PreemptionTurn(preemption, to_be_asked=bool(asked) and preemption is None)
    evaluation = profile.decide(state, pod, search, preference=preference, turn=turn)
    if evaluation.candidates:
        return PreemptionQuestion(snapshot.revision, evaluation.candidates, asked)
    return evaluation


def not_for_gangs(pods: Iterable[Pod], profile: Profile) -> Status | None:
    """The refusal of a gang of which a pod concerns an extender or an asynchronous plugin; None for any other gang."""
    for pod in pods:
        concerned = profile.extenders_of(pod)
        if concerned:
            reason = NOT_FOR_GANGS.format(pod=pod.key, extender=concerned[0].name)
            return unschedulable(reason).by(GANG_SCHEDULING)
        if profile.called.concern(pod):
            return unschedulable(NOT_CALLED_FOR_GANGS.format(pod=pod.key)).by(GANG_SCHEDULING)
    return None


def _question(search: Search, extenders: tuple[Extender, ...], start: int) -> ExtenderQuestion | None:
    """What is to be asked before anything else; None for nothing."""
    extended = search.extended
    if extended is None:
        left = np.arange(search.count) if search.alive is None else np.flatnonzero(search.alive)
        left = left[: search.count]  # none when a PreFilter plugin refused the pod
    elif search.count == 0 and extended.unasked.any():
        left = np.flatnonzero(extended.feasible)
    else:
        return None
    filters = any(one.filter_verb for one in extenders)
    scores = any(one.prioritize_verb for one in extenders)
    if not len(left) or not (filters or (scores and len(left) > 1)):
        return None
    names = tuple(search.snapshot.names[row] for row in left.tolist())
    return ExtenderQuestion(search.snapshot.revision, names, tuple(one.name for one in extenders), start)
