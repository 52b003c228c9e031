"""The data folder of one dev tree: its lock, and what it remembers from one life to the next.

::

    <folder>/lock             held while a supervisor lives; one at a time
             ports.json       ports by name, taken again where they are free
             cluster.json     in which format the cluster keeps pods and nodes, where that is not Kubernetes', and
                              whether they are those of an API server here
             processes.json   every process started, so that a later life can end survivors
             etcd/            etcd's data
             etcd.users/      passwords of etcd's users (`etcd.etcd_users`)
             temporal.db      Temporal's data
             kubernetes/      the API server's users, keys and kubeconfig, where one runs
             page.link        the one-time link of the web page that is good now
             agent/           the agent's: instances' locks, configurations and logs
             logs/<name>.log  what the processes say (and <name>.log.1, the part before)
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wharfinger.errors import ServerError
from wharfinger.fleet.agent import processes
from wharfinger.objects.model.formats import ClusterFormat
from wharfinger.process.children import locks
from wharfinger.process.children.lives import ProcessLife


@dataclass(frozen=True, slots=True)
class DataFolder:
    """Paths in the folder, and its small files."""

    root: Path

    @property
    def etcd(self) -> Path:
        """Data of etcd."""
        return self.root / "etcd"

    @property
    def temporal(self) -> Path:
        """Temporal's database."""
        return self.root / "temporal.db"

    @property
    def agent(self) -> Path:
        """The agent's data."""
        return self.root / "agent"

    @property
    def page_link(self) -> Path:
        """The one-time link of the page that is good now, for this user only."""
        return self.root / "page.link"

    @property
    def replays(self) -> Path:
        """Reports of replay, which the page shows."""
        return self.root / "replays"

    def log(self, name: str) -> Path:
        """Where a process's output goes."""
        return self.root / "logs" / f"{name}.log"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold it; raises `ServerError` when it is held already, or cannot be made."""
        try:
            (self.root / "logs").mkdir(parents=True, exist_ok=True)
            lock = (self.root / "lock").open("a")
        except OSError as error:
            raise ServerError(f"--data-dir {self.root}: {error.strerror}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ServerError(f"--data-dir {self.root}: another `wharfinger dev` is running there") from None
            yield

    def ports(self) -> dict[str, int]:
        """Ports by name, of the last life."""
        return {name: port for name, port in _read(self.root / "ports.json").items() if isinstance(port, int)}

    def remember_ports(self, ports: Mapping[str, int]) -> None:
        """Keep the ports for the next life."""
        write_atomically(self.root / "ports.json", {**self.ports(), **ports})

    def format(self) -> ClusterFormat | None:
        """In which format the folder's cluster keeps pods and nodes; None where there is no cluster yet."""
        if not self.etcd.is_dir():
            return None
        known = _read(self.root / "cluster.json").get("format")
        return ClusterFormat.RK8S if known == ClusterFormat.RK8S else ClusterFormat.KUBERNETES

    def remember_format(self, format_: ClusterFormat) -> None:
        """Keep the format for the next life; a folder without it has Kubernetes' objects."""
        self._remember("format", None if format_ is ClusterFormat.KUBERNETES else format_.value)

    def kubernetes(self) -> bool | None:
        """Whether an API server here has the cluster's pods and nodes; None where there is no cluster yet."""
        if not self.etcd.is_dir():
            return None
        return _read(self.root / "cluster.json").get("kubernetes") is True

    def remember_kubernetes(self, kubernetes: bool) -> None:
        """Keep it for the next life."""
        self._remember("kubernetes", kubernetes or None)

    def _remember(self, name: str, value: object) -> None:
        """Keep one field of cluster.json; None removes it, and a file without fields."""
        path = self.root / "cluster.json"
        content = {**_read(path), name: value}
        if kept := {name: value for name, value in content.items() if value is not None}:
            write_atomically(path, kept)
        else:
            path.unlink(missing_ok=True)

    def processes(self) -> list[ProcessLife]:
        """Processes that were recorded, running or not."""
        recorded = _read(self.root / "processes.json")
        return [ProcessLife(int(pid), str(started)) for pid, started in recorded.items()]

    def remember_processes(self, lives: Iterable[ProcessLife]) -> None:
        """Replace the record of processes."""
        write_atomically(self.root / "processes.json", {str(known.pid): known.started for known in lives})

    def instances(self) -> list[ProcessLife]:
        """Workers of an earlier life that still run: the holders of instance locks."""
        files = sorted((self.agent / "instances").glob("*/*/*.lock"))
        holders = (locks.holder(file) for file in files if locks.locked(file))
        return [holder for holder in holders if holder is not None]

    def bound_logs(self) -> None:
        """Set aside logs that grew too long."""
        for log in (self.root / "logs").glob("*.log"):
            processes.bound(log)


def write_atomically(path: Path, content: object) -> None:
    """Write JSON beside the file and rename it over: a reader sees the old or the new, never a part."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    beside.replace(path)


def _read(path: Path) -> dict[str, object]:
    """A small file of ours; empty when it is absent or damaged (it only makes the start smoother)."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
