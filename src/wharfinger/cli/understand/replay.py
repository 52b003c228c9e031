"""`wharfinger replay`: what recorded decisions would have been under another configuration; nothing is changed."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wharfinger.cli.options import UNDERSTAND, ConnectionOptions, connected
from wharfinger.cli.output import Output, OutputOption, show
from wharfinger.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from wharfinger.replaying.changes import ProfileChange
    from wharfinger.replaying.kept import KeptStates
    from wharfinger.replaying.recorded import Unit
    from wharfinger.replaying.report import Report
    from wharfinger.replaying.rerun_report import RerunReport
    from wharfinger.replaying.spool import Spool

    AnyReport = Report | RerunReport

FAILED = 1
"""Exit code when a condition of --fail-on holds."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("replay", rich_help_panel=UNDERSTAND)(replay)


class Mode(StrEnum):
    """How decisions follow from each other."""

    SHADOW = "shadow"
    RERUN = "rerun"


@connected
def replay(
    *,
    mode: Annotated[
        Mode,
        typer.Option(
            help="shadow: each decision on the state that it then had. rerun: the span again, with all consequences."
        ),
    ] = Mode.SHADOW,
    since: Annotated[
        str, typer.Option(help="From when on decisions are made again: so long ago (30m, 24h, 7d), or a time.")
    ] = "24h",
    until: Annotated[str | None, typer.Option(help="Up to when; else up to now.", metavar="TIME")] = None,
    config: Annotated[
        Path | None, typer.Option(help="Decide by this KubeSchedulerConfiguration instead.", metavar="FILE")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="Decide with another weight or argument of a plugin: PLUGIN.weight=N, PLUGIN.<argument>=VALUE.",
            metavar="FIELD=VALUE",
        ),
    ] = None,
    plugins: Annotated[
        list[str] | None,
        typer.Option("--plugin", help="Decide with this plugin beside the others.", metavar="MODULE:NAME"),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-on", help="End with exit code 1 if this holds, such as 'refused > 0'.", metavar="CONDITION"
        ),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(help="Replay what `wharfinger archive` wrote, all of it, without any server.", metavar="FILE"),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(help="Write the report as one HTML file with plots, too: it opens anywhere.", metavar="FILE"),
    ] = None,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Make recorded decisions again, each on the state that it then had, and compare them.

    Without a change this checks the record: the same code and configuration decide the same, to the letter. With
    --config, --set or --plugin it shows what a change would have done. Reads Temporal's histories and etcd's revisions:
    it goes back as far as both are kept, or as an --archive does. No extender is called, and no plugin's Reserve,
    Permit or Bind.

    Exit codes: 0 done, 1 a condition of --fail-on holds (or the command failed), 2 used wrongly. -o json: since, until,
    seconds, runs, revision, change, decisions, summary, sameShare, differs, unreplayable, profiles, workloads, reasons,
    packing, packingOverTime, pods, builds, gaps. With --mode rerun: mode, change, decisions, summary, evictions,
    evictionCount, stopped, overTime, pods, since, until, seconds, runs, revision, gaps.
    """
    from wharfinger.cli import connect
    from wharfinger.cli.understand.replayed import tell, tell_rerun
    from wharfinger.replaying.conditions import FailCondition

    conditions = [FailCondition.parse(text) for text in fail_on or ()]
    now = datetime.now(UTC)
    began, ended = moment(since, now), moment(until, now) if until else None
    if ended is not None and ended <= began:
        raise UsageError(f"--until {until} is not after --since {since}")
    if mode is Mode.RERUN and html is not None:
        raise UsageError("--html is for --mode shadow")
    change = _change(config, settings or (), plugins or ())
    replaying = (
        _replayed(connection, change, (began, ended), mode)
        if archive is None
        else _from_archive(archive, connection, change, mode)
    )
    report, more = connect.run(replaying)
    plain = more | report.to_plain()
    if html is not None:
        _write(html, plain)
    if output is Output.TABLE:
        typer.echo(tell_rerun(plain) if mode is Mode.RERUN else tell(plain))
    else:
        show(plain, output)
    failed = [condition.text for condition in conditions if condition.holds(report)]
    for text in failed:
        typer.echo(f"failed: {text}", err=True)
    if failed:
        raise typer.Exit(FAILED)


def _write(file: Path, plain: dict[str, Any]) -> None:
    from wharfinger.replaying.html_report import page

    try:
        file.write_text(page(plain), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


def moment(text: str, now: datetime) -> datetime:
    """A time, or so long ago. Raises `UsageError`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if found is not None:
        return now - timedelta(seconds=float(found[1]) * _UNITS[found[2]])
    try:
        given = datetime.fromisoformat(text.strip())
    except ValueError:
        raise UsageError(
            f"{text!r} is no time: give a duration (30m, 24h, 7d), or such as 2026-03-01T12:00:00Z"
        ) from None
    return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


