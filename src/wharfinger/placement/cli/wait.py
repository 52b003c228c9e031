"""`wharfinger placement wait`: for scripts, until a placement is as they need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import plain
from wharfinger.placement.cli.naming import NamespaceOption, PlacementArgument
from wharfinger.placement.reading.placement_goals import PATIENCE, PlacementGoal

if TYPE_CHECKING:
    from wharfinger.placement.reading.placement_goals import PlacementVerdict

TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0, max=86_400, help="How long at most.", metavar="SECONDS")
]


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("wait")(wait)


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
    from wharfinger.placement.reading.observe_placements import reference_of
    from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries

    reference = reference_of(placement, namespace)
    async with connection.store() as store:
        verdict = await PlacementDeliveries(store).wait(reference, goal, timeout=timeout, say=say_waiting)
    tell_verdict(reference, goal, verdict, timeout)


def say_waiting(what: str) -> None:
    """Print to standard error what is waited for."""
    typer.echo(plain(f"waits: {what}"), err=True)


def tell_verdict(reference: str, goal: PlacementGoal, verdict: PlacementVerdict, seconds: float) -> None:
    """Print how a wait ended; raises `typer.Exit` unless the goal is reached."""
    if verdict.reached:
        typer.echo(plain(f"{reference} is {goal}: {verdict.why}"))
        return
    when = "will not be" if verdict.kind == "failed" else "is not"
    after = "" if verdict.kind == "failed" else f" after {seconds:g} s"
    typer.echo(plain(f"error: {reference} {when} {goal}{after}: {verdict.why}"), err=True)
    raise typer.Exit(1)
