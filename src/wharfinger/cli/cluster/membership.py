"""`wharfinger cluster join` and `leave`: which member clusters there are."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated
from uuid import uuid4

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.errors import InvalidConfiguration, InvalidObject, RequestTooLarge, UsageError
from wharfinger.manifests import documents, merge
from wharfinger.manifests.kinds import Reference, reference
from wharfinger.manifests.members import with_labels, with_taints
from wharfinger.manifests.times import rfc3339
from wharfinger.model.placement_kinds import CLUSTER_GROUP, MEMBER_CLUSTER
from wharfinger.registry import placement_keys
from wharfinger.registry.store import KeyValue, Store

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
    async with connection.store() as store:
        result = await write_member(store, name, labels, taints, uid=str(uuid4()), now=rfc3339(datetime.now(UTC)))
    typer.echo(f"membercluster/{name} {result}")


def _pair(option: str, text: str) -> tuple[str, str | None]:
    from wharfinger.model.names import is_qualified_name

    key, _, value = text.partition("=")
    if not is_qualified_name(key):
        raise UsageError(f"--{option} {text[:80]!r} is not KEY=VALUE")
    return key, value


async def write_member(
    store: Store, name: str, labels: dict[str, str | None], taints: dict[str, str | None], *, uid: str, now: str
) -> str:
    """Set labels and taints of a member cluster, new or not; `created`, `configured` or `unchanged`.

    All else of it stays as whoever wrote it last has it. `uid` and `now` (RFC 3339, UTC) are given to a new one.
    Raises `UsageError` for what is no member cluster, and the store's errors.
    """
    from wharfinger.client.committing import commit, readable, same
    from wharfinger.config.placement import check_placement_object
    from wharfinger.manifests import kinds

    about, result = Reference(kinds.MEMBER_CLUSTER, "", name), "unchanged"

    def over(stored: KeyValue | None) -> bytes | None:
        nonlocal result
        before = readable(stored.value) if stored is not None else None
        metadata = (before or {}).get("metadata") or {}
        if metadata.get("deletionTimestamp"):
            raise UsageError(f"member cluster {name} is leaving: join again when it is gone")
        version = (before or {}).get("apiVersion") or f"{CLUSTER_GROUP}/v1"
        named = {
            **(before or {}),
            "apiVersion": version,
            "kind": MEMBER_CLUSTER,
            "metadata": {**metadata, "name": name},
        }
        given = with_taints(with_labels(named, labels), taints)
        checked = reference(given, "")
        if before is None:
            obj = merge.created(given, checked, uid=uid, now=now)
        else:
            obj = merge.updated(before, given, checked)
        check_placement_object(obj)
        if before is not None and same(obj, before):
            result = "unchanged"
            return None
        result = "created" if stored is None else "configured"
        return documents.to_json(obj)

    try:
        await commit(store, placement_keys.member_cluster(name), over, str(about))
    except (InvalidConfiguration, InvalidObject, RequestTooLarge) as error:
        raise UsageError(str(error)) from error
    return result


@configured
async def leave(name: ClusterArgument, *, connection: ConnectionOptions) -> None:
    """Let a member cluster leave: successors are chosen first, and its object goes when nothing of it is left."""
    from wharfinger.cli.placement.marking import mark
    from wharfinger.manifests import kinds

    async with connection.store() as store:
        marked = await mark(store, Reference(kinds.MEMBER_CLUSTER, "", name), ignore_not_found=False)
    if not marked:
        raise typer.Exit(1)
