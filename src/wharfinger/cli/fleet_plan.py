"""`wharfinger fleet plan`: what would happen, step by step, decided by the code that decides in earnest.

The fleet is read as its actor reads it, the file is laid over the object as `apply` would, and the planner runs against
a world where every step succeeds. Nothing is written, and Temporal is not asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from wharfinger.cli.fleet import READ
from wharfinger.cli.fleet_files import FileOption
from wharfinger.cli.fleet_options import FleetArgument
from wharfinger.cli.options import Connection, connected
from wharfinger.cli.output import Output, OutputOption, plain, show
from wharfinger.errors import InvalidConfiguration, NotFound
from wharfinger.settings import LeaseSettings

if TYPE_CHECKING:
    from wharfinger.framework.catalog import Catalog
    from wharfinger.model.fleet import Observed
    from wharfinger.registry.store import KeyValue


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("plan", rich_help_panel=READ)(plan)


@connected
def plan(
    fleet: FleetArgument,
    *,
    file: FileOption = "",
    output: OutputOption = Output.TABLE,
    connection: Connection,
) -> None:
    """Show step by step what would happen to a fleet, and change nothing.

    With -f: if the file were applied now. Without: from here on. Every step is taken to succeed; the seconds are those
    that must pass at least. Slots that wait for a person (a canary, a partition, a pause) are where it ends. How long
    an open rollout has run stands in Temporal: it is planned as if it began now.
    """
    from wharfinger.cli import connect

    lines, note = connect.run(_plan(connection, fleet, file))
    if note:
        typer.echo(plain(note), err=True)
    if output is not Output.TABLE:
        show([{"seconds": seconds, "step": text} for seconds, text in lines], output)
    elif not lines:
        typer.echo("nothing would happen", err=True)
    else:
        for seconds, text in lines:
            typer.echo(f"{seconds:5.0f} s  {plain(text)}")


async def _plan(connection: Connection, tenant: str, file: str) -> tuple[list[tuple[float, str]], str]:
    """The steps, and what is to be noted of the template."""
    from wharfinger.cli.connect import open_store
    from wharfinger.cli.fleet_files import fleet_in
    from wharfinger.client.fleet_templates import known_plugins
    from wharfinger.client.fleet_variables import note_on
    from wharfinger.fleet.preview import preview
    from wharfinger.observe.fleets import FleetView
    from wharfinger.registry import keys

    manifest = fleet_in(file, tenant) if file else None
    catalog = known_plugins()
    async with open_store(connection) as store:
        observed = await FleetView(store, catalog).observe(tenant)
        stored = (await store.get(keys.fleet(tenant), revision=observed.read_at)).kv
        if manifest is not None:
            observed = supposed(observed, manifest, _object(stored), catalog, tenant)
        elif observed.desired is None and not observed.grants:
            raise NotFound(f"there is no fleet {tenant}")
        if observed.blind:
            raise InvalidConfiguration(observed.unreadable)
        desired = observed.desired
        if desired is not None and desired.spec is None and not desired.deleting:
            raise InvalidConfiguration(desired.problems)
        ends = desired is None or desired.deleting
        note = "" if ends else await note_on(store, manifest if manifest is not None else _object(stored))
    lines = preview(observed, lease_ttl=LeaseSettings().ttl, tenant=tenant)
    return [(line.at, line.text) for line in lines], note


def _object(stored: KeyValue | None) -> Mapping[str, Any]:
    """What is stored; nothing when that is no object. Raises `InvalidObject` for what cannot be read."""
    from wharfinger.manifests import documents

    found = documents.parse(stored.value) if stored is not None else {}
    return found if isinstance(found, dict) else {}


def supposed(
    observed: Observed, manifest: Mapping[str, Any], before: Mapping[str, Any], catalog: Catalog, tenant: str
) -> Observed:
    """The fleet as it is, with its object as applying the manifest would leave it.

    Raises `InvalidConfiguration`, and `UsageError` for a fleet that is being deleted.
    """
    from wharfinger.cli.fleet_files import applied
    from wharfinger.config.fleet import is_deleting, read_fleet
    from wharfinger.errors import UsageError
    from wharfinger.model.fleet import Desired

    if is_deleting(before):
        raise UsageError(f"fleet {tenant} is being deleted: nothing can be applied to it")
    obj = applied(manifest, before, tenant)
    found = read_fleet(obj, catalog, name=tenant)
    at = observed.read_at + 1
    now = observed.desired
    changed = obj != before
    desired = Desired(
        identity=now.identity if now is not None else at,
        generation=now.generation if now is not None and not changed else at,
        spec=found.spec,
        template=found.template_name,
        version=found.template.version,
    )
    return replace(observed, read_at=at, desired=desired)
