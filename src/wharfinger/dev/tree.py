"""etcd, Temporal and N workers as one tree of processes on one data folder.

Used by `wharfinger dev`, by the demo, by benchmarks and tests: all of them run the same thing. Whoever
opens a tree must do so on the main thread (children die with the thread that started them).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from wharfinger.contracts.names import DEFAULT_CLUSTER
from wharfinger.dev import asking, binaries, ports, processes
from wharfinger.dev.etcd import MAX_TXN_OPS, EtcdServer
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.progress import Progress
from wharfinger.dev.ready_file import Ready
from wharfinger.dev.supervisor import Child, ChildSpec, Say, Supervisor, clean_environment, python_command
from wharfinger.dev.temporal import TemporalServer
from wharfinger.settings import LeaseSettings

ETCD_PORT = 2379
TEMPORAL_PORT = 7233
UI_PORT = 8233
HEALTH_PORT = 10259
START_WITHIN = 55.0
"""Seconds for everything to be up; the ready file is promised within a minute."""
TRIES = 3
"""Starts of a process before it is up: another one may take its port between our look and its start."""
LOOK_AFTER_LOGS = 10.0
"""Seconds between two looks at how long the logs are."""


@dataclass(frozen=True, slots=True)
class DevSettings:
    """What a tree is to be."""

    data_dir: Path
    """Everything that outlives the tree is in here."""
    workers: int = 1
    etcd_port: int | None = None
    """A port that is named must be free; None = the one of the last life, else the usual one, else any."""
    temporal_port: int | None = None
    ui_port: int | None = None
    health_port: int | None = None
    """Of the first worker; the others follow. A taken one is passed over."""
    retention: timedelta = timedelta(days=30)
    """How long Temporal keeps histories of ended runs."""
    ready_file: Path | None = None
    bind_address: str = "127.0.0.1"
    """Where the servers, the UI and the health endpoints listen. They speak plain, without authentication."""
    cluster: str = DEFAULT_CLUSTER
    lease_ttl: float = LeaseSettings().ttl
    """Seconds from a worker's death until its pods go to the others."""
    config: Path | None = None
    """A KubeSchedulerConfiguration for the workers."""
    eviction: str = "immediate"
    """How preempted pods leave: nobody runs pods here."""
    cohorts: str = "auto"
    """`off`: every pod has an attempt of its own, however many wait."""
    temporal_address: str = ""
    """`host:port` of a Temporal that somebody else runs, with a namespace `default`; empty = one of our own."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The executables."""

    etcd: Path
    temporal: Path


def prepare(progress: Progress) -> Servers:
    """Make sure of the servers (minutes, the first time); raises `ServerError`."""
    return Servers(etcd=binaries.locate(binaries.ETCD, progress), temporal=binaries.locate(binaries.TEMPORAL, progress))


