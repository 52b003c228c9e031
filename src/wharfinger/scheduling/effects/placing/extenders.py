"""Questions to extenders: what is asked for a decision, the objects that are sent, and what was answered.

`place` answers with a question, the activity `ask_extenders` puts it, and a further `place` decides on the answer once
it is part of the history. The decision itself is `framework.extenders.consulting`, the calls are
`framework.extenders.asking`. Asking assumes nothing and writes nothing, so an activity that was lost with its worker is
run again. An answer that is recorded is never asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wharfinger.errors import InvalidObject, PluginError
from wharfinger.etcd import keys
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.framework.extenders.asking import Calls, ask, ask_preemption
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
    VictimPod,
    pack,
    unpack,
)
from wharfinger.framework.extenders.wire import Json
from wharfinger.objects.documents import documents
from wharfinger.objects.documents.formats import format_of
from wharfinger.objects.model.extenders import EXTENDER, Extender
from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.objects.model.texts import one_line
from wharfinger.process.failures import MESSAGE_LIMIT
from wharfinger.process.transactions import Limits
from wharfinger.scheduling.contracts.extenders import AskExtenders, ExtenderAnswers, ExtendersAnswered, ExtendersFailed
from wharfinger.scheduling.contracts.scheduling import AskInput, AskOutcome, Gone
from wharfinger.scheduling.effects.binding.core import Core
from wharfinger.scheduling.effects.binding.eligibility import PodReference, no_profile
from wharfinger.scheduling.state.cache.cache import Cache

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


NOT_ASKED = Answers()


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
    return AskExtenders.alike(
        pod,
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


READ_TOGETHER = 100
"""Objects that are read in one transaction: some 5 ms of decoding at a stretch."""


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node as it was read."""

    mod_revision: int
    content: bytes
    """JSON; empty for a node that cannot be read."""


class ReadNodes:
    """The nodes of one worker's cluster as etcd holds them, as JSON: extenders read fields that decisions do not.

    Nodes are kept between questions. A node is read again once the watch has shown a newer revision of it, so a cluster
    of 5,000 nodes is read once, and after that only what changes. Nothing is read for extenders that know the nodes.
    """

    def __init__(self, store: Store, cache: Cache, limits: Limits) -> None:
        self._store = store
        self._cache = cache
        self._most = min(READ_TOGETHER, limits.operations)
        self._format = format_of(store.format)
        self._read: dict[str, ReadNode] = {}
        self._reading = asyncio.Lock()

    async def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        """The nodes by name, as the watch has shown them or newer; without those that are gone or unreadable.

        Raises `StoreError`.
        """
        names = tuple(names)
        async with self._reading:  # questions that come together read once
            for gone in [name for name in self._read if name not in self._cache.nodes]:
                del self._read[gone]
            stale = [name for name in names if self._is_stale(name)]
            async for kv in self._store.existing([*map(keys.node, stale)], self._most):
                name = kv.key.removeprefix(keys.NODES)
                self._read[name] = ReadNode(kv.mod_revision, self._json(kv, name))
            found = {name: self._read[name].content for name in names if name in self._read}
        return {name: content for name, content in found.items() if content}

    def _is_stale(self, name: str) -> bool:
        known, read = self._cache.nodes.get(name), self._read.get(name)
        return known is not None and (read is None or read.mod_revision < known.mod_revision)

    def _json(self, kv: KeyValue, name: str) -> bytes:
        try:
            return documents.to_json(self._format.node_mapping(kv.value, name=name))
        except InvalidObject:
            return b""


class ExtenderObjects:
    """What one question needs, read beforehand; see `framework.extenders.asking.Objects`."""

    def __init__(
        self,
        subject: Pod,
        cache: Cache,
        *,
        nodes: Mapping[str, bytes] | None = None,
        pods: Mapping[PodKey, Json] | None = None,
    ) -> None:
        """`subject`: the pod that is decided."""
        self._subject = subject
        self._cache = cache
        self._nodes = nodes or {}
        self._pods = pods or {}

    def pod(self, key: PodKey) -> Json | None:
        """A pod that was read."""
        return self._pods.get(key)

    def node(self, name: str) -> Json | None:
        """A node that was read."""
        return self._nodes.get(name)

    def pods_of(self, node: str) -> Mapping[str, VictimPod] | None:
        """The pods on a node that the subject may evict, by uid; None where there is no such node."""
        info = self._cache.node_info(node)
        if info is None:
            return None
        assumed = {one.identity for one in self._cache.assumed()}
        return {
            pod.uid: VictimPod(pod.key, pod.uid, pod.create_revision)
            for pod in info.pods.values()
            if pod.priority < self._subject.priority and pod.identity not in assumed
        }


async def read_pods(store: Store, pods: Iterable[PodKey], limits: Limits) -> dict[PodKey, Json]:
    """Pods as mappings of a `v1.Pod`, without those that are gone or unreadable. Raises `StoreError`."""
    format_ = format_of(store.format)
    by_key = {keys.pod(*pod): pod for pod in pods}
    found: dict[PodKey, Json] = {}
    async for kv in store.existing([*by_key], min(READ_TOGETHER, limits.operations)):
        pod = by_key[kv.key]
        try:
            found[pod] = format_.pod_mapping(kv.value, namespace=pod.namespace, name=pod.name)
        except InvalidObject:
            continue
    return found


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
