"""From a pod's recorded attempt to the same decision made again: finds the record, its profile and its state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pydantic import TypeAdapter, ValidationError

from wharfinger.errors import ConfigurationError, InvalidObject, NotFound
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.framework.profile import Profile
from wharfinger.objects.documents import documents
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.transactions import STOCK, Limits
from wharfinger.scheduling.contracts.computation import Computation
from wharfinger.scheduling.contracts.scheduling import Placed, PlaceOutcome, Refused
from wharfinger.scheduling.reading.comparing import DecisionSaid
from wharfinger.scheduling.reading.history import Attempt
from wharfinger.scheduling.reading.recomputation import (
    NodeVerdicts,
    Recomputation,
    RecordedDecision,
    read_past,
    recompute,
)

LoadProfiles = Callable[[Mapping[str, Any]], Mapping[str, Profile]]
"""Makes the profiles of a configuration; raises `ConfigurationError` when plugins are not installed."""

_OUTCOME: TypeAdapter[PlaceOutcome] = TypeAdapter(PlaceOutcome)


def decision_of(attempts: Sequence[Attempt], key: PodKey, number: int | None) -> tuple[Attempt, RecordedDecision]:
    """The attempt of that number, None = the newest that decided, with what was decided. Raises `NotFound`."""
    chosen = [attempt for attempt in attempts if number is None or attempt.attempt == number]
    if not chosen:
        raise NotFound(
            f"Temporal keeps no attempt {number} of pod {key}" if number else f"Temporal keeps no attempt of pod {key}"
        )
    for attempt in reversed(chosen):
        outcome = _outcome(attempt)
        if outcome is not None:
            return attempt, RecordedDecision(key, outcome, attempt.many, attempt.answers)
    which = f"attempt {number}" if number else "no attempt"
    raise NotFound(f"{which} of pod {key} {'came to no decision' if number else 'has come to a decision'}")


async def decide_again(
    store: Store, decision: RecordedDecision, load: LoadProfiles, *, limits: Limits = STOCK, apart: bool = False
) -> Recomputation:
    """Decide again what was recorded. `limits`: of etcd's transactions; larger gangs are refused. `apart`: in a thread,
    so that the event loop has others to serve meanwhile.

    Raises `NotFound`, saying why, when the state or the profile is gone, `ConfigurationError` when its plugins are not
    installed here, `InvalidObject`, `PluginError`, `StoreError`.
    """
    computation = decision.outcome.computation
    profile, others = await _profiles(store, computation, load)
    past = await read_past(store, computation.revision)
    deciding = partial(recompute, past, decision, profile, others, limits)
    return await asyncio.to_thread(deciding) if apart else deciding()


def to_plain(attempt: Attempt, found: Recomputation) -> dict[str, Any]:
    """As plain values, for JSON; the shape is kept stable and documented in docs/json-outputs.md."""
    computation = found.computation
    return {
        "pod": str(found.pod),
        "attempt": attempt.attempt,
        "runId": attempt.run_id,
        "revision": computation.revision,
        "profile": computation.profile,
        "profileName": computation.profile_name,
        "approximate": computation.approximate or bool(found.lacks),
        "same": found.same,
        "differs": list(found.differs),
        "lacks": list(found.lacks),
        "recorded": _decided(found.recorded),
        "recomputed": _decided(found.recomputed) if found.recomputed is not None else None,
        "filters": list(found.filters),
        "skippedFilters": list(found.skipped),
        "scores": list(found.scorers),
        "nodes": [_node(found, one) for one in found.nodes],
        "notes": list(found.notes),
    }


def _decided(said: DecisionSaid) -> dict[str, Any]:
    return {
        "node": said.node or None,
        "score": said.total,
        "victims": list(said.victims),
        "rejectors": list(said.rejectors),
        "message": said.message,
        "nominatedNode": said.nominated_node or None,
    }


def _node(found: Recomputation, one: NodeVerdicts) -> dict[str, Any]:
    plugins = dict.fromkeys((*found.filters, *one.refusals))
    verdicts = {
        plugin: {"verdict": _verdict(found, one, plugin), "reasons": list(one.refusals.get(plugin, ()))}
        for plugin in plugins
    }
    return {
        "node": one.node,
        "examined": one.examined,
        "feasible": one.feasible,
        "filters": verdicts,
        "scores": dict(one.scores),
        "total": one.total,
    }


def _verdict(found: Recomputation, one: NodeVerdicts, plugin: str) -> str:
    if plugin in one.refusals:
        return "refuses"
    if found.refused_by:
        return "notAsked"
    return "skipped" if plugin in found.skipped else "passes"


def _outcome(attempt: Attempt) -> Placed | Refused | None:
    if not attempt.placement:
        return None
    try:
        outcome = _OUTCOME.validate_python(attempt.placement)
    except ValidationError as error:
        raise InvalidObject(f"the record of attempt {attempt.attempt} cannot be read") from error
    return outcome if isinstance(outcome, Placed | Refused) else None


async def _profiles(
    store: Store, computation: Computation, load: LoadProfiles
) -> tuple[Profile, Mapping[str, Profile]]:
    """The profile that decided, and all of its configuration."""
    digest, name = computation.profile, computation.profile_name
    read = await store.get(keys.profile(digest)) if digest else None
    if read is None or read.kv is None:
        raise NotFound(f"etcd holds no configuration of profile {name} ({digest[:12] or 'without a digest'}) any more")
    try:
        profiles = load(documents.parse(read.kv.value))
    except ConfigurationError as error:
        raise ConfigurationError(f"profile {name}, by which was decided, cannot be made here: {error}") from error
    profile = profiles.get(name)
    if profile is None:
        raise ConfigurationError(f"profile {name} is not what its configuration {digest[:12]} makes")
    return profile, profiles
