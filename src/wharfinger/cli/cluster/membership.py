"""`wharfinger cluster join` and `leave`: which member clusters there are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import uuid4

import typer

from wharfinger.cli.options import ConnectionOptions, connected
from wharfinger.errors import UsageError
from wharfinger.model.placement_kinds import CLUSTER_GROUP, MEMBER_CLUSTER

ClusterArgument = Annotated[str, typer.Argument(help="Name of the member cluster.", metavar="CLUSTER")]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("join")(join)
    group.command("leave")(leave)


@connected
def join(
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
    from wharfinger.cli import connect

    labels = dict(_pair("label", text) for text in label or ())
    taints = dict(_pair("taint", text) for text in taint or ())
    connect.run(_join(connection, name, labels, taints))


def _pair(option: str, text: str) -> tuple[str, str | None]:
    from wharfinger.model.names import is_qualified_name

    key, _, value = text.partition("=")
    if not is_qualified_name(key):
        raise UsageError(f"--{option} {text[:80]!r} is not KEY=VALUE")
    return key, value


async def _join(
    connection: ConnectionOptions, name: str, labels: dict[str, str | None], taints: dict[str, str | None]
) -> None:
    from wharfinger.cli.connect import open_store
    from wharfinger.cli.files import Manifest
    from wharfinger.cli.objects.writing import REFUSED, write
    from wharfinger.client.committing import readable
    from wharfinger.manifests.kinds import reference
    from wharfinger.manifests.members import with_labels, with_taints
    from wharfinger.manifests.times import rfc3339
    from wharfinger.registry import keys

    async with open_store(connection) as store:
        kv = (await store.get(keys.member_cluster(name))).kv
        before: dict[str, Any] = (readable(kv.value) if kv is not None else None) or {}
        if (before.get("metadata") or {}).get("deletionTimestamp"):
            raise UsageError(f"member cluster {name} is leaving: join again when it is gone")
        named = {
            **before,
            "apiVersion": before.get("apiVersion") or f"{CLUSTER_GROUP}/v1",
            "kind": MEMBER_CLUSTER,
            "metadata": {**(before.get("metadata") or {}), "name": name},
        }
        manifest = with_taints(with_labels(named, labels), taints)
        about = reference(manifest, "")
        written = Manifest("the command line", about, manifest)
        applied = await write(store, written, uid=str(uuid4()), now=rfc3339(datetime.now(UTC)))
    if applied.result == REFUSED:
        raise UsageError("; ".join(applied.problems))
    typer.echo(f"{applied.object} {applied.result}")


@connected
def leave(name: ClusterArgument, *, connection: ConnectionOptions) -> None:
    """Let a member cluster leave: successors are chosen first, and its object goes when nothing of it is left."""
    from wharfinger.cli import connect

    if not connect.run(_leave(connection, name)):
        raise typer.Exit(1)


async def _leave(connection: ConnectionOptions, name: str) -> bool:
    from wharfinger.cli.connect import open_store
    from wharfinger.cli.objects.delete import mark
    from wharfinger.manifests import kinds
    from wharfinger.manifests.kinds import Reference

    async with open_store(connection) as store:
        return await mark(store, Reference(kinds.MEMBER_CLUSTER, "", name), ignore_not_found=False)
