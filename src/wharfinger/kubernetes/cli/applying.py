"""`wharfinger kubernetes apply|delete`: write manifests to the Kubernetes API where no kubectl is at hand.

For trials (`wharfinger dev --kubernetes`), not instead of kubectl: nothing is compared with what was applied before, so
a field that is left out of a manifest stays as it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.files import FilesOption, RecursiveOption, contents_of
from wharfinger.cli.options import configured
from wharfinger.cli.output import Output, OutputOption, plain, show
from wharfinger.errors import InvalidObject, WharfingerError
from wharfinger.kubernetes.cli.api import ApiOptions, open_api

if TYPE_CHECKING:
    from wharfinger.kubernetes.cli.api_objects import ApiWrite, ApiWriter

NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.", metavar="NAME")
]
FIRST, LAST = ("Namespace", "Node", "PriorityClass"), ("Pod",)
"""What others refer to, and what refers to others."""


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("apply")(apply)
    group.command("delete")(delete)


@configured
async def apply(
    files: FilesOption,
    *,
    recursive: RecursiveOption = False,
    namespace: NamespaceOption = "default",
    output: OutputOption = Output.TABLE,
    upstream: ApiOptions,
) -> None:
    """Create objects in the Kubernetes API, or change them.

    For clusters without kubectl at hand, such as that of `wharfinger dev --kubernetes`. A field that is left out of a
    manifest stays as it is. The exit code is 1 when the API refuses an object; the others are written.
    """

    def write(writer: ApiWriter, manifest: Mapping[str, Any]) -> Awaitable[ApiWrite]:
        return writer.apply(manifest)

    await _run(upstream, _ordered(_manifests(files, recursive)), namespace, output, write)


@configured
async def delete(
    files: FilesOption,
    *,
    recursive: RecursiveOption = False,
    namespace: NamespaceOption = "default",
    ignore_not_found: Annotated[bool, typer.Option("--ignore-not-found", help="An absent object is no error.")] = False,
    output: OutputOption = Output.TABLE,
    upstream: ApiOptions,
) -> None:
    """Delete from the Kubernetes API what manifests name.

    The exit code is 1 when an object does not exist or the API refuses; the others are deleted.
    """

    async def write(writer: ApiWriter, manifest: Mapping[str, Any]) -> ApiWrite:
        from wharfinger.kubernetes.cli.api_objects import ApiWrite

        done = await writer.delete(manifest)
        if done.result == "absent" and not ignore_not_found:
            return ApiWrite(done.object, "refused", "does not exist")
        return done

    await _run(upstream, list(reversed(_ordered(_manifests(files, recursive)))), namespace, output, write)


async def _run(
    upstream: ApiOptions,
    manifests: list[Mapping[str, Any]],
    namespace: str,
    output: Output,
    write: Callable[[ApiWriter, Mapping[str, Any]], Awaitable[ApiWrite]],
) -> None:
    from wharfinger.kubernetes.cli.api_objects import ApiWriter

    if not manifests:
        raise WharfingerError("no objects found")
    written = []
    async with open_api(upstream) as api:
        writer = ApiWriter(api, namespace)
        for manifest in manifests:
            done = await write(writer, manifest)
            written.append(done)
            if output is Output.TABLE:
                _print(done)
    if output is not Output.TABLE:
        show([one.mapping() for one in written], output)
    if any(one.result == "refused" for one in written):
        raise typer.Exit(1)


def _print(done: ApiWrite) -> None:
    if done.result == "refused":
        typer.echo(plain(f"error: {done.object}: {done.reason}"), err=True)
    else:
        typer.echo(plain(f"{done.object} {done.result}"))


def _manifests(files: list[str], recursive: bool) -> Iterator[Mapping[str, Any]]:
    """The objects of all files. Raises `InvalidObject` with the file's name."""
    from wharfinger.objects.documents.given_files import objects_of

    for source, content in contents_of(files, recursive=recursive):
        try:
            for obj in objects_of(source, content):
                if not isinstance(obj, Mapping):
                    raise InvalidObject("has a document that is no object")
                yield obj
        except InvalidObject as error:
            raise InvalidObject(f"{source}: {error}") from error


def _ordered(manifests: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """In the order in which they are best created."""
    return sorted(manifests, key=lambda one: (one.get("kind") in LAST) - (one.get("kind") in FIRST))
