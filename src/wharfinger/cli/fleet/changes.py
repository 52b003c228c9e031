"""`wharfinger fleet scale`, `pause`, `resume`, `promote`, `abort`, `undo`, `restart` and `delete`.

They write the fleet's object only (`client.fleet_edits`), so they work while Temporal is down.
"""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.fleet.commands import WRITE
from wharfinger.cli.fleet.options import FleetArgument, ReasonOption, TimeoutOption, change
from wharfinger.cli.options import ConnectionOptions, connected
from wharfinger.contracts.names import COMMON

_MOST = 100


def register(group: typer.Typer) -> None:
    """Add the commands."""
    for command in (scale, pause, resume, promote, abort, undo, restart, delete):
        group.command(command.__name__, rich_help_panel=WRITE)(command)


@connected
def scale(
    fleet: FleetArgument,
    replicas: Annotated[int, typer.Argument(help="Instances from now on.", metavar="N", min=0, max=_MOST)],
    *,
    reason: ReasonOption = "",
    connection: ConnectionOptions,
) -> None:
    """Set how many instances a fleet has.

    New ones get the highest slots and start on what the others run; the highest go first, each drained. It is no
    rollout, and does not need Temporal to be asked for.
    """
    change(connection, lambda fleets: fleets.scale(fleet, replicas, reason=reason))


@connected
def pause(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Stop updating a fleet where it is.

    Steps that were begun are finished, within the instance's own deadline. Crashed instances return and scaling goes
    on; the progress deadline does not run.
    """
    change(connection, lambda fleets: fleets.pause(fleet, reason=reason))


@connected
def resume(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Go on with a rollout that was paused, or that stands still: its deadline passed, or slots failed.

    The progress deadline begins anew. Refused when nothing is paused and no rollout is open; and while a newer template
    was not looked at yet, unless the fleet is paused.
    """
    change(connection, lambda fleets: fleets.resume(fleet, reason=reason))


@connected
def promote(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Let a rollout go on from its canary to all slots.

    Refused when no rollout is open, a newer template was not looked at yet, or the strategy has no canary.
    """
    change(connection, lambda fleets: fleets.promote(fleet, reason=reason))


@connected
def abort(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """End a rollout where it is: nothing more is updated, updated slots stay so.

    Use `fleet undo` to go back. Refused when no rollout is open, or a newer template was not looked at yet.
    """
    change(connection, lambda fleets: fleets.abort(fleet, reason=reason))


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
    connection: ConnectionOptions,
) -> None:
    """Go back to the template of an earlier revision.

    Without a number: of the one that was completed last, or, when that is the present template, of the newest other
    one that was completed. When both are equal after completion, nothing is written. Replicas and strategy stay as they
    are.
    """
    change(connection, lambda fleets: fleets.undo(fleet, revision=revision, reason=reason))


@connected
def restart(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Replace every instance, by a rollout like any other: the template's restartedAt is changed."""
    change(connection, lambda fleets: fleets.restart(fleet, reason=reason))


@connected
def delete(
    fleet: FleetArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing of it is left.")] = False,
    timeout: TimeoutOption = "10m",
    reason: ReasonOption = "",
    connection: ConnectionOptions,
) -> None:
    """Delete a fleet: pods of the tenant go to the common pool, then its instances are drained.

    It is marked, and gone when the last instance has ended. Exit codes with --wait: as of `fleet wait`.
    """
    from wharfinger.cli.fleet.wait import seconds_of, wait_for

    seconds_of(timeout)
    change(connection, lambda fleets: fleets.delete(fleet, reason=reason))
    if fleet == COMMON:
        typer.echo("note: pods of no tenant, and of tenants without a fleet, wait until there is one again", err=True)
    if wait:
        from wharfinger.client.fleet_goals import Goal

        wait_for(connection, fleet, Goal.DELETED, timeout)
