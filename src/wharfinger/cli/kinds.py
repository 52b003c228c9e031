"""What the commands about objects (`cli.objects`) do differently for some kinds: named here, kept in the kinds' wings.

Each part is a dotted name, `module:name`, which is imported when a command needs it. What is empty, or a kind that is
missing here, is as for any kind of which only the metadata is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pkgutil import resolve_name
from typing import Any

from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import (
    COUNTING,
    DECIDING,
    DELIVERING,
    ENVELOPES,
    FLEET,
    NODE,
    OVERRIDES,
    POD,
    PRIORITY_CLASS,
    Kind,
    Reference,
)
from wharfinger.process.stored_objects import StoredObjects


@dataclass(frozen=True, slots=True)
class KindParts:
    """What is special about a kind."""

    stored: str = ""
    """A subclass of `StoredObjects`: what `get` reads and follows."""
    table: str = ""
    """A `KindTable`: what `get` prints."""
    check: str = ""
    """A subclass of `WriteCheck`: what `apply` checks before it writes."""
    write: str = ""
    """Writes a manifest in the place of `apply`: `async (store, reference, manifest) -> str`, a result of `Applied`."""
    delete: str = ""
    """Deletes in the place of `delete`: `async (store, reference) -> Deletion`. Raises `NotFound`."""
    describe: str = ""
    """What `describe` prints: `async (connection, kind, name, namespace) -> str`."""
    instead: str = ""
    """The command that shows one in the place of `describe`, such as `wharfinger fleet status`."""


_PLACED = KindParts(
    check="wharfinger.placement.cli.objects:PlacementCheck",
    describe="wharfinger.placement.cli.objects:describe_object",
)

KINDS: Mapping[Kind, KindParts] = {
    POD: KindParts(
        stored="wharfinger.scheduling.reading.pods_and_nodes:StoredPods",
        table="wharfinger.scheduling.cli.rows:PODS",
        check="wharfinger.scheduling.cli.kind_checks:PodCheck",
        describe="wharfinger.scheduling.cli.describe:describe_stored_pod",
    ),
    NODE: KindParts(
        stored="wharfinger.scheduling.reading.pods_and_nodes:StoredNodes",
        table="wharfinger.scheduling.cli.rows:NODES",
        check="wharfinger.scheduling.cli.kind_checks:NodeCheck",
        describe="wharfinger.scheduling.cli.describe:describe_stored_node",
    ),
    PRIORITY_CLASS: KindParts(
        table="wharfinger.scheduling.cli.rows:CLASSES",
        check="wharfinger.scheduling.cli.kind_checks:PriorityClassCheck",
        describe="wharfinger.scheduling.cli.describe:describe_stored_class",
    ),
    FLEET: KindParts(
        write="wharfinger.fleet.cli.objects:write",
        delete="wharfinger.fleet.cli.objects:delete",
        instead="wharfinger fleet status",
    ),
    **dict.fromkeys((*DECIDING, *DELIVERING), _PLACED),
    **dict.fromkeys(OVERRIDES, replace(_PLACED, check="wharfinger.placement.cli.objects:OverrideCheck")),
    **dict.fromkeys(ENVELOPES, replace(_PLACED, check="wharfinger.placement.cli.objects:EnvelopeCheck")),
    **dict.fromkeys(COUNTING, replace(_PLACED, delete="wharfinger.placement.reading.written_objects:mark")),
}


def part(kind: Kind, name: str) -> Any:
    """A part of a kind, by its field's name; None = the kind has none of its own."""
    dotted = getattr(KINDS.get(kind, KindParts()), name)
    return resolve_name(dotted) if dotted else None


def stored_objects(store: Store, kind: Kind, namespace: str = "") -> StoredObjects:
    """The stored objects of a kind, to read or to follow. Raises `UsageError` where the cluster has no such kind."""
    objects: StoredObjects = (part(kind, "stored") or StoredObjects)(store, kind, namespace)
    return objects


class WriteCheck:
    """The checks of one write. The base has none: only the metadata of its kinds is known."""

    one_at_a_time = False
    """Whether two objects of the kind may not be written at once."""
    notes: tuple[str, ...] = ()
    """What of the manifest has no effect, a line each."""

    def __init__(self, about: Reference, manifest: Mapping[str, Any]) -> None:
        self.about = about
        self.manifest = manifest

    async def prepare(self, _store: Store) -> tuple[str, ...]:
        """Read what the checks depend on; answers why the manifest is refused already, a line each."""
        return ()

    def change(self, obj: dict[str, Any], before: dict[str, Any] | None) -> None:
        """Check the object that the manifest makes, also where nothing has to be written. `before`: the stored one.

        Raises `InvalidObject`, or `InvalidConfiguration`, which names all that is wrong. It may be called again.
        """

    def readable(self, obj: Mapping[str, Any]) -> None:
        """Refuse what could not be read. Raises `InvalidObject`."""

    def written(self, obj: Mapping[str, Any]) -> None:
        """Check what is about to be written. Raises `InvalidObject`."""
        self.readable(obj)

    async def finish(self, store: Store) -> None:
        """Add notes about what was written."""


def check_of(kind: Kind) -> type[WriteCheck]:
    """The checks of a kind."""
    check: type[WriteCheck] = part(kind, "check") or WriteCheck
    return check
