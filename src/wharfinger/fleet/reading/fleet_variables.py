"""Variables of a template that hosts keep back: an agent hands on only what it was allowed (`--allow-env`).

A rollout does not fail by the others, so it is said where the template is written: no status would tell it afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from wharfinger.fleet.contracts.fleet_records import HostRecord

if TYPE_CHECKING:
    from wharfinger.etcd.store import Store

_NAMED = 5
"""Hosts that are named; the others are counted."""


async def note_on(store: Store, fleet: Mapping[str, Any]) -> str:
    """What `note` says of a fleet's object, a valid one, and the hosts; nothing where these may not be read.

    Raises the store's other errors.
    """
    from wharfinger.errors import AccessDenied
    from wharfinger.objects.documents.fields import mapping

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
    from wharfinger.etcd import keys

    live = keys.host.records(store, HostRecord.model_validate_json)  # `host list` reports the others
    hosts = {name: record async for (name,), record in live}
    return hosts, [name async for (name,), _ in keys.cordon.rows(store)]


def note(template: Mapping[str, Any], hosts: Mapping[str, HostRecord], cordoned: Collection[str] = ()) -> str:
    """One line when hosts that could take an instance would keep variables of its template back; else empty.

    Hosts that do not say what they pass (agents of an earlier release), are cordoned, or lack the template's version
    are left out.
    """
    from wharfinger.fleet.spec.fleet_fields import TemplateFields
    from wharfinger.framework.config.validation import understood

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
    names = ", ".join(hosts[:_NAMED]) + (f" and {len(hosts) - _NAMED} more" if len(hosts) > _NAMED else "")
    some = f" ({len(hosts)} of {able})" if len(hosts) < able else ""
    return f"host{'s' if len(hosts) > 1 else ''} {names}{some}"
