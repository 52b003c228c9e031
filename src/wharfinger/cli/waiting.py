"""What commands that wait for a goal print: what they wait for, and how the wait ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from wharfinger.cli.output import plain

if TYPE_CHECKING:
    from wharfinger.process.waiting import Verdict


def say_waiting(what: str) -> None:
    """Print to standard error what is waited for."""
    typer.echo(plain(f"waits: {what}"), err=True)


def tell_verdict(about: str, goal: str, verdict: Verdict, after: str, *, late: int = 1) -> None:
    """Print how a wait ended; raises `typer.Exit` unless the goal is reached.

    `after`: how long it could take. `late`: the exit code when that is over; it is 1 when the goal cannot be reached.
    """
    if verdict.reached:
        typer.echo(plain(f"{about} is {goal}: {verdict.why}"))
        return
    failed = verdict.kind == "failed"
    when = f"will not be {goal}" if failed else f"is not {goal} after {after}"
    typer.echo(plain(f"error: {about} {when}: {verdict.why}"), err=True)
    raise typer.Exit(1 if failed else late)
