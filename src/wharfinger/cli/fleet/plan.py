"""`wharfinger fleet plan`: what would happen, step by step, decided by the code that decides in earnest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from wharfinger.cli.fleet.commands import READ
from wharfinger.cli.fleet.options import FileOption, FleetArgument
from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption, plain, show

if TYPE_CHECKING:
    from wharfinger.client.fleet_plans import FleetPlan


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("plan", rich_help_panel=READ)(plan)


@configured
def plan(
    fleet: FleetArgument,
    *,
    file: FileOption = "",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show step by step what would happen to a fleet, and change nothing.

    With -f: if the file were applied now. Without: from the present state on. The plan assumes that every step
    succeeds, and shows the least seconds that must pass. It ends where slots wait for a person (a canary, a partition,
    a pause). An open rollout is planned as if it began now, because only Temporal knows how long it has run.
    """
    from wharfinger.cli import connect

    found = connect.run(_plan(connection, fleet, file))
    if found.note:
        typer.echo(plain(found.note), err=True)
    if output is not Output.TABLE:
        show([{"seconds": line.at, "step": line.text} for line in found.lines], output)
    elif not found.lines:
        typer.echo("nothing would happen", err=True)
    else:
        for line in found.lines:
            typer.echo(f"{line.at:5.0f} s  {plain(line.text)}")


async def _plan(connection: ConnectionOptions, tenant: str, file: str) -> FleetPlan:
    from wharfinger.cli.fleet.options import fleet_in, open_fleets

    manifest = fleet_in(file, tenant) if file else None
    async with open_fleets(connection) as fleets:
        return await fleets.plan(tenant, manifest)
