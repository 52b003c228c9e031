"""`wharfinger cluster`: the member clusters that there are, that join and leave, and what each takes and gives up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal
from uuid import uuid4

import typer

from wharfinger.cli.options import ConnectionOptions, command_group, configured
from wharfinger.cli.output import Output, OutputOption
from wharfinger.errors import UsageError
from wharfinger.objects.documents.times import rfc3339_now
from wharfinger.objects.model.names import is_qualified_name
from wharfinger.objects.model.quantities import format_bytes
from wharfinger.objects.model.texts import one_line
from wharfinger.placement.cli.watching import Listing, WatchOption, WhyOption, print_list
from wharfinger.placement.model.members import NODE_COUNT
from wharfinger.placement.state.hub_view import HubView

ClusterArgument = Annotated[str, typer.Argument(help="Name of the member cluster.", metavar="CLUSTER")]
HEADINGS = ("NAME", "STATE", "PLACEMENTS", "NODES", "CPU", "MEMORY", "TAINTS", "WHY")


def commands() -> typer.Typer:
    """The group."""
    found = {"list": list_clusters, **{one.__name__: one for one in (join, leave, cordon, uncordon, drain)}}
    return command_group("Member clusters: which there are, join, leave, cordon, drain.", found)


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
    return format_bytes(int(amount)) if amount is not None and amount.isascii() and amount.isdigit() else amount


def _of(available: str | None, all_of_it: str | None) -> str:
    return "" if available is None or all_of_it is None else f"{available}/{all_of_it}"


@configured
async def join(
    name: ClusterArgument,
    *,
    label: Annotated[
        list[str] | None, typer.Option("--label", help="A label of it; repeatable.", metavar="KEY=VALUE")
    ] = None,
    taint: Annotated[
        list[str] | None,
        typer.Option("--taint", help="Keep placements away that do not tolerate it; repeatable.", metavar="KEY=VALUE"),
    ] = None,
    connection: ConnectionOptions,
) -> None:
    """Make a member cluster known; it takes placements once its agent is there (`wharfinger member`).

    Of one that is there already, these labels are set and these taints added; nothing else of it changes.
    """
    from wharfinger.placement.reading.member_clusters import write_member

    labels = dict(_pair("label", text) for text in label or ())
    taints = dict(_pair("taint", text) for text in taint or ())
    async with connection.store() as store:
        result = await write_member(store, name, labels, taints, uid=str(uuid4()), now=rfc3339_now())
    typer.echo(f"membercluster/{name} {result}")


def _pair(option: str, text: str) -> tuple[str, str | None]:
    key, _, value = text.partition("=")
    if not is_qualified_name(key):
        raise UsageError(f"--{option} {text[:80]!r} is not KEY=VALUE")
    return key, value


@configured
async def leave(name: ClusterArgument, *, connection: ConnectionOptions) -> None:
    """Let a member cluster leave: successors are chosen first, and its object goes when nothing of it is left."""
    from wharfinger.objects.documents.kinds import MEMBER_CLUSTER, Reference
    from wharfinger.placement.reading.written_objects import mark

    async with connection.store() as store:
        typer.echo((await mark(store, Reference(MEMBER_CLUSTER, "", name))).sentence)


@configured
async def cordon(name: ClusterArgument, *, why: WhyOption = "", connection: ConnectionOptions) -> None:
    """Let a member cluster take nothing new; what it has stays. PickFixed ignores it."""
    await _put(connection, name, "cordon", why)


@configured
async def drain(name: ClusterArgument, *, why: WhyOption = "", connection: ConnectionOptions) -> None:
    """Let a member cluster give up what it has, as far as others can take it.

    PickN exchanges it as soon as there is a successor; PickAll gives it up; PickFixed only reports it.
    """
    await _put(connection, name, "drain", why)


@configured
async def uncordon(name: ClusterArgument, *, connection: ConnectionOptions) -> None:
    """Let a member cluster take placements again."""
    from wharfinger.placement.reading.member_clusters import remove_drain

    async with connection.store() as store:
        was = await remove_drain(store, name)
    typer.echo(f"membercluster/{name} {'uncordoned' if was else 'was not cordoned'}")


async def _put(connection: ConnectionOptions, name: str, want: Literal["cordon", "drain"], why: str) -> None:
    from wharfinger.placement.reading.member_clusters import put_drain
    from wharfinger.process.committing import Author, author

    by, now = Author(author().who, one_line(why, 200)), rfc3339_now()
    async with connection.store() as store:
        await put_drain(store, name, want, by, now=now)
    typer.echo(f"membercluster/{name} {'drained' if want == 'drain' else 'cordoned'}")
