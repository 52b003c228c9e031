"""Reads what hubs know, from etcd alone: for commands and clients, of now or of the past.

All is read at one revision, or each stream at its own, so that a recorded decision can be made again from what it was
made from. A member's agent is heard while its lease is there; how long it was silent only hubs know.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from wharfinger.errors import Compacted, NotFound, RevisionFuture, UsageError
from wharfinger.etcd.store import KeyValue, Store
from wharfinger.objects.model.names import is_dns_label, is_dns_subdomain
from wharfinger.placement.contracts import placement_keys
from wharfinger.placement.contracts.placement_records import DecisionRecord, EvictionRecord, PolicyRecord
from wharfinger.placement.contracts.placements import StreamRevisions
from wharfinger.placement.deciding.filters import why_not_eligible
from wharfinger.placement.deciding.question import counting
from wharfinger.placement.effects.questions import answer
from wharfinger.placement.model.placement import PlacementDecision
from wharfinger.placement.state.hub_view import HUB, MEMBERS, OBJECTS, STREAMS, HubView
from wharfinger.placement.state.seen import SeenMember
from wharfinger.process.following import KeyWatch, watching

_OF_ALL = (
    placement_keys.member.prefix,
    placement_keys.member_status.prefix,
    placement_keys.drain.prefix,
    placement_keys.evicted.prefix,
    placement_keys.hub.prefix,
)
"""Records that any placement is decided or delivered by."""
_OBJECTS_OF_ALL = (
    placement_keys.PLACEMENT_EVICTIONS,
    placement_keys.PLACEMENT_BUDGETS,
    *placement_keys.OVERRIDES,
    *placement_keys.UPDATE_RUNS,
)


def reference_of(text: str, namespace: str = "") -> str:
    """P as a person names it: `web`, `cluster/web`, `ns/team/web`, or `web` in a namespace. Raises `UsageError`."""
    scope, _, rest = text.partition("/")
    where, _, name = rest.partition("/")
    if scope == "cluster" and not namespace and is_dns_subdomain(rest):
        return text
    if scope == "ns" and not namespace and is_dns_label(where) and is_dns_subdomain(name):
        return text
    if "/" not in text and is_dns_subdomain(text) and (not namespace or is_dns_label(namespace)):
        return f"ns/{namespace}/{text}" if namespace else f"cluster/{text}"
    raise UsageError(
        f"{text[:80]!r} names no placement: NAME, NAME with -n NAMESPACE, cluster/NAME or ns/NAMESPACE/NAME"
    )


async def read_all(store: Store) -> HubView:
    """All that a hub sees now."""
    return await _read(store, {stream: [prefix] for stream, prefix in STREAMS.items()}, None)


async def read_one(store: Store, reference: str, at: StreamRevisions | None = None) -> HubView:
    """What one placement is decided and delivered by, now or as it was, all of one revision or of the streams' own.

    Raises `Compacted` where etcd has forgotten that.
    """
    objects = [placement_keys.placement(reference), *_OBJECTS_OF_ALL]
    return await _read(
        store, {MEMBERS: [STREAMS[MEMBERS]], OBJECTS: objects, HUB: [*_OF_ALL, *records_of(reference)]}, at
    )


def watching_all(store: Store) -> AbstractAsyncContextManager[KeyWatch]:
    """Watch, inside the block, all that `read_all` reads. Raises the store's errors."""
    return watching(store, list(STREAMS.values()))


def records_of(reference: str) -> list[str]:
    """The hub's keys about one placement, and what those end with `/` that stand for all below them."""
    return [
        placement_keys.decision(reference),
        placement_keys.policy.below(reference),
        placement_keys.rollout(reference),
        placement_keys.losses(reference),
        placement_keys.pin(reference),
        placement_keys.snapshot.below(reference),
        placement_keys.run_record.below(reference),
        placement_keys.work.below(reference),
        placement_keys.result.below(reference),
    ]


async def _read(store: Store, wanted_keys: Mapping[str, Sequence[str]], at: StreamRevisions | None) -> HubView:
    """Each stream's keys, all at one revision, or each stream's at its own."""
    view, revision = HubView(time.monotonic), 0
    for stream, prefixes in wanted_keys.items():
        wanted = getattr(at, stream) if at is not None else revision
        if at is not None and not wanted:  # nothing had ever happened there
            view.listed(stream, [])
            continue
        found, revision = await _listed(store, prefixes, wanted)
        view.listed(stream, found, wanted or revision)
    return view


