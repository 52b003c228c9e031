"""`wharfinger archive`: keeps what replay needs, before compaction and retention take it."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import UNDERSTAND, ConnectionOptions, connected
from wharfinger.errors import ServerError, StoreError, UsageError

if TYPE_CHECKING:
    from temporalio.client import Client

    from wharfinger.registry.store import Store
    from wharfinger.replaying.archiving import ArchiveFile, Passed
    from wharfinger.replaying.recorded import DecidedRun

EVERY = 60.0
"""Seconds between two passes."""
BEHIND = 600.0
"""Seconds without a pass that succeeded, after which it is said that the archive falls behind."""

log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("archive", rich_help_panel=UNDERSTAND)(archive)


@connected
def archive(
    file: Annotated[Path, typer.Argument(help="The archive: made, or written on.", metavar="FILE")],
    *,
    since: Annotated[
        str, typer.Option(help="Where a new archive begins: so long ago (30m, 24h, 7d), or a time.")
    ] = "24h",
    follow: Annotated[bool, typer.Option("--follow", help="Write on, once a minute, until it is stopped.")] = False,
    connection: ConnectionOptions,
) -> None:
    """Write recorded decisions, and the states on which they were made, to a file that `replay --archive` reads.

    A file that exists is written on from where it ends; it may have been stopped in any way. What etcd or Temporal no
    longer have by then is missing, and the file shows the gap. The file holds objects as they are stored, so protect
    it as you protect etcd's backups.
    """
    from wharfinger.cli import connect
    from wharfinger.cli.understand.replay import moment

    began = moment(since, datetime.now(UTC))
    try:
        with _alone(file):
            connect.run(_written(file, connection, began, follow=follow))
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror or error}") from error


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Hold the file's lock. Raises `UsageError` while another process has it."""
    with file.open("ab") as locked:
        try:
            fcntl.flock(locked, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{file} is being written by another process") from None
        yield


async def _written(file: Path, connection: ConnectionOptions, since: datetime, *, follow: bool) -> None:
    from wharfinger.cli.connect import open_store, open_temporal
    from wharfinger.replaying.archiving import SETTLED, ArchiveFile

    out = ArchiveFile(file, connection.cluster)
    async with open_store(connection) as store:
        client = await open_temporal(connection)
        succeeded = time.monotonic()
        while True:
            settled = datetime.now(UTC) - timedelta(seconds=SETTLED if follow else 0)
            try:
                _say(await _passed(out, store, (client, connection.cluster), since, settled))
                succeeded = time.monotonic()
            except (StoreError, ServerError) as error:
                if not follow:
                    raise
                _failed(time.monotonic() - succeeded, error)
                out = ArchiveFile(file, connection.cluster)
            if not follow:
                return
            await asyncio.sleep(EVERY)


async def _passed(
    out: ArchiveFile, store: Store, temporal: tuple[Client, str], since: datetime, settled: datetime
) -> Passed:
    """`temporal`: with the cluster's name; `settled`: runs that began before have decided."""
    from wharfinger.replaying.histories import read_runs, span_query

    begin = datetime.fromtimestamp(out.reached.until, UTC) if out.reached.until else since
    first: list[int] = []

    async def runs() -> AsyncIterator[DecidedRun]:
        if settled <= begin:
            return
        client, cluster = temporal
        async for run in read_runs(client, span_query(cluster, begin, settled)):
            first[:] = [min([*first, *(computation.revision for computation in run.computations())])]
            yield run

    return await out.write(store, runs(), first=lambda: first[0] if first else 0, until=settled.timestamp())


def _failed(seconds: float, error: Exception) -> None:
    """Say that a pass failed, and whether the archive falls behind: `seconds` since one succeeded."""
    if seconds > BEHIND:
        log.error("archive_behind seconds=%.0f effect=retried error=%r", seconds, str(error))
    else:
        log.warning("archive_pass_failed seconds=%.0f effect=retried error=%r", seconds, str(error))


def _say(passed: Passed) -> None:
    gap = f", a gap from revision {passed.gap[0]} to {passed.gap[1]}" if passed.gap is not None else ""
    typer.echo(f"{passed.decisions:,} decisions of {passed.runs:,} runs, up to revision {passed.reached.revision}{gap}")
