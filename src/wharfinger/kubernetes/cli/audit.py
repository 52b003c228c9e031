"""`wharfinger kubernetes audit`: whether the copies in etcd are what the Kubernetes API has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show_answer
from wharfinger.errors import InstallationMismatch
from wharfinger.kubernetes.cli.api import ApiOptions, open_api
from wharfinger.kubernetes.cli.status import installed

if TYPE_CHECKING:
    from wharfinger.kubernetes.reading.audit import CopiesAudit


@configured
async def audit(
    *,
    between: Annotated[
        float,
        typer.Option(
            "--between",
            help="Time between the two looks; what differs at both is reported.",
            metavar="SECONDS",
            min=0,
            max=3600,
        ),
    ] = 5.0,
    output: OutputOption = Output.TABLE,
    apiserver: ApiOptions,
    connection: ConnectionOptions,
) -> None:
    """Compare the copies in etcd with the Kubernetes API: every kind, every object.

    Reports differences that persist over two looks, and promises of binds that are older than a minute. The exit code
    is 1 when there is any.
    """
    from wharfinger.kubernetes.reading.audit import to_plain

    found = await _audit(connection, apiserver, between)
    show_answer(output, lambda: to_plain(found), lambda: "\n".join(_lines(found)))
    if not found.clean:
        raise typer.Exit(1)


async def _audit(connection: ConnectionOptions, apiserver: ApiOptions, between: float) -> CopiesAudit:
    from wharfinger.kubernetes.loops.connecting import cluster_uid, copied_kinds
    from wharfinger.kubernetes.reading import audit as audits

    async with connection.store() as store, open_api(apiserver) as api:
        installation = await installed(store)
        uid = await cluster_uid(api)
        if uid != installation.upstream:
            raise InstallationMismatch(
                f"the copies are of another Kubernetes cluster (uid {installation.upstream} of kube-system, here "
                f"{uid}): check --kubeconfig and --etcd"
            )
        return await audits.audit(
            store,
            api,
            await copied_kinds(api),
            pause=lambda: asyncio.sleep(between),
            now=lambda: datetime.now(UTC),
        )


def _lines(found: CopiesAudit) -> Iterator[str]:
    rows = [
        (kind.plural, str(kind.objects), str(kind.copies), str(len(kind.differences)) if kind.differences else "")
        for kind in found.kinds
    ]
    yield Columns("KIND", "OBJECTS", "COPIES", "DIFFERENCES").render(rows)
    yield from (plain(f"{one.object}: {one.problem}") for one in found.differences)
    for key, promise in found.old.items():
        why = f", withdrawn: {promise.withdrawn}" if promise.withdrawn else "" if promise.ready else ", not ready"
        yield plain(f"pods/{key}: promised to {promise.node} since {promise.since}{why}")
    if found.clean:
        yield "the copies are what the API has"
    else:
        yield f"objects that differ: {len(found.differences)}; promises older than a minute: {len(found.old)}"
