"""What the processes of a tree use: CPU seconds and memory, as the kernel counts them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from wharfinger.dev.processes import children
from wharfinger.dev.tree import DevTree

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of one process, its threads included and its children not."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def cpu_seconds_of_all(pid: int) -> float:
    """The same of a process and all that it started, also of those that ended meanwhile."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(fields[13]) + int(fields[14])) / _TICK
    return cpu_seconds(pid) + ended + sum(map(cpu_seconds_of_all, children(pid)))


def resident_mib(pid: int) -> float:
    """Memory that one process holds now, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def of_tree(tree: DevTree, others: Mapping[str, int]) -> Mapping[str, float]:
    """CPU seconds so far by part: `worker` (all of them), `temporal`, `etcd`, and others by their process."""
    ready = tree.ready()
    used = {"worker": sum(map(cpu_seconds, ready.worker_pids)), "etcd": cpu_seconds(ready.etcd_pid)}
    if ready.temporal_pid:
        used["temporal"] = cpu_seconds(ready.temporal_pid)
    return used | {part: cpu_seconds_of_all(pid) for part, pid in others.items()}
