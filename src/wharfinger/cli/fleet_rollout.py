"""`wharfinger fleet pause`, `resume`, `promote` and `abort`: what becomes of a rollout (`client.fleet_edits`)."""

from __future__ import annotations

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_client import change
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption
from wharfinger.cli.options import Connection, connected


def register(group: typer.Typer) -> None:
    """Add the commands."""
    for command in (pause, resume, promote, abort):
        group.command(command.__name__, rich_help_panel=WRITE)(command)


@connected
def pause(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Stop updating a fleet where it is.

    Steps that were begun are finished, within the instance's own deadline. Crashed instances return and scaling goes
    on; the progress deadline does not run.
    """
    change(connection, lambda fleets: fleets.pause(fleet, reason=reason))


@connected
def resume(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Go on with a rollout that was paused, or that stands still because its deadline passed.

    The progress deadline begins anew. Refused when there is nothing to go on with, or a newer template was not looked
    at yet.
    """
    change(connection, lambda fleets: fleets.resume(fleet, reason=reason))


@connected
def promote(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Let a rollout go on from its canary to all slots.

    Refused when no rollout is open, a newer template was not looked at yet, or the strategy has no canary.
    """
    change(connection, lambda fleets: fleets.promote(fleet, reason=reason))


@connected
def abort(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """End a rollout where it is: nothing more is updated, updated slots stay so.

    Use `fleet undo` to go back. Refused when no rollout is open, or a newer template was not looked at yet.
    """
    change(connection, lambda fleets: fleets.abort(fleet, reason=reason))
