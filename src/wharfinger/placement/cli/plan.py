"""`wharfinger placement plan`: what would change, over all placements, if something else were different."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from wharfinger.cli.files import contents_of
from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Columns, Output, OutputOption, plain, show
from wharfinger.placement.reading.observe_placements import read_all
from wharfinger.placement.reading.placement_plans import SupposedPlacement, Supposition, members_by_kind, supposed


@configured
async def plan(
    *,
    files: Annotated[
        list[str] | None,
        typer.Option(
            "--filename",
            "-f",
            help="Placements and members as they would be; objects of other kinds are left out.",
            metavar="FILE|DIR|-",
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", help="A label of a member; KEY- takes it away.", metavar="CLUSTER:KEY=VALUE"),
    ] = None,
    taint: Annotated[
        list[str] | None,
        typer.Option("--taint", help="A taint of a member; KEY- takes it away.", metavar="CLUSTER:KEY=VALUE"),
    ] = None,
    leave: Annotated[
        list[str] | None, typer.Option("--leave", help="A member that would leave.", metavar="CLUSTER")
    ] = None,
    cordon: Annotated[
        list[str] | None, typer.Option("--cordon", help="A member that would take nothing new.", metavar="CLUSTER")
    ] = None,
    drain: Annotated[
        list[str] | None,
        typer.Option("--drain", help="A member that would give up what it has.", metavar="CLUSTER"),
    ] = None,
    delete: Annotated[
        list[str] | None, typer.Option("--delete", help="A placement that would be deleted.", metavar="PLACEMENT")
    ] = None,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show which placements would get other members; nothing is changed.

    Without options: what hubs are about to decide. All placements are decided on the present state, with what the
    options suppose. New members are taken to be online.
    """
    contents = contents_of(files or ())
    async with connection.store() as store:
        view = await read_all(store)
    supposition = Supposition(view)
    left_out = sum(supposition.suppose_file(name, content) for name, content in contents)
    if left_out:
        some = "1 object of another kind is" if left_out == 1 else f"{left_out} objects of other kinds are"
        typer.echo(f"{some} left out: only placements and members are planned", err=True)
    options = (
        (label, supposition.suppose_label),
        (taint, supposition.suppose_taint),
        (leave, supposition.suppose_leaving),
        (cordon, partial(supposition.suppose_drain, want="cordon")),
        (drain, partial(supposition.suppose_drain, want="drain")),
        (delete, supposition.suppose_deleted),
    )
    for given, take in options:
        for text in given or ():
            take(text)
    found = [_mapping(one) for one in supposed(view)]
    if output is not Output.TABLE:
        show(found, output)
    elif not found:
        typer.echo("no placement would get other members")
    for one in found if output is Output.TABLE else ():
        moves = [f"+ {', '.join(one['added'])}"] if one["added"] else []
        moves += [f"- {', '.join(one['removed'])}"] if one["removed"] else []
        typer.echo(plain(f"{one['placement']}: {'; '.join([*moves, one['condition']])}"))
        if one["why"]:
            rows = [("+" if name in one["added"] else "-", name, why) for name, why in sorted(one["why"].items())]
            typer.echo(Columns("", "CLUSTER", "WHY").render(rows))
        for number, wave in enumerate(one["steps"], 1):
            told = "; ".join(f"{kind} {', '.join(names)}" for kind, names in wave.items())
            typer.echo(plain(f"step {number}: {told}"))
        if one["held"]:
            typer.echo(plain(f"then waits: {', '.join(one['held'])}"))


def _mapping(one: SupposedPlacement) -> dict[str, Any]:
    return {
        "placement": one.reference,
        "added": one.added,
        "removed": one.removed,
        "chosen": list(one.after),
        "fulfilled": one.fulfilled,
        "condition": one.condition,
        "why": dict(one.why),
        "steps": [members_by_kind(wave) for wave in one.waves],
        "held": list(one.held),
    }
