"""`wharfinger fleet wait`: for scripts, until a fleet is as they need it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.waiting import say_waiting, tell_verdict
from wharfinger.fleet.cli.fleets import FleetArgument
from wharfinger.fleet.reading.fleet_goals import Goal

if TYPE_CHECKING:
    from wharfinger.etcd.store import Store

TIMED_OUT = 3


@configured
async def wait(
    fleet: FleetArgument,
    *,
    goal: Annotated[
        Goal, typer.Option("--for", help="complete, ready, paused or deleted.", metavar="GOAL")
    ] = Goal.COMPLETE,
    timeout: Annotated[
        str, typer.Option("--timeout", help="How long: 90s, 5m, 1h; a bare number is seconds.", metavar="DURATION")
    ] = "5m",
    connection: ConnectionOptions,
) -> None:
    """Wait until a fleet has reached a goal.

    - complete: the template as it is now runs in every slot (or as far as the partition allows).
    - ready: every slot has an instance that serves, of any revision.
    - paused: the rollout stands still: by `paused`, by its deadline, by failed slots, or because the canary waits for
      promote.
    - deleted: nothing is left of the fleet, or there never was one.

    Exit codes: 0 reached; 1 cannot be reached any more, or the command failed; 2 used wrongly; 3 not reached within
    --timeout, also when etcd could not be reached. Standard error shows what is waited for.

    No goal but deleted can be reached when the fleet is deleted or does not exist. complete and paused cannot when the
    spec is invalid; complete cannot when the rollout failed, was aborted, or stands still by its deadline or by failed
    slots; paused cannot when the rollout is over.
    """
    await wait_for(connection, fleet, goal, timeout)


async def wait_for(connection: ConnectionOptions, fleet: str, goal: Goal, timeout: str) -> None:
    """Wait, and print the outcome; returns when it is so, else raises `typer.Exit` with the code of `wait`."""
    from wharfinger.cli.connect import FIRST_ANSWER, open_store
    from wharfinger.fleet.reading import fleet_goals
    from wharfinger.fleet.reading.fleet_templates import Names, known_plugins

    def opening(within: float) -> AbstractAsyncContextManager[Store]:
        return open_store(connection, within=min(within, FIRST_ANSWER))

    name, seconds = Names(known_plugins()), seconds_of(timeout)
    verdict = await fleet_goals.wait(opening, fleet, goal, seconds, name=name, say=say_waiting)
    tell_verdict(f"fleet {fleet}", goal, verdict, _with_unit(timeout), late=TIMED_OUT)


def seconds_of(timeout: str) -> float:
    """A time to wait; raises `UsageError`, for a command to find before it changes anything."""
    from wharfinger.cli.processes import process_options

    return process_options.duration_of(_with_unit(timeout)).total_seconds()


def _with_unit(timeout: str) -> str:
    """A bare number is one of seconds."""
    return f"{timeout}s" if timeout.isdecimal() else timeout
