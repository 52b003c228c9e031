"""`wharfinger fleet apply` and `plan`: fleets from manifests, tenant by tenant on demand; and what would happen.

A wave over tenants is nothing but this loop: apply, wait until it is complete, stop at the first that is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.files import FilesOption, contents_of, load
from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import Output, OutputOption, plain, show
from wharfinger.errors import InvalidConfiguration, UsageError
from wharfinger.fleet.cli.fleets import (
    FileOption,
    FleetArgument,
    ReasonOption,
    TimeoutOption,
    change,
    fleet_in,
    open_fleets,
)
from wharfinger.fleet.cli.wait import seconds_of, wait_for
from wharfinger.fleet.reading.fleet_goals import Goal
from wharfinger.objects.documents.kinds import FLEET

if TYPE_CHECKING:
    from wharfinger.fleet.reading.fleet_manifests import WantedFleet


@configured
async def apply(
    files: FilesOption,
    *,
    tenants: Annotated[
        str | None,
        typer.Option(
            "--tenants",
            help="Apply one manifest to these fleets, whatever its name: one after the other, each when the one before "
            "is complete.",
            metavar="T,T,...",
            show_default=False,
        ),
    ] = None,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait until each fleet is complete before the next one; --tenants always waits."),
    ] = False,
    timeout: TimeoutOption = "15m",
    reason: ReasonOption = "",
    connection: ConnectionOptions,
) -> None:
    """Create fleets, or change what they should be.

    All manifests are checked before the first is written. If any is wrong, each mistake is printed on a line of its
    own and nothing is written (exit code 2). Replicas, paused and the template's restartedAt stay as they are when the
    manifest leaves them out. Only promote, abort and resume make requests to a rollout; a manifest cannot. A note names
    the variables of the template that hosts would not pass.

    Exit codes with --wait and --tenants: 0 all fleets are complete; 1 the rollout of one failed, was aborted or
    stopped; 3 one was not complete within --timeout, which counts for each fleet. After 1 or 3, the remaining fleets
    are not changed.
    """
    from wharfinger.fleet.reading.fleets import Fleets

    seconds_of(timeout)
    wanted = _wanted(files, tenants)
    async with open_fleets(connection) as fleets:
        notes = await fleets.check(wanted)  # raises all that is wrong, before anything is written
    for number, one in enumerate(wanted):
        await change(connection, partial(Fleets.apply, manifest=one.manifest, reason=reason))
        if (note := notes[number]) and note not in notes[:number]:  # a wave's are all alike
            typer.echo(plain(note), err=True)
        if not wait and tenants is None:
            continue
        try:
            await wait_for(connection, one.tenant, Goal.COMPLETE, timeout)
        except typer.Exit:
            behind = ", ".join(later.tenant for later in wanted[number + 1 :])
            if behind:
                typer.echo(f"stopped: not applied to {behind}", err=True)
            raise


def _wanted(files: Sequence[str], tenants: str | None) -> list[WantedFleet]:
    """Which fleets are to be made what. Raises `UsageError`, `InvalidConfiguration`."""
    from wharfinger.fleet.reading.fleet_manifests import WantedFleet, each_once, for_tenants, problems_beside_the_name
    from wharfinger.fleet.reading.fleet_templates import known_plugins

    found: list[WantedFleet] = []
    problems: list[str] = []
    entries = load(contents_of(files), "default")
    for entry in entries:
        if entry.about is None or entry.obj is None:
            problems.append(f"{entry.source}: {entry.problem}")
        elif entry.about.kind is not FLEET:
            raise UsageError(f"{entry.about} in {entry.source} is no fleet: use `wharfinger apply`")
        else:
            found.append(WantedFleet(entry.about.name, entry.obj))
    if problems:
        catalog = known_plugins()
        beside = (problem for entry in entries for problem in problems_beside_the_name(entry.obj, catalog))
        raise InvalidConfiguration([*problems, *beside])
    if not found:
        raise UsageError("no fleet found")
    if tenants is None:
        return each_once(found)
    if len(found) != 1:
        raise UsageError(f"--tenants is for one manifest, not for {len(found)}")
    return for_tenants(found[0].manifest, [name.strip() for name in tenants.split(",")])


@configured
async def plan(
    fleet: FleetArgument,
    *,
    file: FileOption = "",
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Show step by step what would happen to a fleet, and change nothing.

    With -f: if the file were applied now. Without: from the present state on. The plan assumes that every step
    succeeds, and shows the least seconds that must pass. It ends where slots wait for a person (a canary, a partition,
    a pause). An open rollout is planned as if it began now, because only Temporal knows how long it has run.
    """
    manifest = fleet_in(file, fleet) if file else None
    async with open_fleets(connection) as fleets:
        found = await fleets.plan(fleet, manifest)
    if found.note:
        typer.echo(plain(found.note), err=True)
    if output is not Output.TABLE:
        show([{"seconds": line.at, "step": line.text} for line in found.lines], output)
    elif not found.lines:
        typer.echo("nothing would happen", err=True)
    else:
        for line in found.lines:
            typer.echo(f"{line.at:5.0f} s  {plain(line.text)}")
