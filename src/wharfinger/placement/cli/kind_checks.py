"""What is checked of member clusters, placements, overrides, envelopes and their like before they are written."""

from __future__ import annotations

from typing import Any

from wharfinger.cli.objects.checks import WriteCheck
from wharfinger.etcd.store import Store
from wharfinger.placement.spec.placement import check_placement_change, notes_on, overridden
from wharfinger.placement.state.placed_kinds import check_with_kinds, names_kinds, untaken_kinds
from wharfinger.process.committing import readable
from wharfinger.process.stored_objects import prefix_of


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
