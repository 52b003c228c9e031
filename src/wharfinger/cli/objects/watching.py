"""`wharfinger get --watch`: the table first, then a row for every change.

When etcd has compacted what was to be watched next, the list is printed anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import typer

from wharfinger.cli.kinds import stored_objects
from wharfinger.cli.objects.shown import to_texts
from wharfinger.cli.objects.tables import KindTable, table_of
from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import Columns, Output, plain
from wharfinger.errors import Compacted
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import Kind
from wharfinger.process.stored_objects import Stored, StoredObjects


async def follow(connection: ConnectionOptions, kind: Kind, namespace: str, name: str, output: Output) -> None:
    """Print what there is, then every change, until interrupted."""
    async with connection.store() as store:
        await show_changes(store, kind, namespace, name, output)


async def show_changes(store: Store, kind: Kind, namespace: str, name: str, output: Output) -> None:
    """The same, of a store that is open."""
    objects, screen = stored_objects(store, kind, namespace), _Screen(table_of(kind), output)
    while True:
        try:
            await _follow(store, objects, name, screen)
        except Compacted:
            continue


async def _follow(store: Store, objects: StoredObjects, name: str, screen: _Screen) -> None:
    prefix, revision = await objects.follow(name)
    screen.show_all(list(objects.known.values()))
    async with store.watch(prefix, revision + 1) as batches:
        async for batch in batches:
            changes = objects.take(batch.events)
            screen.show(changes.changed, changes.deleted)


class _Screen:
    """What was printed, and how."""

    def __init__(self, table: KindTable, output: Output) -> None:
        self._table = table
        self._output = output
        self._columns: Columns = table.columns()

    def show_all(self, found: Sequence[Stored]) -> None:
        """Print the whole list."""
        if self._output is Output.TABLE:
            typer.echo(self._columns.render(self._table.rows(found, datetime.now(UTC))))
        else:
            self._print(found)

    def show(self, changed: Sequence[Stored], deleted: Sequence[Stored]) -> None:
        """Print the rows that changed, and names of what is gone."""
        for entry in deleted if self._output is Output.TABLE else ():
            name = "/".join(part for part in (entry.namespace, entry.name) if part)
            typer.echo(f"{plain(name)} deleted")
        self._print(changed)

    def _print(self, entries: Sequence[Stored]) -> None:
        if not entries:
            return
        if self._output is Output.TABLE:
            typer.echo(self._columns.render(self._table.rows(entries, datetime.now(UTC)), headings=False))
            return
        for text in to_texts(entries, self._output):
            separator = "---\n" if self._output is Output.YAML else ""
            typer.echo(separator + text)
