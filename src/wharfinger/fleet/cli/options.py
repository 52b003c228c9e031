"""What the commands of `wharfinger fleet` share: arguments, a fleet's object from a file, and the client's `Fleets`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.files import contents_of, load
from wharfinger.cli.options import ConnectionOptions
from wharfinger.errors import InvalidConfiguration, UsageError
from wharfinger.objects.documents.kinds import FLEET
from wharfinger.process.names import check_tenant

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


if TYPE_CHECKING:
    from wharfinger.fleet.reading.fleets import FleetChange, Fleets


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
