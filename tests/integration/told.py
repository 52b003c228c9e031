"""Where a secret may have been told: etcd, Temporal, logs, other files, what processes were started with."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from temporalio.client import Client


def forms(secret: str) -> tuple[bytes, ...]:
    """The ways in which a secret may stand somewhere: as it is, in base64 at any offset, in hex, in a URL, escaped."""
    raw = secret.encode()
    inner = (base64.b64encode(b"\0" * before + raw)[before + 1 : -4] for before in range(3))
    ways = (raw, *inner, raw.hex().encode(), quote(secret, safe="").encode(), secret[::-1].encode())
    return tuple(dict.fromkeys(way for way in ways if len(way) > 8))


def tellers(told: Mapping[str, bytes], secrets: Iterable[str]) -> list[str]:
    """Who told one of the secrets, in whatever form."""
    ways = [way for secret in secrets for way in forms(secret)]
    return [where for where, content in told.items() if any(way in content for way in ways)]


async def histories(client: Client) -> dict[str, bytes]:
    """Everything that Temporal keeps of every workflow, by workflow and run."""
    told: dict[str, bytes] = {}
    async for run in client.list_workflows():
        handle = client.get_workflow_handle(run.id, run_id=run.run_id)
        history = await handle.fetch_history()
        description = await handle.describe()
        parts = [event.SerializeToString() for event in history.events]
        parts += [run.raw_info.SerializeToString(), description.raw_description.SerializeToString()]
        told[f"history {run.id} {run.run_id}"] = b"\n".join(parts)
    return told


def files(folder: Path, but: Iterable[Path] = ()) -> dict[str, bytes]:
    """Every file below a folder, but for the places where secrets are kept."""
    kept = tuple(but)
    told: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(place) for place in kept):
            with suppress(FileNotFoundError):  # a file that was on its way into another's place
                told[f"file {path}"] = path.read_bytes()
    return told


def processes() -> dict[str, bytes]:
    """Arguments and environment of every process of this user but our own, as any program may read them."""
    return dict(_processes())


def _processes() -> Iterator[tuple[str, bytes]]:
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        for part in ("cmdline", "environ"):
            try:
                content = (folder / part).read_bytes()
            except OSError:  # it has ended, or belongs to another user
                continue
            yield f"process {folder.name} {part}", content
