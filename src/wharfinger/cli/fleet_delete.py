"""`wharfinger fleet delete`: a fleet's end, which takes its time: its instances are drained first."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_client import change
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption, TimeoutOption
from wharfinger.cli.options import Connection, connected
from wharfinger.contracts.names import COMMON


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("delete", rich_help_panel=WRITE)(delete)


@connected
def delete(
    fleet: FleetArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing of it is left.")] = False,
    timeout: TimeoutOption = "10m",
    reason: ReasonOption = "",
    connection: Connection,
) -> None:
    """Delete a fleet: pods of the tenant go to the common pool, then its instances are drained.

    It is marked, and gone when the last instance has ended. Exit codes with --wait: as of `fleet wait`.
    """
    from wharfinger.cli.fleet_wait import seconds_of, wait_for

    seconds_of(timeout)
    change(connection, lambda fleets: fleets.delete(fleet, reason=reason))
    if fleet == COMMON:
        typer.echo("note: pods of no tenant, and of tenants without a fleet, wait until there is one again", err=True)
    if wait:
        from wharfinger.client.fleet_goals import Goal

        wait_for(connection, fleet, Goal.DELETED, timeout)
