"""`wharfinger placement status` and `diff`: which members a placement has, how it does there, and what differs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.errors import NotFound
from wharfinger.objects.model.texts import one_line
from wharfinger.placement.cli.placements import (
    ClusterOption,
    NamespaceOption,
    PlacementArgument,
    decision_mapping,
    opened,
    tell_deviations,
)
from wharfinger.placement.cli.watching import ANYWAY, APART, WatchOption

if TYPE_CHECKING:
    from wharfinger.placement.contracts.delivery_records import ToldObject
    from wharfinger.placement.reading.placement_conditions import DeliveredMember
    from wharfinger.placement.reading.placement_deliveries import PlacementDeliveries
    from wharfinger.placement.reading.placement_delivery import PlacementDelivery

HEADINGS = ("CLUSTER", "ONLINE", "SNAPSHOT", "STATE", "WHY")
_SAID = {"applied", "available", "untrackable", "failed", "reported", "gone", "objects", "reason"}
"""Fields of a result that are printed as they are."""
SHOWN = 160
"""Characters of a state in the table."""


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
    async with opened(connection, placement, namespace) as (placements, reference):
        if watch:
            await watch_status(placements, reference, output)
            return
        told = status_mapping(await placements.status(reference))
    if output is not Output.TABLE:
        show(told, output)
        return
    _print(Columns(*HEADINGS), told, {})


async def watch_status(
    placements: PlacementDeliveries, reference: str, output: Output, *, apart: float = APART, anyway: float = ANYWAY
) -> None:
    """Print all, then what changes, until the placement is gone. `apart`, `anyway`: seconds. Raises `NotFound`."""
    columns, known = Columns(*HEADINGS), dict[str, Any]()
    async with placements.watching(reference) as seen:
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


def status_mapping(delivery: PlacementDelivery) -> dict[str, Any]:
    """A placement and its members, as printed for programs."""
    record, rollout, pin = delivery.record, delivery.rollout, delivery.pin
    steps = rollout.steps
    return {
        "placement": delivery.reference,
        **decision_mapping(record.decision),
        "policy": record.decision.policy,
        "numberOfClusters": record.decision.number,
        "generation": record.decision.generation,
        "behind": delivery.behind,
        "decided": record.time,
        "conditions": [one._asdict() for one in delivery.conditions],
        "deleting": rollout.deleting,
        "external": rollout.spec.external,
        "snapshot": rollout.snapshot,
        "newestSnapshot": delivery.newest,
        "pin": None if pin is None else {"snapshot": pin.snapshot, "by": pin.by, "why": pin.why, "time": pin.time},
        "target": steps.target,
        "ready": delivery.ready,
        "floor": steps.floor,
        "ceiling": steps.ceiling,
        "settled": delivery.settled,
        "trouble": rollout.trouble,
        "members": [_member(one, delivery) for one in delivery.members],
        "evicted": sorted(record.evicted),
        "workflow": record.workflow_id,
        "run": record.run_id,
    }


def _member(one: DeliveredMember, delivery: PlacementDelivery) -> dict[str, Any]:
    work, result = one.work, one.result
    ended = work is not None and result is not None and result.counter == work.counter
    state: str = "none yet" if work is None else work.want
    if ended and result is not None:
        state = "failed" if result.failed else "available" if result.available else "applied"
    return {
        "cluster": one.name,
        "chosen": one.chosen,
        "online": "yes" if one.online else "no",
        "work": state,
        "reason": one.why if one.chosen else "not chosen any more",
        "state": one.state.value,
        "message": one.message,
        "want": work.want if work is not None else None,
        "snapshot": work.snapshot if work is not None else 0,
        "wanted": delivery.rollout.snapshot if one.chosen else 0,
        "counter": work.counter if work is not None else 0,
        "result": None
        if result is None
        else {
            "counter": result.counter,
            "current": one.told is not None,
            **result.model_dump(include=_SAID),
            "told": told_mappings(result.told),
            "drifted": told_mappings(result.drifted),
            "time": result.time,
        },
        "conditions": [each._asdict() for each in one.conditions],
    }


def told_mappings(told: Iterable[ToldObject]) -> list[dict[str, Any]]:
    """What a member's agent says of objects, as printed for programs."""
    return [
        {
            "object": one.object,
            "reason": one.reason,
            "message": one.message,
            "differences": [{"path": path, "hub": hub, "member": member} for path, hub, member in one.diffs],
        }
        for one in told
    ]


def head(told: Mapping[str, Any]) -> Iterator[str]:
    """The lines above the table."""
    condition = told["condition"]
    yield f"{told['placement']}: {condition['message']} ({condition['reason']})"
    yield f"policy {told['policy']}, generation {told['generation']}, decided {told['decided']}"
    if told["behind"]:
        yield "it was changed since, and is decided again"
    yield _snapshot(told)
    if told["trouble"]:
        yield f"trouble: {told['trouble']}"


def _snapshot(told: Mapping[str, Any]) -> str:
    if told["deleting"]:
        left = len(told["members"])
        return f"it is being deleted: left on {left} member cluster{'s' if left != 1 else ''}"
    number, pin = told["snapshot"], told["pin"]
    ready = f"{told['ready']} of {told['target']} ready, at least {told['floor']}, at most {told['ceiling']}"
    if told["external"]:
        return f"update runs deliver it: {ready}"
    if not number:
        return f"no snapshot of the selected objects yet: {ready}"
    if pin is None or pin["snapshot"] != number:
        return f"snapshot {number}: {ready}"
    by = f" by {pin['by']}" if pin["by"] else ""
    why = f": {pin['why']}" if pin["why"] else ""
    return f"snapshot {number}, pinned{by}{why} (the newest is {told['newestSnapshot']}): {ready}"


def cells(one: Mapping[str, Any]) -> Sequence[str]:
    """A member's row under `HEADINGS`."""
    has, wanted = one["snapshot"], one["wanted"]
    snapshot = f"{has} -> {wanted}" if has and wanted and has != wanted else str(has or "")
    state = f"{one['state']}: {one['message']}" if one["message"] else one["state"]
    return (one["cluster"], one["online"], snapshot, one_line(state, SHOWN), one["reason"])


def foot(told: Mapping[str, Any]) -> Iterator[str]:
    """The lines below the table."""
    if told["evicted"]:
        yield f"evicted from {', '.join(told['evicted'])}, whose works are not gone yet"
    yield from tell_deviations(told)


@configured
async def diff(
    placement: PlacementArgument,
    *,
    namespace: NamespaceOption = "",
    cluster: ClusterOption = "",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show the fields in which objects on members differ from the hub's, as the members' agents reported them.

    A drift is a field that changed on the member after it was applied; a difference is one that keeps an object from
    being taken over, or that a placement with the apply strategy ReportDiff reports. An agent reports the first 20
    objects, and the first 20 fields of each.

    The exit code is 0 where nothing differs, and 1 where something does.
    """
    async with opened(connection, placement, namespace) as (placements, reference):
        delivery = await placements.status(reference)
    members = [one for one in delivery.members if cluster in ("", one.name)]
    if cluster and not members:
        raise NotFound(f"placement {reference} has nothing on cluster {cluster[:80]!r}")
    for one in members:
        if not one.told:
            typer.echo(plain(f"note: {one.name} has not reported its present contents: {one.state}"), err=True)
    found = [difference for one in members for difference in _differences(one)]
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


def _differences(member: DeliveredMember) -> Iterator[dict[str, Any]]:
    """Of one member: what its result has about the contents of its work."""
    result = member.told
    if result is None:
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
