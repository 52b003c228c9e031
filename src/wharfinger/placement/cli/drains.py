"""`wharfinger cluster cordon`, `uncordon` and `drain`: what a member cluster takes, and what it gives up."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.placement.cli.membership import ClusterArgument

WhyOption = Annotated[
    str, typer.Option("--why", help="A reason, which is shown beside it.", metavar="TEXT", show_default=False)
]


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("cordon")(cordon)
    group.command("uncordon")(uncordon)
    group.command("drain")(drain)


@configured
async def cordon(name: ClusterArgument, *, why: WhyOption = "", connection: ConnectionOptions) -> None:
    """Let a member cluster take nothing new; what it has stays. PickFixed ignores it."""
    await _put(connection, name, "cordon", why)


@configured
async def drain(name: ClusterArgument, *, why: WhyOption = "", connection: ConnectionOptions) -> None:
    """Let a member cluster give up what it has, as far as others can take it.

    PickN exchanges it as soon as there is a successor; PickAll gives it up; PickFixed only reports it.
    """
    await _put(connection, name, "drain", why)


@configured
async def uncordon(name: ClusterArgument, *, connection: ConnectionOptions) -> None:
    """Let a member cluster take placements again."""
    from wharfinger.placement.reading.member_clusters import remove_drain

    async with connection.store() as store:
        was = await remove_drain(store, name)
    typer.echo(f"membercluster/{name} {'uncordoned' if was else 'was not cordoned'}")


async def _put(connection: ConnectionOptions, name: str, want: Literal["cordon", "drain"], why: str) -> None:
    from wharfinger.objects.documents.times import rfc3339
    from wharfinger.objects.model.texts import one_line
    from wharfinger.placement.reading.member_clusters import put_drain
    from wharfinger.process.committing import Author, author

    by, now = Author(author().who, one_line(why, 200)), rfc3339(datetime.now(UTC))
    async with connection.store() as store:
        await put_drain(store, name, want, by, now=now)
    typer.echo(f"membercluster/{name} {'drained' if want == 'drain' else 'cordoned'}")
