"""What `replay` does once it knows what is asked: reads runs from the servers or an archive, and decides them again.

`replay` has the options and what is printed; the package `wharfinger.replay` decides.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
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


@dataclass(frozen=True, slots=True)
class RunsAsked:
    """Which runs are decided again, and how."""

    connection: ConnectionOptions
    change: ProfileChange
    since: datetime | None
    """None = from the beginning of an archive."""
    until: datetime | None
    """None = up to now."""
    memory: MemoryLimit
    lives: bool
    """As a rerun. One of a span that has an end lives until its last decision, else until now."""
    archive: Path | None = None
    """None = from the servers."""


async def replayed(asked: RunsAsked) -> Decided:
    """The report of what was recorded, and what else is told of it."""
    began = time.perf_counter()
    since, until = (written(one) if one is not None else None for one in (asked.since, asked.until))
    with closing(Spool(asked.memory)) as spool:
        reading = _of_servers(asked, spool) if asked.archive is None else _of_archive(asked, asked.archive, spool)
        report, more = await reading
        told = {"since": since, "until": until, "seconds": round(time.perf_counter() - began, 1), "runs": len(spool)}
        return report, told | more


async def _of_servers(asked: RunsAsked, spool: Spool) -> Decided:
    change, cluster = asked.change, asked.connection.cluster
    assert asked.since is not None, "only an archive has a beginning"
    unread: list[UnreadRun] = []
    async with asked.connection.store() as store:
        if not change.nothing:  # one that is at fault would only be found decision by decision
            replace(change, format_=store.format).check_with(await recorded_configurations(store))
        client = await open_temporal(asked.connection)
        with progress("reading histories", 0) as advance:
            query = span_query(cluster, asked.since, asked.until)
            async for run in read_runs(client, query, memory=asked.memory, progress=advance):
                if isinstance(run, UnreadRun):
                    unread.append(run)
                else:
                    spool.add(run)
        if not len(spool):
            text = f"cluster {cluster} has no recorded decisions of this span in Temporal"
            typer.echo(f"{text}: give an earlier --since, another --cluster, or an --archive", err=True)
        report, more = await _decided(asked, [(store, spool.units())], spool, cluster)
    lost = [run for run in unread if run.lack != "undecided"]
    if isinstance(report, Report):
        for (workflow_id, run_id), _, why in lost:
            report.unread(f"{workflow_id}@{run_id}", why)
    told = {"cluster": cluster, "gaps": [], "lost": 0, "undecided": len(unread) - len(lost), "unread": len(lost)}
    return report, told | more


async def _of_archive(asked: RunsAsked, file: Path, spool: Spool) -> Decided:
    try:
        with progress("reading the archive", 0) as advance:
            archive = Archive.open(file, asked.memory)
            replace(asked.change, format_=archive.format).check_with(archive.configurations())
            since = asked.since.timestamp() if asked.since is not None else 0.0
            until = asked.until.timestamp() if asked.until is not None else inf
            archive.read_into(spool, since=since, until=until, progress=advance)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from error
    report, more = await _decided(asked, list(archive.split(spool.units())), spool, archive.cluster)
    told = {"cluster": archive.cluster, "gaps": [gap._asdict() for gap in archive.gaps], "lost": archive.lost}
    if not len(spool):
        typer.echo(f"{file}: {_what_it_has(archive)}", err=True)
    if archive.uncounted:
        typer.echo(f"{file}: {archive.uncounted:,} bytes behind the last complete pass do not count", err=True)
    return report, told | {"undecided": 0, "unread": 0} | more


def _what_it_has(archive: Archive) -> str:
    if archive.began is None:
        return "no run is in it: nothing was decided while it was written"
    first, last = (written(datetime.fromtimestamp(one, UTC)) for one in archive.began)
    return f"no run in it began in this span; those that it has began from {first} to {last}"


Parts = Sequence[tuple[KeptStates, Sequence[Unit]]]
"""Each with the states that it is decided on."""


async def _decided(asked: RunsAsked, parts: Parts, spool: Spool, cluster: str) -> Decided:
    # What workers said of objects that cannot be read they have said then; it is no news, and would be said again.
    logging.getLogger("wharfinger").setLevel(logging.ERROR)
    return await (_lived_again if asked.lives else _decided_again)(asked, parts, spool, cluster)


async def _lived_again(asked: RunsAsked, parts: Parts, spool: Spool, cluster: str) -> Decided:
    """The last part that has decisions: nothing can be lived across a gap."""
    some = [(store, found) for store, found in parts if found]
    if not some:
        return RerunReport(asked.change.told), {"revision": 0}
    store, found = some[-1]
    ends = asked.until is not None
    try:
        with progress("living again", 0) as advance:
            again = replace(asked.change, format_=store.format)
            report = await rerun(store, spool, found, again, advance, memory=spool.memory, cluster=cluster, ends=ends)
    except Unreplayable as error:
        raise ConfigurationError(error.detail) from error
    return report, {"revision": report.moments[0].revision if report.moments else 0}


async def _decided_again(asked: RunsAsked, parts: Parts, spool: Spool, cluster: str) -> Decided:
    report, first = Report(asked.change.told), 0
    limits = limits_of(asked.connection.etcd)
    for store, found in parts:
        again = replace(asked.change, format_=store.format)
        shadow = Shadow(store, spool, found, again, cluster, limits, memory=spool.memory)
        with progress("deciding again", sum(unit.decisions for unit in found)) as advance:
            await shadow.run(report.add, advance)
        first = first or shadow.first_revision
    builds = await read_builds(parts[-1][0], report.software) if parts else []
    return report, {"revision": first, "builds": builds}


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
