"""`wharfinger update-run start`: make a run's object, which hubs follow."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.placement.cli.update_run_naming import RunArgument, RunNamespaceOption, with_runs

SnapshotOption = Annotated[
    int | None,
    typer.Option(
        "--snapshot",
        help="Number of the snapshot that is delivered.",
        metavar="N",
        min=1,
        show_default="a new one is taken",
    ),
]


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("start")(start)


@configured
async def start(
    run: RunArgument,
    *,
    placement: Annotated[
        str, typer.Option("--placement", help="Name of the placement that is delivered.", metavar="NAME")
    ],
    strategy: Annotated[
        str, typer.Option("--strategy", help="Name of the staged update strategy that it follows.", metavar="NAME")
    ],
    namespace: RunNamespaceOption = "",
    snapshot: SnapshotOption = None,
    plan_only: Annotated[
        bool, typer.Option("--plan-only", help="Freeze the plan, and write nothing until the run is resumed.")
    ] = False,
    supersede: Annotated[
        bool, typer.Option("--supersede", help="Take over from a run that is under way, instead of waiting for it.")
    ] = False,
    connection: ConnectionOptions,
) -> None:
    """Start a staged update run of a placement.

    The run makes a plan first: the stages, their members in order, the snapshot and all overrides. The plan never
    changes. The placement must have the strategy type External.
    """
    await with_runs(
        connection,
        lambda runs: runs.start(
            run,
            placement=placement,
            strategy=strategy,
            namespace=namespace,
            snapshot=snapshot,
            supersedes=supersede,
            plan_only=plan_only,
        ),
    )
    typer.echo(f"update run {run} {'is planned' if plan_only else 'starts'} (`wharfinger update-run status {run}`)")
