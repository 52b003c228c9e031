"""`wharfinger delete`: take objects out of the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from wharfinger.cli.files import DEFAULT_NAMESPACE, RecursiveOption, contents_of, load
from wharfinger.cli.kinds import part
from wharfinger.cli.options import ConnectionOptions, configured, namespace_option
from wharfinger.cli.output import say
from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.etcd.store import Store
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.kinds import Reference
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.committing import Deletion
from wharfinger.process.installation_record import check_written_here, has_copies
from wharfinger.process.stored_objects import check_kind, key_of


@configured
async def delete(
    kind: Annotated[str, typer.Argument(help="pod, node, or any other kind.", metavar="KIND")] = "",
    names: Annotated[list[str] | None, typer.Argument(help="Names of the objects.", metavar="NAME")] = None,
    *,
    files: Annotated[
        list[str] | None,
        typer.Option("--filename", "-f", help="Delete what these manifests name instead.", metavar="FILE|DIR|-"),
    ] = None,
    recursive: RecursiveOption = False,
    namespace: Annotated[
        str,
        namespace_option("Namespace of the objects; a manifest that names another is refused.", "default"),
    ] = "",
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="An absent object is no error.")] = False,
    connection: ConnectionOptions,
) -> None:
    """Delete objects, by name or by manifest, at once and for good.

    Fleets are drained first. Placements and member clusters are marked, and a hub removes them once nothing of them is
    left anywhere.

    The exit code is 1 when an object does not exist or a manifest cannot be read; the others are deleted.
    """
    if files and (kind or names):
        raise UsageError("either -f or KIND NAME..., not both")
    if not files and not (kind and names):
        raise UsageError("nothing to delete: give KIND NAME... or -f FILE")
    given = contents_of(files or (), recursive=recursive)
    objects, unreadable = [_named(kind, name, namespace or DEFAULT_NAMESPACE) for name in names or ()], False
    async with connection.store() as store:
        if files:
            objects, unreadable = _references(given, namespace, store.format)
        for about in objects:
            check_kind(store, about.kind)
        missing = await _delete(store, objects, ignore_not_found)
    if missing or unreadable:
        raise typer.Exit(1)


def _named(word: str, name: str, namespace: str) -> Reference:
    kind = kinds.by_word(word)
    if kind.namespaced and name.count("/") == 1:
        namespace, name = name.split("/")
    if not name or "/" in name:
        raise UsageError(f"{name!r} is no name")
    return Reference(kind, namespace if kind.namespaced else "", name)


def _references(
    files: Iterable[tuple[str, bytes]], namespace: str, format_: ClusterFormat
) -> tuple[list[Reference], bool]:
    """What the manifests name, in reverse order of applying; and whether some could not be read (reported here)."""
    manifests = load(files, namespace or DEFAULT_NAMESPACE, agreeing=bool(namespace), format_=format_)
    unreadable = [manifest for manifest in manifests if manifest.about is None]
    for manifest in unreadable:
        say(f"error: {manifest.source}: {manifest.problem}", err=True)
    return [manifest.about for manifest in reversed(manifests) if manifest.about is not None], bool(unreadable)


async def _delete(store: Store, objects: Sequence[Reference], ignore_not_found: bool) -> bool:
    """Whether any of them was missing, or could not be deleted."""
    missing, copies = False, await has_copies(store)
    for about in objects:
        check_written_here(copies, "delete", about.kind)
    for about in objects:
        try:
            say((await (part(about.kind, "delete") or _remove)(store, about)).sentence)
        except NotFound:
            if not ignore_not_found:
                missing = True
                say(f"error: {about} does not exist", err=True)
        except InvalidObject as error:
            missing = True
            say(f"error: {error}", err=True)
    return missing


async def _remove(store: Store, about: Reference) -> Deletion:
    if not await store.delete(key_of(about)):
        raise NotFound(f"{about} does not exist")
    return Deletion(f"{about} deleted")
