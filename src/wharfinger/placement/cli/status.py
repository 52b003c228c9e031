"""`wharfinger placement status`: which members a placement has now, and how it does there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.placement.cli.naming import NamespaceOption, PlacementArgument
from wharfinger.placement.cli.watching import ANYWAY, APART, WatchOption

if TYPE_CHECKING:
    from wharfinger.etcd.store import Store


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("status")(status)


@configured
async def status(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    watch: WatchOption = False,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show which members a placement has, whether its policy is fulfilled, and how it does on each member.

    SNAPSHOT is the number of the selected objects' snapshot that a member has; `2 -> 3` means that 3 is wanted there.
    STATE ends with what the member's agent reports. -o json shows KubeFleet's conditions, too, of each member and of
    the whole placement.
    """
    from wharfinger.placement.cli.delivered import HEADINGS, status_mapping
    from wharfinger.placement.reading.observe_placements import reference_of
    from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries

    reference = reference_of(placement, namespace)
    async with connection.store() as store:
        if watch:
            await watch_status(store, reference, output)
            return
        told = status_mapping(await PlacementDeliveries(store).status(reference))
    if output is not Output.TABLE:
        show(told, output)
        return
    _print(Columns(*HEADINGS), told, {})


async def watch_status(
    store: Store, reference: str, output: Output, *, apart: float = APART, anyway: float = ANYWAY
) -> None:
    """Print all, then what changes, until the placement is gone. `apart`, `anyway`: seconds. Raises `NotFound`."""
    from wharfinger.errors import NotFound
    from wharfinger.placement.cli.delivered import HEADINGS, status_mapping
    from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries
    from wharfinger.placement.reading.placement_goals import watching_placement

    columns, known = Columns(*HEADINGS), dict[str, Any]()
    placements = PlacementDeliveries(store)
    async with watching_placement(store, reference) as seen:
        while True:
            try:
                told = status_mapping(await placements.status(reference))
            except NotFound:
                if not known:
                    raise
                typer.echo(f"{plain(reference)} is gone", err=output is not Output.TABLE)
                return
            if output is Output.TABLE:
                _print(columns, told, known)
            elif told != known:
                show(told, output)
            known = told
            await seen.changed(anyway)
            await asyncio.sleep(apart)


def _print(columns: Columns, told: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Print a status, or what of it is another than in the known one."""
    from wharfinger.placement.cli.delivered import cells, foot, head

    _print_lines(head(told), list(head(known)) if known else [])
    before = {one["cluster"]: cells(one) for one in known.get("members", ())}
    rows = [cells(one) for one in told["members"] if cells(one) != before.get(one["cluster"])]
    if rows:
        typer.echo(columns.render(rows, headings=not before))
    for name in sorted(before.keys() - {one["cluster"] for one in told["members"]}):
        typer.echo(f"{plain(name)} has nothing of it any more")
    _print_lines(foot(told), list(foot(known)) if known else [])


def _print_lines(lines: Iterable[str], before: list[str]) -> None:
    for line in lines:
        if line not in before:
            typer.echo(plain(line))
