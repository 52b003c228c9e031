"""From connection options to the client's `Fleets`, which the fleet commands are written on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import typer

from wharfinger.cli.options import Connection

if TYPE_CHECKING:
    from wharfinger.client.fleets import FleetChange, Fleets


@asynccontextmanager
async def open_fleets(connection: Connection) -> AsyncIterator[Fleets]:
    """The fleets in the etcd that the options name."""
    from wharfinger.cli.connect import open_store
    from wharfinger.client.fleets import Fleets

    async with open_store(connection) as store:
        yield Fleets(store)


def change(connection: Connection, make: Callable[[Fleets], Awaitable[FleetChange]]) -> FleetChange:
    """Make a change, and print what became of it."""
    from wharfinger.cli import connect

    async def run() -> FleetChange:
        async with open_fleets(connection) as fleets:
            return await make(fleets)

    changed = connect.run(run())
    typer.echo(changed.sentence)
    return changed
