"""What `apply` checks of one manifest before it writes; a wing's subclass adds what its kinds have rules for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.cli.kinds import part
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import Kind, Reference


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