@dataclass(slots=True)
class DevTree:
    """A running tree. `watchers` are called with the new state whenever one in which all is up began."""

    settings: DevSettings
    folder: DataFolder
    supervisor: Supervisor
    etcd: EtcdServer
    temporal: TemporalServer
    watchers: list[Callable[[Ready], None]] = field(default_factory=list)
    health_ports: list[int] = field(default_factory=list)
    started: bool = False
    settled: set[str] = field(default_factory=set)
    """Servers that were up: from then on they keep their ports, whatever happens."""

    @property
    def workers(self) -> list[Child]:
        """The workers, in order."""
        return [child for child in self.supervisor.children if child.spec.name.startswith("worker")]

    @property
    def health_urls(self) -> tuple[str, ...]:
        """Base URLs of the workers' health endpoints, in order."""
        host = asking.found_at(self.settings.bind_address)
        return tuple(f"http://{host}:{port}" for port in self.health_ports)

    def ready(self) -> Ready:
        """Where everything is, and which processes run now."""
        pids = {child.spec.name: child.pid for child in self.supervisor.children}
        return Ready(
            etcd=self.etcd.url,
            temporal=self.temporal.address,
            namespace=self.temporal.namespace,
            ui=self.temporal.ui,
            health=self.health_urls,
            etcd_pid=pids["etcd"],
            temporal_pid=pids.get("temporal", 0),
            worker_pids=tuple(worker.pid for worker in self.workers),
        )

    def changed(self) -> None:
        """A process was started or came up: keep the record of processes, and tell when all is up."""
        try:
            self._record()
        except OSError as error:  # a full disk, a folder taken away: no reason to stop looking after processes
            self.supervisor.say(f"cannot be written: {error}")

    def _record(self) -> None:
        lives = (processes.life(child.pid) for child in self.supervisor.children)
        self.folder.remember_processes(known for known in lives if known is not None)
        if self.started and all(child.up for child in self.supervisor.children):
            ready = self.ready()
            if self.settings.ready_file is not None:
                ready.write(self.settings.ready_file)
            for watcher in self.watchers:
                watcher(ready)

    async def start(self) -> None:
        """Start everything, in order; raises `ServerError` naming what did not come up."""
        deadline = time.monotonic() + START_WITHIN
        await self.supervisor.start(self._etcd_spec(), within=deadline - time.monotonic(), tries=TRIES)
        self.settled.add("etcd")
        if not self.settings.temporal_address:
            await self.supervisor.start(self._temporal_spec(), within=deadline - time.monotonic(), tries=TRIES)
            await self.temporal.keep_histories(self.settings.retention)
        self.settled.add("temporal")
        self.folder.remember_ports(
            {"etcd": self.etcd.port, "temporal": self.temporal.port, "ui": self.temporal.ui_port or 0}
        )
        within = deadline - time.monotonic()
        async with asyncio.TaskGroup() as starting:
            for index in range(self.settings.workers):
                self.health_ports.append(0)
                starting.create_task(self.supervisor.start(self._worker_spec(index), within=within, tries=TRIES))
        self.folder.remember_ports({f"health-{index}": port for index, port in enumerate(self.health_ports)})
        self.started = True
        self.changed()

    async def stop(self) -> None:
        """Stop everything, workers first: at most 16 seconds, then whatever is left is killed."""
        servers = {child.spec.name: child for child in self.supervisor.children}
        await self.supervisor.stop(self.workers)
        for name in ("temporal", "etcd"):
            if name in servers:
                await self.supervisor.stop([servers[name]])

    def kill(self) -> None:
        """Do not wait for anything any more: what runs is killed, and `stop` ends at once."""
        self.supervisor.kill()

    async def look_after_logs(self) -> None:
        """Keep logs from growing without end; runs until cancelled."""
        while True:
            await asyncio.sleep(LOOK_AFTER_LOGS)
            await asyncio.to_thread(self.folder.bound_logs)

    def _etcd_spec(self) -> ChildSpec:
        async def is_up() -> bool:
            return await asyncio.to_thread(self.etcd.is_up)

        def command() -> list[str]:
            if "etcd" not in self.settled and self.settings.etcd_port is None:
                self.etcd = replace(self.etcd, port=self._free(self.etcd.port))
            return self.etcd.command()

        return ChildSpec("etcd", command, clean_environment(), self.folder.log("etcd"), is_up, 2.0)

    def _temporal_spec(self) -> ChildSpec:
        async def is_up() -> bool:
            return await self.temporal.is_up()

        def command() -> list[str]:
            if "temporal" not in self.settled and self.settings.temporal_port is None:
                self.temporal = replace(self.temporal, port=self._free(self.temporal.port))
            if "temporal" not in self.settled and self.settings.ui_port is None:
                self.temporal = replace(self.temporal, ui_port=self._free(self.temporal.ui_port))
            return self.temporal.command()

        return ChildSpec("temporal", command, clean_environment(), self.folder.log("temporal"), is_up, 2.5)

    def _free(self, wanted: int | None) -> int:
        """The port wanted unless somebody took it since it was chosen, or just before us."""
        return ports.preferred((wanted,), self.settings.bind_address)

    def _worker_spec(self, index: int) -> ChildSpec:
        async def is_up() -> bool:
            return await asyncio.to_thread(asking.answer, f"{self.health_urls[index]}/readyz", within=2.0) is not None

        def command() -> list[str]:
            self.health_ports[index] = self._health_port(index)
            return python_command(
                "worker",
                f"--etcd={self.etcd.url}",
                f"--temporal={self.temporal.address}",
                f"--temporal-namespace={self.temporal.namespace}",
                f"--cluster={self.settings.cluster}",
                f"--bind-address={self.settings.bind_address}",
                f"--health-port={self.health_ports[index]}",
                f"--lease-ttl={self.settings.lease_ttl:g}",
                *self._config(),
                f"--eviction={self.settings.eviction}",
                f"--cohorts={self.settings.cohorts}",
                f"--max-txn-ops={MAX_TXN_OPS}",
            )

        name = f"worker-{index}"
        return ChildSpec(name, command, clean_environment(), self.folder.log(name), is_up, 11.0)

    def _config(self) -> list[str]:
        config = self.settings.config
        return [] if config is None else [f"--config={config.resolve()}"]

    def _health_port(self, index: int) -> int:
        """What the worker had before, else the first one's plus its number, else what the folder remembers."""
        first = self.settings.health_port
        wanted = [self.health_ports[index], (first or HEALTH_PORT) + index]
        if first is None:
            wanted.insert(1, self.folder.ports().get(f"health-{index}", 0))
        others = [port for other, port in enumerate(self.health_ports) if other != index]
        return ports.preferred(wanted, self.settings.bind_address, taken=others)


