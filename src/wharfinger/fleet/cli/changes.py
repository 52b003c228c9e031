"""`wharfinger fleet scale`, `pause`, `resume`, `promote`, `abort`, `undo`, `restart` and `delete`.

They write the fleet's object only (`reading.fleet_changes`), so they work while Temporal is down.
"""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.fleet.cli.fleets import FleetArgument, ReasonOption, TimeoutOption, change
from wharfinger.fleet.cli.wait import seconds_of, wait_for
from wharfinger.fleet.reading.fleet_goals import Goal
from wharfinger.fleet.state.fleet_reading import read
from wharfinger.process.names import COMMON

_MOST = 100


@configured
async def scale(
    fleet: FleetArgument,
    replicas: Annotated[int, typer.Argument(help="Instances from now on.", metavar="N", min=0, max=_MOST)],
    *,
    reason: ReasonOption = "",
    connection: ConnectionOptions,
) -> None:
    """Set how many instances a fleet has.

    New instances get the next higher slots, and start on what the others run. The highest slots go first, each drained.
    Scaling is not a rollout. The request is accepted while Temporal is down. A note says so where all fleets together
    then want more instances than the hosts have CPUs.
    """
    changed = await change(connection, lambda fleets: fleets.scale(fleet, replicas, reason=reason))
    if changed.written and (told := await _crowding(connection)):
        typer.echo(f"note: {told}", err=True)


async def _crowding(connection: ConnectionOptions) -> str:
    from wharfinger.fleet.reading.fleet_status import crowding

    async with connection.store() as store:
        return crowding(await read(store, templates=False))


@configured
async def pause(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Stop updating a fleet where it is.

    Steps that were begun are finished, within the instance's own deadline. Crashed instances return and scaling goes
    on; the progress deadline does not run.
    """
    await change(connection, lambda fleets: fleets.pause(fleet, reason=reason))


@configured
async def resume(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Go on with a rollout that was paused, or that stands still: its deadline passed, or slots failed.

    The progress deadline begins anew. Refused when the fleet is not paused and no rollout is open, and while the
    fleet's workflow has not yet seen a newer template (unless the fleet is paused) or another request.
    """
    await change(connection, lambda fleets: fleets.resume(fleet, reason=reason))


@configured
async def promote(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Let a rollout go on from its canary to all slots.

    Refused when no rollout is open, when the strategy has no canary, and while the fleet's workflow has not yet seen a
    newer template or another request.
    """
    await change(connection, lambda fleets: fleets.promote(fleet, reason=reason))


@configured
async def abort(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """End a rollout where it is: nothing more is updated, updated slots stay so.

    Use `fleet undo` to go back. Refused when no rollout is open, and while the fleet's workflow has not yet seen a
    newer template.
    """
    await change(connection, lambda fleets: fleets.abort(fleet, reason=reason))


@configured
async def undo(
    fleet: FleetArgument,
    *,
    revision: Annotated[
        int,
        typer.Option(
            "--to-revision",
            help="Which revision; without: the one completed last that differs.",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = 0,
    reason: ReasonOption = "",
    connection: ConnectionOptions,
) -> None:
    """Go back to the template of an earlier revision.

    Without a number: of the revision that was completed last; when its template is the present one, of the newest
    completed revision that differs. Nothing is written when both templates are equal with all defaults written out.
    Replicas and strategy stay as they are.
    """
    await change(connection, lambda fleets: fleets.undo(fleet, revision=revision, reason=reason))


@configured
async def restart(fleet: FleetArgument, *, reason: ReasonOption = "", connection: ConnectionOptions) -> None:
    """Replace every instance, by a rollout like any other: the template's restartedAt is changed."""
    await change(connection, lambda fleets: fleets.restart(fleet, reason=reason))


@configured
async def delete(
    fleet: FleetArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing of the fleet is left.")] = False,
    timeout: TimeoutOption = "10m",
    reason: ReasonOption = "",
    connection: ConnectionOptions,
) -> None:
    """Delete a fleet: pods of the tenant go to the common pool, then its instances are drained.

    The fleet is marked as deleting, and is gone when the last instance has ended. Pods of the common fleet wait until
    there is a common fleet again. Exit codes with --wait: those of `fleet wait`.
    """
    seconds_of(timeout)
    await change(connection, lambda fleets: fleets.delete(fleet, reason=reason))
    if fleet == COMMON:
        typer.echo("note: pods of no tenant, and of tenants without a fleet, wait until there is one again", err=True)
    if wait:
        await wait_for(connection, fleet, Goal.DELETED, timeout)


COMMANDS = (scale, pause, resume, promote, abort, undo, restart, delete)
