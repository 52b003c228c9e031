"""`wharfinger fleet logs`: the logs of an instance, on the host where it lives or lived.

Logs are files of the agent's data folder (`agent.processes` writes and bounds them); they are not copied to other
hosts. Elsewhere the command prints where to run it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from wharfinger.cli.options import ConnectionOptions, configured, variable
from wharfinger.errors import NotFound, Unavailable, WharfingerError
from wharfinger.fleet.agent.processes import SET_ASIDE
from wharfinger.fleet.cli.fleets import FleetArgument
from wharfinger.fleet.state.fleet_pictures import Picture, SlotIncarnation
from wharfinger.fleet.state.fleet_reading import read

_LOOK = 0.3
"""Seconds between two looks for more."""
_CHUNK = 256 * 1024
_DEV = "agent"
"""Folder of the agent's data in that of `wharfinger dev`."""
_DEFAULTS = (Path("wharfinger-agent"), Path("wharfinger-data") / _DEV)
"""Where `wharfinger agent` and `wharfinger dev` keep it unless they are told."""


@configured
def logs(
    fleet: FleetArgument,
    slot: Annotated[int, typer.Argument(help="Which slot.", min=0, metavar="SLOT")],
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until Ctrl-C.")] = False,
    incarnation: Annotated[
        int,
        typer.Option(
            "--incarnation",
            help="Which incarnation of the slot; 0: the newest.",
            min=0,
            show_default="the newest",
            metavar="N",
        ),
    ] = 0,
    tail: Annotated[
        int, typer.Option("--tail", help="Only the last N lines; 0: all.", min=0, show_default="all", metavar="N")
    ] = 0,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            envvar=variable("data-dir"),
            help="Data folder of the agent, or of `wharfinger dev`.",
            metavar="DIR",
            show_default="wharfinger-agent, else wharfinger-data",
        ),
    ] = None,
    connection: ConnectionOptions,
) -> None:
    """Print the log of an instance; on another host, print where the log is, with exit code 1.

    Logs are bounded: the last 16 to 32 MiB of each incarnation are kept. A slot keeps the logs of its five newest
    incarnations that have ended.
    """
    from wharfinger.cli import connect

    folders = _DEFAULTS if data_dir is None else (data_dir, data_dir / _DEV)
    found = _logs(folders, fleet, slot)
    if not (incarnation and incarnation in found):
        picture = connect.run(_picture(connection, fleet, found))
        incarnation = incarnation or newest(picture, slot, found)
        if incarnation not in found:
            raise elsewhere(picture, slot, incarnation, folders[0], follow=follow)
    write = sys.stdout.buffer
    with ExitStack() as opened:
        earlier = found[incarnation].with_suffix(SET_ASIDE)
        pieces = [opened.enter_context(path.open("rb")) for path in (earlier, found[incarnation]) if path.exists()]
        log = pieces[-1]
        _print(pieces, tail, write)
        if follow:
            connect.run(_follow(log, write), watch=True)


def _logs(folders: Iterable[Path], tenant: str, slot: int) -> dict[int, Path]:
    """The logs of a slot in agents' folders, by incarnation."""
    found: dict[int, Path] = {}
    for root in folders:
        files = (root / "instances" / tenant / str(slot)).glob("*.log")
        found |= {int(file.stem): file for file in files if file.stem.isdecimal()}
    return found


async def _picture(connection: ConnectionOptions, tenant: str, found: dict[int, Path]) -> Picture:
    """What etcd has of the fleet; nothing when it does not answer but there are logs here."""
    try:
        async with connection.store() as store:
            return (await read(store, tenant, templates=False)).fleet(tenant)
    except Unavailable:
        if not found:
            raise
        typer.echo("etcd does not answer: this is the newest log here", err=True)
        return Picture(tenant)


def newest(picture: Picture, slot: int, found: dict[int, Path]) -> int:
    """The newest incarnation of a slot that anything is known of; 0 when there is none."""
    lives = [life.incarnation for life in picture.lives if life.slot == slot]
    return max(lives) if lives else max(found, default=0)


def elsewhere(
    picture: Picture, slot: int, incarnation: int, data_dir: Path, *, follow: bool = False
) -> WharfingerError:
    """Where the log is that is not here, as an error."""
    life = SlotIncarnation(slot, incarnation)
    grant, instance = picture.grants.get(life), picture.instances.get(life)
    host = grant.host if grant is not None else instance.host if instance is not None else ""
    if not incarnation and not picture.exists:
        return NotFound(f"there is no fleet {picture.tenant}, and no log of its slot {slot} is kept here")
    if not incarnation:
        return NotFound(f"slot {slot} of fleet {picture.tenant} has no instance, and no log is kept here")
    if not host:
        return NotFound(
            f"nothing is known of incarnation {incarnation} of slot {slot} of fleet {picture.tenant}: "
            f"its log is on the host where it lived, if it is kept, and not in {data_dir}"
        )
    options = f"--incarnation {incarnation}" + (" -f" if follow else "")
    return NotFound(
        f"the log of incarnation {incarnation} of slot {slot} is on host {host}: there, run "
        f"`wharfinger fleet logs {picture.tenant} {slot} {options} --data-dir DIR`, DIR being its agent's"
    )


def _print(pieces: Iterable[BinaryIO], tail: int, out: BinaryIO) -> None:
    lines: Iterator[bytes] | deque[bytes] = chain.from_iterable(pieces)
    if tail:
        lines = deque(lines, maxlen=tail)
    for line in lines:
        out.write(line)
    out.flush()


async def _follow(log: BinaryIO, out: BinaryIO) -> None:
    """Print what is added, until cancelled. A log that was emptied, having grown too long, is read from its start."""
    while True:
        if os.fstat(log.fileno()).st_size < log.tell():
            log.seek(0)
        while chunk := log.read(_CHUNK):
            out.write(chunk)
        out.flush()
        await asyncio.sleep(_LOOK)
