"""`wharfinger placement history`: policies, snapshots and runs of a placement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, show
from wharfinger.objects.model.texts import counted, shortened
from wharfinger.placement.cli.placements import NamespaceOption, PlacementArgument

SHOWN = 160
"""Characters of a policy in the table; a longer phrase ends with a sign."""
NAMED = 5
"""Members in the row of a snapshot."""


@configured
async def history(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    limit: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Attempts, and rollouts, to show, the newest.")
    ] = 20,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show the policies and the snapshots of a placement, and its attempts and rollouts as far as Temporal keeps them.

    The numbers of snapshots are those of `placement rollback --to`.
    """
    told = await _read(connection, placement, namespace, limit)
    if output is not Output.TABLE:
        show(told, output)
        return
    if told["policies"]:
        policies = [
            (str(one["number"]), one["time"], shortened(policy_phrase(one["policy"]), SHOWN))
            for one in told["policies"]
        ]
        typer.echo(Columns("POLICY", "FIRST-DECIDED", "WHAT").render(policies))
    if told["snapshots"]:
        typer.echo(Columns("SNAPSHOT", "TAKEN", "OBJECTS", "CLUSTERS", "NOTE").render(_snapshots(told["snapshots"])))
    for kind in ("attempt", "rollout"):
        rows = [(one["time"], one["outcome"], one["why"], one["run"]) for one in told[f"{kind}s"]]
        if rows:
            typer.echo(Columns(kind.upper(), "OUTCOME", "WHAT", "RUN").render(rows))
        else:
            typer.echo(f"Temporal keeps no {kind} of it", err=True)


def policy_phrase(policy: Mapping[str, Any]) -> str:
    """`spec.policy` in a few words: `PickN 2, spread over topology.kubernetes.io/region`; `-o json` has all of it."""
    kind = policy.get("placementType", "PickAll")
    affinity = (policy.get("affinity") or {}).get("clusterAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    counts = (
        (len(required.get("clusterSelectorTerms") or ()), "required term"),
        (len(affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()), "preferred term"),
        (len(policy.get("tolerations") or ()), "toleration"),
    )
    spread = [one.get("topologyKey", "") for one in policy.get("topologySpreadConstraints") or ()]
    number = policy.get("numberOfClusters")
    parts = [
        kind if number is None else f"{kind} {number}",
        *([", ".join(policy["clusterNames"])] if policy.get("clusterNames") else []),
        *([f"spread over {' and '.join(spread)}"] if spread else []),
        *(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts if count),
    ]
    return ", ".join(parts)


def _snapshots(snapshots: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of snapshots."""
    return [
        (
            str(one["number"]),
            one["time"],
            str(one["objects"]),
            counted(one["members"], NAMED),
            "pinned" if one["pinned"] else "wanted" if one["wanted"] else "",
        )
        for one in snapshots
    ]


async def _read(connection: ConnectionOptions, name: str, namespace: str, limit: int) -> dict[str, Any]:
    from wharfinger.cli.connect import open_temporal
    from wharfinger.placement.reading.observe_placements import policies_of, reference_of
    from wharfinger.placement.reading.placements import Placements

    reference = reference_of(name, namespace)
    client = await open_temporal(connection)
    policies = []
    async with connection.store() as store:
        async for number, record in policies_of(store, reference):
            if record is not None and number.isdecimal():
                policies.append({"number": int(number), "time": record.time, "policy": record.policy})
            else:
                typer.echo(f"policy {number[:20]} cannot be read", err=True)
        placements = Placements(client, store, cluster=connection.cluster)
        snapshots = [{**asdict(one), "members": list(one.members)} for one in await placements.snapshots(reference)]
        return {
            "placement": reference,
            "policies": sorted(policies, key=lambda one: int(one["number"])),
            "snapshots": snapshots,
            "attempts": [one.mapping() for one in await placements.attempts(reference, limit=limit)],
            "rollouts": [one.mapping() for one in await placements.rollouts(reference, limit=limit)],
        }
