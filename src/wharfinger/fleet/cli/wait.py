"""`wharfinger fleet wait`: for scripts, until a fleet is as they need it."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import plain
from wharfinger.errors import Unavailable
from wharfinger.fleet.cli.fleets import FleetArgument
from wharfinger.fleet.reading.fleet_goals import Goal

if TYPE_CHECKING:
    from wharfinger.etcd.store import Store
    from wharfinger.fleet.reading.fleet_goals import Verdict

FAILED = 1
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
    verdict = await _wait(connection, fleet, goal, seconds_of(timeout))
    if verdict.kind == "reached":
        typer.echo(plain(f"fleet {fleet} is {goal.value}: {verdict.why}"))
        return
    if verdict.kind == "failed":
        typer.echo(plain(f"error: fleet {fleet} will not be {goal.value}: {verdict.why}"), err=True)
        raise typer.Exit(FAILED)
    typer.echo(plain(f"error: fleet {fleet} is not {goal.value} after {_with_unit(timeout)}: {verdict.why}"), err=True)
    raise typer.Exit(TIMED_OUT)


def seconds_of(timeout: str) -> float:
    """A time to wait; raises `UsageError`, for a command to find before it changes anything."""
    from wharfinger.cli.processes import process_options

    return process_options.duration_of(_with_unit(timeout)).total_seconds()


def _with_unit(timeout: str) -> str:
    """A bare number is one of seconds."""
    return f"{timeout}s" if timeout.isdecimal() else timeout


async def _wait(connection: ConnectionOptions, tenant: str, goal: Goal, seconds: float) -> Verdict:
    from wharfinger.fleet.reading.fleet_goals import Verdict
    from wharfinger.fleet.reading.fleets import Fleets

    deadline = time.monotonic() + seconds
    async with AsyncExitStack() as opened:
        try:
            store = await _reached(opened, connection, deadline)
        except Unavailable as error:
            return Verdict("waiting", str(error))
        left = max(deadline - time.monotonic(), 0.0)
        return await Fleets(store).wait(tenant, goal, timeout=left, say=_say)


async def _reached(opened: AsyncExitStack, connection: ConnectionOptions, deadline: float) -> Store:
    """The store, as soon as etcd answers; why it does not is said once.

    Raises `Unavailable` when it has not until the deadline.
    """
    from wharfinger.cli.connect import FIRST_ANSWER, open_store
    from wharfinger.fleet.reading.fleet_goals import LAST_LOOK, TRY_AGAIN

    said = False
    while True:
        within = min(max(deadline - time.monotonic(), LAST_LOOK), FIRST_ANSWER)
        try:
            return await opened.enter_async_context(open_store(connection, within=within))
        except Unavailable as error:
            if (left := deadline - time.monotonic()) <= 0:
                raise
            if not said:
                said = True
                _say(str(error))
            await asyncio.sleep(min(left, TRY_AGAIN))


def _say(what: str) -> None:
    typer.echo(plain(f"waits: {what}"), err=True)
