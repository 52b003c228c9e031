"""What `apply` and `delete` do with a fleet: as `fleet apply` and `fleet delete`, without their options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wharfinger.cli.objects.writing import REFUSED, Applied
from wharfinger.cli.output import say
from wharfinger.errors import ConfigurationError, InvalidConfiguration, InvalidObject, NotFound, RequestTooLarge
from wharfinger.etcd.store import Store
from wharfinger.fleet.reading import fleet_changes
from wharfinger.fleet.reading.fleet_templates import known_plugins
from wharfinger.objects.documents.kinds import Reference
from wharfinger.process.committing import author


async def write(store: Store, about: Reference, manifest: Mapping[str, Any]) -> Applied:
    """Write a fleet; what is wrong with it is a result. Raises `Unavailable`."""
    by, catalog = author(), known_plugins()
    try:
        changed = await fleet_changes.apply(store, about.name, manifest, by, catalog=catalog)
    except InvalidConfiguration as error:
        return Applied(str(about), REFUSED, error.problems)
    except (ConfigurationError, InvalidObject, RequestTooLarge) as error:
        return Applied(str(about), REFUSED, (str(error),))
    return Applied(str(about), changed.result)


async def delete(store: Store, about: Reference, ignore_not_found: bool) -> bool:
    """Mark a fleet as deleting; whether it is there, or need not be."""
    try:
        say(await fleet_changes.mark(store, about.name, author()))
    except NotFound:
        if not ignore_not_found:
            say(f"error: {about} does not exist", err=True)
        return ignore_not_found
    return True
