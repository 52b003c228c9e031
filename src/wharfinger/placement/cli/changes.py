"""`wharfinger placement rollback`, `evict` and `delete` change how a placement is delivered; `wait` waits for it."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import plain
from wharfinger.cli.waiting import say_waiting, tell_verdict
from wharfinger.errors import UsageError
from wharfinger.placement.cli.placements import NamespaceOption, PlacementArgument, opened
from wharfinger.placement.cli.watching import WhyOption
from wharfinger.placement.reading.placement_goals import PATIENCE, PlacementGoal

TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0, max=86_400, help="How long at most.", metavar="SECONDS")
]
LATEST = "latest"
DIGITS = 9
"""Of the number of a snapshot, at most."""


@configured
async def wait(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    goal: Annotated[
        PlacementGoal, typer.Option("--for", help="settled, available or gone.", metavar="GOAL")
    ] = PlacementGoal.SETTLED,
    timeout: TimeoutOption = PATIENCE,
    connection: ConnectionOptions,
) -> None:
    """Wait until a placement has reached a goal.

    - settled: every chosen member has the wanted snapshot and reports it available, and nothing is left elsewhere.
    - available: the policy is fulfilled, and the wanted snapshot is available on every chosen member.
    - gone: nothing is left of it, or there never was one.

    Changes of the selected objects count: the snapshot has to have them. The exit code is 0 when it is so; else 1, and
    a sentence says what is still waited for, or why it cannot be so any more. Meanwhile, standard error shows each
    change of what is waited for.
    """
    async with opened(connection, placement, namespace) as (placements, reference):
        verdict = await placements.wait(reference, goal, timeout=timeout, say=say_waiting)
    tell_verdict(reference, goal, verdict, f"{timeout:g} s")


@configured
async def rollback(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    to: Annotated[
        str,
        typer.Option(
            "--to", help="Number of a snapshot, as `placement history` shows it, or latest.", metavar="N|latest"
        ),
    ],
    why: WhyOption = "",
    connection: ConnectionOptions,
) -> None:
    """Pin a placement to an earlier snapshot of its objects, or let it follow the newest again.

    A hub rolls the pinned snapshot out within the placement's budget. Snapshots go on being taken meanwhile;
    `--to latest` removes the pin.
    """
    written = to.isascii() and to.isdecimal() and len(to) <= DIGITS
    number = None if to == LATEST else int(to) if written else 0
    if number == 0:
        raise UsageError(f"--to {to[:40]!r} is neither the number of a snapshot nor {LATEST}")
    async with opened(connection, placement, namespace) as (placements, reference):
        changed = await placements.rollback(reference, number, why=why)
    typer.echo(plain(changed.sentence))


@configured
async def evict(
    placement: PlacementArgument,
    *,
    cluster: Annotated[str, typer.Option("--cluster", help="The member that it is to leave.", metavar="NAME")],
    wait: Annotated[
        float | None,
        typer.Option("--wait", min=0, help="Wait so long for the outcome.", metavar="SECONDS", show_default=False),
    ] = None,
    connection: ConnectionOptions,
) -> None:
    """Ask for a placement to leave a member: creates a ClusterResourcePlacementEviction with a name of its own.

    A hub judges it once, by KubeFleet's checks and the placement's disruption budget. PickN chooses a successor; the
    member may be chosen again when nothing of the placement is left there, so cordon or taint it to prevent that.

    With --wait, the outcome is shown, and the exit code is 1 when the eviction was not executed, or has not ended.
    """
    async with opened(connection, placement, "") as (placements, reference):
        eviction = await placements.evict(reference, cluster)
        typer.echo(f"clusterresourceplacementeviction/{eviction.name} created")
        if wait is None:
            return
        eviction = await placements.eviction(eviction, timeout=wait)
    outcome = eviction.outcome
    if outcome is None:
        typer.echo(
            f"error: {eviction.name} has not ended after {wait:g} s: does a hub run? (`wharfinger hub`)", err=True
        )
        raise typer.Exit(1)
    typer.echo(plain(str(outcome)), err=not outcome.executed)
    if not outcome.executed:
        raise typer.Exit(1)


@configured
async def delete(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    wait: Annotated[bool, typer.Option("--wait", help="Wait until nothing is left of it.")] = False,
    timeout: TimeoutOption = PATIENCE,
    connection: ConnectionOptions,
) -> None:
    """Delete a placement: it is marked, and a hub removes it once nothing of it is left on any member.

    The same as `wharfinger delete crp NAME`. What was delivered is deleted on the members, unless the placement's
    deleteStrategy is Abandon.

    With --wait, the exit code is 1 when something is left after --timeout.
    """
    async with opened(connection, placement, namespace) as (placements, reference):
        typer.echo((await placements.delete(reference)).sentence)
        if not wait:
            return
        verdict = await placements.wait(reference, PlacementGoal.GONE, timeout=timeout, say=say_waiting)
    tell_verdict(reference, PlacementGoal.GONE, verdict, f"{timeout:g} s")
