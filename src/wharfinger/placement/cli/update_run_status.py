"""`wharfinger update-run status`: how far a run is, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from wharfinger.cli.options import WATCH, ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.etcd.store import Store
from wharfinger.placement.cli.update_run_naming import RunArgument, RunNamespaceOption

APART = 1.0
"""Seconds between two looks, at least."""
ANYWAY = 60.0
"""Seconds after which it is looked without a change."""


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("status")(status)


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
