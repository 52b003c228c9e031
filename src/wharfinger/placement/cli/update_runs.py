"""`wharfinger update-run`: staged runs are started, planned, looked at and steered; hubs follow a run's object."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from wharfinger.cli.options import WATCH, ConnectionOptions, command_group, configured, namespace_option
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.errors import UsageError
from wharfinger.etcd.store import Store
from wharfinger.placement.cli.watching import ANYWAY, APART

if TYPE_CHECKING:
    from wharfinger.placement.reading.update_runs import UpdateRuns


RunArgument = Annotated[str, typer.Argument(help="Name of the update run.", metavar="RUN")]
RunNamespaceOption = Annotated[
    str,
    namespace_option("Namespace of a StagedUpdateRun.", "none"),
]
WhyOption = Annotated[
    str, typer.Option("--why", help="A reason, which is recorded with it.", metavar="TEXT", show_default=False)
]

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

T = TypeVar("T")


class ApprovalWhen(StrEnum):
    """Which of a stage's approvals."""

    BEFORE = "before"
    AFTER = "after"


def commands() -> typer.Typer:
    """The group."""
    return command_group(
        "Staged update runs: deliver a placement to its member clusters stage by stage.",
        {one.__name__: one for one in (start, plan, status, approve, stop, resume, retry)},
    )


async def with_runs(connection: ConnectionOptions, use: Callable[[UpdateRuns], Awaitable[T]]) -> T:
    """Open etcd, and use its update runs."""
    from wharfinger.placement.reading.update_runs import UpdateRuns

    async with connection.store() as store:
        return await use(UpdateRuns(store))


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


@configured
async def status(
    run: RunArgument,
    *,
    namespace: RunNamespaceOption = "",
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Go on with every change, until the run ends."), WATCH
    ] = False,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show how far a run is: its phase, what it waits for, and each member of each stage."""
    async with connection.store() as store:
        if watch:
            await watch_run(store, (run, namespace), output)
        else:
            tell(await read(store, (run, namespace)), output)


async def read(store: Store, run: tuple[str, str]) -> dict[str, Any]:
    """The status of a run, by name and namespace. Raises `NotFound`."""
    from wharfinger.placement.reading.update_runs import UpdateRuns

    return await UpdateRuns(store).status(*run)


async def watch_run(
    store: Store, run: tuple[str, str], output: Output, *, apart: float = APART, anyway: float = ANYWAY
) -> None:
    """Print the status whenever it changes, until the run has ended. `apart`, `anyway`: seconds."""
    from wharfinger.placement.reading.observe_placements import watching_all

    before: Mapping[str, Any] = {}
    async with watching_all(store) as seen:
        while True:
            now = await read(store, run)
            if now != before:
                tell(now, output)
            if now["outcome"]:
                return
            before = now
            await seen.changed(anyway)
            await asyncio.sleep(apart)


def tell(told: Mapping[str, Any], output: Output) -> None:
    """Print a status."""
    if output is not Output.TABLE:
        show(dict(told), output)
        return
    why = f": {told['why']}" if told["why"] else ""
    typer.echo(plain(f"{told['run']} of {told['placement']}, snapshot {told['snapshot'] or '?'}"))
    typer.echo(plain(f"{told['phase']}{why}"))
    if told["rollback"] and told["rollback"] not in told["why"]:
        typer.echo(plain(f"rolls back because of {told['rollback']}"))
    rows = []
    for stage in told["stages"]:
        left = stage["remainingSeconds"]
        waits = [f"at most {left:g} s of its wait are left"] if left is not None else []
        waits += [f"waits for approval {key}" for key in stage["awaitedApprovals"]]
        rows.append((stage["stage"], "", stage["state"], "; ".join(waits)))
        rows += [("", one["cluster"], one["state"], one["why"]) for one in stage["members"]]
    if told["removed"]:
        rows.append(("(removal)", "", "", ""))
        rows += [("", one["cluster"], one["state"], one["why"]) for one in told["removed"]]
    if rows:
        typer.echo(Columns("STAGE", "CLUSTER", "STATE", "WHY").render(rows))


@configured
async def approve(
    run: RunArgument,
    stage: Annotated[str, typer.Argument(help="Name of the stage.", metavar="STAGE")],
    when: Annotated[ApprovalWhen, typer.Argument(help="Whether it may start, or end.", metavar="before|after")],
    *,
    namespace: RunNamespaceOption = "",
    why: WhyOption = "",
    connection: ConnectionOptions,
) -> None:
    """Let a stage start, or end. Refused while the stage does not wait for it."""
    await with_runs(connection, lambda runs: runs.approve(run, stage, when.value, namespace=namespace, why=why))
    typer.echo(plain(f"update run {run}: {stage}.{when} is approved"))


@configured
async def stop(
    run: RunArgument, *, namespace: RunNamespaceOption = "", why: WhyOption = "", connection: ConnectionOptions
) -> None:
    """Start nothing new. Members that were started finish, and a wait keeps what is left of it."""
    changed = await with_runs(connection, lambda runs: runs.stop(run, namespace, why=why))
    typer.echo(f"update run {run} {'is stopped' if changed else 'was stopped already'}")


@configured
async def resume(
    run: RunArgument, *, namespace: RunNamespaceOption = "", why: WhyOption = "", connection: ConnectionOptions
) -> None:
    """Go on with a run that is stopped, or start one that is only planned."""
    changed = await with_runs(connection, lambda runs: runs.resume(run, namespace, why=why))
    typer.echo(f"update run {run} {'goes on' if changed else 'was under way already'}")


@configured
async def retry(
    run: RunArgument, *, namespace: RunNamespaceOption = "", why: WhyOption = "", connection: ConnectionOptions
) -> None:
    """Try failed and skipped members again, by the same plan. A run that has ended goes on."""
    number = await with_runs(connection, lambda runs: runs.retry(run, namespace, why=why))
    typer.echo(f"update run {run} tries again (retry {number})")
