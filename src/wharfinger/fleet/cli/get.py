"""`wharfinger fleet get`: one line a fleet."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, show
from wharfinger.fleet.cli.commands import READ


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("get", rich_help_panel=READ)(get)


@configured
async def get(
    fleet: Annotated[str, typer.Argument(help="One fleet only.", metavar="FLEET", show_default="all")] = "",
    *,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """List fleets: how many instances are wanted and serve, on which revision, and how the rollout stands.

    READY counts slots whose instance has reported that it is ready, UPDATED those of them on the wanted template.
    OUTDATED counts instances of other templates that may still run. Needs etcd alone.
    """
    from wharfinger.fleet.cli.rows import FLEET_HEADINGS, fleet_row
    from wharfinger.fleet.state.fleet_reading import existing, read

    async with connection.store() as store:
        estate = await read(store, fleet, templates=False)
    now = datetime.now(UTC)
    fleets = [existing(estate, fleet)] if fleet else estate.fleets.values()
    found = [picture for picture in fleets if picture.exists]
    if output is not Output.TABLE:
        from wharfinger.fleet.cli.mappings import fleet_object

        items: list[dict[str, Any]] = [fleet_object(picture) for picture in found]
        show(items[0] if fleet else {"apiVersion": "v1", "kind": "List", "items": items}, output)
    elif not found:
        typer.echo("no fleet found", err=True)
    else:
        typer.echo(Columns(*FLEET_HEADINGS).render([fleet_row(picture, now) for picture in found]))
