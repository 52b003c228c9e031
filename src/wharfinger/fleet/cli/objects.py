"""What `apply` and `delete` do with a fleet: as `fleet apply` and `fleet delete`, without their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.etcd.store import Store
from wharfinger.fleet.reading import fleet_changes
from wharfinger.fleet.reading.fleet_templates import known_plugins
from wharfinger.objects.documents.kinds import Reference
from wharfinger.process.committing import Deletion, author


async def write(store: Store, about: Reference, manifest: Mapping[str, Any]) -> str:
    """Write a fleet; answers the result. Raises `ConfigurationError` and the errors of `commit`."""
    return (await fleet_changes.apply(store, about.name, manifest, author(), catalog=known_plugins())).result


async def delete(store: Store, about: Reference) -> Deletion:
    """Mark a fleet as deleting. Raises `NotFound`."""
    return await fleet_changes.mark(store, about.name, author())
