"""What a dev tree runs where a Kubernetes API is its store: the API server, and what stands in for kubelets.

::

    etcd of the tree ── /kubernetes ──► kube-apiserver ──► workers (`--kubeconfig`)
                    └── /registry ────► their copies

The API server has a prefix of its own in the tree's etcd, so one folder has all of the cluster. Ports and users are
those of the last life. Neighbours: `dev.kube_apiserver` is the server, `dev.tree` starts it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from wharfinger.apiserver.client import PODS, ApiChange, ApiClient, ChangeKind, uid_of
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.dev import binaries, ports
from wharfinger.dev.etcd import EtcdServer
from wharfinger.dev.folder import DataFolder
from wharfinger.dev.kube_apiserver import HOST, STOP_WITHIN, ApiserverFiles, KubeApiserver
from wharfinger.dev.supervisor import ChildSpec, clean_environment
from wharfinger.errors import InstallationMismatch, ServerError, UpstreamError
from wharfinger.etcd.store import Store
from wharfinger.process.installation_record import installation_of

log = logging.getLogger(__name__)

AGAIN = 1.0
"""Seconds until the API server is asked again when it did not answer."""


class Departures:
    """Removes the pods that are being deleted from an API server, as a kubelet would once they have ended.

    An API server keeps a bound pod that is deleted until its kubelet reports its end. Here no kubelet runs, so the
    room of preempted pods would never become free.
    """

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    async def run(self) -> None:
        """Work until cancelled."""
        api = HttpApiClient(read_access(self._kubeconfig), ApiLimits(qps=-1))
        try:
            while True:
                try:
                    await follow(api)
                except UpstreamError as error:
                    log.debug("departures_interrupted effect=retried error=%r", str(error))
                await asyncio.sleep(AGAIN)
        finally:
            await api.close()


async def follow(api: ApiClient) -> None:
    """Remove each bound pod that is being deleted. Ends by an error only: raises `UpstreamError`."""
    async with api.watch(PODS) as batches:
        async for batch in batches:
            for change in batch.changes:
                if is_leaving(change):
                    metadata = change.object["metadata"]
                    await api.delete(
                        PODS,
                        metadata["name"],
                        namespace=metadata["namespace"],
                        uid=uid_of(change.object),
                        grace_seconds=0,
                    )


def is_leaving(change: ApiChange) -> bool:
    """Whether a change shows a bound pod that is being deleted and is still there."""
    if change.kind is ChangeKind.DELETED or not change.object["metadata"].get("deletionTimestamp"):
        return False
    return bool((change.object.get("spec") or {}).get("nodeName"))


NAME = "kube-apiserver"
"""Of the process, in the ready file and in the table."""
PORT = 6443
"""The usual one of API servers."""


def executable(at_hand: Callable[[binaries.Program], Path | None] = binaries.at_hand) -> Path:
    """The API server's program. Raises `ServerError` where there is none: it is built on request only."""
    found = at_hand(binaries.KUBE_APISERVER)
    if found is None:
        version = binaries.pinned(binaries.KUBE_APISERVER)
        raise ServerError(
            f"--kubernetes: there is no kube-apiserver {version}: `python -m wharfinger.dev.binaries kube-apiserver` "
            f"builds it with Go (once, about five minutes), or put one of {version.rpartition('.')[0]} on the PATH"
        )
    return found


async def check_installation(store: Store, folder: DataFolder, *, kubernetes: bool) -> None:
    """Raise `InstallationMismatch` where workers would refuse to start: better reported once than by each of them.

    `kubernetes`: whether an API server is to have the pods. The folder remembers what etcd has: its own file was lost.
    """
    installed = await installation_of(store)
    if installed is None or bool(installed.upstream) is kubernetes:
        return
    folder.remember_kubernetes(bool(installed.upstream))
    raise InstallationMismatch(other_store(folder.root, kubernetes=bool(installed.upstream)))


def other_store(folder: Path, *, kubernetes: bool) -> str:
    """Why a folder cannot be used as it is asked for. `kubernetes`: whether its cluster is an API server's."""
    if kubernetes:
        return (
            f"--data-dir {folder}: its cluster's pods and nodes are those of an API server: leave out --no-kubernetes, "
            "or name another folder"
        )
    return (
        f"--data-dir {folder}: its cluster keeps pods and nodes in etcd itself: leave out --kubernetes, or name "
        "another folder"
    )


@dataclass(slots=True)
class KubernetesPart:
    """The API server of one tree."""

    folder: DataFolder
    etcd: Callable[[], EtcdServer]
    """The tree's etcd."""
    server: KubeApiserver
    named: bool
    """Whether the user named its port, which then stays."""
    settled: bool = False
    """Whether it was up: from then on it keeps its port, because kubeconfigs name it."""
    _departing: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, folder: DataFolder, program: Path, etcd: Callable[[], EtcdServer], port: int | None) -> KubernetesPart:
        """The API server of a folder. `port`: the one that must be free; None = that of the last life, else the usual.

        Raises `ServerError` when a named port is taken.
        """
        chosen = (
            ports.required(port, "--kubernetes-port", HOST)
            if port is not None
            else ports.preferred((folder.ports().get(NAME), PORT), HOST)
        )
        files = ApiserverFiles(folder.root / "kubernetes")
        return cls(folder, etcd, KubeApiserver(program, files, "", chosen), named=port is not None)

    @property
    def kubeconfig(self) -> Path:
        """The administrator's; readable by its owner only."""
        return self.server.files.kubeconfig

    def ready(self) -> dict[str, str]:
        """As in the ready file."""
        return {"server": self.server.url, "kubeconfig": str(self.kubeconfig)}

    def spec(self) -> ChildSpec:
        """The API server; to be started after etcd."""

        async def is_up() -> bool:
            return await asyncio.to_thread(self.server.is_up)

        def command() -> list[str]:
            port = self.server.port
            if not (self.settled or self.named):
                port = ports.preferred((port,), HOST)
            etcd = self.etcd()
            url, certificate = (etcd.tls_url, etcd.certificate) if etcd.tls_port else (etcd.url, None)
            self.server = replace(self.server, etcd=url, etcd_certificate=certificate, port=port)
            self.server.prepare()
            return self.server.command()

        return ChildSpec(NAME, command, clean_environment(), self.folder.log(NAME), is_up, STOP_WITHIN)

    def came_up(self, *, without_kubelets: bool) -> None:
        """The API server is up for the first time. `without_kubelets`: whether pods that leave are to be removed."""
        self.settled = True
        self.folder.remember_ports({NAME: self.server.port})
        if without_kubelets:
            self._departing = asyncio.create_task(Departures(self.kubeconfig).run())

    async def stop(self) -> None:
        """End what runs in this process."""
        if self._departing is not None:
            self._departing.cancel()
            await asyncio.gather(self._departing, return_exceptions=True)
