"""`wharfinger placement history`: by which policies a placement was decided, and which attempts there were."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, connected
from wharfinger.cli.output import Columns, Output, OutputOption, show, to_text
from wharfinger.cli.placement.naming import NamespaceOption, PlacementArgument

SHOWN = 100
"""Characters of a policy in the table."""


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("history")(history)


@connected
def history(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, metavar="N", help="Attempts to show, the newest.")] = 20,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show the policies of a placement, and its attempts as far as Temporal keeps them."""
    from wharfinger.cli import connect

    told = connect.run(_read(connection, placement, namespace, limit))
    if output is not Output.TABLE:
        show(told, output)
        return
    if told["policies"]:
        policies = [
            (str(one["number"]), one["time"], " ".join(to_text(one["policy"], Output.JSON).split())[:SHOWN])
            for one in told["policies"]
        ]
        typer.echo(Columns("POLICY", "FIRST-DECIDED", "WHAT").render(policies))
    if told["attempts"]:
        rows = [(one["time"], one["outcome"], one["why"], one["run"]) for one in told["attempts"]]
        typer.echo(Columns("ATTEMPT", "OUTCOME", "WHAT", "RUN").render(rows))
    else:
        typer.echo("Temporal keeps no attempt of it", err=True)


async def _read(connection: ConnectionOptions, name: str, namespace: str, limit: int) -> dict[str, Any]:
    from wharfinger.cli.connect import open_store, open_temporal
    from wharfinger.contracts.placement_records import PolicyRecord
    from wharfinger.observe.placement_attempts import attempts
    from wharfinger.observe.placements import reference_of
    from wharfinger.registry import keys

    reference = reference_of(name, namespace)
    client = await open_temporal(connection)
    policies = []
    async with open_store(connection) as store:
        async for page in store.list(keys.policies_of(reference)):
            for kv in page.items:
                number = kv.key.rpartition("/")[2]
                try:
                    record = PolicyRecord.model_validate_json(kv.value)
                    policies.append({"number": int(number), "time": record.time, "policy": record.policy})
                except ValueError:
                    typer.echo(f"policy {number[:20]} cannot be read", err=True)
    return {
        "placement": reference,
        "policies": sorted(policies, key=lambda one: int(one["number"])),
        "attempts": [one.mapping() for one in await attempts(client, connection.cluster, reference, limit)],
    }
