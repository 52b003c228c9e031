"""`wharfinger describe`: all that is read of one object, for people, by the part of its kind (`cli.kinds`)."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.kinds import part, parts_of
from wharfinger.cli.options import OBJECTS, ConnectionOptions, configured
from wharfinger.errors import UsageError
from wharfinger.objects.documents import kinds


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("describe", rich_help_panel=OBJECTS)(describe)


@configured
async def describe(
    kind: Annotated[
        str,
        typer.Argument(
            help="pod, node or priorityclass; membercluster, crp, rp, crpe, crpdb.",
            metavar="pod|node|priorityclass|...",
        ),
    ],
    name: Annotated[str, typer.Argument(help="Which one; pods also as NS/NAME.", metavar="NAME")],
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace of the pod.", metavar="NAME")
    ] = "default",
    connection: ConnectionOptions,
) -> None:
    """Show all that scheduling reads of a pod, a node or a priority class, or hubs of an object of placement."""
    found = kinds.by_word(kind)
    description = part(found, "describe")
    if description is None:
        instead = parts_of(found).instead
        hint = f": see `{instead} {name}`" if instead else ""
        raise UsageError(
            f"pods, nodes, priorityclasses, placements and their like are described, not {found.plural}{hint}"
        )
    typer.echo(await description(connection, found, name, namespace))
