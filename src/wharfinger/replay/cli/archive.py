"""`wharfinger archive`: keeps what replay needs, before compaction and retention take it."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.processes.process_options import ServingChoices
from wharfinger.errors import ServerError, StoreError, UsageError
from wharfinger.options import setting
from wharfinger.replay.cli.replay import USUAL, MemoryLimitOption

if TYPE_CHECKING:
    from temporalio.client import Client

    from wharfinger.etcd.store import Store
    from wharfinger.replay.archive.archive_pass import Passed
    from wharfinger.replay.archive.archiving import ArchiveFile
    from wharfinger.replay.memory_limit import MemoryLimit
    from wharfinger.serving.options import ServingOptions

EVERY = 60.0
"""Seconds between two passes."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ArchiveServing(ServingChoices):
    """Where and how a process that follows serves its pages."""

    metrics_bind_address: str = setting(
        "", "Where a process with --follow serves /metrics, /livez and /readyz. Without: nowhere.", "ADDRESS:PORT"
    )

    def served(self) -> ServingOptions | None:
        """None = nowhere. Raises `UsageError`."""
        address = self.metrics_bind_address
        if not address:
            return None
        host, colon, port = address.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise UsageError(f"--metrics-bind-address takes ADDRESS:PORT, such as 127.0.0.1:10290, not {address!r}")
        return self.at(host.removeprefix("[").removesuffix("]"), int(port))


@configured
def archive(
    file: Annotated[Path, typer.Argument(help="The archive: made, or written on.", metavar="FILE")],
    *,
    since: Annotated[
        str, typer.Option(help="Where a new archive begins: so long ago (30m, 24h, 7d), or a time.")
    ] = "24h",
    follow: Annotated[bool, typer.Option("--follow", help="Write on, once a minute, until it is stopped.")] = False,
    memory_limit: MemoryLimitOption = USUAL,
    serving: ArchiveServing,
    connection: ConnectionOptions,
) -> None:
    """Write recorded decisions, and the states on which they were made, to a file that `replay --archive` reads.

    A file that exists is written on from where it ends; it may have been stopped in any way. What etcd or Temporal no
    longer have by then is missing, and the file shows the gap. The file holds objects as they are stored, so protect
    it as you protect etcd's backups.
    """
    from wharfinger.cli import connect
    from wharfinger.replay.cli.replay import moment
    from wharfinger.replay.memory_limit import MemoryLimit

    now = datetime.now(UTC)
    began = moment(since, now)
    if began > now:
        raise UsageError(f"--since {since} is still to come")
    memory = MemoryLimit.parse(memory_limit)
    served = serving.served()
    if served is not None and not follow:
        raise UsageError("--metrics-bind-address is for --follow")
    if follow:
        from wharfinger.process.logs import quiet_sdk, write_lines

        write_lines("info", serving.logging_format)
        quiet_sdk()
    try:
        with _alone(file):
            connect.run(
                _written(file, connection, began, memory)
                if not follow
                else _followed(file, connection, began, memory, served)
            )
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold the file's lock. A file that is missing is made, for its owner only. Raises `UsageError` while another
    process has it.
    """
    from wharfinger.replay.archive.archiving import PRIVATE

    locked = os.open(file, os.O_WRONLY | os.O_CREAT, PRIVATE)
    try:
        try:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{file} is being written by another process") from None
        yield
    finally:
        os.close(locked)


async def _written(file: Path, connection: ConnectionOptions, since: datetime, memory: MemoryLimit) -> None:
    """One pass. Raises `StoreError`, `ServerError`."""
    from wharfinger.cli.connect import open_temporal
    from wharfinger.replay.archive.archiving import ArchiveFile

    out = ArchiveFile(file, connection.cluster, since=since.timestamp(), memory=memory)
    async with connection.store() as store:
        client = await open_temporal(connection)
        _say(await _passed(out, store, (client, connection.cluster), datetime.now(UTC)))


async def _followed(
    file: Path, connection: ConnectionOptions, since: datetime, memory: MemoryLimit, served: ServingOptions | None
) -> None:
    """A pass a minute, whether servers answer or not; both must when it begins."""
    from wharfinger.cli.connect import open_temporal
    from wharfinger.replay.archive.archiving import BEHIND, SETTLED, ArchiveFile, ArchiveMetrics, ArchiveNotWritten
    from wharfinger.serving.content import Content
    from wharfinger.serving.server import Server

    out = ArchiveFile(file, connection.cluster, since=since.timestamp(), memory=memory)
    metrics = ArchiveMetrics(file)
    metrics.opened(out)
    content = Content(metrics.registry, checks=metrics.checks, refresh=metrics.refresh)
    server = Server(served, content) if served is not None else None
    async with connection.store() as store:
        client = await open_temporal(connection)
        try:
            if server is not None:
                await server.start()
            while True:
                settled = datetime.now(UTC) - timedelta(seconds=SETTLED)
                try:
                    _say(await _passed(out, store, (client, connection.cluster), settled))
                    metrics.passed(out)
                except (StoreError, ServerError, ArchiveNotWritten) as error:
                    metrics.failed()
                    _failed(metrics.seconds, error, BEHIND)
                await asyncio.sleep(EVERY)
        finally:
            if server is not None:
                await server.stop()


async def _passed(out: ArchiveFile, store: Store, temporal: tuple[Client, str], settled: datetime) -> Passed:
    """`temporal`: with the cluster's name; `settled`: runs that began before are read."""
    from wharfinger.replay.archive.archiving import OVERLAP
    from wharfinger.replay.histories import read_runs, span_query

    client, cluster = temporal
    until = max(out.since, out.reached.until, settled.timestamp())
    begin = max(out.since, out.reached.until - OVERLAP)
    query = span_query(cluster, datetime.fromtimestamp(begin, UTC), datetime.fromtimestamp(until, UTC))
    runs = read_runs(client, query, memory=out.memory, more=out.reached.undecided, known=out.has)
    return await out.write(store, runs, until=until)


def _failed(seconds: float, error: Exception, behind: float) -> None:
    """Say that a pass failed, and whether the archive falls behind: `seconds` since one succeeded."""
    if seconds > behind:
        log.error("archive_behind seconds=%.0f effect=retried error=%r", seconds, str(error))
    else:
        log.warning("archive_pass_failed seconds=%.0f effect=retried error=%r", seconds, str(error))


def _say(passed: Passed) -> None:
    gap = f", a gap from revision {passed.gap.after} to {passed.gap.before}" if passed.gap is not None else ""
    if passed.gap is not None and passed.gap.restored:
        gap += " (etcd was restored)"
    waiting = len(passed.reached.undecided)
    later = f"; {waiting:,} runs have not decided yet, and are read again" if waiting else ""
    lost = f"; {passed.lost:,} runs are lost: Temporal has them no more, or they cannot be read" if passed.lost else ""
    done = f"{passed.decisions:,} decisions of {passed.runs:,} runs, up to revision {passed.reached.revision}"
    typer.echo(f"{done}{gap}{later}{lost}")