@asynccontextmanager
async def running(settings: DevSettings, servers: Servers, *, say: Say) -> AsyncIterator[DevTree]:
    """A tree that is up; stopped, orphans included, at the end of the block.

    Raises `UsageError` for an address that nothing can listen on, and `ServerError`: the folder is in use, a
    named port is taken, something does not come up.
    """
    ports.check_address(settings.bind_address)
    folder = DataFolder(settings.data_dir.resolve())
    with folder.locked():
        processes.become_subreaper()
        for survivor in processes.end_survivors(folder.processes()):
            say(f"ended process {survivor.pid}, left over from an earlier life on this folder")
        tree = _compose(settings, folder, servers, say)
        logs = asyncio.create_task(tree.look_after_logs())
        try:
            try:
                await tree.start()
            except ExceptionGroup as errors:
                raise errors.exceptions[0] from None
            yield tree
        finally:
            logs.cancel()
            await tree.stop()
            if orphans := processes.end_orphans():
                say(f"ended {orphans} orphaned process{'es' if orphans > 1 else ''}")


def _compose(settings: DevSettings, folder: DataFolder, servers: Servers, say: Say) -> DevTree:
    remembered, host = folder.ports(), settings.bind_address

    def port(name: str, usual: int, named: int | None, taken: tuple[int, ...] = ()) -> int:
        if named is not None:
            return ports.required(named, f"--{name}-port", host)
        return ports.preferred((remembered.get(name), usual), host, taken=taken)

    etcd_port = port("etcd", ETCD_PORT, settings.etcd_port)
    temporal_port = port("temporal", TEMPORAL_PORT, settings.temporal_port, (etcd_port,))
    ui_port = port("ui", UI_PORT, settings.ui_port, (etcd_port, temporal_port))
    supervisor = Supervisor(say=say)
    temporal = TemporalServer(servers.temporal, temporal_port, database=folder.temporal, ui_port=ui_port, host=host)
    if settings.temporal_address:
        elsewhere, _, number = settings.temporal_address.rpartition(":")
        temporal = TemporalServer(servers.temporal, int(number), host=elsewhere)
    tree = DevTree(
        settings,
        folder,
        supervisor,
        etcd=EtcdServer(servers.etcd, folder.etcd, etcd_port, host=host),
        temporal=temporal,
    )
    supervisor.changed = tree.changed
    return tree
