"""Lists of placements and of clusters; with `-w` the table first, then a row for whatever changes.

All is read again after a change, at most once a second, so that no row is missed and nothing is worked out twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.options import WATCH, ConnectionOptions
from wharfinger.cli.output import Columns, Output, plain, show, show_rows
from wharfinger.etcd.store import Store

if TYPE_CHECKING:
    from wharfinger.placement.state.hub_view import HubView

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Go on with every change."), WATCH]
WhyOption = Annotated[
    str, typer.Option("--why", help="A reason, which is shown beside it.", metavar="TEXT", show_default=False)
]
APART = 1.0
"""Seconds between two looks, at least."""
ANYWAY = 60.0
"""Seconds after which it is looked without a change."""

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Listing:
    """What a list shows."""

    rows: Callable[[HubView], Sequence[Row]]
    """A mapping for each row, as printed for programs."""
    key: str
    """The field that names a row."""
    headings: Sequence[str]
    cells: Callable[[Row], Sequence[str]]
    nothing: str
    """What is said where there is no row."""


async def print_list(connection: ConnectionOptions, listing: Listing, output: Output, *, watch: bool) -> None:
    """Print all rows; `watch`: then those that change, until interrupted."""
    from wharfinger.placement.reading.observe_placements import read_all

    async with connection.store() as store:
        if watch:
            await watch_list(store, listing, output)
        found = listing.rows(await read_all(store))
    cells = [listing.cells(one) for one in found]
    show_rows([dict(one) for one in found], output, listing.headings, cells, listing.nothing)


async def watch_list(
    store: Store, listing: Listing, output: Output, *, apart: float = APART, anyway: float = ANYWAY
) -> None:
    """Print all rows, then those that change, until cancelled. `apart`, `anyway`: seconds."""
    from wharfinger.placement.reading.observe_placements import read_all, watching_all

    columns, known, first = Columns(*listing.headings), dict[str, Row](), True
    async with watching_all(store) as seen:
        while True:
            found = {str(one[listing.key]): one for one in listing.rows(await read_all(store))}
            changed = [one for name, one in found.items() if known.get(name) != one]
            if output is not Output.TABLE:
                for one in changed:
                    show(dict(one), output)
            elif first or changed:
                typer.echo(columns.render([listing.cells(one) for one in changed], headings=first))
            for name in known.keys() - found.keys() if output is Output.TABLE else ():
                typer.echo(f"{plain(name)} deleted")
            known, first = found, False
            await seen.changed(anyway)
            await asyncio.sleep(apart)
