"""`wharfinger apply`: put manifests into etcd."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import groupby
from typing import Annotated
from uuid import uuid4

import typer

from wharfinger.cli.files import FilesOption, Manifest, contents_of, load
from wharfinger.cli.objects.validation import ValidateOption, Validation, warn
from wharfinger.cli.objects.writing import REFUSED, Applied, unreadable, write
from wharfinger.cli.options import OBJECTS, ConnectionOptions, connected
from wharfinger.cli.output import Output, OutputOption, plain, show
from wharfinger.client.installations import check_written_here, has_copies
from wharfinger.errors import WharfingerError
from wharfinger.manifests.kinds import PRIORITY_CLASS
from wharfinger.manifests.times import rfc3339
from wharfinger.registry.store import Store

CONCURRENT = 16
"""Objects written at a time; with more, etcd's disk is the queue."""
PROGRESS_FROM = 200
"""Objects from which on a terminal is shown a progress bar."""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("apply", rich_help_panel=OBJECTS)(apply)


@connected
def apply(
    files: FilesOption,
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of objects that name none.", metavar="NAME")
    ] = "default",
    validate: ValidateOption = Validation.STRICT,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Put objects into the cluster, or change them.

    Reads YAML documents, JSON, Lists, and what kubectl get -o yaml prints. Metadata and spec become the manifest's.
    The uid, the status and the node of a bound pod stay; only a node's status changes, when its manifest has
    allocatable. A fleet keeps what `fleet apply` keeps. In a cluster of the format rk8s, pods and nodes are rk8s' YAML
    documents; a new one is stored as it stands in its file.

    Where a Kubernetes API is the store, its kinds are refused: use kubectl, or `wharfinger kubernetes apply`.

    An object that cannot be read or stored is refused, and so is one that --validate refuses. The others are written,
    and the exit code is 1.
    """
    from wharfinger.cli import connect

    applied = connect.run(_apply(connection, contents_of(files), namespace, output, validate))
    if output is not Output.TABLE:
        show([entry.mapping() for entry in applied], output)
    if any(entry.result == REFUSED for entry in applied):
        raise typer.Exit(1)


async def _apply(
    connection: ConnectionOptions,
    files: Iterable[tuple[str, bytes]],
    namespace: str,
    output: Output,
    validate: Validation,
) -> list[Applied]:
    from wharfinger.cli.connect import open_store

    applied: list[Applied] = []
    strict = validate is Validation.STRICT
    async with open_store(connection) as store:
        manifests = load(files, namespace, judged=True, format_=store.format)
        if not manifests:
            raise WharfingerError("no objects found")
        copies = await has_copies(store)
        for about in [manifest.about for manifest in manifests if manifest.about is not None]:
            check_written_here(copies, "apply", about.kind)
        for manifest in manifests if validate is Validation.WARN else ():
            warn(str(manifest.about), manifest.findings)
        with _progress(len(manifests)) as advance:
            for batch in _batches(manifests):
                now = rfc3339(datetime.now(UTC))
                written = await asyncio.gather(*(_written(store, entry, now, strict) for entry in batch))
                for entry in written if output is Output.TABLE else ():
                    _print(entry)
                applied += written
                advance(len(batch))
    return applied


async def _written(store: Store, entry: Manifest, now: str, strict: bool) -> Applied:
    if strict and entry.findings:
        others = (problem for problem in unreadable(entry) if problem not in entry.findings)
        return Applied(str(entry.about), REFUSED, (*entry.findings, *others))
    return await write(store, entry, uid=str(uuid4()), now=now)


def _batches(manifests: Sequence[Manifest]) -> Iterator[list[Manifest]]:
    """Cut into batches to be written at once: of one rank, and no object twice in one."""
    for _, same_rank in groupby(manifests, key=lambda manifest: manifest.rank):
        batch: dict[object, Manifest] = {}
        for manifest in same_rank:
            about = _identity(manifest)
            if len(batch) == CONCURRENT or about in batch:
                yield list(batch.values())
                batch = {}
            batch[about] = manifest
        yield list(batch.values())


def _identity(manifest: Manifest) -> object:
    """What is written once at a time: an object, and any PriorityClass, so that two cannot both become the default."""
    about = manifest.about
    if about is None:
        return id(manifest)
    return about.kind if about.kind is PRIORITY_CLASS else about


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, for many objects and a terminal; yields how to advance it."""
    if total < PROGRESS_FROM or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True, redirect_stdout=sys.stdout.isatty()) as bar:
        task = bar.add_task("applying", total=total)
        yield lambda count: bar.advance(task, count)


def _print(entry: Applied) -> None:
    for problem in entry.problems:
        typer.echo(plain(f"error: {entry.object}: {problem}"), err=True)
    for note in entry.notes:
        typer.echo(plain(f"note: {entry.object}: {note}"), err=True)
    if entry.result != REFUSED:
        typer.echo(f"{entry.object} {entry.result}")
