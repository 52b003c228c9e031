"""Which process a pid stands for: numbers are used again, the moment of the start is not.

Linux shows it in /proc, other systems by `ps`. Neighbours: `locks` writes a life into a file, `handles` signals one,
`dev.processes` keeps those of the servers.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessLife:
    """One life of a pid."""

    pid: int
    started: str
    """In the system's own words, the boot's id included; only compared."""

    @property
    def alive(self) -> bool:
        """Whether this very process still runs (a zombie does not)."""
        return started(self.pid) == self.started

    def kill(self) -> None:
        """SIGKILL to it and to the session that it leads, if it is still the same process."""
        if self.alive:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def started(pid: int) -> str | None:
    """When the process began, in the system's words; None when there is no such running process."""
    if sys.platform != "linux":
        command = ["/bin/ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None
    fields = stat_fields(pid)
    if fields is None or fields[0] in "ZX":
        return None
    return f"{boot_id()}:{fields[19]}"


def life(pid: int) -> ProcessLife | None:
    """The life that a pid stands for now; None when there is no such running process."""
    moment = started(pid)
    return ProcessLife(pid, moment) if moment else None


def stat_fields(pid: int) -> list[str] | None:
    """Fields of /proc/<pid>/stat from the third (state) on; the second may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def boot_id() -> str:
    """Another one after each start of the machine; empty where the system has none."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""
