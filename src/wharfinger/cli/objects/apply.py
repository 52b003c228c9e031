"""`wharfinger apply`: put manifests into etcd."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Annotated
from uuid import uuid4

import typer

from wharfinger.cli.files import (
    DEFAULT_NAMESPACE,
    FilesOption,
    Manifest,
    RecursiveOption,
    ValidateOption,
    Validation,
    contents_of,
    defined_again,
    load,
    warn,
)
from wharfinger.cli.kinds import check_of
from wharfinger.cli.objects.writing import REFUSED, Applied, report, unreadable, write
from wharfinger.cli.options import ConnectionOptions, configured, namespace_option
from wharfinger.cli.output import Output, OutputOption, plain, progress, say, to_text
from wharfinger.errors import WharfingerError
from wharfinger.etcd.store import Read, Store
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.process.installation_record import check_written_here, has_copies
from wharfinger.process.stored_objects import read_objects

CONCURRENT = 16
"""Objects that are read, or changed, at a time; with more, etcd's disk is the queue."""
PROGRESS_FROM = 200
"""Objects from which on a terminal is shown a progress bar."""


@configured
async def apply(
    files: FilesOption,
    *,
    recursive: RecursiveOption = False,
    namespace: Annotated[
        str,
        namespace_option("Namespace of objects that name none; one that names another is refused.", "default"),
    ] = "",
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
    applied = await _apply(connection, contents_of(files, recursive=recursive), namespace, output, validate)
    if output is not Output.TABLE:
        say(to_text([entry.mapping() for entry in applied], output))
    if any(entry.result == REFUSED for entry in applied):
        raise typer.Exit(1)


async def _apply(
    connection: ConnectionOptions,
    files: Iterable[tuple[str, bytes]],
    namespace: str,
    output: Output,
    validate: Validation,
) -> list[Applied]:
    applied: list[Applied] = []
    strict = validate is Validation.STRICT
    async with connection.store() as store:
        manifests = load(
            files, namespace or DEFAULT_NAMESPACE, agreeing=bool(namespace), judged=True, format_=store.format
        )
        if not manifests:
            raise WharfingerError("no objects found")
        copies = await has_copies(store)
        for about in [manifest.about for manifest in manifests if manifest.about is not None]:
            check_written_here(copies, "apply", about.kind)
        for note in defined_again(manifests):
            say(plain(f"note: {note}"), err=True)
        for manifest in manifests if validate is Validation.WARN else ():
            warn(str(manifest.about), manifest.findings)
        with progress("applying", len(manifests), shown_from=PROGRESS_FROM) as advance:
            for batch in _batches(manifests):
                written = await _write(store, batch, rfc3339_now(), strict)
                for entry in written if output is Output.TABLE else ():
                    report(entry)
                applied += written
                advance(len(applied), len(manifests))
    return applied


async def _write(store: Store, batch: Sequence[Manifest], now: str, strict: bool) -> list[Applied]:
    """Write a batch: change what is there at once, then create the others one by one, in their order.

    A queue takes equal pods in the order in which they were created. etcd handles requests of one client in any order:
    each create is sent after the answer to the one before it.
    """
    objects = {index: entry.about for index, entry in enumerate(batch) if entry.about is not None}
    found = dict(zip(objects, await read_objects(store, list(objects.values())), strict=True))
    new = [index for index, read in found.items() if read.kv is None]
    others = [index for index in range(len(batch)) if index not in new]

    async def written(index: int) -> Applied:
        return await _written(store, batch[index], now, strict, found.get(index))

    applied = dict(zip(others, await asyncio.gather(*map(written, others)), strict=True))
    for index in new:
        applied[index] = await written(index)
    return [applied[index] for index in range(len(batch))]


async def _written(store: Store, entry: Manifest, now: str, strict: bool, read: Read | None) -> Applied:
    findings = entry.findings if strict else ()
    problems = _problems(entry)
    if findings or problems:
        others = () if problems else (problem for problem in unreadable(entry) if problem not in findings)
        return Applied(str(entry.about), REFUSED, (*findings, *problems, *others))
    return await write(store, entry, uid=str(uuid4()), now=now, read=read)


def _problems(entry: Manifest) -> tuple[str, ...]:
    """What an API server would refuse. Documents of rk8s are none of Kubernetes' objects."""
    from wharfinger.objects.documents.checks.objects import problems_of

    is_kubernetes = entry.about is not None and entry.obj is not None and entry.document is None
    return problems_of(entry.obj) if is_kubernetes and entry.obj is not None else ()


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
    """What is written once at a time: an object, or all of a kind."""
    about = manifest.about
    if about is None:
        return id(manifest)
    return about.kind if check_of(about.kind).one_at_a_time else about
