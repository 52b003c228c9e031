"""Questions to extenders and their answers, between the decision of a pod and what travels of it.

`placing_lone` asks here what to send and what was answered; the decision itself is `framework.extenders.consulting`.
Pods that concern an extender, or an asynchronous plugin, are placed alone: a cohort leaves them to attempts of their
own, and a gang is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wharfinger.errors import PluginError
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
    pack,
    unpack,
)
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.extenders import EXTENDER, Extender
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.texts import one_line
from wharfinger.process.failures import MESSAGE_LIMIT
from wharfinger.scheduling.contracts.extenders import AskExtenders, ExtenderAnswers, ExtendersAnswered, ExtendersFailed
from wharfinger.scheduling.effects.binding.groups import Denied

MOST_ROUNDS = 3
"""Questions about nodes in one attempt; each takes as long as the slowest extender."""
UNSETTLED = f"the nodes that fit changed in each of {MOST_ROUNDS} rounds of questions to extenders"
ALONE = "extenders are asked, and asynchronous plugins called, in an attempt of the pod's own"


@dataclass(frozen=True, slots=True)
class Answers:
    """What extenders answered, read."""

    verdicts: ExtenderVerdicts | None = None
    preemption: PreemptionVerdicts | None = None
    rounds: int = 0


def answered(answers: ExtenderAnswers) -> Answers:
    """What travelled, read. ValueError for what no release packed."""
    nodes, victims = (unpack(text) if text else None for text in (answers.nodes, answers.victims))
    if not isinstance(nodes, ExtenderVerdicts | None) or not isinstance(victims, PreemptionVerdicts | None):
        raise TypeError("questions to extenders were given for their answers")
    return Answers(nodes, victims, answers.rounds)


def asking(
    pod: Pod, consulted: ExtenderQuestion | PreemptionQuestion, answers: Answers, extenders: Sequence[Extender]
) -> AskExtenders:
    """The question as it travels. PluginError where it is put too often, or is too large to be kept.

    `extenders`: those that the pod concerns.
    """
    about_nodes = isinstance(consulted, ExtenderQuestion)
    if about_nodes and answers.rounds >= MOST_ROUNDS:
        raise PluginError(EXTENDER, "Filter", UNSETTLED)
    text = pack(consulted)
    if isinstance(text, ExtenderFailure):
        raise PluginError(EXTENDER, "Filter" if about_nodes else "PostFilter", text.message)
    return AskExtenders(
        uid=pod.uid,
        create_revision=pod.create_revision,
        pod_revision=pod.mod_revision,
        about="nodes" if about_nodes else "victims",
        question=text,
        count=len(consulted.nodes) if isinstance(consulted, ExtenderQuestion) else len(consulted.candidates),
        extenders=consulted.extenders,
        seconds=_seconds(extenders, about_nodes=about_nodes),
    )


def _seconds(extenders: Sequence[Extender], *, about_nodes: bool) -> float:
    """How long the calls take at most: those that filter or preempt follow each other, those that score go at once."""
    if not about_nodes:
        return sum(one.timeout for one in extenders if one.preempt_verb)
    scores = max((one.timeout for one in extenders if one.prioritize_verb), default=0.0)
    return sum(one.timeout for one in extenders if one.filter_verb) + scores


def question_of(ask: AskExtenders) -> ExtenderQuestion | PreemptionQuestion:
    """What the extenders are asked. ValueError for what no release packed."""
    question = unpack(ask.question)
    if not isinstance(question, ExtenderQuestion | PreemptionQuestion):
        raise TypeError("answers of extenders were given for questions")
    return question


def outcome_of(answer: ExtenderVerdicts | PreemptionVerdicts | ExtenderFailure) -> ExtendersAnswered | ExtendersFailed:
    """What became of a question, as it travels."""
    text = answer if isinstance(answer, ExtenderFailure) else pack(answer)
    if isinstance(text, ExtenderFailure):
        return ExtendersFailed(extender=text.extender, verb=text.verb, message=one_line(text.message, MESSAGE_LIMIT))
    return ExtendersAnswered(answer=text)


def left_to_an_own_attempt(pod: Pod, profile: Profile) -> Denied | None:
    """The refusal of a pod of a cohort that concerns an extender or an asynchronous plugin; None for any other pod."""
    return Denied({}, ALONE, (), own_attempt=True) if profile.extenders_of(pod) or profile.called.concern(pod) else None
