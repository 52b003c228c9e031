"""`wharfinger placement status`: which members a placement has now, and how it does there."""

from __future__ import annotations

from typing import Any

import typer

from wharfinger.cli.options import ConnectionOptions, connected
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.cli.placement.naming import NamespaceOption, PlacementArgument, decision_mapping, tell_deviations


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("status")(status)


@connected
def status(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show which members a placement has, and whether its policy is fulfilled."""
    from wharfinger.cli import connect

    told = connect.run(_read(connection, placement, namespace))
    if output is not Output.TABLE:
        show(told, output)
        return
    condition = told["condition"]
    typer.echo(plain(f"{told['placement']}: {condition['message']} ({condition['reason']})"))
    typer.echo(plain(f"policy {told['policy']}, generation {told['generation']}, decided {told['decided']}"))
    if told["behind"]:
        typer.echo("it was changed since, and is decided again")
    if told["members"]:
        rows = [(one["cluster"], one["online"], one["work"], one["reason"]) for one in told["members"]]
        typer.echo(Columns("CLUSTER", "ONLINE", "WORK", "WHY").render(rows))
    if told["evicted"]:
        typer.echo(plain(f"evicted from {', '.join(told['evicted'])}, whose works are not gone yet"))
    for line in tell_deviations(told):
        typer.echo(line)


async def _read(connection: ConnectionOptions, name: str, namespace: str) -> dict[str, Any]:
    from wharfinger.cli.connect import open_store
    from wharfinger.observe.placements import read_one, record_of, reference_of

    reference = reference_of(name, namespace)
    async with open_store(connection) as store:
        record = await record_of(store, reference)
        view = await read_one(store, reference)
    decision, works = record.decision, view.works.get(reference, {})
    results, seen = view.results.get(reference, {}), view.placements.get(reference)
    members = []
    for member in sorted(decision.names.keys() | works.keys()):
        chosen, work, result = decision.names.get(member), works.get(member), results.get(member)
        there = member in view.members and view.members[member].there
        state: str = "none yet" if work is None else work.want
        if work is not None and result is not None and result.counter == work.counter:
            state = "failed" if result.failed else "available" if result.available else "applied"
        members.append(
            {
                "cluster": member,
                "chosen": chosen is not None,
                "online": "yes" if there else "no",
                "work": state,
                "reason": chosen.reason if chosen is not None else "not chosen any more",
            }
        )
    return {
        "placement": reference,
        **decision_mapping(decision),
        "policy": decision.policy,
        "numberOfClusters": decision.number,
        "generation": decision.generation,
        "behind": seen is not None
        and seen.revision != record.placement
        and seen.placement.generation > decision.generation,
        "decided": record.time,
        "members": members,
        "evicted": sorted(record.evicted),
        "workflow": record.workflow_id,
        "run": record.run_id,
    }
