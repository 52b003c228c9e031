"""`wharfinger fleet status`: one fleet with its slots, conditions, and what is being waited for."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import WATCH, ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption
from wharfinger.errors import UsageError
from wharfinger.fleet.cli.commands import READ
from wharfinger.fleet.cli.options import FleetArgument


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("status", rich_help_panel=READ)(status)


@configured
async def status(
    fleet: FleetArgument,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show every change, until Ctrl-C. Not with -o."), WATCH
    ] = False,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show how a fleet stands: slots, conditions, and what the running steps wait for.

    Needs etcd alone: it shows what instances report even while Temporal is down.
    """
    from wharfinger.fleet.cli import status_view as view

    if watch and output is not Output.TABLE:
        raise UsageError("these options exclude each other: --watch and --output")
    await (view.watch(connection, fleet) if watch else view.once(connection, fleet, output))
