"""`wharfinger placement`: its commands, how a placement is named and its decision printed, and `placement list`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, command_group, configured, namespace_option
from wharfinger.cli.output import Output, OutputOption
from wharfinger.objects.model.texts import shortened
from wharfinger.placement.cli.watching import Listing, WatchOption, print_list
from wharfinger.placement.deciding.deviations import in_order
from wharfinger.placement.model.placement import PlacementDecision
from wharfinger.placement.state.hub_view import HubView
from wharfinger.placement.state.seen import state_of

if TYPE_CHECKING:
    from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries

PlacementArgument = Annotated[
    str, typer.Argument(help="Which: NAME, NAME with -n, cluster/NAME or ns/NAMESPACE/NAME.", metavar="PLACEMENT")
]
NamespaceOption = Annotated[
    str,
    namespace_option("Namespace of a ResourcePlacement.", "none"),
]

ClusterOption = Annotated[str, typer.Option("--cluster", help="One member only.", metavar="NAME")]
HEADINGS = ("PLACEMENT", "TYPE", "WANTED", "CHOSEN", "DELIVERED", "AVAILABLE", "STATE", "WHY")
SHOWN = 60
"""Characters of a reason in the table."""


def commands() -> typer.Typer:
    """The group."""
    from wharfinger.placement.cli.changes import delete, evict, rollback, wait
    from wharfinger.placement.cli.explain import explain
    from wharfinger.placement.cli.history import history
    from wharfinger.placement.cli.plan import plan
    from wharfinger.placement.cli.simulate import simulate
    from wharfinger.placement.cli.status import diff, status

    found = (status, explain, diff, history, plan, wait, rollback, evict, delete, simulate)
    return command_group(
        "Placements: which member clusters get which resources, and how they do there.",
        {"list": list_placements, **{one.__name__: one for one in found}},
    )


def decision_mapping(decision: PlacementDecision) -> dict[str, Any]:
    """The condition and the deviations of a decision, as printed for programs."""
    return {"condition": asdict(decision.condition), "deviations": in_order(decision.deviations)}


def tell_deviations(told: Mapping[str, Any]) -> Iterable[str]:
    """A line on where KubeFleet would decide otherwise; none where nowhere."""
    if told["deviations"]:
        yield f"KubeFleet would decide otherwise: {', '.join(told['deviations'])} (docs/placement.md)"


@asynccontextmanager
async def opened(
    connection: ConnectionOptions, placement: str, namespace: str
) -> AsyncIterator[tuple[PlacementDeliveries, str]]:
    """What shows and changes how placements are delivered, and the placement's reference. Raises `UsageError`."""
    from wharfinger.placement.reading.observe_placements import reference_of
    from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries

    reference = reference_of(placement, namespace)
    async with connection.store() as store:
        yield PlacementDeliveries(store), reference


@configured
async def list_placements(
    *, watch: WatchOption = False, output: OutputOption = Output.TABLE, connection: ConnectionOptions
) -> None:
    """List placements: how many members each wants and has, and whether its policy is fulfilled."""
    listing = Listing(rows_of, "placement", HEADINGS, _row, "no placements found")
    await print_list(connection, listing, output, watch=watch)


def _row(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        row["placement"],
        row["type"],
        "all" if row["wanted"] is None else str(row["wanted"]),
        str(row["chosen"]),
        str(row["delivered"]),
        str(row["available"]),
        row["state"],
        shortened(row["trouble"] if row["state"] == "fulfilled" else row["why"], SHOWN),
    )


def rows_of(view: HubView) -> list[dict[str, Any]]:
    """A mapping for each placement."""
    rows = []
    for reference in sorted(view.placements.keys() | view.decisions.keys()):
        seen, stored = view.placements.get(reference), view.decisions.get(reference)
        policy = seen.placement.policy if seen is not None else None
        unreadable = seen.unreadable if seen is not None else ""
        available, trouble = _delivered(view, reference)
        rows.append(
            {
                "placement": reference,
                "type": policy.type.value if policy is not None else "",
                "wanted": None if policy is None else policy.wanted,
                "chosen": len(stored.chosen) if stored is not None else 0,
                "delivered": sum(one.want == "present" for one in view.works.get(reference, {}).values()),
                "available": available,
                "trouble": trouble,
                "state": state_of(seen, stored),
                "why": unreadable or (stored.condition.message if stored is not None else "no hub has decided it yet"),
            }
        )
    return rows


def _delivered(view: HubView, reference: str) -> tuple[int, str]:
    """On how many members it is available, and what the first member says on which it failed."""
    available, trouble = 0, ""
    for member, work in sorted(view.works.get(reference, {}).items()):
        result = work.answered(view.results.get(reference, {}).get(member))
        if work.want != "present" or result is None:
            continue
        available += result.available
        if result.failed and not trouble:
            trouble = f"{member}: {result.reason}"
    return available, trouble
