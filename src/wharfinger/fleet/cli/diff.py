"""`wharfinger fleet diff`: what differs between two states of a fleet, after completion.

Defaults that are spelled out and the order of fields make no difference, here as in what a rollout is.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import plain
from wharfinger.errors import NotFound, UsageError
from wharfinger.fleet.cli.fleets import FileOption, FleetArgument, fleet_in
from wharfinger.fleet.state.fleet_pictures import Picture
from wharfinger.fleet.state.fleet_reading import existing, read
from wharfinger.objects.documents.fields import part

if TYPE_CHECKING:
    from wharfinger.framework.catalog import Catalog

_AROUND = 3
"""Lines shown around what differs."""
_COLORS = {"+": typer.colors.GREEN, "-": typer.colors.RED, "@": typer.colors.CYAN}


@configured
async def diff(
    fleet: FleetArgument,
    *,
    file: FileOption = "",
    revision: Annotated[
        int,
        typer.Option(
            "--revision", min=0, help="What going back to this revision would change.", metavar="N", show_default=False
        ),
    ] = 0,
    connection: ConnectionOptions,
) -> None:
    """Show what differs in a fleet, with every default written out.

    Without options: from the template that was completed last to the one that is wanted. With -f: from the fleet as it
    is to the fleet as the file would make it. With --revision: from the template that is wanted to that revision's. A
    schedulerConfiguration gets its defaults only where both sides have one. Changes nothing; exit code 0 whether or not
    there is a difference.
    """
    if file and revision:
        raise UsageError("these options exclude each other: -f and --revision")
    lines = await _diff(connection, fleet, file, revision)
    for line in lines:
        typer.echo(typer.style(line, fg=_COLORS.get(line[0])) if line[:1] in _COLORS else line)
    if not lines:
        typer.echo("no difference", err=True)


async def _diff(connection: ConnectionOptions, tenant: str, file: str, revision: int) -> list[str]:
    from wharfinger.fleet.reading.fleet_templates import known_plugins

    wanted = fleet_in(file, tenant) if file else None
    async with connection.store() as store:
        estate = await read(store, tenant)
    catalog = known_plugins()
    if wanted is not None:
        return file_difference(estate.fleet(tenant), wanted, file, catalog)
    picture = existing(estate, tenant)
    return revision_difference(picture, revision, catalog) if revision else open_difference(picture, catalog)


def file_difference(picture: Picture, wanted: Mapping[str, Any], source: str, catalog: Catalog) -> list[str]:
    """From the object as it is, or nothing, to what applying a file's would make of it.

    Raises `InvalidConfiguration` when that is wrong.
    """
    from wharfinger.fleet.reading.fleet_manifests import applied
    from wharfinger.fleet.reading.fleet_templates import completed_object
    from wharfinger.fleet.spec.fleet import read_fleet

    wanted = applied(wanted, picture.written, picture.tenant)
    read_fleet(wanted, catalog, name=picture.tenant, offered=True)
    both = _configured(picture.template) and _configured(part(wanted, "spec", "template"))
    before = completed_object(picture.written, catalog, picture.tenant, configuration=both) if picture.written else {}
    after = completed_object(wanted, catalog, picture.tenant, configuration=both)
    return difference(before, after, f"fleet {picture.tenant}" if picture.written else "no fleet", source)


def revision_difference(picture: Picture, revision: int, catalog: Catalog) -> list[str]:
    """From the template that is wanted to a revision's; raises `NotFound`."""
    record = picture.revisions.get(revision)
    if record is None:
        kept = ", ".join(map(str, sorted(picture.revisions))) or "none"
        raise NotFound(f"fleet {picture.tenant} has no revision {revision}: there are {kept}")
    return _templates(picture.template, record.template, catalog, "the template now", f"revision {revision}")


def open_difference(picture: Picture, catalog: Catalog) -> list[str]:
    """From the template that was completed last, or nothing, to the one that is wanted."""
    last = picture.last_completed
    record = picture.revisions.get(last)
    before = record.template if record is not None else {}
    named = f"revision {last}, completed" if record is not None else "nothing completed yet"
    return _templates(before, picture.template, catalog, named, "the template now")


def _templates(
    before: Mapping[str, Any], after: Mapping[str, Any], catalog: Catalog, named: str, other: str
) -> list[str]:
    from wharfinger.fleet.reading.fleet_templates import completed_template

    both = _configured(before) and _configured(after)
    first = completed_template(before, catalog, configuration=both)
    return difference(first, completed_template(after, catalog, configuration=both), named, other)


def _configured(template: Mapping[str, Any]) -> bool:
    """Whether it has a configuration of its own: against the agent's, which is unknown here, none is completed."""
    return bool(template.get("schedulerConfiguration"))


def difference(before: Mapping[str, Any], after: Mapping[str, Any], named: str, other: str) -> list[str]:
    """The lines of a unified diff of two documents as YAML; empty when they are equal."""
    found = difflib.unified_diff(_lines(before), _lines(after), named, other, lineterm="", n=_AROUND)
    return [plain(line.replace("\t", " ")) for line in found]


def _lines(document: Mapping[str, Any]) -> list[str]:
    from wharfinger.objects.documents.yaml_text import to_yaml

    return to_yaml(dict(document)).splitlines() if document else []
