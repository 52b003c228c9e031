"""The activity `ask_extenders`: puts the question of a decision to the extenders, and packs what they answered.

`place` made the question (`extending`), and decides on the answer once it is part of the history. The calls are
`framework.extenders.asking`; what they are sent is `extender_objects`. Nothing is assumed and nothing written here, so
an activity that was lost with its worker is simply run again. An answer that is recorded is never asked for again.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.framework.extenders.asking import Calls, ask, ask_preemption
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
)
from wharfinger.framework.extenders.wire import Json
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.contracts.extenders import AskExtenders, ExtendersFailed
from wharfinger.scheduling.contracts.scheduling import AskInput, AskOutcome, Gone
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodReference, no_profile
from wharfinger.scheduling.effects.placing.extender_objects import ExtenderObjects, ReadNodes, read_pods
from wharfinger.scheduling.effects.placing.extending import outcome_of, question_of


class ExtenderQuestions:
    """Asks extenders for the attempts of one worker."""

    def __init__(self, core: Core, calls: Calls) -> None:
        self._store = core.process.store
        self._cache = core.pool.cache
        self._profiles = core.pool.profiles
        self._eligibility = core.eligibility
        self._limits = core.limits
        self._tally = core.tally
        self._calls = calls
        self._nodes = ReadNodes(core.process.store, core.pool.cache, core.limits)

    async def ask(self, request: AskInput) -> AskOutcome:
        """Ask about the nodes or the victims of the question; Gone when there is no pod to place any more.

        Raises `StoreError`. An extender that the configuration does not name any more is a failure, not an error.
        """
        asked = request.ask
        reference = PodReference(PodKey(request.namespace, request.name), asked.uid, asked.create_revision)
        found = self._eligibility.from_cache(reference) or await self._eligibility.read(reference)
        if isinstance(found, Gone):
            return found
        profile = self._profiles.get(found.pod.scheduler_name)
        if profile is None:
            return no_profile(found.pod.scheduler_name)
        obj = found.format.pod_mapping(found.raw, namespace=request.namespace, name=request.name)
        outcome = outcome_of(await self._answer(question_of(asked), found.pod, obj, _asked(profile.extenders, asked)))
        if isinstance(outcome, ExtendersFailed):
            self._tally.failed(profile.name)  # the attempt ends with it
        return outcome

    async def _answer(
        self, question: ExtenderQuestion | PreemptionQuestion, pod: Pod, obj: Json, extenders: Sequence[Extender]
    ) -> ExtenderVerdicts | PreemptionVerdicts | ExtenderFailure:
        if isinstance(question, ExtenderQuestion):
            return await ask(question, obj, extenders, self._calls, await self._for_nodes(question, pod, extenders))
        objects = await self._for_victims(question, pod, extenders)
        return await ask_preemption(question, obj, extenders, self._calls, objects)

    async def _for_nodes(self, question: ExtenderQuestion, pod: Pod, extenders: Sequence[Extender]) -> ExtenderObjects:
        called = any(one.filter_verb or one.prioritize_verb for one in extenders if not one.node_cache_capable)
        return ExtenderObjects(pod, self._cache, nodes=await self._nodes.get(question.nodes) if called else None)

    async def _for_victims(
        self, question: PreemptionQuestion, pod: Pod, extenders: Sequence[Extender]
    ) -> ExtenderObjects:
        objects = ExtenderObjects(pod, self._cache)
        called = [one for one in extenders if one.preempt_verb]
        if all(one.node_cache_capable for one in called):
            return objects
        wanted = {victim.key for one in question.candidates for victim in one.victims}
        if len(called) > 1:  # an extender may name other victims, and the next one is sent those
            wanted |= {one.key for each in question.candidates for one in (objects.pods_of(each.node) or {}).values()}
        return ExtenderObjects(pod, self._cache, pods=await read_pods(self._store, sorted(wanted), self._limits))


def _asked(extenders: Sequence[Extender], asked: AskExtenders) -> list[Extender]:
    return [one for one in extenders if one.name in asked.extenders]