def _change(config: Path | None, settings: list[str] | tuple[()], plugins: list[str] | tuple[()]) -> ProfileChange:
    from wharfinger.replaying.changes import ProfileChange, Setting, plugin_of

    told = [f"configuration {config}"] if config is not None else []
    change = ProfileChange(
        configuration=config,
        settings=tuple(map(Setting.parse, settings)),
        plugins=tuple(map(plugin_of, plugins)),
        told=(*told, *settings, *(f"plugin {name}" for name in plugins)),
    )
    change.check()
    return change


async def _replayed(
    connection: ConnectionOptions, change: ProfileChange, span: tuple[datetime, datetime | None], mode: Mode
) -> tuple[AnyReport, dict[str, Any]]:
    from wharfinger.cli.connect import open_store, open_temporal
    from wharfinger.cli.understand.supposed import progress
    from wharfinger.replaying.histories import read_runs, span_query
    from wharfinger.replaying.recorded import units
    from wharfinger.replaying.spool import Spool

    began, (since, until) = time.perf_counter(), span
    spool = Spool()
    found: list[Unit] = []
    try:
        async with open_store(connection) as store:
            client = await open_temporal(connection)
            with progress("reading histories", 0) as advance:
                query = span_query(connection.cluster, since, until)
                async for run in read_runs(client, query, progress=advance):
                    found += units(run, spool.add(run))
            decide = _lived_again if mode is Mode.RERUN else _decided_again
            report, more = await decide([(store, found)], spool, connection, change, connection.cluster)
        told = {"since": since.isoformat(), "until": until.isoformat() if until is not None else None}
        return report, told | {"seconds": round(time.perf_counter() - began, 1), "gaps": []} | more
    finally:
        spool.close()


async def _from_archive(
    file: Path, connection: ConnectionOptions, change: ProfileChange, mode: Mode
) -> tuple[AnyReport, dict[str, Any]]:
    from wharfinger.cli.understand.supposed import progress
    from wharfinger.replaying.archived import Archive
    from wharfinger.replaying.recorded import units
    from wharfinger.replaying.spool import Spool

    began = time.perf_counter()
    spool = Spool()
    found: list[Unit] = []
    try:
        try:
            archive = Archive.open(file)
            with progress("reading the archive", 0) as advance:
                for number, run in enumerate(archive.runs(), start=1):
                    found += units(run, spool.add(run))
                    advance(number, 0)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
        parts = list(archive.split(sorted(found)))
        decide = _lived_again if mode is Mode.RERUN else _decided_again
        report, more = await decide(parts, spool, connection, change, archive.cluster)
        gaps = [{"after": after, "before": before} for after, before in archive.gaps]
        span = {"since": None, "until": None, "gaps": gaps}
        return report, span | {"seconds": round(time.perf_counter() - began, 1)} | more
    finally:
        spool.close()


async def _lived_again(
    parts: Sequence[tuple[KeptStates, list[Unit]]],
    spool: Spool,
    _connection: ConnectionOptions,
    change: ProfileChange,
    _cluster: str,
) -> tuple[AnyReport, dict[str, Any]]:
    """The last part: nothing can be lived across a gap."""
    from wharfinger.cli.understand.supposed import progress
    from wharfinger.replaying.rerun_report import RerunReport
    from wharfinger.replaying.reruns import rerun
    from wharfinger.replaying.unreplayable import Unreplayable

    logging.getLogger("wharfinger").setLevel(logging.ERROR)
    if not parts:
        return RerunReport(change.told), {"runs": len(spool), "revision": 0}
    store, found = parts[-1]
    try:
        with progress("living again", 0) as advance:
            report = await rerun(store, spool, sorted(found), replace(change, format_=store.format), advance)
    except Unreplayable as error:
        raise ConfigurationError(error.detail) from error
    first = report.moments[0].revision if report.moments else 0
    return report, {"runs": len(spool), "revision": first}


async def _decided_again(
    parts: Sequence[tuple[KeptStates, list[Unit]]],
    spool: Spool,
    connection: ConnectionOptions,
    change: ProfileChange,
    cluster: str,
) -> tuple[AnyReport, dict[str, Any]]:
    """Each part with the states that it is decided on."""
    from wharfinger.cli.understand.supposed import progress
    from wharfinger.engine.transactions import Limits
    from wharfinger.replaying.builds import read_builds
    from wharfinger.replaying.report import Report
    from wharfinger.replaying.shadow import Shadow

    # What workers said of objects that cannot be read they have said then; it is no news, and would be said again.
    logging.getLogger("wharfinger").setLevel(logging.ERROR)
    report, first = Report(change.told), 0
    limits = Limits(connection.etcd.max_txn_ops, connection.etcd.max_txn_bytes)
    for store, found in parts:
        shadow = Shadow(store, spool, sorted(found), replace(change, format_=store.format), cluster, limits)
        with progress("deciding again", sum(unit.decisions for unit in found)) as advance:
            await shadow.run(report.add, advance)
        first = first or shadow.first_revision
    builds = await read_builds(parts[-1][0], report.software) if parts else []
    return report, {"runs": len(spool), "revision": first, "builds": builds}
