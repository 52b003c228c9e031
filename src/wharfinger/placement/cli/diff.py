"""`wharfinger placement diff`: where objects on members differ from the hub's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.placement.cli.naming import NamespaceOption, PlacementArgument

if TYPE_CHECKING:
    from wharfinger.placement.reading.placement_delivery import DeliveredMember


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("diff")(diff)


@configured
async def diff(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    cluster: Annotated[str, typer.Option("--cluster", help="One member only.", metavar="NAME")] = "",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show the fields in which objects on members differ from the hub's, as the members' agents reported them.

    A drift is a field that changed on the member after it was applied; a difference is one that keeps an object from
    being taken over, or that a placement with the apply strategy ReportDiff reports. An agent reports the first 20
    objects, and the first 20 fields of each.

    The exit code is 0 where nothing differs, and 1 where something does.
    """
    found = await _read(connection, placement, namespace, cluster)
    if output is not Output.TABLE:
        show(found, output)
    elif found:
        rows = [
            (one["cluster"], one["object"], one["kind"], one["path"] or "/", one["hub"], one["member"]) for one in found
        ]
        typer.echo(Columns("CLUSTER", "OBJECT", "KIND", "PATH", "HUB", "MEMBER").render(rows))
    else:
        typer.echo("nothing differs")
    if found:
        raise typer.Exit(1)


async def _read(connection: ConnectionOptions, name: str, namespace: str, cluster: str) -> list[dict[str, Any]]:
    from wharfinger.errors import NotFound
    from wharfinger.placement.reading.observe_placements import reference_of
    from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries

    reference = reference_of(name, namespace)
    async with connection.store() as store:
        delivery = await PlacementDeliveries(store).status(reference)
    members = [one for one in delivery.members if cluster in ("", one.name)]
    if cluster and not members:
        raise NotFound(f"placement {reference} has nothing on cluster {cluster[:80]!r}")
    for one in members:
        if not one.told:
            typer.echo(plain(f"note: {one.name} has not reported its present contents: {one.state}"), err=True)
    return [difference for one in members for difference in _differences(one)]


def _differences(member: DeliveredMember) -> Iterator[dict[str, Any]]:
    """Of one member: what its result has about the contents of its work."""
    result = member.result
    if result is None or not member.told:
        return
    for kind, told in (("difference", result.told), ("drift", result.drifted)):
        for one in told:
            for path, in_hub, in_member in one.diffs:
                yield {
                    "cluster": member.name,
                    "object": one.object,
                    "kind": kind,
                    "reason": one.reason,
                    "path": path,
                    "hub": in_hub,
                    "member": in_member,
                }
