"""`wharfinger fleet delete`: a fleet's end, which takes its time: its instances are drained first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption, TimeoutOption
from wharfinger.cli.options import Connection, connected
from wharfinger.contracts.names import COMMON
from wharfinger.manifests.times import rfc3339

if TYPE_CHECKING:
    from wharfinger.client.fleet_changes import Author
    from wharfinger.registry.store import Store


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("delete", rich_help_panel=WRITE)(delete)


@connected
def delete(
    fleet: FleetArgument,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Until nothing of it is left.")] = False,
    timeout: TimeoutOption = "10m",
    reason: ReasonOption = "",
    connection: Connection,
) -> None:
    """Delete a fleet: pods of the tenant go to the common pool, then its instances are drained.

    It is marked, and gone when the last instance has ended. Exit codes with --wait: as of `fleet wait`.
    """
    from wharfinger.cli import connect
    from wharfinger.cli.fleet_wait import seconds_of, wait_for

    seconds_of(timeout)
    typer.echo(connect.run(_delete(connection, fleet, reason)))
    if fleet == COMMON:
        typer.echo("note: pods of no tenant, and of tenants without a fleet, wait until there is one again", err=True)
    if wait:
        from wharfinger.client.fleet_goals import Goal

        wait_for(connection, fleet, Goal.DELETED, timeout)


async def _delete(connection: Connection, tenant: str, reason: str) -> str:
    from wharfinger.cli.connect import open_store
    from wharfinger.client.fleet_changes import author

    async with open_store(connection) as store:
        return await mark(store, tenant, author(reason))


async def mark(store: Store, tenant: str, by: Author) -> str:
    """Mark a fleet as deleting; one that nobody ever acted on is removed at once. Says what was done.

    An object that cannot be read is overwritten: its instances are drained all the same. Raises `NotFound`, and the
    store's errors.
    """
    from wharfinger.client.committing import commit, readable
    from wharfinger.client.fleet_changes import sign
    from wharfinger.config.fleet import is_deleting
    from wharfinger.errors import NotFound
    from wharfinger.manifests import documents
    from wharfinger.registry import keys
    from wharfinger.registry.store import Compare, Delete, KeyValue

    key = keys.fleet(tenant)
    now = rfc3339(datetime.now(UTC))
    was_deleting = False

    def over(stored: KeyValue | None) -> bytes | None:
        nonlocal was_deleting
        if stored is None:
            raise NotFound(f"there is no fleet {tenant}")
        obj = readable(stored.value) or {}
        was_deleting = is_deleting(obj)
        if was_deleting:
            return None
        sign(obj, by)
        obj["metadata"]["deletionTimestamp"] = now
        return documents.to_json(obj)

    revision = await commit(store, key, over, f"fleet {tenant}")
    alone = [Compare(key, "mod", revision), Compare(keys.actor(tenant), "mod", 0)]
    if (await store.txn(alone, [Delete(key)])).succeeded:
        return f"schedulerfleet/{tenant} deleted"
    return f"schedulerfleet/{tenant} is being deleted" + (" already" if was_deleting else "")
