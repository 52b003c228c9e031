"""`wharfinger cluster list`: the member clusters, and what they have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption
from wharfinger.placement.cli.watching import Listing, WatchOption, print_list
from wharfinger.placement.model.members import NODE_COUNT
from wharfinger.placement.state.hub_view import HubView

HEADINGS = ("NAME", "STATE", "PLACEMENTS", "NODES", "CPU", "MEMORY", "TAINTS", "WHY")


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("list")(list_clusters)


@configured
async def list_clusters(
    *, watch: WatchOption = False, output: OutputOption = Output.TABLE, connection: ConnectionOptions
) -> None:
    """List member clusters: whether their agents are there, and how many placements each has."""
    listing = Listing(rows_of, "name", HEADINGS, _row, "no member clusters found")
    await print_list(connection, listing, output, watch=watch)


def _row(one: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        one["name"],
        ",".join(one["state"]),
        str(one["placements"]),
        one["nodes"],
        one["cpu"],
        one["memory"],
        ",".join(one["taints"]),
        one["why"],
    )


def rows_of(view: HubView) -> list[dict[str, Any]]:
    """A mapping for each member."""
    from wharfinger.placement.reading.observe_placements import why_not_taking, why_unwell

    chosen = Counter(one.name for decision in view.decisions.values() for one in decision.chosen)
    found = []
    for name, seen in sorted(view.members.items()):
        member, drain = seen.member, view.member_view.drains.get(name)
        why = why_not_taking(seen) or why_unwell(seen)
        state = ["Leaving" if member.leaving else "Ready" if not why else "NotReady"]
        if drain is not None:
            state.append("Drained" if drain.want == "drain" else "Cordoned")
        available, capacity = member.usage.available, member.usage.allocatable
        found.append(
            {
                "name": name,
                "state": state,
                "online": seen.there,
                "placements": chosen[name],
                "nodes": member.properties.get(NODE_COUNT, ""),
                "cpu": _of(available.get("cpu"), capacity.get("cpu")),
                "memory": _of(_memory(available.get("memory")), _memory(capacity.get("memory"))),
                "labels": dict(member.labels),
                "taints": [f"{one.key}={one.value}" if one.value else one.key for one in member.taints],
                "orphans": list(seen.orphans),
                "why": (drain.why if drain is not None and drain.why else "") or why or _kept(seen.orphans),
            }
        )
    return found


def _kept(orphans: Sequence[str]) -> str:
    """What people have to know of objects that nobody asks for any more."""
    return f"keeps objects of placements that are not known here: {', '.join(orphans)}" if orphans else ""


def _memory(amount: str | None) -> str | None:
    """Bytes as people read them; another spelling stays."""
    from wharfinger.objects.model.quantities import format_bytes

    return format_bytes(int(amount)) if amount is not None and amount.isascii() and amount.isdigit() else amount


def _of(available: str | None, all_of_it: str | None) -> str:
    return "" if available is None or all_of_it is None else f"{available}/{all_of_it}"
