"""`wharfinger fleet undo`: the template of an earlier revision becomes the fleet's again.

Only the object is written: going back is a rollout like any other, also while no Temporal can be asked.
"""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_client import change
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption
from wharfinger.cli.options import Connection, connected


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
    change(connection, lambda fleets: fleets.undo(fleet, revision=revision, reason=reason))
