"""Back-up and restore of both stores, with the commands of `docs/backup.md`, while workers run.

What is judged is in etcd: each pod is bound once, and no pod waits for a wake that never comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from tests.conftest import free_port, start_etcd, start_temporal
from tests.integration.dev_tree import wait_until
from tests.integration.gateway import NODES, PODS, Gateway, audit, bound_pods, node, pod, refusals
from tests.integration.worker_process import WorkerProcess
from tests.patience import patient
from wharfinger.cli.main import run
from wharfinger.dev import binaries

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

BUMPED = ("--bump-revision", "1000000000", "--mark-compacted")


class Servers:
    """An etcd and a Temporal that can be stopped, saved and restored, and workers on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = free_port(), free_port()
        self._etcd, self._temporal = ExitStack(), ExitStack()
        self.workers: list[WorkerProcess] = []
        self._started = 0
        self.start_etcd()

    def with_less_room(self) -> None:
        """Etcd again, which is full soon."""
        self._etcd.close()
        self.start_etcd("--quota-backend-bytes=16777216")

    def start_etcd(self, *options: str) -> None:
        self.url = self._etcd.enter_context(start_etcd(self.folder, self._ports[0], *options)).url

    def start_temporal(self, *, durable: bool = False) -> None:
        server = start_temporal(self.folder, self._ports[1], durable=durable)
        self.address = self._temporal.enter_context(server).address

    def stop_temporal(self) -> None:
        self._temporal.close()

    @property
    def etcd(self) -> Gateway:
        return Gateway(self.url)

    def ctl(self, *arguments: str) -> None:
        _run(binaries.ETCDCTL, "--endpoints", self.url, *arguments)

    def save(self, name: str) -> Path:
        folder = self.folder / name
        assert run(["backup", str(folder), "--etcd", self.url]) == 0
        (file,) = folder.iterdir()
        return file

    def restore(self, file: Path, *options: str) -> None:
        """Stop etcd, put the saved state in the place of its data, start it again."""
        self._etcd.close()
        data = self.folder / "etcd"
        shutil.rmtree(data)
        _run(
            binaries.ETCDUTL, "snapshot", "restore", str(file), "--data-dir", str(data), "--name", "wharfinger",
            "--initial-cluster", "wharfinger=http://127.0.0.1:2380",
            "--initial-advertise-peer-urls", "http://127.0.0.1:2380", *options,
        )  # fmt: skip
        self.start_etcd()

    def start_workers(self, count: int = 2, *options: str) -> None:
        env = {"WHARFINGER_ETCD": self.url, "WHARFINGER_TEMPORAL": self.address}
        for _ in range(count):
            self._started += 1
            self.workers.append(WorkerProcess(self.folder / f"worker{self._started}.log", *options, env=env))
        for worker in self.workers:
            worker.wait_ready()

    def stop_workers(self) -> None:
        for worker in self.workers:
            assert worker.stop() == 0
        self.workers.clear()

    def ended_workers(self) -> list[str]:
        """The last line of each worker, all of which end by themselves with exit code 1."""
        codes = [worker.wait_exit(40) for worker in self.workers]
        assert codes == [1] * len(codes)
        lines = [worker.said.splitlines()[-1] for worker in self.workers]
        self.workers.clear()
        return lines

    def put_pods(self, kind: str, count: int, cpu: str = "500m") -> None:
        for number in range(count):
            self.etcd.put(f"{PODS}default/{kind}{number}", pod(f"{kind}{number}", cpu=cpu))

    def bound(self, kind: str) -> dict[str, str]:
        return {name: on for name, on in bound_pods(self.etcd).items() if name.startswith(kind)}

    def until_bound(self, kind: str, count: int) -> None:
        wait_until(lambda: len(self.bound(kind)) == count, 30, f"{count} of {kind} bound")

    def until_waiting(self, count: int) -> None:
        wait_until(lambda: len(refusals(self.etcd)) == count, 30, f"{count} wait")

    def close(self) -> None:
        for worker in self.workers:
            worker.end()
        self._temporal.close()
        self._etcd.close()


