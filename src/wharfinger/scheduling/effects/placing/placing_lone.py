"""Places one pod for an attempt of its own: from the request to what travels of the decision."""

from __future__ import annotations

from wharfinger.framework.evaluation import Evaluation
from wharfinger.objects.model.extenders import binder_of
from wharfinger.objects.model.pod import Pod
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.extenders import AskExtenders
from wharfinger.scheduling.contracts.scheduling import Gone, Placed, PlaceInput, PlaceOutcome, Refused
from wharfinger.scheduling.effects.placing import payload
from wharfinger.scheduling.effects.placing.deciding import LONE, Chosen, Decider, Denied
from wharfinger.scheduling.effects.placing.extenders import NOT_ASKED, Answers, answered, asking
from wharfinger.scheduling.effects.placing.payload import Overlay


class LonePlacements:
    """Decides for the pods of one worker's attempts."""

    def __init__(self, decider: Decider) -> None:
        self._core = decider.core
        self._decider = decider

    async def place(self, request: PlaceInput) -> PlaceOutcome:
        """Decide and assume, or answer what extenders are to be asked first.

        Raises `StoreError`, `PluginError`, and the failures Behind and WrongWorkflowId.
        """
        pod = await self._decider.finder.lone(request)
        if isinstance(pod, Gone):
            return pod
        try:
            asked = request.answers.nodes or request.answers.victims
            outcome = self.decide(pod, answered(request.answers) if asked else NOT_ASKED)
            if isinstance(outcome, AskExtenders):
                return outcome
            attempts = self._core.pool.cache.attempts_of(pod)
            return payload.fitted(outcome.model_copy(update={"attempts": attempts}) if attempts else outcome)
        except Exception:  # counted, whatever it is
            self._core.tally.failed(pod.scheduler_name)
            raise

    def decide(self, pod: Pod, answers: Answers) -> Placed | Refused | AskExtenders:
        """Decide on what is known now, whole and not cut to what travels; assumes the pod. Raises `PluginError`."""
        core, decider, overlay = self._core, self._decider, Overlay(but=pod)
        profile = core.pool.profiles[pod.scheduler_name]
        began = core.process.clock()
        snapshot = core.pool.cache.snapshot(excluding=pod.identity)
        denied = decider.admit(pod, profile, snapshot, LONE)
        if denied is not None:
            took = {"micros": round((core.process.clock() - began) * 1e6)}
            computation = decider.computation(profile, snapshot, overlay).model_copy(update=took)
            return self._refused(pod, denied, computation)
        start = decider.start if answers.verdicts is None else answers.verdicts.start
        evaluation = decider.consult(pod, profile, snapshot, answers)
        if not isinstance(evaluation, Evaluation):
            return asking(pod, evaluation, answers, profile.extenders_of(pod))
        seconds = core.process.clock() - began
        core.process.metrics.algorithm_duration.observe(seconds)
        computation = decider.computation(profile, snapshot, overlay, start=start, preferring=evaluation.by_preference)
        computation = computation.model_copy(
            update={"micros": round(seconds * 1e6), "feasible": evaluation.feasible_count}
        )
        try:
            answer = decider.conclude(pod, profile, evaluation, LONE)
        except Exception:  # a plugin failed: nobody records this decision
            payload.report_again(core.pool.cache, computation)
            raise
        if isinstance(answer, Denied):
            return self._refused(pod, answer, computation)
        return self._placed(answer, computation)

    def _placed(self, chosen: Chosen, computation: Computation) -> Placed:
        pod, evaluation = chosen.pod, chosen.evaluation
        ranking = evaluation.ranking(payload.RANKED_LIMIT)
        return Placed.alike(
            pod,
            pod_revision=pod.mod_revision,
            node=chosen.node,
            node_revision=self._core.pool.cache.nodes[chosen.node].mod_revision,
            score=ranking[0].total if ranking else None,
            ranking=payload.ranking(ranking),
            passed_over=payload.passed_over(evaluation),
            refusals=payload.refusals(evaluation.refusals),
            computation=computation,
            permit=chosen.wait,
            plugin_data=evaluation.state.baggage,
            bind_seconds=self._bind_seconds(pod),
        )

    def _bind_seconds(self, pod: Pod) -> float:
        """How long the extender that binds the pod may take; 0 for none."""
        extenders = self._core.pool.profiles[pod.scheduler_name].extenders
        binder = binder_of(extenders, pod) if extenders else None
        return binder.timeout if binder is not None else 0.0

    def _refused(self, pod: Pod, denied: Denied, computation: Computation) -> Refused:
        self._core.tally.refused(computation.profile_name, computation.micros / 1e6)
        nominated_node, victims = denied.room.of(pod)
        if denied.room.clock:
            computation = computation.model_copy(update={"clock": denied.room.clock})
        return Refused.alike(
            pod,
            pod_revision=pod.mod_revision,
            message=payload.message(denied.message),
            refusals=payload.refusals(denied.counts),
            rejectors=denied.rejectors,
            only_assumed=denied.room.only_assumed,
            nominated_node=nominated_node,
            victims=victims,
            leaving=denied.room.leaving,
            late=denied.late,
            computation=computation,
        )
