"""`wharfinger update-run plan`: which members each stage updates, in which order; nothing is written."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.placement.cli.starting import SnapshotOption
from wharfinger.placement.cli.update_run_naming import RunNamespaceOption, with_runs


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("plan")(plan)


@configured
async def plan(
    run: Annotated[
        str, typer.Argument(help="Name of an update run; without: give --placement and --strategy.", metavar="RUN")
    ] = "",
    *,
    placement: Annotated[
        str, typer.Option("--placement", help="Placement of a run that does not exist.", metavar="NAME")
    ] = "",
    strategy: Annotated[
        str, typer.Option("--strategy", help="Strategy of a run that does not exist.", metavar="NAME")
    ] = "",
    namespace: RunNamespaceOption = "",
    snapshot: SnapshotOption = None,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show the stages of a run with their members in order; nothing is written.

    The plan of a run that has begun is frozen, and is shown as it is. Else it is what the plan would be now.
    """
    from wharfinger.errors import UsageError
    from wharfinger.placement.reading.observe_update_runs import plan_mapping

    if bool(run) is bool(placement or strategy) or bool(placement) is not bool(strategy):
        raise UsageError("give the name of a run, or --placement and --strategy")
    found = await with_runs(
        connection,
        lambda runs: (
            runs.plan(run, namespace)
            if run
            else runs.plan_for(placement, strategy, namespace=namespace, snapshot=snapshot)
        ),
    )
    told = plan_mapping(found.run, found.plan, frozen=found.frozen)
    if output is not Output.TABLE:
        show(told, output)
        return
    number = told["snapshot"] or "a new one"
    typer.echo(plain(f"{told['placement']}, snapshot {number}{' (frozen)' if told['frozen'] else ''}"))
    rows = []
    for stage in told["stages"]:
        for at, one in enumerate(stage["members"]) if stage["members"] else ((0, None),):
            has = "-" if one is None else f"snapshot {one['snapshot']}" if one["snapshot"] else "nothing"
            waits = ", ".join([*stage["before"], *(f"after: {task}" for task in stage["after"])]) if not at else ""
            most = f"{stage['maxConcurrency']} at a time" if not at else ""
            rows.append((stage["stage"] if not at else "", one["cluster"] if one else "nobody", has, most, waits))
    rows += [("(removal)", name, "is not chosen", "", "") for name in told["removed"]]
    typer.echo(Columns("STAGE", "CLUSTER", "HAS", "UPDATES", "WAITS-FOR").render(rows))
    if told["unmatched"]:
        typer.echo(plain(f"in no stage: {', '.join(told['unmatched'])}"))
