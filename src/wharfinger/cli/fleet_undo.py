"""`wharfinger fleet undo`: the template of an earlier revision becomes the fleet's again.

Only the object is written: going back is a rollout like any other, also while no Temporal can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption
from wharfinger.cli.options import Connection, connected
from wharfinger.errors import NotFound, WharfingerError

if TYPE_CHECKING:
    from wharfinger.client.fleet_changes import Standing
    from wharfinger.client.fleet_goals import Namer
    from wharfinger.client.fleet_pictures import Picture


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("undo", rich_help_panel=WRITE)(undo)


@connected
def undo(
    fleet: FleetArgument,
    *,
    revision: Annotated[
        int,
        typer.Option(
            "--to-revision",
            help="Which one; without: what was completed last, and differs.",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = 0,
    reason: ReasonOption = "",
    connection: Connection,
) -> None:
    """Go back to the template of an earlier revision.

    Without a number: of the one that was completed last, or, when that is the present template, of the newest other
    one that was completed. When both are equal after completion, nothing is written. Replicas and strategy stay as they
    are.
    """
    from wharfinger.cli import connect

    typer.echo(connect.run(_undo(connection, fleet, revision, reason)))


async def _undo(connection: Connection, tenant: str, number: int, reason: str) -> str:
    from wharfinger.cli.connect import open_store
    from wharfinger.client.fleet_changes import author, change
    from wharfinger.client.fleet_reading import existing, read
    from wharfinger.client.fleet_templates import Names, known_plugins

    catalog = known_plugins()
    name = Names(catalog)
    chosen = 0
    async with open_store(connection) as store:
        picture = existing(await read(store, tenant), tenant)

        def edit(spec: dict[str, Any], _: Standing) -> None:
            nonlocal chosen
            present = spec.get("template") or {}
            chosen = number or last_other(picture, present, name)
            found = picture.revisions.get(chosen)
            if found is None:
                known = ", ".join(str(known) for known in sorted(picture.revisions)) or "none"
                raise NotFound(f"fleet {tenant} has no revision {chosen} (known: {known})")
            if name(found.template) != name(present):
                spec["template"] = found.template

        changed = await change(store, tenant, edit, author(reason), catalog=catalog)
    if not changed.written:
        return f"schedulerfleet/{tenant} unchanged: its template is that of revision {chosen}"
    return f"schedulerfleet/{tenant} goes back to the template of revision {chosen}"


def last_other(picture: Picture, template: Mapping[str, Any], name: Namer) -> int:
    """What was completed last, else the newest completed revision that differs. Raises `WharfingerError`: none does."""
    present = name(template)
    completed = sorted(number for number, ended in picture.outcomes.items() if ended.outcome == "completed")
    for number in (picture.last_completed, *reversed(completed)):
        record = picture.revisions.get(number)
        if record is not None and name(record.template) != present:
            return number
    raise WharfingerError(f"fleet {picture.tenant} has no completed revision that differs from its template")
