"""`wharfinger fleet plan`: what would happen, step by step, decided by the code that decides in earnest."""

from __future__ import annotations

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption, plain, show
from wharfinger.fleet.cli.commands import READ
from wharfinger.fleet.cli.options import FileOption, FleetArgument, fleet_in, open_fleets


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("plan", rich_help_panel=READ)(plan)


@configured
async def plan(
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
    manifest = fleet_in(file, fleet) if file else None
    async with open_fleets(connection) as fleets:
        found = await fleets.plan(fleet, manifest)
    if found.note:
        typer.echo(plain(found.note), err=True)
    if output is not Output.TABLE:
        show([{"seconds": line.at, "step": line.text} for line in found.lines], output)
    elif not found.lines:
        typer.echo("nothing would happen", err=True)
    else:
        for line in found.lines:
            typer.echo(f"{line.at:5.0f} s  {plain(line.text)}")
