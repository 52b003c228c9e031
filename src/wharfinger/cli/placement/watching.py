"""`-w` of lists of placements and clusters: the table first, then a row for whatever changes.

All is read again after a change, at most once a second, so that no row is missed and nothing is worked out twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import Columns, Output, plain, show
from wharfinger.engine.placements.hub_view import STREAMS, HubView

WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Go on with every change.")]
APART = 1.0
"""Seconds between two looks, at least."""
ANYWAY = 60.0
"""Seconds after which it is looked without a change."""

Read = Callable[[HubView], Sequence[Mapping[str, Any]]]


async def watch_rows(
    connection: ConnectionOptions,
    read: Read,
    *,
    key: str,
    headings: Sequence[str],
    row: Callable[[Mapping[str, Any]], Sequence[str]],
    output: Output,
) -> None:
    """Print all rows, then those that change, until interrupted. `key` names the field that names a row."""
    from wharfinger.cli.connect import open_store
    from wharfinger.observe.placements import read_all
    from wharfinger.registry.key_watch import watching

    columns, known, first = Columns(*headings), dict[str, Mapping[str, Any]](), True
    async with open_store(connection) as store, watching(store, list(STREAMS.values())) as seen:
        while True:
            found = {str(one[key]): one for one in read(await read_all(store))}
            changed = [one for name, one in found.items() if known.get(name) != one]
            if output is not Output.TABLE:
                for one in changed:
                    show(dict(one), output)
            elif first or changed:
                typer.echo(columns.render([row(one) for one in changed], headings=first))
            for name in known.keys() - found.keys() if output is Output.TABLE else ():
                typer.echo(f"{plain(name)} deleted")
            known, first = found, False
            await seen.changed(ANYWAY)
            await asyncio.sleep(APART)
