"""Limits of memory and CPU of an instance: a cgroup of its own where we were delegated one, else what is there.

::

    <unit>/             delegated to the agent (systemd: Delegate=)
        agent/          the agent itself (DelegateSubgroup=agent): a cgroup with children holds no processes
        T.0.1/          an instance: memory.max, cpu.max

An agent that is not in such a leaf leaves cgroups alone: it could move there, but systemd could not start it again
beside instances that are left running.

Without cgroups memory is bounded by RLIMIT_DATA, which counts what is reserved and not only what is used, and the CPU
not at all. Which it is is said once.

What an instance was started with is kept in its folder from before the fork on, for the next agent puts it on again:
the former one may have died between the fork and the bound, and controllers that were taken from our part of the
hierarchy meanwhile come back without what was set.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

log = logging.getLogger(__name__)

MOUNT = Path("/sys/fs/cgroup")
AGENT = "agent"
_CONTROLLERS = ("memory", "cpu")
_PERIOD = 100_000
"""Microseconds over which the CPU's share is measured."""
_KEPT = "limits.json"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an instance may use; 0 = no bound."""

    memory: int = 0
    """Bytes."""
    cpu: int = 0
    """Thousandths of a core."""

    def keep(self, folder: Path) -> None:
        """Write them into an instance's folder. Raises `OSError`."""
        beside = folder / f".{_KEPT}.new"
        beside.write_text(json.dumps({"memory": self.memory, "cpu": self.cpu}), encoding="utf-8")
        beside.replace(folder / _KEPT)

    @classmethod
    def kept(cls, folder: Path) -> Bounds:
        """Those in an instance's folder; none where there are none, or they cannot be read."""
        try:
            content = json.loads((folder / _KEPT).read_bytes())
            return cls(int(content["memory"]), int(content["cpu"]))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("instance_limits_unreadable effect=kept folder=%s error=%r", folder, error)
            return cls()


def delegated(mount: Path = MOUNT, membership: Path = Path("/proc/self/cgroup")) -> Path | None:
    """Our part of the hierarchy with both controllers handed to children; None when we may not, or there is none."""
    try:
        own = next(line[3:] for line in membership.read_text().splitlines() if line.startswith("0::"))
        ours = mount / own.strip("/")
        available = (ours / "cgroup.controllers").read_text().split()
        if ours.name != AGENT or not set(_CONTROLLERS) <= set(available):
            return None
        ours = ours.parent
        (ours / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in _CONTROLLERS))
    except (OSError, StopIteration):
        return None
    return ours


class ProcessLimits:
    """Bounds processes by what the host offers."""

    def __init__(self, group: Path | None, processes: Path = Path("/proc")) -> None:
        """`group`: what `delegated` answered; `processes`: where the system lists them."""
        self._group = group
        self._processes = processes
        self._said = False

    def apply(self, name: str, pid: int, bounds: Bounds) -> None:
        """Bound a process that has just begun, or was adopted. Idempotent."""
        memory, cpu = bounds.memory, bounds.cpu
        if not memory and not cpu:
            return
        if self._group is not None:
            try:
                self._enter(self._group / name, pid, memory, cpu)
            except OSError as error:
                log.warning("cgroup_unusable instance=%s error=%r", name, str(error))
            else:
                return
        if self._inside(name, pid):
            return  # by an earlier agent; a bound that counts what is reserved could end what lives well within it
        self._say(memory, cpu)
        if memory and sys.platform == "linux":
            with suppress(OSError, ValueError):  # it has ended, or its own bound is lower
                resource.prlimit(pid, resource.RLIMIT_DATA, (memory, memory))

    def forget(self, name: str) -> None:
        """Remove the cgroup of an instance that has ended."""
        if self._group is not None:
            with suppress(OSError):
                (self._group / name).rmdir()

    def _enter(self, group: Path, pid: int, memory: int, cpu: int) -> None:
        group.mkdir(exist_ok=True)
        if memory:
            (group / "memory.max").write_text(str(memory))
        if cpu:
            (group / "cpu.max").write_text(f"{cpu * _PERIOD // 1000} {_PERIOD}")
        (group / "cgroup.procs").write_text(str(pid))

    def _inside(self, name: str, pid: int) -> bool:
        """Whether the process is in a cgroup of its own."""
        try:
            membership = (self._processes / str(pid) / "cgroup").read_text(encoding="utf-8")
        except OSError:
            return False
        return any(line.startswith("0::") and line.endswith(f"/{name}") for line in membership.splitlines())

    def _say(self, memory: int, cpu: int) -> None:
        if self._said:
            return
        self._said = True
        log.warning(
            "cgroup_not_delegated memory=%s cpu=%s",
            "bounded_by_RLIMIT_DATA" if memory else "not_limited",
            "unbounded" if cpu else "not_limited",
        )
