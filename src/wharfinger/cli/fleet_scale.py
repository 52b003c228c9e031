"""`wharfinger fleet scale`: how many instances."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_client import change
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption
from wharfinger.cli.options import Connection, connected

_MOST = 100


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("scale", rich_help_panel=WRITE)(scale)


@connected
def scale(
    fleet: FleetArgument,
    replicas: Annotated[int, typer.Argument(help="Instances from now on.", metavar="N", min=0, max=_MOST)],
    *,
    reason: ReasonOption = "",
    connection: Connection,
) -> None:
    """Set how many instances a fleet has.

    New ones get the highest slots and start on what the others run; the highest go first, each drained. It is no
    rollout, and does not need Temporal to be asked for.
    """
    change(connection, lambda fleets: fleets.scale(fleet, replicas, reason=reason))
