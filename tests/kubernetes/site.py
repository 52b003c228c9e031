"""A real Kubernetes API with nodes and pods, and installations of wharfinger that schedule it.

::

    KubernetesSite   API server and its etcd, Temporal         of all tests of a process, or of one that destroys them
    Installation     an etcd of ours, a cluster's name, workers           of one test; several may share a site

Every process may be killed, stopped and started again on what it has kept. Neighbours: `judge` records and judges what
the API shows, `settled` waits for the end and looks at both sides.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from temporalio.client import Client

from tests.apiserver.api_server_process import ApiServerProcess
from tests.conftest import free_port
from tests.etcd.etcd_process import EtcdProcess
from tests.faults.site import Process
from tests.integration.dev_tree import wait_until
from tests.integration.gateway import Gateway
from tests.integration.worker_process import WorkerProcess
from tests.kubernetes.judge import CPU_OF_POD, thousandths
from tests.kubernetes.objects import NAMESPACE, Request, creating, deleting, labelling, node, pod
from wharfinger.apiserver import client
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.dev import binaries
from wharfinger.dev.temporal import TemporalServer
from wharfinger.errors import UpstreamUnavailable
from wharfinger.etcd import keys

NODES = 12
PODS_PER_NODE = 15
ALL = NODES * PODS_PER_NODE
"""Pods that have room: 180. A node with one more is overcommitted."""
AT_ONCE = 8
"""Requests side by side: each opens a connection, and more of them make nothing quicker."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
ELECTION_LOST = "error: leader election lost:"
"""How the last line of a worker begins that could not renew the Lease."""
MANY = 100
"""Of requests that are repeated while the API server is away, a tenth of a second each."""

_numbers = itertools.count()


class KubernetesSite:
    """The servers that installations share."""

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        """`durable`: whether Temporal keeps what it has when it is killed."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.api = ApiServerProcess(folder / "kubernetes")
        database = folder / "temporal.db" if durable else None
        server = TemporalServer(binaries.locate(binaries.TEMPORAL), free_port(), database=database)
        self.temporal_address = server.address
        self.temporal = Process(
            "temporal", server.command, folder / "temporal.log", lambda: asyncio.run(server.is_up())
        )

    def start(self) -> KubernetesSite:
        self.temporal.start()
        self.api.start()
        self.temporal.wait_up(40)
        return self

    def close(self) -> None:
        self.api.kill_all()
        self.temporal.kill()

    # --- the API's objects --------------------------------------------------------------------

    def clear(self) -> None:
        """Delete all pods and nodes, and the Lease: the next scheduler has it at once."""
        self.api.request("DELETE", LEASE)
        for resource, namespace in ((client.PODS, NAMESPACE), (client.NODES, "")):
            answer = self.api.request("DELETE", f"{resource.path(namespace)}?gracePeriodSeconds=0")
            assert answer.code == 200, answer

    def create_nodes(self, count: int = NODES, cpu: str = f"{PODS_PER_NODE * CPU_OF_POD}m") -> dict[str, int]:
        """Ready nodes; thousandths of a CPU that each has."""
        bodies = [node(f"n{number:02}", cpu) for number in range(count)]
        self.send(creating(client.NODES, body) for body in bodies)
        return {str(body["metadata"]["name"]): thousandths(cpu) for body in bodies}

    def create_pods(
        self,
        names: Iterable[str],
        cpu: str = f"{CPU_OF_POD}m",
        *,
        scheduler: str = "",
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Pods with one container, all at once. `scheduler`: whose they are; empty = the default one's."""
        self.send(creating(client.PODS, pod(name, cpu, scheduler, labels or {})) for name in names)

    def label_nodes(self, names: Iterable[str], **labels: str) -> None:
        """Give nodes labels, which change nothing for any pod."""
        patch = {"metadata": {"labels": labels}}
        self.send(labelling(name, patch) for name in names)

    def delete_pods(self, names: Iterable[str]) -> None:
        """Without grace: nothing runs them."""
        self.send(deleting(client.PODS, name, NAMESPACE) for name in names)

    def listed(self, resource: client.ApiResource, selector: str = "") -> list[dict[str, Any]]:
        """All objects of a kind, by a consistent list. `selector`: of fields; empty = any."""
        answer = self.api.request("GET", f"{resource.path()}?{urlencode({'fieldSelector': selector})}")
        assert answer.code == 200, answer
        found: list[dict[str, Any]] = answer.body["items"]
        return found

    def pods(self) -> dict[str, dict[str, Any]]:
        """By name."""
        return {one["metadata"]["name"]: one for one in self.listed(client.PODS)}

    def unbound(self) -> list[str]:
        """The pods that are not bound in the API."""
        return [one["metadata"]["name"] for one in self.listed(client.PODS, "spec.nodeName=")]

    def lease_holder(self) -> str:
        """Who has the Lease; empty = no one."""
        answer = self.api.request("GET", LEASE)
        return str(answer.body["spec"].get("holderIdentity") or "") if answer.code == 200 else ""

    def send(self, requests: Iterable[Request]) -> None:
        """Send them side by side, and again while the API server is away."""
        asyncio.run(self._send(list(requests)))

    async def _send(self, requests: list[Request]) -> None:
        api = HttpApiClient(read_access(self.api.kubeconfig), ApiLimits(qps=-1.0))
        several = asyncio.Semaphore(AT_ONCE)

        async def one(request: Request) -> None:
            async with several:
                for _ in range(MANY):
                    try:
                        answer = await request(api)
                    except UpstreamUnavailable:
                        await asyncio.sleep(0.1)
                        continue
                    assert answer.done or answer.code in {404, 409}, answer
                    return
                raise AssertionError("the API server stays away")

        try:
            await asyncio.gather(*map(one, requests))
        finally:
            await api.close()


