"""`wharfinger describe` for members, placements, evictions and budgets: what is written, and what follows from it."""

from __future__ import annotations

from typing import Any

from wharfinger.cli.objects.naming import pod_key
from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import Output, plain, to_text
from wharfinger.errors import InvalidObject, NotFound
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import (
    DELIVERING,
    MEMBER_CLUSTER,
    PLACEMENT_EVICTION,
    PLACEMENTS,
    UPDATE_RUNS,
    Kind,
)
from wharfinger.placement.model.placement import PlacementRef
from wharfinger.placement.reading.observe_placements import eviction_record, read_all, why_not_taking
from wharfinger.placement.state.hub_view import HubView
from wharfinger.process.stored_objects import Stored, StoredObjects


async def describe_object(connection: ConnectionOptions, kind: Kind, name: str, namespace: str) -> str:
    """The text about an object of placement. Raises `NotFound`, `InvalidObject`."""
    if kind.namespaced:
        namespace, name = pod_key(name, namespace)
    async with connection.store() as store:
        found = await StoredObjects(store, kind, namespace).one(name)
        obj = dict(found.mapping())
        if not obj:
            raise InvalidObject(f"{kind.singular} {name} cannot be read: it is no object")
        view = await read_all(store)
        facts = await _facts(store, view, kind, found)
    written = {part: obj[part] for part in ("metadata", "spec") if obj.get(part)}
    lines = [plain(f"{title + ':':<14}{value}") for title, value in (("Kind", kind.name), ("Name", name), *facts)]
    return "\n".join(lines) + "\n" + to_text(written, Output.YAML)


async def _facts(store: Store, view: HubView, kind: Kind, found: Stored) -> list[tuple[str, Any]]:
    """Raises `NotFound`: the object has gone since it was read."""
    name, namespace = found.name, found.namespace
    if kind in UPDATE_RUNS:
        return _of_run(view, found)
    if kind in DELIVERING:
        return []
    if kind is MEMBER_CLUSTER:
        return _of_member(view, name)
    if kind in PLACEMENTS:
        return _of_placement(view, str(PlacementRef(namespace if kind.namespaced else "", name)))
    if kind is PLACEMENT_EVICTION:
        try:
            record = await eviction_record(store, name)
        except ValueError:
            return [("Outcome", "its record cannot be read")]
        if record is None or record.identity not in (0, found.kv.create_revision):
            return [("Outcome", "it has not ended yet")]
        told = "executed" if record.executed else "blocked" if record.valid else "invalid"
        return [("Outcome", f"{told}: {record.message}"), ("Ended", record.time)]
    return []


def _of_run(view: HubView, found: Stored) -> list[tuple[str, Any]]:
    from wharfinger.placement.reading.observe_update_runs import run_of, status_of

    told = status_of(view, run_of(view, found.name, found.namespace))
    return [("Phase", f"{told['phase']}: {told['why']}" if told["why"] else told["phase"])]


def _of_member(view: HubView, name: str) -> list[tuple[str, Any]]:
    seen = view.members.get(name)
    if seen is None:
        raise NotFound(f"there is no member cluster {name} any more")
    why = why_not_taking(seen)
    drain = view.member_view.drain_of(name)
    having = sorted(
        reference for reference, decision in view.decisions.items() if any(one.name == name for one in decision.chosen)
    )
    facts: list[tuple[str, Any]] = [("Takes", f"nothing: {why}" if why else "placements")]
    if drain is not None:
        by = f" by {drain.by}" if drain.by else ""
        facts.append(("Drain", f"{drain.want}{by} at {drain.time}{f': {drain.why}' if drain.why else ''}"))
    facts.append(("Placements", f"{len(having)}: {', '.join(having[:20])}" if having else "none"))
    return facts


def _of_placement(view: HubView, reference: str) -> list[tuple[str, Any]]:
    seen, stored = view.placements.get(reference), view.decisions.get(reference)
    if seen is None:
        raise NotFound(f"there is no placement {reference} any more")
    facts: list[tuple[str, Any]] = []
    if seen.unreadable:
        facts.append(("Unreadable", seen.unreadable))
    if seen.placement.deleting:
        facts.append(("Deleting", "nothing is chosen for it, and it goes when nothing of it is left anywhere"))
    if stored is None:
        return [*facts, ("Decision", "none yet: does a hub run? (`wharfinger hub`)")]
    facts.append(("Decision", stored.condition.message))
    facts.append(("Chosen", ", ".join(one.name for one in stored.chosen) or "nobody"))
    pending = [one.eviction.name for one in view.pending_evictions(reference)]
    if pending:
        facts.append(("Evictions", f"waiting: {', '.join(pending)}"))
    return facts
