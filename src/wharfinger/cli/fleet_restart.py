"""`wharfinger fleet restart`: replace every instance by one that is made alike."""

from __future__ import annotations

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_client import change
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption
from wharfinger.cli.options import Connection, connected


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("restart", rich_help_panel=WRITE)(restart)


@connected
def restart(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Replace every instance, by a rollout like any other: the template's restartedAt is changed."""
    change(connection, lambda fleets: fleets.restart(fleet, reason=reason))
