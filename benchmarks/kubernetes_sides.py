"""One Kubernetes API server and the two schedulers that are compared on it: kube-scheduler, and wharfinger.

::

    ApiServer       kube-apiserver, its own etcd                     serves both sides, and counts for both
    KubeScheduler   kube-scheduler                                   no leader election, qps -1, else its defaults
    Wharfinger      one worker, its own etcd, Temporal's dev server  no leader election, qps -1, else its defaults

The servers of wharfinger run on while kube-scheduler has its turn: they are idle then, and are not counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from kubernetes_pods import SILENCE
from processes import Child, Children, answers, up

from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.cli.processes.process_options import kubernetes_arguments
from wharfinger.dev import binaries
from wharfinger.dev.etcd import MAX_TXN_OPS, EtcdServer
from wharfinger.dev.kube_apiserver import ApiserverFiles, KubeApiserver
from wharfinger.dev.settings import Servers
from wharfinger.dev.supervisor import python_command
from wharfinger.dev.temporal import ENVIRONMENT, TemporalServer
from wharfinger.process.children.ports import free_port
from wharfinger.settings import ElectionSettings, KubernetesSettings

PEER = "kube-scheduler"
OURS = "wharfinger"
"""The two sides of a comparison."""
UNLIMITED = -1.0
"""Requests a second."""


def missing() -> str:
    """Which of Kubernetes' programs cannot be run here; empty when both can."""
    absent = [one.name for one in binaries.KUBERNETES_PROGRAMS if binaries.at_hand(one) is None]
    if not absent:
        return ""
    return f"no {' and no '.join(absent)}: `make kubernetes-servers` builds them, where Go is installed"


@dataclass
class ApiServer:
    """A running API server."""

    files: ApiserverFiles
    parts: tuple[Child, ...]
    """The server, and its etcd."""

    @property
    def kubeconfig(self) -> Path:
        """The admin's."""
        return self.files.kubeconfig

    @asynccontextmanager
    async def client(self) -> AsyncIterator[HttpApiClient]:
        """A client that is not held back."""
        client = HttpApiClient(read_access(self.kubeconfig), ApiLimits(qps=UNLIMITED, deadline=SILENCE))
        try:
            yield client
        finally:
            await client.close()

    @classmethod
    async def start(cls, children: Children, etcd: Path, folder: Path) -> ApiServer:
        """Start it and its etcd. Raises `BenchmarkFailed` when they do not come up."""
        executable = binaries.at_hand(binaries.KUBE_APISERVER)
        assert executable is not None, missing()
        store, storing = await start_etcd(children, "kube-etcd", etcd, folder / "etcd")
        server = KubeApiserver(executable, ApiserverFiles(folder / "apiserver"), store.url, free_port())
        server.prepare()
        serving = await children.start("kube-apiserver", server.command())
        await up(serving, _asked(server.is_up))
        return cls(server.files, (serving, storing))


