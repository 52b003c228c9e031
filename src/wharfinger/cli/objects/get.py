"""`wharfinger get`: list stored objects, watch them, or find the ones that cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from wharfinger.cli.kinds import stored_objects
from wharfinger.cli.objects.naming import check_name, pod_key
from wharfinger.cli.objects.shown import list_text, shows, to_texts
from wharfinger.cli.objects.tables import table_of
from wharfinger.cli.options import OBJECTS, WATCH, ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, show
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.kinds import Kind


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("get", rich_help_panel=OBJECTS)(get)


@configured
async def get(
    kind: Annotated[str, typer.Argument(help="pods, nodes, or any other kind that is stored.", metavar="KIND")],
    name: Annotated[str | None, typer.Argument(help="One object only.", metavar="NAME")] = None,
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace to look in.", show_default="default", metavar="NAME")
    ] = "",
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
        from wharfinger.cli.objects.watching import follow

        await follow(connection, found, scope, name, output)
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
    if output is not Output.TABLE:
        listed: list[dict[str, Any]] = [{"key": key, "reason": reason} for key, reason in invalid]
        show(listed, output)
    elif not invalid:
        typer.echo(f"all {kind.plural} can be read", err=True)
    else:
        typer.echo(Columns("KEY", "REASON").render(invalid))


def _key(key: str) -> str:
    """The key as text that any terminal takes; bytes that are no UTF-8 are shown escaped."""
    return key.encode(errors="surrogateescape").decode(errors="backslashreplace")
