"""`wharfinger host cordon`, `drain` and `uncordon`: keep instances off a host, or make them leave.

A cordon has no lease: it outlives the agent, and holds for a host that is away.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from wharfinger.cli.options import Connection, connected
from wharfinger.errors import UsageError
from wharfinger.manifests.times import rfc3339
from wharfinger.model.names import is_dns_subdomain

if TYPE_CHECKING:
    from wharfinger.registry.store import Store

HostArgument = Annotated[str, typer.Argument(help="Which host, by the name of its agent.", metavar="HOST")]
WhyOption = Annotated[str, typer.Option("--reason", help="Why, for others who see it.", metavar="TEXT")]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    for command in (cordon, drain, uncordon):
        group.command(command.__name__)(command)


@connected
def cordon(host: HostArgument, *, reason: WhyOption = "", connection: Connection) -> None:
    """Put no more instances on a host; those there stay, and return there no more."""
    _run(connection, host, "cordon", reason)


@connected
def drain(host: HostArgument, *, reason: WhyOption = "", connection: Connection) -> None:
    """Cordon a host and move its instances to others, within what their fleets' strategies allow."""
    _run(connection, host, "drain", reason)


@connected
def uncordon(host: HostArgument, *, connection: Connection) -> None:
    """Let instances onto a host again."""
    from wharfinger.cli import connect

    removed = connect.run(_uncordon(connection, checked(host)))
    typer.echo(f"host/{host} {'uncordoned' if removed else 'is not cordoned'}")


def _run(connection: Connection, host: str, action: Literal["cordon", "drain"], reason: str) -> None:
    from wharfinger.cli import connect

    written, alive = connect.run(_cordon(connection, checked(host), action, reason))
    words = {"cordon": ("cordoned", "is cordoned already"), "drain": ("is being drained", "is being drained already")}
    typer.echo(f"host/{host} {words[action][0 if written else 1]}")
    if not alive:
        typer.echo(f"note: no live agent calls itself {host}", err=True)


async def _cordon(
    connection: Connection, host: str, action: Literal["cordon", "drain"], reason: str
) -> tuple[bool, bool]:
    """Whether anything was written, and whether the host has an agent."""
    from wharfinger.cli.connect import open_store
    from wharfinger.registry import keys

    async with open_store(connection) as store:
        written = await _write(store, host, action, reason)
        return written, (await store.get(keys.host(host))).kv is not None


async def _write(store: Store, host: str, action: Literal["cordon", "drain"], reason: str) -> bool:
    from wharfinger.client.committing import commit
    from wharfinger.client.fleet_changes import author
    from wharfinger.contracts.fleet_records import CordonRecord
    from wharfinger.registry import keys
    from wharfinger.registry.store import KeyValue

    by = author(reason)
    now = rfc3339(datetime.now(UTC))
    written = False

    def over(stored: KeyValue | None) -> bytes | None:
        nonlocal written
        if stored is not None and _same(stored.value, action, by.why):
            return None
        written = True
        return CordonRecord(action=action, who=by.who, why=by.why, time=now).to_bytes()

    await commit(store, keys.cordon(host), over, f"the cordon of {host}")
    return written


def _same(value: bytes, action: str, why: str) -> bool:
    from wharfinger.contracts.fleet_records import CordonRecord

    try:
        record = CordonRecord.model_validate_json(value)
    except ValueError:
        return False
    return record.action == action and why in ("", record.why)


async def _uncordon(connection: Connection, host: str) -> bool:
    from wharfinger.cli.connect import open_store
    from wharfinger.registry import keys

    async with open_store(connection) as store:
        return await store.delete(keys.cordon(host))


def checked(host: str) -> str:
    """A host's name. Raises `UsageError` for what can be none."""
    if not is_dns_subdomain(host):
        raise UsageError(f"{host!r} is no name of a host")
    return host
