"""What `apply`, `delete` and `describe` do with objects of placement: checks, marks, and what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wharfinger.cli.kinds import WriteCheck
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
from wharfinger.placement.spec.placement import check_placement_change, notes_on, overridden
from wharfinger.placement.state.placed_kinds import check_with_kinds, names_kinds, untaken_kinds
from wharfinger.process.committing import readable
from wharfinger.process.stored_objects import Stored, StoredObjects, prefix_of

if TYPE_CHECKING:
    from wharfinger.placement.state.hub_view import HubView


class EnvelopeCheck(WriteCheck):
    """A member must be able to have what is in it."""

    def change(self, obj: dict[str, Any], _before: dict[str, Any] | None) -> None:
        """Raises `InvalidConfiguration`."""
        check_with_kinds(obj)

    async def finish(self, store: Store) -> None:
        """Note kinds that it names and no joined member takes."""
        if names_kinds(self.manifest):
            self.notes = (*self.notes, *await untaken_kinds(store, self.manifest))


class PlacementCheck(EnvelopeCheck):
    """It must be valid as a whole, and change only what may change."""

    def change(self, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        """Raises `InvalidConfiguration`."""
        super().change(obj, before)
        if before is not None:
            check_placement_change(before, obj)
        self.notes = notes_on(self.manifest)


class OverrideCheck(PlacementCheck):
    """Only one override may select an object, as in KubeFleet."""

    async def prepare(self, store: Store) -> tuple[str, ...]:
        """Which objects another override of the kind selects already, a line each."""
        own = overridden(self.manifest)
        problems: list[str] = []
        prefix = prefix_of(self.about.kind, self.about.namespace)
        async for kv in store.each(prefix):
            name, other = kv.key.removeprefix(prefix), readable(kv.value)
            shared = own.keys() & overridden(other).keys() if other is not None and name != self.about.name else ()
            problems += [f"{own[one]}: {'/'.join(filter(None, one))} is overridden by {name} already" for one in shared]
        return tuple(sorted(problems))


async def describe_object(connection: ConnectionOptions, kind: Kind, name: str, namespace: str) -> str:
    """The text about an object of placement. Raises `NotFound`, `InvalidObject`."""
    from wharfinger.placement.reading import observe_placements

    if kind.namespaced:
        namespace, name = pod_key(name, namespace)
    async with connection.store() as store:
        found = await StoredObjects(store, kind, namespace).one(name)
        obj = dict(found.mapping())
        if not obj:
            raise InvalidObject(f"{kind.singular} {name} cannot be read: it is no object")
        view = await observe_placements.read_all(store)
        facts = await _facts(store, view, kind, found)
    written = {part: obj[part] for part in ("metadata", "spec") if obj.get(part)}
    lines = [plain(f"{title + ':':<14}{value}") for title, value in (("Kind", kind.name), ("Name", name), *facts)]
    return "\n".join(lines) + "\n" + to_text(written, Output.YAML)


async def _facts(store: Store, view: HubView, kind: Kind, found: Stored) -> list[tuple[str, Any]]:
    """Raises `NotFound`: the object has gone since it was read."""
    from wharfinger.placement.reading.observe_placements import eviction_record
    from wharfinger.placement.reading.observe_update_runs import run_of, status_of

    name, namespace = found.name, found.namespace
    if kind in UPDATE_RUNS:
        told = status_of(view, run_of(view, name, namespace))
        return [("Phase", f"{told['phase']}: {told['why']}" if told["why"] else told["phase"])]
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
        return [("Outcome", str(record)), ("Ended", record.time)]
    return []


def _of_member(view: HubView, name: str) -> list[tuple[str, Any]]:
    from wharfinger.placement.reading.observe_placements import why_not_taking

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