async def _listed(store: Store, prefixes: Iterable[str], revision: int) -> tuple[list[KeyValue], int]:
    """Keys, or all below those that end with `/`, at a revision; 0 = now, and the same for all."""
    found: list[KeyValue] = []
    for prefix in prefixes:
        if not prefix.endswith("/"):
            read = await store.get(prefix, revision=revision)
            found += [read.kv] if read.kv is not None else []
            revision = revision or read.revision
            continue
        page = await store.whole(prefix, revision=revision)
        found += page.items
        revision = revision or page.revision
    return found, revision


async def record_of(store: Store, reference: str) -> DecisionRecord:
    """The stored decision of a placement. Raises `NotFound`."""
    kv = (await store.get(placement_keys.decision(reference))).kv
    if kv is None:
        there = (await store.get(placement_keys.placement(reference))).kv
        raise NotFound(
            f"there is no placement {reference}"
            if there is None
            else f"placement {reference} is not decided yet: does a hub run? (`wharfinger hub`)"
        )
    try:
        return DecisionRecord.from_bytes(kv.value)
    except ValueError as error:
        raise NotFound(f"the decision of placement {reference} cannot be read: {error}") from error


async def policies_of(store: Store, reference: str) -> AsyncIterator[tuple[str, PolicyRecord | None]]:
    """The policies that a placement was decided by, each with its number; None = it cannot be read."""
    async for (_, number), kv in placement_keys.policy.rows(store, reference):
        try:
            yield number, PolicyRecord.model_validate_json(kv.value)
        except ValueError:
            yield number, None


async def eviction_record(store: Store, name: str) -> EvictionRecord | None:
    """How an eviction ended; None where it has no record. Raises `ValueError` for one that cannot be read."""
    return await placement_keys.evicted.read(store, EvictionRecord.model_validate_json, name)


def why_not_taking(seen: SeenMember) -> str:
    """Why a member takes nothing new, as far as etcd shows it; empty when it does."""
    why = seen.unreadable or why_not_eligible(seen.member, seen.ages(0.0))
    told = _agents_words(seen.status) if why and seen.there else ""
    return f"{why}: {told}" if told else why


def why_unwell(seen: SeenMember) -> str:
    """Why an agent that is there gets no answer from its member; empty when it does, or when there is no agent."""
    if not seen.there or seen.unhealthy is None:
        return ""
    return _agents_words(seen.status) or "its agent reports that it is not healthy"


def _agents_words(status: Mapping[str, Any]) -> str:
    """What the member's agent says of a condition that does not hold; empty when it says nothing."""
    conditions = [one for agent in status.get("agentStatus") or () for one in agent.get("conditions") or ()]
    return next((str(one["message"]) for one in conditions if one.get("status") != "True" and one.get("message")), "")


@dataclass(frozen=True, slots=True)
class DecidedAgain:
    """A recorded decision, made again from what it was made from."""

    decision: PlacementDecision | None
    """None: it cannot be made again."""
    same: bool
    why: str
    """One line for people."""


async def decided_again(store: Store, reference: str, record: DecisionRecord) -> DecidedAgain:
    """Make the decision again, and compare."""
    try:
        view = await read_one(store, reference, record.seen)
    except (Compacted, RevisionFuture):
        return DecidedAgain(None, False, "etcd has forgotten what it was decided from, so it cannot be decided again")
    view.member_view.as_heard(record.ages)
    decision = answer(view, reference, 0.0).decision
    if decision is None:
        return DecidedAgain(None, False, "what it was decided from cannot be read any more")
    told = f"revisions {record.seen.members}, {record.seen.objects}, {record.seen.hub}"
    if decision == record.decision:
        return DecidedAgain(decision, True, f"decided again from {told}: the same")
    if counting(decision) == counting(record.decision):
        return DecidedAgain(decision, True, f"decided again from {told}: the same but for scores or texts")
    now = ", ".join(decision.names) or "nobody"
    return DecidedAgain(decision, False, f"decided again from {told}: ANOTHER decision, which chooses {now}")