def _run(program: binaries.Program, *arguments: str) -> None:
    command = [str(binaries.locate(program)), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """No Temporal and no worker at first."""
    servers = Servers(tmp_path)
    try:
        yield servers
    finally:
        servers.close()


def test_workers_end_when_etcd_is_restored_and_new_ones_continue(servers: Servers) -> None:
    servers.start_temporal()
    servers.start_workers()
    for number in range(3):
        servers.etcd.put(f"{NODES}n{number}", node(f"n{number}", cpu="8"))
    servers.put_pods("bound", 10)
    servers.put_pods("waiting", 5, cpu="20")
    servers.until_bound("bound", 10)
    servers.until_waiting(5)
    servers.stop_workers()
    servers.put_pods("pending", 5)
    before = servers.bound("bound")
    saved = servers.save("saved.db")
    servers.start_workers()
    servers.until_bound("pending", 5)
    servers.etcd.put(f"{NODES}large", node("large", cpu="200"))
    servers.until_bound("waiting", 5)

    # Without the options: an older revision is noticed by each worker that saw a newer one.
    servers.restore(saved)
    for line in servers.ended_workers():
        assert line.startswith("error: etcd is at revision ")
        assert "restored from a backup" in line

    # As documented; no worker runs. What came after the back-up is lost: the node, the binds, the wakes.
    servers.restore(saved, *BUMPED)
    revision = servers.etcd.revision()
    assert revision > 10**9
    servers.start_workers()
    servers.until_bound("pending", 5)
    servers.until_waiting(5)
    assert servers.bound("bound") == before
    servers.etcd.put(f"{NODES}large", node("large", cpu="200"))
    servers.until_bound("waiting", 5)  # their chains had ended: they are started anew

    # As documented, but workers run, and something that they know is lost.
    saved = servers.save("later.db")
    servers.put_pods("lost", 5)
    servers.until_bound("lost", 5)
    now = bound_pods(servers.etcd)
    servers.restore(saved, *BUMPED)
    for line in servers.ended_workers():
        assert line.startswith("error: etcd has lost what it had shown of /registry/")
        assert "restored from a backup; start the workers anew" in line
    servers.start_workers()
    assert servers.bound("lost") == {}
    assert bound_pods(servers.etcd) == {name: on for name, on in now.items() if not name.startswith("lost")}
    servers.put_pods("lost", 5)
    servers.until_bound("lost", 5)
    verdict = audit(servers.etcd, servers.etcd.revision() - 5)
    assert verdict.doubled == []
    used = Counter(bound_pods(servers.etcd).values())
    assert all(used[f"n{number}"] <= 16 for number in range(3))
    servers.stop_workers()


def test_a_temporal_that_lost_everything_loses_no_pod_that_waits(servers: Servers) -> None:
    servers.start_temporal()
    servers.start_workers()
    servers.etcd.put(f"{NODES}n", node("n", cpu="8"))
    servers.put_pods("bound", 5)
    servers.put_pods("waiting", 8, cpu="20")
    servers.until_bound("bound", 5)
    servers.until_waiting(8)
    before = bound_pods(servers.etcd)

    servers.stop_temporal()  # it keeps everything in memory
    servers.put_pods("meanwhile", 3)
    servers.start_temporal()

    servers.until_bound("meanwhile", 3)
    for number in range(4):  # room for four of the eight: they are woken, though nothing is there to be signalled
        servers.etcd.put(f"{NODES}large{number}", node(f"large{number}", cpu="20"))
    servers.until_bound("waiting", 4)
    servers.stop_workers()
    servers.start_workers(1)
    for number in range(4, 8):  # those that wait need no workflow that Temporal remembers
        servers.etcd.put(f"{NODES}large{number}", node(f"large{number}", cpu="20"))
    servers.until_bound("waiting", 8)
    assert before.items() <= bound_pods(servers.etcd).items()
    servers.stop_workers()


def test_a_temporal_restored_from_a_back_up_catches_up_with_etcd(servers: Servers) -> None:
    servers.start_temporal(durable=True)
    servers.start_workers(1)
    servers.etcd.put(f"{NODES}n", node("n", cpu="8"))
    servers.put_pods("old", 4, cpu="20")
    servers.until_waiting(4)
    servers.stop_temporal()
    saved = [shutil.copy(file, f"{file}.saved") for file in sorted(servers.folder.glob("temporal.db*"))]
    servers.start_temporal(durable=True)
    servers.etcd.put(f"{NODES}large", node("large", cpu="100"))
    servers.until_bound("old", 4)
    now = bound_pods(servers.etcd)

    servers.stop_temporal()
    for file in servers.folder.glob("temporal.db*"):
        if not file.name.endswith(".saved"):
            file.unlink()
    for copy in saved:
        shutil.copy(copy, copy.removesuffix(".saved"))
    servers.start_temporal(durable=True)
    servers.put_pods("new", 4)
    servers.put_pods("waiting", 2, cpu="500")
    servers.until_bound("new", 4)
    servers.until_waiting(2)

    assert servers.bound("old") == now
    asyncio.run(end_chains(servers.address, "/old"))  # open again, though their pods are bound
    assert servers.bound("old") == now
    servers.stop_workers()


def test_a_full_etcd_holds_pods_back_until_there_is_room_and_loses_none(servers: Servers) -> None:
    servers.with_less_room()
    servers.start_temporal()
    servers.start_workers(1, "--lease-ttl", "60")  # a full etcd grants no other: one that stood still could not return
    etcd = servers.etcd
    servers.put_pods("waiting", 5, cpu="20")
    servers.until_waiting(5)
    etcd.put(f"{NODES}small", node("small", cpu="1"))
    with pytest.raises(RuntimeError, match="database space exceeded"):
        fill(etcd)
    etcd.delete(f"{NODES}small")  # deletes are taken
    with pytest.raises(RuntimeError, match="database space exceeded"):
        etcd.put(f"{NODES}large", node("large", cpu="100"))
    time.sleep(3)
    assert servers.workers[0].get("/readyz")[0] == 200

    servers.ctl("compact", "--physical", str(etcd.revision()))  # else it may go on behind the next command
    servers.ctl("defrag")
    servers.ctl("alarm", "disarm")
    etcd.put(f"{NODES}large", node("large", cpu="100"))
    servers.until_bound("waiting", 5)
    servers.stop_workers()


def fill(etcd: Gateway) -> None:
    for _ in range(400):
        etcd.put("/other/history", b"x" * 100_000)


async def open_chains(address: str) -> list[str]:
    client = await Client.connect(address)
    return [each.id async for each in client.list_workflows("ExecutionStatus = 'Running'")]


async def end_chains(address: str, part: str) -> None:
    """Wake chains of pods that need none: they look, and end; as they would by themselves within the hour."""
    client = await Client.connect(address)
    for workflow_id in [each for each in await open_chains(address) if part in each]:
        handle = client.get_workflow_handle(workflow_id)
        with contextlib.suppress(RPCError):  # the list lags behind, and workers end chains too
            await handle.signal("wake")
        assert (await handle.result())["outcome"] == "bound"
