"""Which fleets manifests are meant for, and all that is wrong with them before the first is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError
from wharfinger.etcd.store import Store
from wharfinger.fleet.reading.fleet_changes import checked
from wharfinger.fleet.reading.fleet_variables import note_on
from wharfinger.fleet.spec.fleet import read_fleet
from wharfinger.framework.catalog import Catalog
from wharfinger.objects.documents import merge
from wharfinger.objects.documents.kinds import FLEET, Reference, reference
from wharfinger.objects.documents.metadata import checked_object
from wharfinger.objects.model.names import COMMON
from wharfinger.process.names import check_tenant


class WantedFleet(NamedTuple):
    """A manifest, and the fleet that it is meant for."""

    tenant: str
    manifest: Mapping[str, Any]


def wanted(manifest: Mapping[str, Any]) -> WantedFleet:
    """The fleet that a manifest names. Raises `InvalidObject`, and `UsageError` for an object of another kind."""
    about = reference(checked_object(manifest), "default")
    if about.kind is not FLEET:
        raise UsageError(f"{about} is no fleet")
    return WantedFleet(about.name, manifest)


def for_tenants(manifest: Mapping[str, Any], tenants: Iterable[str]) -> list[WantedFleet]:
    """One manifest for each of these fleets, whatever its name. Raises `UsageError`."""
    names = [check_tenant(name) for name in tenants]
    return each_once(
        [
            WantedFleet(name, {**manifest, "metadata": {**(manifest.get("metadata") or {}), "name": name}})
            for name in names
        ]
    )


def each_once(found: list[WantedFleet]) -> list[WantedFleet]:
    """The same fleets. Raises `UsageError` when one is named more than once."""
    names = [one.tenant for one in found]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"named more than once: {', '.join(twice)}")
    return found


def problems_beside_the_name(obj: Mapping[str, Any] | None, catalog: Catalog) -> Iterator[str]:
    """What is wrong with a fleet's manifest whatever its name is, so that a bad name hides none of it."""
    if obj is None or obj.get("kind") != FLEET.name or not isinstance(obj.get("metadata"), Mapping):
        return
    about = f"fleet {str(obj['metadata'].get('name'))[:80]}"
    manifest = {**obj, "metadata": {**obj["metadata"], "name": COMMON}}
    try:
        read_fleet(applied(manifest, {}, COMMON), catalog, name=COMMON, offered=True)
    except InvalidConfiguration as error:
        yield from (f"{about}: {problem}" for problem in error.problems)
    except InvalidObject as error:
        yield f"{about}: {error}"


async def check(store: Store, found: Sequence[WantedFleet], catalog: Catalog) -> list[str]:
    """Raise all that is wrong, before anything is written; return what is to be noted of each, perhaps nothing."""
    problems: list[str] = []
    for one in found:
        prefix = f"fleet {one.tenant}: " if len(found) > 1 else ""
        try:
            await checked(store, one.tenant, one.manifest, catalog=catalog)
        except InvalidConfiguration as error:
            problems += [f"{prefix}{problem}" for problem in error.problems]
        except InvalidObject as error:
            problems.append(f"{prefix}{error}")
    if problems:
        raise InvalidConfiguration(problems)
    return [await note_on(store, one.manifest) for one in found]


def applied(manifest: Mapping[str, Any], before: Mapping[str, Any], tenant: str) -> dict[str, Any]:
    """What applying the manifest would store over `before` (empty: nothing is stored yet)."""
    about = Reference(FLEET, "", tenant)
    if not before:
        return merge.created(manifest, about, uid="-", now="")
    return merge.updated(before, manifest, about)
