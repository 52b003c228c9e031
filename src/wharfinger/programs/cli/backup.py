"""`wharfinger backup`: saves etcd's snapshots, once or again and again."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import ConnectionOptions, configured
from wharfinger.cli.processes.process_options import seconds_of
from wharfinger.errors import ServerError, UserWanted, WharfingerError

if TYPE_CHECKING:
    from wharfinger.programs.etcd_backup import SavedSnapshot

log = logging.getLogger(__name__)

AGAIN = 60.0
"""Seconds until a backup that failed is tried again."""


@configured
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where backups are saved.", show_default=False)],
    *,
    every: Annotated[
        str,
        typer.Option(
            help="Go on, and save one so often (`6h`), until a signal ends it.", metavar="DURATION", show_default=False
        ),
    ] = "",
    keep: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Remove all but the newest ones.")] = 28,
    connection: ConnectionOptions,
) -> None:
    """Save what is in etcd as a file, from which `etcdutl snapshot restore` makes an etcd again.

    Where etcd has users, only root may do so; of your own `wharfinger dev` the password is found. A file that has its
    name is whole: its SHA-256 was checked.
    """
    if not every:
        from wharfinger.cli import connect

        saved = connect.run(_save(connection, folder, keep))
        typer.echo(f"{saved.path} ({saved.size / 2**20:.1f} MiB)")
        return
    seconds = seconds_of("--every", every, "1m", "720h")
    from wharfinger.process.logs import write_lines

    write_lines("info")
    asyncio.run(_keep_saving(connection, folder, keep, seconds))


async def _save(connection: ConnectionOptions, folder: Path, keep: int) -> SavedSnapshot:
    from wharfinger.programs import etcd_backup
    from wharfinger.programs.etcd_users import as_root_here

    now = datetime.now(UTC)
    try:
        saved = await etcd_backup.save(connection.etcd, folder, now)
    except UserWanted:
        saved = await etcd_backup.save(as_root_here(connection.etcd), folder, now)
    try:
        etcd_backup.prune(folder, keep)
    except OSError as error:
        raise ServerError(f"{saved.path} is saved, but older backups cannot be removed: {error}") from error
    return saved


async def _keep_saving(connection: ConnectionOptions, folder: Path, keep: int, every: float) -> None:
    from wharfinger.process.running import stop_on_signals

    stop = stop_on_signals()
    while not stop.is_set():
        pause = every
        try:
            saved = await _save(connection, folder, keep)
        except WharfingerError as error:
            pause = min(AGAIN, every)
            log.error("backup_failed effect=tried_again seconds=%.0f error=%r", pause, str(error))
        else:
            log.info("backup_saved file=%s bytes=%d", saved.path, saved.size)
        try:
            async with asyncio.timeout(pause):
                await stop.wait()
        except TimeoutError:
            continue
