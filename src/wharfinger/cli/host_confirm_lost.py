"""`wharfinger host confirm-lost`: say of a host that it is gone for good.

When most hosts go at once, what they had is repaired one slot at a time: a cut network looks the same, and what is
behind it lives on. The record ends the waiting for one host; an agent of its name that comes back removes it.
"""

from __future__ import annotations

from datetime import UTC, datetime

import typer

from wharfinger.cli.host_cordon import HostArgument, WhyOption, checked
from wharfinger.cli.options import Connection, connected
from wharfinger.errors import UsageError
from wharfinger.manifests.times import rfc3339


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("confirm-lost")(confirm_lost)


@connected
def confirm_lost(host: HostArgument, *, reason: WhyOption = "", connection: Connection) -> None:
    """Say that a host without an agent is gone for good: what it had is repaired at once.

    Needed only when more than half of at least three hosts went within a minute. Instances that are ready stay.
    """
    from wharfinger.cli import connect

    written = connect.run(_confirm(connection, checked(host), reason))
    typer.echo(f"host/{host} {'is taken for lost' if written else 'is taken for lost already'}")


async def _confirm(connection: Connection, host: str, reason: str) -> bool:
    """Whether anything was written. Raises `UsageError` where the host has an agent."""
    from wharfinger.cli.connect import open_store
    from wharfinger.client.fleet_changes import author
    from wharfinger.contracts.fleet_records import LostHostRecord
    from wharfinger.registry import keys
    from wharfinger.registry.store import Compare, Put

    by = author(reason)
    record = LostHostRecord(who=by.who, why=by.why, time=rfc3339(datetime.now(UTC)))
    async with open_store(connection) as store:
        said = (await store.get(keys.lost_host(host))).kv
        put = Put(keys.lost_host(host), record.to_bytes())
        absent = [Compare(keys.host(host), "create", 0)]
        if not (await store.txn(absent, [put] if said is None or by.why else [])).succeeded:
            raise UsageError(f"host {host} has a live agent: it is not lost (`wharfinger host cordon` keeps off it)")
        return said is None or bool(by.why)
