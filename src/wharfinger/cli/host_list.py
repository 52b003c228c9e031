"""`wharfinger host list`: the hosts that run instances."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from wharfinger.cli.options import Connection, connected
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("list")(list_hosts)


@connected
def list_hosts(*, output: OutputOption = Output.TABLE, connection: Connection) -> None:
    """List hosts: agents, the versions they have, instances, capacity, cordons.

    NoAgent: no agent has a lease there, but instances were granted to it, or it is cordoned. Lost: gone for good, as
    somebody said.
    """
    from wharfinger.cli import connect

    connect.run(_list(connection, output))


async def _list(connection: Connection, output: Output) -> None:
    from wharfinger.cli.connect import open_store
    from wharfinger.cli.fleet_rows import HOST_HEADINGS, host_rows
    from wharfinger.client.fleet_reading import read

    async with open_store(connection) as store:
        estate = await read(store, templates=False)
    for problem in estate.unreadable:
        typer.echo(plain(problem), err=True)
    if output is not Output.TABLE:
        from wharfinger.cli.fleet_mappings import host_list

        show(host_list(estate), output)
    elif not (cells := host_rows(estate, datetime.now(UTC))):
        typer.echo("no host has an agent: run `wharfinger agent --host NAME --data-dir DIR` on it", err=True)
    else:
        typer.echo(Columns(*HOST_HEADINGS).render(cells))