@dataclass
class KubeScheduler:
    """kube-scheduler on an API server."""

    children: Children
    api: ApiServer
    folder: Path
    name: str = "kube-scheduler"
    configuration: Mapping[str, object] = field(default_factory=dict)
    """More of its KubeSchedulerConfiguration."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that are set."""
    port: int = field(default_factory=free_port)
    process: Child | None = None

    @property
    def parts(self) -> Sequence[Child]:
        """What counts as this side's, beside the API server: nothing while it is stopped."""
        return [self.process] if self.process is not None else []

    async def start(self) -> Child:
        """Start it; it may not be ready yet."""
        executable = binaries.at_hand(binaries.KUBE_SCHEDULER)
        assert executable is not None, missing()
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "config.yaml"
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(self.api.kubeconfig), "qps": UNLIMITED},
            "leaderElection": {"leaderElect": False},
            **self.configuration,
        }
        config.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = [str(executable), f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={self.port}"]
        if self.gates:
            command += ["--feature-gates", ",".join(f"{name}={value}" for name, value in self.gates.items())]
        self.process = await self.children.start(self.name, command)
        return self.process

    async def is_up(self) -> bool:
        """Whether its informers have listed everything."""
        return await asyncio.to_thread(answers, f"https://127.0.0.1:{self.port}/readyz")

    async def stop(self) -> None:
        """Stop it."""
        if self.process is not None:
            process, self.process = self.process, None
            await self.children.stop(process)

    async def close(self) -> None:
        """It has no servers of its own."""


@dataclass
class Wharfinger:
    """A worker on an API server, with an etcd and a Temporal of its own."""

    children: Children
    api: ApiServer | None
    """None = the pods are in its etcd."""
    folder: Path
    servers: Servers
    name: str = "wharfinger"
    options: Sequence[str] = ()
    """More of the worker's."""
    port: int = field(default_factory=free_port)
    etcd: EtcdServer | None = None
    temporal: TemporalServer | None = None
    process: Child | None = None
    _own: list[Child] = field(default_factory=list)

    @property
    def parts(self) -> Sequence[Child]:
        """What counts as this side's, beside the API server."""
        return [*self._own, *([self.process] if self.process is not None else [])]

    async def open(self) -> None:
        """Start its servers, which keep everything over restarts of the worker."""
        self.etcd, storing = await start_etcd(
            self.children, f"{self.name}-etcd", self.servers.etcd, self.folder / "etcd"
        )
        self._own.append(storing)
        self.temporal, running = await start_temporal(
            self.children, f"{self.name}-temporal", self.servers.temporal, self.folder / "temporal.db"
        )
        self._own.append(running)

    async def start(self) -> Child:
        """Start the worker; it may not be ready yet."""
        assert self.etcd is not None, "open() comes first"
        assert self.temporal is not None
        kubernetes = None
        if self.api is not None:
            election = ElectionSettings(enabled=False)
            kubernetes = KubernetesSettings(kubeconfig=self.api.kubeconfig, qps=UNLIMITED, election=election)
        command = python_command(
            "worker",
            f"--etcd={self.etcd.url}",
            f"--temporal={self.temporal.near}",
            f"--health-port={self.port}",
            f"--max-txn-ops={MAX_TXN_OPS}",
            *(kubernetes_arguments(kubernetes) if kubernetes is not None else ()),
            *self.options,
        )
        self.process = await self.children.start(f"{self.name}-worker", command)
        return self.process

    async def is_up(self) -> bool:
        """Whether everything is copied, and the worker places pods."""
        return await asyncio.to_thread(answers, f"http://127.0.0.1:{self.port}/readyz")

    async def stop(self) -> None:
        """Stop the worker."""
        if self.process is not None:
            process, self.process = self.process, None
            await self.children.stop(process)

    async def close(self) -> None:
        """Stop its servers, too."""
        await self.stop()
        while self._own:
            await self.children.stop(self._own.pop())


Side = KubeScheduler | Wharfinger


async def start_temporal(
    children: Children, name: str, executable: Path, database: Path | None = None
) -> tuple[TemporalServer, Child]:
    """Start a Temporal as a dev tree does; without a file it keeps everything in memory."""
    server = TemporalServer(executable, free_port(), database)
    child = await children.start(name, server.command(), ENVIRONMENT)
    await up(child, server.is_up)
    return server, child


async def start_etcd(
    children: Children, name: str, executable: Path, data: Path, *, fsync: bool = True
) -> tuple[EtcdServer, Child]:
    """Start an etcd on an empty folder; its writes wait for the disk, as in production, unless that is off."""
    server = EtcdServer(executable, data, free_port(), fsync=fsync)
    child = await children.start(name, server.command())
    await up(child, _asked(server.is_up))
    return server, child


def _asked(blocking: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        with suppress(OSError):
            return await asyncio.to_thread(blocking)
        return False

    return ask
