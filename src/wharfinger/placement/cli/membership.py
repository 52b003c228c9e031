"""`wharfinger cluster join` and `leave`: which member clusters there are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.errors import UsageError
from wharfinger.objects.documents.times import rfc3339

ClusterArgument = Annotated[str, typer.Argument(help="Name of the member cluster.", metavar="CLUSTER")]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("join")(join)
    group.command("leave")(leave)


@configured
async def join(
    name: ClusterArgument,
    *,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="A label of it; repeatable.", metavar="KEY=VALUE")
    ] = None,
    taint: Annotated[
        list[str] | None,
        typer.Option("--taint", help="Keep placements away that do not tolerate it; repeatable.", metavar="KEY=VALUE"),
    ] = None,
    connection: ConnectionOptions,
) -> None:
    """Make a member cluster known; it takes placements once its agent is there (`wharfinger member`).

    Of one that is there already, these labels are set and these taints added; nothing else of it changes.
    """
    labels = dict(_pair("label", text) for text in label or ())
    taints = dict(_pair("taint", text) for text in taint or ())
    from wharfinger.placement.reading.member_clusters import write_member

    async with connection.store() as store:
        result = await write_member(store, name, labels, taints, uid=str(uuid4()), now=rfc3339(datetime.now(UTC)))
    typer.echo(f"membercluster/{name} {result}")


def _pair(option: str, text: str) -> tuple[str, str | None]:
    from wharfinger.objects.model.names import is_qualified_name

    key, _, value = text.partition("=")
    if not is_qualified_name(key):
        raise UsageError(f"--{option} {text[:80]!r} is not KEY=VALUE")
    return key, value


@configured
async def leave(name: ClusterArgument, *, connection: ConnectionOptions) -> None:
    """Let a member cluster leave: successors are chosen first, and its object goes when nothing of it is left."""
    from wharfinger.objects.documents.kinds import MEMBER_CLUSTER, Reference
    from wharfinger.placement.cli.marking import mark

    async with connection.store() as store:
        marked = await mark(store, Reference(MEMBER_CLUSTER, "", name), ignore_not_found=False)
    if not marked:
        raise typer.Exit(1)
