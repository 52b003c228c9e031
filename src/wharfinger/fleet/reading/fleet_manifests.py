"""Which fleets manifests are meant for, and all that is wrong with them before the first is written.

Variables that hosts keep back are noted: an agent hands on only what it was allowed (`--allow-env`). A rollout does not
fail by the others, so no status would report them afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wharfinger.errors import AccessDenied, InvalidConfiguration, InvalidObject, UsageError
from wharfinger.etcd import keys
from wharfinger.etcd.store import Store
from wharfinger.fleet.contracts.fleet_records import HostRecord
from wharfinger.fleet.reading.fleet_changes import checked
from wharfinger.fleet.spec.fleet import read_fleet
from wharfinger.fleet.spec.fleet_fields import TemplateFields
from wharfinger.framework.catalog import Catalog
from wharfinger.framework.config.validation import understood
from wharfinger.objects.documents import merge
from wharfinger.objects.documents.fields import mapping
from wharfinger.objects.documents.kinds import FLEET, Reference, reference
from wharfinger.objects.documents.metadata import checked_object
from wharfinger.objects.model.names import COMMON
from wharfinger.objects.model.texts import counted
from wharfinger.process.names import check_tenant

_NAMED = 5
"""Hosts that are named; the others are counted."""


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


async def note_on(store: Store, fleet: Mapping[str, Any]) -> str:
    """What `note` says of a fleet's object, a valid one, and the hosts; nothing where these may not be read.

    Raises the store's other errors.
    """
    template = mapping(mapping(fleet, "spec"), "template")
    if not template.get("environment"):
        return ""
    try:
        hosts, cordoned = await _hosts(store)
    except AccessDenied:  # who may write fleets alone is not refused for the sake of a note
        return ""
    return note(template, hosts, cordoned)


async def _hosts(store: Store) -> tuple[dict[str, HostRecord], list[str]]:
    """The live hosts, and the names of those that take no instance."""
    live = keys.host.records(store, HostRecord.model_validate_json)  # `host list` reports the others
    hosts = {name: record async for (name,), record in live}
    return hosts, [name async for (name,), _ in keys.cordon.rows(store)]


def note(template: Mapping[str, Any], hosts: Mapping[str, HostRecord], cordoned: Collection[str] = ()) -> str:
    """One line when hosts that could take an instance would keep variables of its template back; else empty.

    Hosts that do not say what they pass (agents of an earlier release), are cordoned, or lack the template's version
    are left out.
    """
    wanted, _ = understood(template, TemplateFields)
    able = {
        name: host
        for name, host in sorted(hosts.items())
        if name not in cordoned and (not wanted.version or wanted.version in host.installs)
    }
    kept = {
        name: missing
        for name, host in able.items()
        if host.allow_env is not None and (missing := wanted.environment.keys() - host.allow_env)
    }
    if not kept:
        return ""
    variables = sorted(set[str]().union(*kept.values()))
    alike = all(len(missing) == len(variables) for missing in kept.values())
    which = ("" if alike else "all of ") + ", ".join(variables)
    options = " ".join(f"--allow-env {variable}" for variable in variables)
    one = len(kept) == 1
    return (
        f"note: {_named(list(kept), len(able))} {'does' if one else 'do'} not pass {which} to instances: "
        f"start {'its agent' if one else 'their agents'} with {options}"
    )


def _named(hosts: list[str], able: int) -> str:
    some = f" ({len(hosts)} of {able})" if len(hosts) < able else ""
    return f"host{'s' if len(hosts) > 1 else ''} {counted(hosts, _NAMED)}{some}"
