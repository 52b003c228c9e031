"""What `replay` does once it knows what is asked: reads runs from the servers or an archive, and decides them again.

`replay` has the options and what is printed; the package `wharfinger.replay` decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import typer

from wharfinger.cli.connect import open_temporal
from wharfinger.cli.options import ConnectionOptions
from wharfinger.cli.output import progress
from wharfinger.errors import ConfigurationError, UsageError
from wharfinger.etcd import keys
from wharfinger.process.records import SoftwareRecord
from wharfinger.replay.archive.archived import Archive
from wharfinger.replay.archive.spool import Spool
from wharfinger.replay.changes import ProfileChange
from wharfinger.replay.cli.replay import written
from wharfinger.replay.facts import KeptStates, recorded_configurations
from wharfinger.replay.histories import UnreadRun, read_runs, span_query
from wharfinger.replay.memory_limit import MemoryLimit
from wharfinger.replay.recorded import Unit, Unreplayable
from wharfinger.replay.report.report import ReplayTally, Report
from wharfinger.replay.report.rerun_report import RerunReport
from wharfinger.replay.reruns import rerun
from wharfinger.replay.shadow import Shadow
from wharfinger.scheduling.reading.remaking import limits_of

Decided = tuple[ReplayTally, dict[str, Any]]


async def replayed(
    connection: ConnectionOptions,
    change: ProfileChange,
    span: tuple[datetime, datetime | None],
    memory: MemoryLimit,
    *,
    lives: bool,
) -> Decided:
    """The report of what the servers recorded, and what else is told of it. `lives`: as a rerun."""
    began, (since, until) = time.perf_counter(), span
    unread: list[UnreadRun] = []
    with closing(Spool(memory)) as spool:
        async with connection.store() as store:
            if not change.nothing:  # one that is at fault would only be found decision by decision
                replace(change, format_=store.format).check_with(await recorded_configurations(store))
            client = await open_temporal(connection)
            with progress("reading histories", 0) as advance:
                query = span_query(connection.cluster, since, until)
                async for run in read_runs(client, query, memory=memory, progress=advance):
                    if isinstance(run, UnreadRun):
                        unread.append(run)
                    else:
                        spool.add(run)
            if not len(spool):
                text = f"cluster {connection.cluster} has no recorded decisions of this span in Temporal"
                typer.echo(f"{text}: give an earlier --since, another --cluster, or an --archive", err=True)
            decide = _decider(span, lives=lives)
            report, more = await decide([(store, spool.units())], spool, connection, change, connection.cluster)
        lost = [run for run in unread if run.lack != "undecided"]
        if isinstance(report, Report):
            for (workflow_id, run_id), _, why in lost:
                report.unread(f"{workflow_id}@{run_id}", why)
        told = {"cluster": connection.cluster, "gaps": [], "lost": 0} | _told(span)
        told |= {"undecided": len(unread) - len(lost), "unread": len(lost)}
        return report, told | {"seconds": round(time.perf_counter() - began, 1)} | more


def _told(span: tuple[datetime | None, datetime | None]) -> dict[str, Any]:
    since, until = (written(one) if one is not None else None for one in span)
    return {"since": since, "until": until}


async def from_archive(
    file: Path,
    connection: ConnectionOptions,
    change: ProfileChange,
    span: tuple[datetime | None, datetime | None],
    *,
    memory: MemoryLimit,
    lives: bool,
) -> Decided:
    """The same of an archive."""
    began = time.perf_counter()
    with closing(Spool(memory)) as spool:
        try:
            with progress("reading the archive", 0) as advance:
                archive = Archive.open(file, memory)
                replace(change, format_=archive.format).check_with(archive.configurations())
                since, until = (one.timestamp() if one is not None else None for one in span)
                archive.read_into(spool, since=since or 0.0, until=inf if until is None else until, progress=advance)
        except OSError as error:
            raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
        parts = list(archive.split(spool.units()))
        decide = _decider(span, lives=lives)
        report, more = await decide(parts, spool, connection, change, archive.cluster)
        told = {"gaps": [gap._asdict() for gap in archive.gaps], "lost": archive.lost, "cluster": archive.cluster}
        told |= {"undecided": 0, "unread": 0}
        if not len(spool):
            typer.echo(f"{file}: {_what_it_has(archive)}", err=True)
        if archive.uncounted:
            text = f"{file}: {archive.uncounted:,} bytes behind the last complete pass do not count"
            typer.echo(text, err=True)
        return report, told | _told(span) | {"seconds": round(time.perf_counter() - began, 1)} | more


def _what_it_has(archive: Archive) -> str:
    if archive.began is None:
        return "no run is in it: nothing was decided while it was written"
    first, last = (written(datetime.fromtimestamp(one, UTC)) for one in archive.began)
    return f"no run in it began in this span; those that it has began from {first} to {last}"


def _decider(span: tuple[datetime | None, datetime | None], *, lives: bool) -> Callable[..., Awaitable[Decided]]:
    """A rerun of a span that has an end lives until its last decision, else until now."""
    return partial(_lived_again, ends=span[1] is not None) if lives else _decided_again


async def _lived_again(
    parts: Sequence[tuple[KeptStates, Sequence[Unit]]],
    spool: Spool,
    _connection: ConnectionOptions,
    change: ProfileChange,
    cluster: str,
    *,
    ends: bool = False,
) -> Decided:
    """The last part that has decisions: nothing can be lived across a gap. `ends`: with the last of them."""
    logging.getLogger("wharfinger").setLevel(logging.ERROR)
    some = [(store, found) for store, found in parts if found]
    if not some:
        return RerunReport(change.told), {"runs": len(spool), "revision": 0}
    store, found = some[-1]
    try:
        with progress("living again", 0) as advance:
            again = replace(change, format_=store.format)
            report = await rerun(store, spool, found, again, advance, memory=spool.memory, cluster=cluster, ends=ends)
    except Unreplayable as error:
        raise ConfigurationError(error.detail) from error
    first = report.moments[0].revision if report.moments else 0
    return report, {"runs": len(spool), "revision": first}


async def _decided_again(
    parts: Sequence[tuple[KeptStates, Sequence[Unit]]],
    spool: Spool,
    connection: ConnectionOptions,
    change: ProfileChange,
    cluster: str,
) -> Decided:
    """Each part with the states that it is decided on."""
    # What workers said of objects that cannot be read they have said then; it is no news, and would be said again.
    logging.getLogger("wharfinger").setLevel(logging.ERROR)
    report, first = Report(change.told), 0
    limits = limits_of(connection.etcd)
    for store, found in parts:
        again = replace(change, format_=store.format)
        shadow = Shadow(store, spool, found, again, cluster, limits, memory=spool.memory)
        with progress("deciding again", sum(unit.decisions for unit in found)) as advance:
            await shadow.run(report.add, advance)
        first = first or shadow.first_revision
    builds = await read_builds(parts[-1][0], report.software) if parts else []
    return report, {"runs": len(spool), "revision": first, "builds": builds}


async def read_builds(store: KeptStates, decisions: Mapping[str, int]) -> list[dict[str, Any]]:
    """By digest (empty = of an earlier release), the most decisions first. Raises `StoreError`."""
    found = []
    for digest, count in sorted(decisions.items(), key=lambda entry: -entry[1]):
        read = await store.get(keys.software(digest)) if digest else None
        record = SoftwareRecord.from_bytes(read.kv and read.kv.value) if read is not None else None
        found.append(
            {
                "digest": digest,
                "build": record.build if record is not None else "",
                "packages": dict(record.packages) if record is not None else {},
                "decisions": count,
            }
        )
    return found
