"""`wharfinger placement explain`: what was decided about every member, and whether it would be decided again."""

from __future__ import annotations

from typing import Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.errors import NotFound
from wharfinger.placement.cli.placements import (
    ClusterOption,
    NamespaceOption,
    PlacementArgument,
    decision_mapping,
    tell_deviations,
)
from wharfinger.placement.model.placement import ChosenMember, MemberVerdict
from wharfinger.placement.reading.observe_placements import decided_again, record_of, reference_of


@configured
async def explain(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    cluster: ClusterOption = "",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show why a placement has its members, and why not the others.

    Every member has a verdict. The decision is made again from what it was made from, and compared; where etcd has
    forgotten that, the record is shown, and that it cannot be decided again. The exit code is 1 when the answer is
    another one.
    """
    told = await _read(connection, placement, namespace, cluster)
    if output is not Output.TABLE:
        show(told, output)
    else:
        typer.echo(plain(f"{told['placement']}: {told['condition']['message']}"))
        rows = [
            (
                one["cluster"],
                "yes" if one["chosen"] else "no",
                "" if one["scores"] is None else f"{one['scores']['spread']}/{one['scores']['affinity']}",
                one["plugin"],
                one["reason"],
            )
            for one in told["verdicts"]
        ]
        typer.echo(Columns("CLUSTER", "CHOSEN", "SCORES", "REFUSED-BY", "WHY").render(rows))
        typer.echo(plain(f"{told['again']['message']}; decided {told['decided']} by {told['workflow']}@{told['run']}"))
        for line in tell_deviations(told):
            typer.echo(line)
    if told["again"]["possible"] and not told["again"]["same"]:
        raise typer.Exit(1)


async def _read(connection: ConnectionOptions, name: str, namespace: str, cluster: str) -> dict[str, Any]:
    reference = reference_of(name, namespace)
    async with connection.store() as store:
        record = await record_of(store, reference)
        again = await decided_again(store, reference, record)
    decision = record.decision
    verdicts = [_verdict(one, one.policy) for one in decision.chosen]
    verdicts += [_verdict(one, decision.policy) for one in decision.verdicts]
    if cluster:
        verdicts = [one for one in verdicts if one["cluster"] == cluster]
        if not verdicts:
            raise NotFound(f"the decision of {reference} does not name cluster {cluster[:80]!r}")
    return {
        "placement": reference,
        **decision_mapping(decision),
        "verdicts": verdicts,
        "again": {"possible": again.decision is not None, "same": again.same, "message": again.why},
        "decided": record.time,
        "seen": {"members": record.seen.members, "objects": record.seen.objects, "hub": record.seen.hub},
        "workflow": record.workflow_id,
        "run": record.run_id,
    }


def _verdict(one: ChosenMember | MemberVerdict, policy: int) -> dict[str, Any]:
    """What was decided about a member, and the policy by which it was."""
    refusal = one if isinstance(one, MemberVerdict) else None
    return {
        "cluster": one.name,
        "chosen": refusal is None,
        "scores": None if one.scores is None else {"spread": one.scores.spread, "affinity": one.scores.affinity},
        "plugin": refusal.plugin if refusal is not None else "",
        "code": refusal.code if refusal is not None else "",
        "reason": one.reason,
        "policy": policy,
    }
