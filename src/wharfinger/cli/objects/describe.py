"""`wharfinger describe`: all that is read of one object, for people, by the part of its kind (`cli.kinds`)."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.kinds import KINDS, part
from wharfinger.cli.options import ConnectionOptions, configured, namespace_option
from wharfinger.errors import UsageError
from wharfinger.objects.documents import kinds


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
    namespace: Annotated[str, namespace_option("Namespace of the pod.")] = "default",
    connection: ConnectionOptions,
) -> None:
    """Show all that scheduling reads of a pod, a node or a priority class, or hubs of an object of placement."""
    found = kinds.by_word(kind)
    description = part(found, "describe")
    if description is None:
        instead = KINDS[found].instead if found in KINDS else ""
        hint = f": see `{instead} {name}`" if instead else ""
        raise UsageError(
            f"pods, nodes, priorityclasses, placements and their like are described, not {found.plural}{hint}"
        )
    typer.echo(await description(connection, found, name, namespace))
