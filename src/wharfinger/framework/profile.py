"""A profile: the plugins of one scheduler name, in order, run as one.

The same engine serves live scheduling, waking, simulation, explanation and computing a decision again. `place` calls
gate, evaluate, reserve and permit; `bind` calls verify, pre_bind, bind and post_bind, perhaps on another worker.

`InForce` has the profiles of all scheduler names; `configuration` replaces them while the worker runs.

Neighbours: `searcher` and `scoring` decide.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from wharfinger.errors import ConfigurationError, PluginError
from wharfinger.framework import interface
from wharfinger.framework.adapters import ScoreStep, filter_step, score_step
from wharfinger.framework.async_plugins import CalledPlugins
from wharfinger.framework.catalog import Enabled
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.domain import Domain
from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extenders.extended_search import add_scores
from wharfinger.framework.extenders.extender_verdicts import ExtenderVerdicts, PreemptionVerdicts
from wharfinger.framework.hints import HintTable
from wharfinger.framework.interface import NOT_ASKED, PERMITTED, Permission, PostFilterResult, PreemptionTurn
from wharfinger.framework.local_table import LocalFilter, LocalPlugins, LocalScore, local_by_form
from wharfinger.framework.preferred_nodes import Preference
from wharfinger.framework.scoring import Scorer
from wharfinger.framework.search import Search
from wharfinger.framework.searcher import FailedSearch, Searcher
from wharfinger.framework.snapshot import Snapshot
from wharfinger.framework.status import SUCCESS, Code, Status, ask, call, unresolvable, unschedulable
from wharfinger.framework.timing import Lap, PointTimes, measured
from wharfinger.objects.model.events import ClusterEvent
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.pod import Pod
from wharfinger.objects.model.priority import PRIORITY_CLASS, missing

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_ANSWER_TO_RESERVE = "{plugin} answered {code} to Reserve, which is neither success nor a refusal"


class Profile:
    """Decides for the pods of one scheduler name.

    What it keeps between decisions only makes them quicker. Not to be shared between threads.
    """

    def __init__(
        self,
        name: str,
        enabled: Enabled,
        *,
        digest: str = "",
        configuration: bytes = b"",
        percentage: int | None = None,
        extenders: tuple[Extender, ...] = (),
    ) -> None:
        """`percentage`: of the nodes to look for, as kube-scheduler samples (0 = adaptive); None = look at all.

        `extenders`: in the order in which they are called. Only `consulting` has decisions wait for them.
        ConfigurationError unless there are exactly one QueueSort and at least one Bind plugin.
        """
        self.name = name
        """The scheduler name it serves."""
        self.digest = digest
        """SHA-256 (hex) of `configuration`."""
        self.configuration = configuration
        """The completed configuration as canonical JSON."""
        self.plugins = enabled.plugins
        self.extenders = extenders
        self.times: PointTimes | None = None
        """Keeps how long live decisions take at each extension point; None = nothing is measured."""
        self._by_name = {plugin.name: plugin for plugin in enabled.plugins}
        self.at = enabled.at
        """Extension point -> names of the plugins that run there, in order."""
        if len(enabled.at.get("queueSort", ())) != 1:
            raise ConfigurationError(f"profile {name}: exactly one queueSort plugin is needed")
        if not enabled.at.get("bind"):
            raise ConfigurationError(f"profile {name}: at least one bind plugin is needed")
        self._pre_enqueue = self._steps("preEnqueue", lambda plugin: plugin.pre_enqueue)
        self._queue_key = self._steps("queueSort", lambda plugin: plugin.queue_key)[0]
        self._filters = [step for _, step in self._steps("filter", filter_step) if step is not None]
        self._post_filters = self._steps("postFilter", lambda plugin: plugin.post_filter)
        weigh = enabled.weights.get
        scores = [
            step for _, step in self._steps("score", lambda p: score_step(p, weigh(p.name, 1))) if step is not None
        ]
        local = self._local_plugins(scores)
        pre_scores = self._steps("preScore", lambda plugin: plugin.pre_score)
        self._scorer = Scorer([step for step in pre_scores if step[0] not in local.names], scores, local.names)
        self._searcher = Searcher(
            local,
            pre_filters=self._steps("preFilter", lambda plugin: plugin),
            others=[(place, step) for place, step in enumerate(self._filters) if step.name not in local.names],
            percentage=percentage,
            scored=bool(scores) or any(one.prioritize_verb or one.filter_verb for one in extenders),
        )
        self._reserve = self._steps("reserve", lambda plugin: plugin)
        self._permit = self._steps("permit", lambda plugin: plugin.permit)
        self.called = CalledPlugins(self.plugins, enabled.at)
        """The asynchronous ones: `pre_bind` and `bind` leave them out, and they are called by it instead."""
        self._pre_bind = [
            step for step in self._steps("preBind", lambda p: p.pre_bind) if step[0] not in self.called.at["preBind"]
        ]
        self._bind = self._steps("bind", lambda plugin: plugin.bind)
        self._post_bind = self._steps("postBind", lambda plugin: plugin.post_bind)
        self._hints = HintTable(enabled.plugins)

    def extenders_of(self, pod: Pod) -> tuple[Extender, ...]:
        """The extenders that the pod concerns, in the order of the calls; most often none."""
        return tuple(one for one in self.extenders if one.interested(pod)) if self.extenders else ()

    def _local_plugins(self, scores: Sequence[ScoreStep]) -> LocalPlugins:
        plugins = {plugin.name: plugin for plugin in self.plugins if local_by_form(plugin)}
        return LocalPlugins(
            list(plugins.values()),
            filters=[
                LocalFilter(place, step, plugins[step.name])
                for place, step in enumerate(self._filters)
                if step.name in plugins
            ],
            scores=[LocalScore(step, plugins[step.name]) for step in scores if step.name in plugins],
            pre_filters=self.at.get("preFilter", ()),
            pre_scores=self.at.get("preScore", ()),
            selective=[
                (plugin.name, plugin.concerns)
                for plugin in self.plugins
                if plugin.name not in plugins
                and plugin.name in self.at.get("preFilter", ())
                and interface.offers(plugin, interface.Selective)
            ],
        )

    def _steps(self, point: str, method: Callable[[Any], T]) -> list[tuple[str, T]]:
        return [(name, method(self._by_name[name])) for name in self.at.get(point, ())]

    # --- before and around the queue ----------------------------------------------------------

    @measured("PreEnqueue", "preEnqueue")
    def gate(self, pod: Pod) -> Status:
        """Whether the pod's class exists, then PreEnqueue of all plugins: the first refusal, or success.

        Raises PluginError.
        """
        lack = missing(pod)
        if lack:
            return unresolvable(lack).by(PRIORITY_CLASS)
        for name, pre_enqueue in self._pre_enqueue:
            status = ask(name, "PreEnqueue", pre_enqueue, pod)
            if status.rejected:
                return status
            if not status.ok:
                raise PluginError(name, "PreEnqueue", status.message or f"answered {status.code.name}")
        return SUCCESS

    def queue_key(self, pod: Pod, arrival: float) -> Any:
        """The sort key of the active queue, smallest first. Raises PluginError."""
        name, queue_key = self._queue_key
        return call(name, "QueueSort", queue_key, pod, arrival)

    def may_help(self, event: ClusterEvent, pod: Pod, rejectors: Sequence[str], *, beyond: bool = True) -> str | None:
        """The plugin whose queueing hint says that the event may help the refused pod; None when none does.

        `beyond`: with cases that kube-scheduler forgets.
        """
        return self._hints.may_help(event, pod, rejectors, beyond=beyond)

    def concerns(self, event: ClusterEvent, rejectors: Sequence[str]) -> bool:
        """Whether an event of this kind may help pods that these plugins refused at all: cheaper than `may_help`."""
        return self._hints.concerns(event, rejectors)

    # --- deciding -----------------------------------------------------------------------------

    def evaluate(
        self,
        pod: Pod,
        snapshot: Snapshot,
        *,
        start: int = 0,
        preempt: bool = True,
        preference: Preference | None = None,
        domain: Domain | None = None,
        verdicts: ExtenderVerdicts | None = None,
        preemption: PreemptionVerdicts | None = None,
        timed: bool = False,
    ) -> Evaluation:
        """Decide for the pod: PreFilter to Score, and PostFilter when no node is feasible. Raises PluginError.

        `start`: of a sampling profile, where to begin: the `next_start` of the decision before. `preempt`: whether
        PostFilter is asked at all; it costs far more than the rest. `preference`: nodes that go before slightly better
        ones; None = the best node is chosen. `domain`: only its nodes may be chosen; None = any. `verdicts` and
        `preemption`: what extenders were recorded to say; without them they are taken to allow everything.
        `timed`: whether it counts for how long extension points take.
        """
        state, search = self.search(pod, snapshot, start=start, domain=domain, verdicts=verdicts, timed=timed)
        turn = PreemptionTurn(preemption) if preemption is not None else NOT_ASKED
        return self.decide(state, pod, search, preempt=preempt, preference=preference, turn=turn)

    def search(
        self,
        pod: Pod,
        snapshot: Snapshot,
        *,
        start: int = 0,
        domain: Domain | None = None,
        verdicts: ExtenderVerdicts | None = None,
        timed: bool = False,
    ) -> tuple[CycleState, Search]:
        """The first half of a decision: which nodes are feasible, and what plugins noted. Raises PluginError."""
        state = CycleState()
        state.snapshot = snapshot
        if timed:
            state.lap = Lap(self.times, self.name)
        try:
            return state, self._searcher.search(state, pod, snapshot, start=start, domain=domain, verdicts=verdicts)
        except PluginError as error:
            state.lap.done(error.point, Code.ERROR)
            raise

    def decide(
        self,
        state: CycleState,
        pod: Pod,
        search: Search,
        *,
        preempt: bool = True,
        preference: Preference | None = None,
        turn: PreemptionTurn = NOT_ASKED,
    ) -> Evaluation:
        """The second half: Score where several nodes are feasible, PostFilter where none is. Raises PluginError."""
        count = search.count
        state.lap.begin()
        try:
            scores = self._scorer.score(state, pod, search) if count > 1 else None
        except PluginError as error:
            state.lap.done(error.point, Code.ERROR)
            raise
        if scores is not None and search.extended is not None:
            add_scores(scores, search.extended)
        evaluation = Evaluation(pod, state, search, scores, self._filters, preference=preference)
        if count == 0 and preempt and self._post_filters and len(search.snapshot):
            self._run_post_filters(evaluation, state, pod, FailedSearch(pod, state, search, self._searcher, turn))
            state.lap.done("PostFilter", Code.SUCCESS if evaluation.nominated_node else Code.UNSCHEDULABLE)
        return evaluation

    def verify(self, pod: Pod, snapshot: Snapshot, node_name: str) -> Status:
        """Every filter for that one node: the first refusal, or success. Raises PluginError."""
        row = snapshot.index.get(node_name)
        if row is None:
            return unresolvable(f"node {node_name} does not exist")
        return self._searcher.verify(pod, snapshot, row)

    def _run_post_filters(self, evaluation: Evaluation, state: CycleState, pod: Pod, trial: FailedSearch) -> None:
        messages: list[str] = []
        for name, post_filter in self._post_filters:
            answer = call(name, "PostFilter", post_filter, state, pod, trial)
            if not isinstance(answer, PostFilterResult):
                raise PluginError(name, "PostFilter", f"answered {answer!r}, not a PostFilterResult")
            if answer.candidates and trial.turn.to_be_asked:
                evaluation.candidates = answer.candidates
                break
            messages.extend(answer.status.reasons)
            if answer.status.ok:
                evaluation.nominated_node, evaluation.victims = answer.nominated_node, answer.victims
                break
            if answer.status.code is not Code.UNSCHEDULABLE:
                break  # a failure, or a refusal for good, as in kube-scheduler: the plugins after it are not asked
        evaluation.post_filter_messages = tuple(messages)

    # --- placing and binding ------------------------------------------------------------------

    @measured("Reserve", "reserve")
    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Reserve of all plugins: the first status that is no success, undone already, or success. Raises PluginError.

        A status that Reserve may not answer, as Wait or Skip, is a refusal: the pod gets no seat without a success.
        """
        for name, plugin in self._reserve:
            try:
                status = ask(name, "Reserve", plugin.reserve, state, pod, node_name)
            except PluginError:
                self.unreserve(state, pod, node_name)
                raise
            if not status.ok:
                self.unreserve(state, pod, node_name)
                if status.rejected or status.code is Code.ERROR:
                    return status
                return unschedulable(NO_ANSWER_TO_RESERVE.format(plugin=name, code=status.code.name)).by(name)
        return SUCCESS

    @measured("Unreserve", "reserve")
    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Unreserve of all plugins in reverse order, also of those whose Reserve never ran.

        A plugin that raises is logged, because the placement is given up in any case and the others must release
        what they hold.
        """
        for name, plugin in reversed(self._reserve):
            try:
                call(name, "Unreserve", plugin.unreserve, state, pod, node_name)
            except PluginError as error:
                log.warning("plugin_failed error=%r", str(error))

    @measured("Permit", "permit")
    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Permission:
        """Permit of all plugins: a refusal, the longest wait (at most 15 minutes), or success. Raises PluginError."""
        waiting: Permission | None = None
        for name, permit in self._permit:
            answer = call(name, "Permit", permit, state, pod, node_name)
            if not isinstance(answer, Permission):
                raise PluginError(name, "Permit", f"answered {answer!r}, not a Permission")
            if answer.status.code is Code.WAIT:
                if waiting is None or answer.timeout > waiting.timeout:
                    waiting = Permission(answer.status.by(name), min(answer.timeout, 900.0))
            elif not answer.status.ok:
                return Permission(answer.status.by(name))
        return waiting if waiting is not None else PERMITTED

    @measured("PreBind", "preBind")
    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """PreBind of all plugins but the asynchronous ones: the first refusal, or success. Raises PluginError."""
        for name, pre_bind in self._pre_bind:
            status = ask(name, "PreBind", pre_bind, state, pod, node_name)
            if not status.ok and status.code is not Code.SKIP:
                return status
        return SUCCESS

    @measured("Bind", "bind")
    def bind(self, state: CycleState, pod: Pod, node_name: str, *, after: str = "") -> Status:
        """Bind plugins until one does not answer Skip. Success = the transaction may go out. Raises PluginError.

        Wait: the plugin that it names is asynchronous, and is to be called. `after`: the plugins up to that one have
        skipped the pod already.
        """
        skipped = [name for name, _ in self._bind].index(after) + 1 if after in self.at["bind"] else 0
        for name, bind in self._bind[skipped:]:
            if name in self.called.at["bind"]:
                if self.called.concerns(name, pod):
                    return Status(Code.WAIT, (), name)
                continue
            status = ask(name, "Bind", bind, state, pod, node_name)
            if status.code is not Code.SKIP:
                return status
        return Status(Code.ERROR, ("every bind plugin skipped the pod",))

    @measured("PostBind", "postBind")
    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Call all PostBind plugins. Raises PluginError."""
        for name, post_bind in self._post_bind:
            call(name, "PostBind", post_bind, state, pod, node_name)


class InForce(Mapping[str, Profile]):
    """The profiles that decide now, by scheduler name; the names stay, the profiles may be replaced.

    Holders of this mapping read it at each decision, and so follow a change. All profiles change in one assignment,
    between two decisions, because a decision awaits nothing. A holder that took a profile out before goes on with it.
    """

    def __init__(self, profiles: Mapping[str, Profile], times: PointTimes | None = None) -> None:
        """`times`: keeps how long the extension points of these profiles take; None = they are not measured."""
        self._times = times
        self._profiles: Mapping[str, Profile] = {}
        self._set(profiles)

    def __getitem__(self, name: str) -> Profile:
        return self._profiles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def replace(self, profiles: Mapping[str, Profile]) -> None:
        """Decide by these from now on. ValueError unless they have the same names."""
        if profiles.keys() != self._profiles.keys():
            raise ValueError("other scheduler names than before: pods would change their scheduler unnoticed")
        self._set(profiles)

    def _set(self, profiles: Mapping[str, Profile]) -> None:
        for profile in profiles.values():
            profile.times = self._times
        self._profiles = profiles
