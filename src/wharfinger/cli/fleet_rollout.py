"""`wharfinger fleet pause`, `resume`, `promote` and `abort`: what becomes of a rollout.

Promote, abort and resume name the rollout that is open, by its generation, so that none of them can hit the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from wharfinger.cli.fleet import WRITE
from wharfinger.cli.fleet_options import FleetArgument, ReasonOption
from wharfinger.cli.options import Connection, connected
from wharfinger.errors import WharfingerError
from wharfinger.model.fleet import RolloutAction

if TYPE_CHECKING:
    from wharfinger.client.fleet_changes import Edit, Standing


def register(group: typer.Typer) -> None:
    """Add the commands."""
    for command in (pause, resume, promote, abort):
        group.command(command.__name__, rich_help_panel=WRITE)(command)


@connected
def pause(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Stop updating a fleet where it is.

    Steps that were begun are finished, within the instance's own deadline. Crashed instances return and scaling goes
    on; the progress deadline does not run.
    """

    def edit(spec: dict[str, Any], _: Standing) -> None:
        if spec.get("paused") is not True:
            spec["paused"] = True

    _run(connection, fleet, edit, reason, "paused")


@connected
def resume(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Go on with a rollout that was paused, or that stands still because its deadline passed.

    The progress deadline begins anew. Refused when there is nothing to go on with, or a newer template was not looked
    at yet.
    """

    def edit(spec: dict[str, Any], standing: Standing) -> bool:
        paused = spec.pop("paused", False)
        if standing.rollout and (standing.template_seen or not paused):
            return _ask(spec, standing, "resume")
        if not paused:
            raise _nothing_open(fleet, "resume", standing)
        return False

    _run(connection, fleet, edit, reason, "resumed")


@connected
def promote(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """Let a rollout go on from its canary to all slots.

    Refused when no rollout is open, a newer template was not looked at yet, or the strategy has no canary.
    """

    def edit(spec: dict[str, Any], standing: Standing) -> bool:
        if not standing.rollout:
            raise _nothing_open(fleet, "promote", standing)
        if not _canary(spec):
            raise WharfingerError(f"the strategy of fleet {fleet} has no canary: there is nothing to promote")
        return _ask(spec, standing, "promote")

    _run(connection, fleet, edit, reason, "promoted")


@connected
def abort(fleet: FleetArgument, *, reason: ReasonOption = "", connection: Connection) -> None:
    """End a rollout where it is: nothing more is updated, updated slots stay so.

    Use `fleet undo` to go back. Refused when no rollout is open, or a newer template was not looked at yet.
    """

    def edit(spec: dict[str, Any], standing: Standing) -> bool:
        if not standing.rollout:
            raise _nothing_open(fleet, "abort", standing)
        return _ask(spec, standing, "abort")

    _run(connection, fleet, edit, reason, "aborted")


def _ask(spec: dict[str, Any], standing: Standing, action: RolloutAction) -> bool:
    """Put the request; whether it is one that was followed already, and is made again.

    Raises `WharfingerError` when it would be lost: the rollout takes up a newer template first, and asks nothing of
    whoever wrote before it knew that one.
    """
    if not standing.template_seen:
        raise WharfingerError(
            f"the fleet's latest template was not looked at yet, and to {action} would mean the one before: try again "
            "in a moment; `fleet pause` and `fleet undo` work at once"
        )
    wanted = {"generation": standing.rollout, "action": action}
    earlier = spec.get("rollout")
    waits = isinstance(earlier, Mapping) and earlier.get("generation") == standing.rollout and not standing.seen
    if waits and earlier != wanted and action != "abort":
        raise WharfingerError("another request to this rollout was not looked at yet: try again in a moment")
    spec["rollout"] = wanted
    return earlier == wanted and standing.seen


def _run(connection: Connection, fleet: str, edit: Edit, reason: str, done: str) -> None:
    from wharfinger.cli import connect
    from wharfinger.cli.fleet_options import change_here

    changed = connect.run(change_here(connection, fleet, edit, reason))
    typer.echo(f"schedulerfleet/{fleet} {done if changed.written else f'is {done} already'}")


def _nothing_open(fleet: str, action: str, standing: Standing) -> WharfingerError:
    hint = "" if standing.seen else " (its latest change was not looked at yet: try again in a moment)"
    return WharfingerError(f"fleet {fleet} has no open rollout: there is nothing to {action}{hint}")


def _canary(spec: Mapping[str, Any]) -> bool:
    strategy = spec.get("strategy")
    rolling = strategy.get("rollingUpdate") if isinstance(strategy, Mapping) else None
    return isinstance(rolling, Mapping) and bool(rolling.get("canary"))
