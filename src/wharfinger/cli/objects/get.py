"""`wharfinger get`: list stored objects, watch them, or find the ones that cannot be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from wharfinger.cli.kinds import stored_objects
from wharfinger.cli.objects.naming import check_name, pod_key
from wharfinger.cli.objects.tables import KindTable, table_of
from wharfinger.cli.options import WATCH, ConnectionOptions, configured, namespace_option
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show_rows, to_text
from wharfinger.errors import Compacted, InvalidObject, UsageError
from wharfinger.etcd.store import Store
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.formats import KUBERNETES
from wharfinger.objects.documents.kinds import Kind
from wharfinger.process.stored_objects import Stored, StoredObjects


@configured
async def get(
    kind: Annotated[str, typer.Argument(help="pods, nodes, or any other kind that is stored.", metavar="KIND")],
    name: Annotated[str | None, typer.Argument(help="One object only.", metavar="NAME")] = None,
    *,
    namespace: Annotated[str, namespace_option("Namespace to look in.", "default")] = "",
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")] = False,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Go on with every change."), WATCH] = False,
    invalid: Annotated[
        bool,
        typer.Option(
            "--invalid", help="Only objects that cannot be read, of all namespaces unless -n or NAME is given."
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """List objects."""
    if name == "":
        raise UsageError("the name is empty: leave it out for all objects")
    pairs = {
        "--watch and --invalid": watch and invalid,
        "--all-namespaces and --namespace": all_namespaces and namespace,
        "--all-namespaces and a name": all_namespaces and name,
    }
    for pair, given in pairs.items():
        if given:
            raise UsageError(f"these exclude each other: {pair}")
    name = name or ""
    check_name("--namespace", namespace)
    found = kinds.by_word(kind)
    scope = "" if all_namespaces or (invalid and not name) else "default"
    scope = (namespace or scope) if found.namespaced else ""
    if found.namespaced and "/" in name:
        scope, name = pod_key(name, scope)
    check_name("the name", name)
    if invalid:
        await _get_invalid(connection, found, scope, name, output)
    elif watch:
        async with connection.store() as store:
            await show_changes(store, found, scope, name, output)
    else:
        await _get(connection, found, scope, name, output)


async def _get(connection: ConnectionOptions, kind: Kind, namespace: str, name: str, output: Output) -> None:
    async with connection.store() as store:
        objects = stored_objects(store, kind, namespace)
        if name:
            found = [await objects.one(name)]
            if output is not Output.TABLE and not shows(found[0]):
                raise InvalidObject(f"{kind.singular} {name} cannot be read: {found[0].invalid or 'is no object'}")
        else:
            _, found = await objects.every()
        if output is Output.TABLE:
            found = await objects.completed(found)
    if output is not Output.TABLE:
        text, shown = (next(to_texts(found, output)), 1) if name else list_text(found, output)
        typer.echo(text)
        if shown < len(found):
            typer.echo(f"{len(found) - shown} stored under these keys are no objects; see --invalid", err=True)
    elif not found:
        typer.echo(f"no {kind.plural} found" + (f" in namespace {namespace}" if namespace else ""), err=True)
    else:
        table = table_of(kind)
        typer.echo(table.columns().render(table.rows(found, datetime.now(UTC))))


async def _get_invalid(connection: ConnectionOptions, kind: Kind, namespace: str, name: str, output: Output) -> None:
    async with connection.store() as store:
        _, found = await stored_objects(store, kind, namespace).every()
    invalid = [
        (_key(store.as_stored(entry.kv.key)), entry.invalid)
        for entry in found
        if entry.invalid and name in ("", entry.name)
    ]
    listed = [{"key": key, "reason": reason} for key, reason in invalid]
    show_rows(listed, output, ("KEY", "REASON"), invalid, f"all {kind.plural} can be read")


def _key(key: str) -> str:
    """The key as text that any terminal takes; bytes that are no UTF-8 are shown escaped."""
    return key.encode(errors="surrogateescape").decode(errors="backslashreplace")


async def show_changes(store: Store, kind: Kind, namespace: str, name: str, output: Output) -> None:
    """Print what there is, then every change, until interrupted."""
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
        self._print(found, headings=True)

    def show(self, changed: Sequence[Stored], deleted: Sequence[Stored]) -> None:
        """Print the rows that changed, and names of what is gone."""
        for entry in deleted if self._output is Output.TABLE else ():
            name = "/".join(part for part in (entry.namespace, entry.name) if part)
            typer.echo(f"{plain(name)} deleted")
        self._print(changed)

    def _print(self, entries: Sequence[Stored], *, headings: bool = False) -> None:
        if self._output is Output.TABLE:
            if entries or headings:
                typer.echo(self._columns.render(self._table.rows(entries, datetime.now(UTC)), headings=headings))
            return
        for text in to_texts(entries, self._output):
            separator = "---\n" if self._output is Output.YAML else ""
            typer.echo(separator + text)


def to_texts(found: Iterable[Stored], output: Output) -> Iterator[str]:
    """Each object as a text of its own, without the last line's end."""
    for entry in found:
        if output is Output.YAML and entry.format is not KUBERNETES:
            yield entry.kv.value.decode().strip("\n") if _value(entry) else ""  # empty: it is no document
        else:
            yield to_text(_value(entry), output)


def list_text(found: list[Stored], output: Output) -> tuple[str, int]:
    """All objects as one text, and how many it shows; what is no object is left out.

    A list, but YAML of rk8s is one document after the other: so `apply -f -` reads it.
    """
    if output is Output.YAML and any(entry.format is not KUBERNETES for entry in found):
        texts = [text for text in to_texts(found, output) if text]
        return "\n---\n".join(texts), len(texts)
    items = [value for entry in found if (value := _value(entry))]
    return to_text({"apiVersion": "v1", "kind": "List", "items": items}, output), len(items)


def shows(entry: Stored) -> bool:
    """Whether there is anything to print of what is stored."""
    return bool(_value(entry))


def _value(entry: Stored) -> Any:
    if entry.format is KUBERNETES:
        return entry.mapping()
    from wharfinger.objects.rk8s.tree import decoded, parse, plain_values

    try:
        found = plain_values(parse(decoded(entry.kv.value)))
    except InvalidObject:
        return {}
    return found if isinstance(found, dict) else {}
