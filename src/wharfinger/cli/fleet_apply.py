"""`wharfinger fleet apply`: fleets from manifests, all checked before the first is written; tenant by tenant on demand.

A wave over tenants is nothing but this loop: apply, wait until it is complete, stop at the first that is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from wharfinger.cli.files import FilesOption, Manifest, load
from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_options import ReasonOption, TimeoutOption
from wharfinger.cli.options import Connection, connected
from wharfinger.cli.output import plain
from wharfinger.contracts.names import check_tenant
from wharfinger.errors import InvalidConfiguration, InvalidObject, UsageError
from wharfinger.manifests.kinds import FLEET
from wharfinger.model.names import COMMON

if TYPE_CHECKING:
    from wharfinger.client.fleet_changes import Changed


class Wanted(NamedTuple):
    """A manifest, and the fleet that it is meant for."""

    tenant: str
    manifest: Mapping[str, Any]


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("apply", rich_help_panel=WRITE)(apply)


@connected
def apply(
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
        bool, typer.Option("--wait", help="Until the fleet is complete, before the next one; --tenants always does.")
    ] = False,
    timeout: TimeoutOption = "15m",
    reason: ReasonOption = "",
    connection: Connection,
) -> None:
    """Create fleets, or change what they should be.

    All manifests are checked before the first is written; what is wrong is told line by line, and nothing is done then
    (exit code 2). Replicas and paused, when the manifest leaves them out, stay as they are; requests to a rollout are
    made by promote, abort and resume alone. A note tells which variables of the template hosts would not pass.

    Exit codes with --wait and --tenants: 0 all are complete; 1 one failed, or stands still; 3 the time (of each fleet)
    is over. The fleets behind are not touched then.
    """
    from wharfinger.cli import connect
    from wharfinger.cli.fleet_wait import seconds_of, wait_for
    from wharfinger.client.fleet_goals import Goal

    seconds_of(timeout)
    wanted = _wanted(files, tenants)
    notes = connect.run(_check(connection, wanted))
    for number, one in enumerate(wanted):
        changed = connect.run(_apply(connection, one, reason))
        typer.echo(f"schedulerfleet/{one.tenant} {changed.result}")
        if (note := notes[number]) and note not in notes[:number]:  # a wave's are all alike
            typer.echo(plain(note), err=True)
        if not wait and tenants is None:
            continue
        try:
            wait_for(connection, one.tenant, Goal.COMPLETE, timeout)
        except typer.Exit:
            behind = ", ".join(later.tenant for later in wanted[number + 1 :])
            if behind:
                typer.echo(f"stopped: not applied to {behind}", err=True)
            raise


def _wanted(files: Sequence[str], tenants: str | None) -> list[Wanted]:
    """Which fleets are to be made what. Raises `UsageError`, `InvalidConfiguration`."""
    found: list[Wanted] = []
    problems: list[str] = []
    entries = load(files, "default")
    for entry in entries:
        if entry.about is None or entry.obj is None:
            problems.append(f"{entry.source}: {entry.problem}")
        elif entry.about.kind is not FLEET:
            raise UsageError(f"{entry.about} in {entry.source} is no fleet: use `wharfinger apply`")
        else:
            found.append(Wanted(entry.about.name, entry.obj))
    if problems:
        raise InvalidConfiguration([*problems, *(problem for entry in entries for problem in _beside_the_name(entry))])
    if not found:
        raise UsageError("no fleet found")
    if tenants is None:
        return _each_once(found)
    if len(found) != 1:
        raise UsageError(f"--tenants is for one manifest, not for {len(found)}")
    manifest = found[0].manifest
    names = [check_tenant(name.strip()) for name in tenants.split(",")]
    return _each_once(
        [Wanted(name, {**manifest, "metadata": {**manifest["metadata"], "name": name}}) for name in names]
    )


def _beside_the_name(entry: Manifest) -> Iterator[str]:
    """What is wrong with a fleet's manifest whatever it is called: a bad name, of any of them, hides it no longer."""
    from wharfinger.cli.fleet_files import applied
    from wharfinger.client.fleet_templates import known_plugins
    from wharfinger.config.fleet import read_fleet

    if entry.obj is None or entry.obj.get("kind") != FLEET.name or not isinstance(entry.obj.get("metadata"), Mapping):
        return
    about = f"fleet {str(entry.obj['metadata'].get('name'))[:80]}"
    manifest = {**entry.obj, "metadata": {**entry.obj["metadata"], "name": COMMON}}
    try:
        read_fleet(applied(manifest, {}, COMMON), known_plugins(), name=COMMON)
    except InvalidConfiguration as error:
        yield from (f"{about}: {problem}" for problem in error.problems)
    except InvalidObject as error:
        yield f"{about}: {error}"


def _each_once(wanted: list[Wanted]) -> list[Wanted]:
    names = [one.tenant for one in wanted]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"named more than once: {', '.join(twice)}")
    return wanted


async def _check(connection: Connection, wanted: Sequence[Wanted]) -> list[str]:
    """Raise all that is wrong, before anything is written; answers what is to be noted of each, perhaps nothing."""
    from wharfinger.cli.connect import open_store
    from wharfinger.client.fleet_changes import checked
    from wharfinger.client.fleet_templates import known_plugins
    from wharfinger.client.fleet_variables import note_on

    catalog = known_plugins()
    problems: list[str] = []
    async with open_store(connection) as store:
        for one in wanted:
            prefix = f"fleet {one.tenant}: " if len(wanted) > 1 else ""
            try:
                await checked(store, one.tenant, one.manifest, catalog=catalog)
            except InvalidConfiguration as error:
                problems += [f"{prefix}{problem}" for problem in error.problems]
            except InvalidObject as error:
                problems.append(f"{prefix}{error}")
        if problems:
            raise InvalidConfiguration(problems)
        return [await note_on(store, one.manifest) for one in wanted]


async def _apply(connection: Connection, one: Wanted, reason: str) -> Changed:
    from wharfinger.cli.connect import open_store
    from wharfinger.client.fleet_changes import apply as lay_over
    from wharfinger.client.fleet_changes import author
    from wharfinger.client.fleet_templates import known_plugins

    async with open_store(connection) as store:
        return await lay_over(store, one.tenant, one.manifest, author(reason), catalog=known_plugins())
