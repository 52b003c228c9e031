"""`wharfinger host`: the machines whose agents run scheduler instances.

A cordon has no lease: it outlives the agent, and holds for a host that is away. When most hosts go at once, what they
had is repaired one slot at a time, because a cut network looks the same and what is behind it lives on. `confirm-lost`
ends the waiting for one host; an agent of its name that comes back removes the record.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from wharfinger.cli.options import ConnectionOptions, command_group, configured
from wharfinger.cli.output import Output, OutputOption, plain, show_rows
from wharfinger.errors import UsageError
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.model.names import is_dns_subdomain

HostArgument = Annotated[str, typer.Argument(help="Which host, by the name of its agent.", metavar="HOST")]
WhyOption = Annotated[str, typer.Option("--reason", help="Why, for others who see it.", metavar="TEXT")]


def commands() -> typer.Typer:
    """The group."""
    return command_group(
        "Machines that run scheduler instances: see them, keep off them.",
        {"list": list_hosts, "cordon": cordon, "drain": drain, "uncordon": uncordon, "confirm-lost": confirm_lost},
    )


@configured
async def list_hosts(*, output: OutputOption = Output.TABLE, connection: ConnectionOptions) -> None:
    """List hosts: agents, the versions they have, instances, capacity, cordons.

    NoAgent: the host has no live agent, but it has grants of instances or is cordoned. Lost: an operator confirmed that
    the host is gone for good.
    """
    from wharfinger.fleet.cli.output import HOST_HEADINGS, host_list, host_rows
    from wharfinger.fleet.state.fleet_reading import read

    async with connection.store() as store:
        estate = await read(store, templates=False)
    for problem in estate.unreadable:
        typer.echo(plain(problem), err=True)
    nothing = "no host has an agent: run `wharfinger agent --host NAME --data-dir DIR` on it"
    show_rows(host_list(estate), output, HOST_HEADINGS, host_rows(estate, datetime.now(UTC)), nothing)


# --- cordons ---------------------------------------------------------------------------------------


@configured
async def cordon(host: HostArgument, *, reason: WhyOption = "", connection: ConnectionOptions) -> None:
    """Put no more instances on a host. Those there stay; one that ends is replaced on another host."""
    await _put(connection, checked(host), "cordon", reason)


@configured
async def drain(host: HostArgument, *, reason: WhyOption = "", connection: ConnectionOptions) -> None:
    """Cordon a host and move its instances to others, within what their fleets' strategies allow."""
    await _put(connection, checked(host), "drain", reason)


@configured
async def uncordon(host: HostArgument, *, connection: ConnectionOptions) -> None:
    """Allow new instances on a host again."""
    from wharfinger.fleet.reading import hosts

    async with connection.store() as store:
        removed = await hosts.uncordon(store, checked(host))
    typer.echo(f"host/{host} {'uncordoned' if removed else 'is not cordoned'}")


async def _put(connection: ConnectionOptions, host: str, action: Literal["cordon", "drain"], reason: str) -> None:
    from wharfinger.fleet.reading import hosts
    from wharfinger.process.committing import author

    async with connection.store() as store:
        written = await hosts.cordon(store, host, action, author(reason), now=rfc3339_now())
        alive = await hosts.has_agent(store, host)
    words = {"cordon": ("cordoned", "is cordoned already"), "drain": ("is being drained", "is being drained already")}
    typer.echo(f"host/{host} {words[action][0 if written else 1]}")
    if not alive:
        typer.echo(f"note: no live agent calls itself {host}", err=True)


def checked(host: str) -> str:
    """A host's name. Raises `UsageError` for what can be none."""
    if not is_dns_subdomain(host):
        raise UsageError(f"{host!r} is no name of a host")
    return host


# --- lost hosts ------------------------------------------------------------------------------------


@configured
async def confirm_lost(host: HostArgument, *, reason: WhyOption = "", connection: ConnectionOptions) -> None:
    """Confirm that a host without an agent is gone for good: its instances are replaced at once.

    Needed only when more than half of at least three hosts were lost within a minute: their slots are otherwise
    repaired one at a time. Instances that are ready stay. Refused while the host has a live agent.
    """
    from wharfinger.fleet.reading import hosts
    from wharfinger.process.committing import author

    async with connection.store() as store:
        new = await hosts.confirm_lost(store, checked(host), author(reason), now=rfc3339_now())
    typer.echo(f"host/{host} {'is taken for lost' if new else 'is taken for lost already'}")
