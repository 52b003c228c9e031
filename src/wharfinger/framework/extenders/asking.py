"""Puts one question of a decision to the extenders, and brings back what they said.

The order of the calls and their rules are `extenders.extender_chain`; this is the part that waits. Objects are given
as they are stored, because extenders read fields that decisions do not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from wharfinger.framework.extenders import wire
from wharfinger.framework.extenders.calls import ERROR_LIMIT, CallFailed
from wharfinger.framework.extenders.extender_chain import FilterAnswer, FilterChain, PreemptionChain
from wharfinger.framework.extenders.extender_verdicts import (
    ExtenderFailure,
    ExtenderQuestion,
    ExtenderVerdicts,
    PreemptionQuestion,
    PreemptionVerdicts,
    VictimPod,
)
from wharfinger.framework.extenders.wire import Json, WrongAnswer
from wharfinger.objects.model.extenders import Extender
from wharfinger.objects.model.pod import PodKey
from wharfinger.objects.model.texts import one_line

log = logging.getLogger(__name__)

LONG = 256 * 1024
"""Bytes of JSON above which it is read and written on another thread: 1 MiB takes some milliseconds."""

T = TypeVar("T")


class Calls(Protocol):
    """What `calls.ExtenderCalls` does."""

    async def call(self, extender: Extender, verb: str, body: bytes, *, once: bool = False) -> bytes | CallFailed:
        """POST a body to a verb of an extender; the body of the answer, or why there is none."""


class Objects(Protocol):
    """The objects of the cluster as they are stored."""

    def pod(self, key: PodKey) -> Json | None:
        """None where there is no such pod any more."""

    def node(self, name: str) -> Json | None:
        """None where there is no such node any more."""

    def pods_of(self, node: str) -> Mapping[str, VictimPod] | None:
        """The pods bound to a node, by uid; None where there is no such node."""


async def ask(
    question: ExtenderQuestion, pod: Json, extenders: Sequence[Extender], calls: Calls, objects: Objects
) -> ExtenderVerdicts | ExtenderFailure:
    """Have nodes filtered by one extender after the other, then scored by all at once.

    `pod`: the object of the pod that is decided. `extenders`: all that are configured.
    """
    chain = FilterChain(question, extenders)
    failure = chain.missing()
    if failure is not None:
        return failure
    # One after the other: each is sent only the nodes that those before it left, as extenders are written to expect.
    for extender in chain.filters():
        if not chain.left:
            break
        failure = await _filter(chain, extender, pod, calls, objects)
        if failure is not None:
            return failure
    await asyncio.gather(*(_prioritize(chain, one, pod, calls, objects) for one in chain.prioritizers()))
    return chain.verdicts()


async def ask_preemption(
    question: PreemptionQuestion, pod: Json, extenders: Sequence[Extender], calls: Calls, objects: Objects
) -> PreemptionVerdicts:
    """Have the candidates for preemption edited by one extender after the other."""
    chain = PreemptionChain(question, extenders, objects.pods_of)
    for extender in chain.callees():
        if not chain.candidates or chain.error:
            break
        whole = None if extender.node_cache_capable else _victim_of(objects)
        body = wire.preemption_arguments(pod, chain.candidates, whole)
        answer = await _answer(calls, extender, extender.preempt_verb, body, wire.preemption_answer)
        if isinstance(answer, CallFailed):
            chain.failed(extender, answer.message)
        else:
            chain.answered(extender, answer)
    return chain.verdicts()


async def ask_to_bind(extender: Extender, pod: PodKey, uid: str, node: str, calls: Calls) -> str:
    """Have an extender bind a pod; empty when it says so, else why not.

    Called once: after a failure, only the API server knows whether the pod is bound.
    """
    body = wire.binding_arguments(pod, uid, node)
    answer = await _answer(calls, extender, extender.bind_verb, body, wire.binding_answer, once=True)
    if isinstance(answer, CallFailed):
        return answer.message
    if not answer:
        return ""
    return _failed(extender, extender.bind_verb, answer).message


async def _filter(
    chain: FilterChain, extender: Extender, pod: Json, calls: Calls, objects: Objects
) -> ExtenderFailure | None:
    def read(content: bytes) -> FilterAnswer:
        return wire.filter_answer(content, node_cache_capable=extender.node_cache_capable)

    body = await _arguments(chain, extender, pod, objects)
    answer = await _answer(calls, extender, extender.filter_verb, body, read)
    if isinstance(answer, CallFailed):
        return chain.failed(extender, extender.filter_verb, answer.message)
    return chain.filtered(extender, answer)


async def _prioritize(chain: FilterChain, extender: Extender, pod: Json, calls: Calls, objects: Objects) -> None:
    body = await _arguments(chain, extender, pod, objects)
    answer = await _answer(calls, extender, extender.prioritize_verb, body, wire.priorities)
    if isinstance(answer, CallFailed):
        chain.unscored(extender, answer.message)
    else:
        chain.prioritized(extender, answer)


async def _arguments(chain: FilterChain, extender: Extender, pod: Json, objects: Objects) -> bytes:
    if extender.node_cache_capable:
        return wire.arguments(pod, chain.left, None)
    found = [node for node in map(objects.node, chain.left) if node is not None]  # one that went is left out
    return await asyncio.to_thread(wire.arguments, pod, chain.left, found)


async def _answer(
    calls: Calls, extender: Extender, verb: str, body: bytes, read: Callable[[bytes], T], *, once: bool = False
) -> T | CallFailed:
    """What a call answered. A failure is logged here."""
    content = await calls.call(extender, verb, body, once=once)
    if isinstance(content, CallFailed):
        _report(extender, verb, content.message)
        return content
    try:
        return await asyncio.to_thread(read, content) if len(content) > LONG else read(content)
    except WrongAnswer as error:
        return _failed(extender, verb, str(error))


def _victim_of(objects: Objects) -> Callable[[PodKey], Json]:
    def victim(key: PodKey) -> Json:
        found = objects.pod(key)
        return found if found is not None else {"metadata": {"namespace": key.namespace, "name": key.name}}

    return victim


def _failed(extender: Extender, verb: str, error: str) -> CallFailed:
    """The failure of a call that the extender answered with an error, or wrongly."""
    failure = CallFailed(f"extender at URL {extender.url(verb)}: {one_line(error, ERROR_LIMIT)}")
    _report(extender, verb, failure.message)
    return failure


def _report(extender: Extender, verb: str, message: str) -> None:
    log.warning(
        "extender_failed extender=%s verb=%s ignorable=%s error=%r", extender.name, verb, extender.ignorable, message
    )
