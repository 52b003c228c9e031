"""`wharfinger update-run approve`, `stop`, `resume` and `retry`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.output import plain
from wharfinger.placement.cli.update_run_naming import RunArgument, RunNamespaceOption, WhyOption, with_runs


class ApprovalWhen(StrEnum):
    """Which of a stage's approvals."""

    BEFORE = "before"
    AFTER = "after"


def register(group: typer.Typer) -> None:
    """Add the commands."""
    group.command("approve")(approve)
    group.command("stop")(stop)
    group.command("resume")(resume)
    group.command("retry")(retry)


@configured
async def approve(
    run: RunArgument,
    stage: Annotated[str, typer.Argument(help="Name of the stage.", metavar="STAGE")],
    when: Annotated[ApprovalWhen, typer.Argument(help="Whether it may start, or end.", metavar="before|after")],
    *,
    namespace: RunNamespaceOption = "",
    why: WhyOption = "",
    connection: ConnectionOptions,
) -> None:
    """Let a stage start, or end. Refused while the stage does not wait for it."""
    await with_runs(connection, lambda runs: runs.approve(run, stage, when.value, namespace=namespace, why=why))
    typer.echo(plain(f"update run {run}: {stage}.{when} is approved"))


@configured
async def stop(
    run: RunArgument, *, namespace: RunNamespaceOption = "", why: WhyOption = "", connection: ConnectionOptions
) -> None:
    """Start nothing new. Members that were started finish, and a wait keeps what is left of it."""
    changed = await with_runs(connection, lambda runs: runs.stop(run, namespace, why=why))
    typer.echo(f"update run {run} {'is stopped' if changed else 'was stopped already'}")


@configured
async def resume(
    run: RunArgument, *, namespace: RunNamespaceOption = "", why: WhyOption = "", connection: ConnectionOptions
) -> None:
    """Go on with a run that is stopped, or start one that is only planned."""
    changed = await with_runs(connection, lambda runs: runs.resume(run, namespace, why=why))
    typer.echo(f"update run {run} {'goes on' if changed else 'was under way already'}")


@configured
async def retry(
    run: RunArgument, *, namespace: RunNamespaceOption = "", why: WhyOption = "", connection: ConnectionOptions
) -> None:
    """Try failed and skipped members again, by the same plan. A run that has ended goes on."""
    number = await with_runs(connection, lambda runs: runs.retry(run, namespace, why=why))
    typer.echo(f"update run {run} tries again (retry {number})")
