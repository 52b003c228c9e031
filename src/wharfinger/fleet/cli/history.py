"""`wharfinger fleet history`: the revisions of a fleet's template, and what became of them."""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, show
from wharfinger.fleet.cli.commands import READ
from wharfinger.fleet.cli.options import FleetArgument


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("history", rich_help_panel=READ)(history)


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
    from wharfinger.fleet.cli.rows import HISTORY_HEADINGS, history_rows
    from wharfinger.fleet.state.fleet_reading import existing, read

    async with connection.store() as store:
        picture = existing(await read(store, fleet), fleet)
    if output is not Output.TABLE:
        from wharfinger.fleet.cli.mappings import history_list

        show(history_list(picture), output)
    elif not picture.revisions:
        typer.echo(f"fleet {fleet} has no revision yet: its workflow has not looked at it", err=True)
    else:
        typer.echo(Columns(*HISTORY_HEADINGS).render(history_rows(picture, datetime.now(UTC))))
