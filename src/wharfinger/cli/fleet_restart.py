"""`wharfinger fleet restart`: replace every instance by one that is made alike."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption
from wharfinger.cli.options import Connection, connected

if TYPE_CHECKING:
    from wharfinger.client.fleet_changes import Standing


def register(group: typer.Typer) -> None:
    """Add the command."""
    group.command("restart", rich_help_panel=WRITE)(restart)


@connected
def restart(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Replace every instance, by a rollout like any other: the template's restartedAt is changed."""
    from wharfinger.cli import connect
    from wharfinger.cli.fleet_options import change_here

    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def edit(spec: dict[str, Any], _: Standing) -> None:
        spec["template"] = {**(spec.get("template") or {}), "restartedAt": now}

    connect.run(change_here(connection, fleet, edit, reason))
    typer.echo(f"schedulerfleet/{fleet} restarts")