class Installation:
    """An etcd of its own and workers: one installation of wharfinger."""

    def __init__(self, site: KubernetesSite, folder: Path, cluster: str = "") -> None:
        """Starts its etcd. `cluster`: another one than any before where it is empty."""
        self.site = site
        self.folder = folder
        self.cluster = cluster or f"cluster{next(_numbers)}"
        self.etcd = self._started_etcd()
        self.workers: list[WorkerProcess] = []
        self._started = 0
        self._replaced: list[WorkerProcess] = []

    def _started_etcd(self) -> EtcdProcess:
        return EtcdProcess(self.folder / f"{self.cluster}-etcd").start()

    @property
    def gateway(self) -> Gateway:
        """Plain HTTP to its etcd."""
        return Gateway(self.etcd.url)

    def start_worker(
        self,
        *options: str,
        qps: float = -1.0,
        wait: bool = True,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> WorkerProcess:
        """One more worker. `qps`: its requests a second to the API; what is promised is sent no faster. `env`: its
        variables besides ours. `folder`: where it starts, if not here.
        """
        self._started += 1
        worker = WorkerProcess(
            self.folder / f"{self.cluster}-worker{self._started}.log",
            f"--kubeconfig={self.site.api.kubeconfig}", f"--kube-api-qps={qps:g}",
            *(["--kube-api-burst=5"] if qps > 0 else []),
            "--events=none", f"--cluster={self.cluster}",
            f"--etcd={self.etcd.url}", f"--temporal={self.site.temporal_address}", *options, env=env, folder=folder,
        )  # fmt: skip
        self.workers.append(worker)
        if wait:
            worker.wait_ready()
        return worker

    def start_workers(self, count: int, *options: str, qps: float = -1.0) -> list[WorkerProcess]:
        """Some more workers, side by side."""
        fresh = [self.start_worker(*options, qps=qps, wait=False) for _ in range(count)]
        for worker in fresh:
            worker.wait_ready()
        return fresh

    def revive(self) -> None:
        """Start one anew for a worker that ended because it could not renew the Lease, as an operator's tools do.

        Fails for a worker that ended by itself for another reason.
        """
        for worker in self.workers:
            if worker.process.poll() not in (None, -signal.SIGKILL) and worker not in self._replaced:
                last = worker.said.splitlines()[-1]
                assert (worker.process.returncode, last[: len(ELECTION_LOST)]) == (1, ELECTION_LOST), last
                self._replaced.append(worker)
                self.start_worker(wait=False)
                return

    def kill_workers(self, *which: WorkerProcess) -> None:
        """SIGKILL; all of them where none is named."""
        doomed = which or tuple(self.workers)
        for worker in doomed:
            worker.process.kill()
        for worker in doomed:
            worker.process.wait()

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        self.etcd.kill()

    # --- what is in its etcd ------------------------------------------------------------------

    def promises(self) -> dict[str, dict[str, Any]]:
        """Pod name -> promise."""
        return {key.rpartition("/")[2]: one for key, one in self.gateway.objects(keys.PROMISES).items()}

    def importer(self) -> WorkerProcess | None:
        """The worker that copies now."""
        record = self.gateway.get(keys.IMPORTER)
        pid = int(record["holder"].partition("@")[0]) if record else 0
        return next((worker for worker in self.workers if worker.process.pid == pid), None)

    def until_importer(self, seconds: float = 20.0, *, but: WorkerProcess | None = None) -> WorkerProcess:
        """The importer, as soon as there is one, and it is not that worker."""
        wait_until(lambda: self.importer() not in (None, but), seconds, "there is an importer", every=0.05)
        found = self.importer()
        assert found is not None
        return found

    @property
    def running(self) -> list[WorkerProcess]:
        """The workers that have not ended, oldest first."""
        return [worker for worker in self.workers if worker.process.poll() is None]

    def others(self, worker: WorkerProcess) -> list[WorkerProcess]:
        """The same, without that one."""
        return [one for one in self.running if one is not worker]

    def may_bind(self) -> bool:
        """Whether `active` is there."""
        return self.gateway.get(keys.ACTIVE) is not None

    def promised_and_unbound(self) -> list[str]:
        """The pods whose bind is in our etcd and not in the API."""
        promised = self.promises()
        return [name for name in self.site.unbound() if name in promised] if promised else []

    def open_workflows(self) -> list[str]:
        """The attempts that have not ended, by Temporal's list, which is a moment behind."""

        async def listed() -> list[str]:
            query = f"ExecutionStatus = 'Running' AND WorkflowId STARTS_WITH '{self.cluster}/'"
            temporal = await Client.connect(self.site.temporal_address)
            return [each.id async for each in temporal.list_workflows(query)]

        return asyncio.run(listed())


def stop(worker: WorkerProcess) -> None:
    """SIGSTOP, and see that no thread of it runs any more."""
    worker.process.send_signal(signal.SIGSTOP)
    tasks = Path(f"/proc/{worker.process.pid}/task")
    wait_until(lambda: all(_is_stopped(task) for task in tasks.iterdir()), 20, "the worker stands still", every=0.001)


def resume(worker: WorkerProcess) -> None:
    """SIGCONT."""
    worker.process.send_signal(signal.SIGCONT)


def _is_stopped(task: Path) -> bool:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:  # it ended meanwhile
        return True
