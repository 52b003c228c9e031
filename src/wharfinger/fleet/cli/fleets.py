"""`wharfinger fleet`: its commands, what they share (arguments, an object from a file), `get`, `status` and `history`.

Commands that write are compare-and-sets on the fleet's object and work while Temporal is down. Those that read show
what the fleet's actor wrote. Their neighbour for machines is `hosts`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.files import contents_of, load
from wharfinger.cli.options import WATCH, ConnectionOptions, command_group, configured
from wharfinger.cli.output import Output, OutputOption, show_rows
from wharfinger.errors import InvalidConfiguration, UsageError
from wharfinger.fleet.state.fleet_reading import existing, read
from wharfinger.objects.documents.kinds import FLEET
from wharfinger.process.names import check_tenant

if TYPE_CHECKING:
    from wharfinger.fleet.reading.fleets import FleetChange, Fleets

FleetArgument = Annotated[
    str, typer.Argument(help="Whose fleet: a tenant's, or `common`.", metavar="FLEET", callback=check_tenant)
]
"""One that no fleet can have, such as a script's empty variable, is refused whatever the command would do."""

ReasonOption = Annotated[
    str,
    typer.Option(
        "--reason", help="Why: kept with the object; `fleet status` and `fleet history` show it.", metavar="TEXT"
    ),
]
"""Of commands that write; without it no reason is kept."""

TimeoutOption = Annotated[
    str, typer.Option("--timeout", help="How long to wait: 90s, 5m, 1h; a bare number is seconds.", metavar="DURATION")
]

FileOption = Annotated[
    str, typer.Option("--filename", "-f", help="File with the fleet's object, or - for standard input.", metavar="FILE")
]
"""Annotation of a command's parameter whose default is an empty string."""


def commands() -> typer.Typer:
    """The group, in the order in which help lists its commands."""
    from wharfinger.fleet.cli import apply, changes, logs
    from wharfinger.fleet.cli.diff import diff
    from wharfinger.fleet.cli.wait import wait

    panels = {
        "Change": (apply.apply, *changes.COMMANDS),
        "Look": (get, status, history, diff, apply.plan, wait, logs.logs),
    }
    return command_group(
        "Scheduler instances: how many there are, what they run, how changes roll out.",
        panels={panel: {one.__name__: one for one in found} for panel, found in panels.items()},
    )


def fleet_in(source: str, tenant: str) -> Mapping[str, Any]:
    """The manifest of that tenant's fleet. Raises `UsageError` when the file has none, or cannot be read."""
    found = load(contents_of([source]), "default")
    problems = [f"{entry.source}: {entry.problem}" for entry in found if entry.about is None or entry.obj is None]
    if problems:
        raise InvalidConfiguration(problems)
    fleets = [entry for entry in found if entry.about is not None and entry.about.kind is FLEET]
    for entry in fleets:
        if entry.about is not None and entry.obj is not None and entry.about.name == tenant:
            return entry.obj
    instead = f", only {', '.join(str(entry.about) for entry in fleets[:5])}" if fleets else ""
    raise UsageError(f"{source}: there is no {FLEET.name} of {tenant}{instead}")


@asynccontextmanager
async def open_fleets(connection: ConnectionOptions) -> AsyncIterator[Fleets]:
    """The fleets in the etcd that the options name."""
    from wharfinger.fleet.reading.fleets import Fleets

    async with connection.store() as store:
        yield Fleets(store)


async def change(connection: ConnectionOptions, make: Callable[[Fleets], Awaitable[FleetChange]]) -> FleetChange:
    """Make a change, and print what became of it."""
    async with open_fleets(connection) as fleets:
        changed = await make(fleets)
    typer.echo(changed.sentence)
    return changed


@configured
async def get(
    fleet: Annotated[str, typer.Argument(help="One fleet only.", metavar="FLEET", show_default="all")] = "",
    *,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """List fleets: how many instances are wanted and serve, on which revision, and how the rollout stands.

    READY counts slots whose instance has reported that it is ready, UPDATED those of them on the wanted template.
    OUTDATED counts instances of other templates that may still run. Needs etcd alone.
    """
    from wharfinger.fleet.cli.output import FLEET_HEADINGS, fleet_object, fleet_row

    async with connection.store() as store:
        estate = await read(store, fleet, templates=False)
    now = datetime.now(UTC)
    fleets = [existing(estate, fleet)] if fleet else estate.fleets.values()
    found = [picture for picture in fleets if picture.exists]
    items = [fleet_object(picture) for picture in found]
    told = items[0] if fleet else {"apiVersion": "v1", "kind": "List", "items": items}
    show_rows(told, output, FLEET_HEADINGS, [fleet_row(picture, now) for picture in found], "no fleet found")


@configured
async def status(
    fleet: FleetArgument,
    *,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show every change, until Ctrl-C. Not with -o."), WATCH
    ] = False,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show how a fleet stands: slots, conditions, and what the running steps wait for.

    Needs etcd alone: it shows what instances report even while Temporal is down.
    """
    from wharfinger.fleet.cli import status as shown

    if watch and output is not Output.TABLE:
        raise UsageError("these options exclude each other: --watch and --output")
    await (shown.follow(connection, fleet) if watch else shown.once(connection, fleet, output))


@configured
async def history(
    fleet: FleetArgument,
    *,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show the revisions of a fleet: how their rollouts ended, who wrote them, when and why.

    The star marks the revision that is wanted. -o json and -o yaml show the templates too, as they were written.
    """
    from wharfinger.fleet.cli.output import HISTORY_HEADINGS, history_list, history_rows

    async with connection.store() as store:
        picture = existing(await read(store, fleet), fleet)
    rows, nothing = history_rows(picture, datetime.now(UTC)), "has no revision yet: its workflow has not looked at it"
    show_rows(history_list(picture), output, HISTORY_HEADINGS, rows, f"fleet {fleet} {nothing}")
