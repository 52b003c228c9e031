"""A whole fleet behind an etcd with TLS and passwords, and secrets of its own, which appear nowhere."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import stat
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests import forked
from tests.conftest import TemporalServer, free_port, start_temporal
from tests.integration import told
from tests.integration.gateway import node, pod
from tests.integration.test_secured_etcd import SecuredEtcd
from tests.patience import patient
from wharfinger.process.children import locks
from wharfinger.process.connecting import data_converter, temporal_configuration
from wharfinger.settings import TemporalSettings

pytestmark = [pytest.mark.servers, pytest.mark.timeout(400)]

OWN = "own-secret/of the fleet+7d41"
AGENTS = f"agents-environment-{uuid.uuid4().hex}"
"""No other process of this machine has it, whatever else is tested there."""
MISTAKEN = "mistaken-password-51f0ab"
TTL = 30
"""Nothing waits for a lease to end here, and one that ended while the machine stood still would change the fleet."""
COMPLETE = f"{patient(50):.0f}s"
COPIES = "data/instances/*/*/*/secrets"
SPEC = "/registry/wharfinger.dev/"


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    secured = SecuredEtcd(tmp_path_factory.mktemp("secured"))
    aside = {"permType": "READWRITE", "key": _b64("/wharfinger.dev/"), "range_end": _b64("/wharfinger.dev0")}
    secured.call("/auth/role/grant", {"name": "scheduler", "perm": aside})  # as who sets values needs it
    try:
        yield secured
    finally:
        secured.server.kill()


@pytest.fixture(scope="module")
def temporal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    with start_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server


class Host:
    """One agent with both parts, an operator's commands, and all output."""

    def __init__(self, etcd: SecuredEtcd, temporal: TemporalServer, folder: Path) -> None:
        self.etcd = etcd
        self.folder = folder
        self.said: dict[str, bytes] = {}
        self.variables = {**os.environ, **etcd.variables(TEMPORAL=temporal.address, CLUSTER="kept")}
        self.secrets = folder / "secrets"
        for name, content in (("etcd-password", self.password + "\n"), ("own", OWN)):
            (self.secrets / name).mkdir(parents=True)
            (self.secrets / name / "1").write_text(content)
        self.health = f"http://127.0.0.1:{free_port()}"
        log = (folder / "agent.log").open("wb")
        self.agent = subprocess.Popen(
            [
                *(*forked.COMMAND, "agent", "--host=h1", f"--data-dir={folder / 'data'}"),
                *(f"--secrets-dir={self.secrets}", f"--health-port={self.health.rpartition(':')[2]}"),
                *(f"--lease-ttl={TTL}", "--allow-env=HARMLESS", "--log-level=debug"),
            ],
            stdout=log,
            stderr=log,
            env=forked.variables({**self.variables, "AGENTS_OWN": AGENTS, "HARMLESS": "passes"}),
        )
        log.close()

    @property
    def password(self) -> str:
        return self.etcd.password_file.read_text().strip()

    def cli(self, *words: str, **variables: str) -> str:
        done = forked.run(*words, env={**self.variables, **variables}, timeout=patient(60))
        self.said[f"command {' '.join(words)}"] = (done.stdout + done.stderr).encode()
        return done.stdout

    def apply(self, **template: Any) -> None:
        fleet = {
            "apiVersion": "wharfinger.dev/v1",
            "kind": "SchedulerFleet",
            "metadata": {"name": "common"},
            "spec": {
                "replicas": 1,
                "minReadySeconds": 1,
                "strategy": {"rollingUpdate": {"soakSeconds": 0}},
                "template": template,
            },
        }
        (self.folder / "fleet.json").write_text(json.dumps(fleet))
        self.cli("fleet", "apply", "-f", str(self.folder / "fleet.json"))

    def instances(self) -> dict[str, dict[str, Any]]:
        """What instances say of themselves, by key."""
        return self.records("instances")

    def records(self, kind: str) -> dict[str, dict[str, Any]]:
        """All of a kind, by key."""
        ask = {"key": _b64(f"{SPEC}{kind}/"), "range_end": _b64(f"{SPEC}{kind}0")}
        kvs = self.etcd.call("/kv/range", ask).get("kvs", [])
        return {base64.b64decode(kv["key"]).decode(): json.loads(base64.b64decode(kv["value"])) for kv in kvs}

    def alive(self) -> list[int]:
        found = [locks.holder(lock) for lock in self.folder.glob("data/instances/*/*/*.lock") if locks.locked(lock)]
        return [life.pid for life in found if life is not None]

    def living(self) -> set[str]:
        """Incarnations of slot 0 that hold their locks."""
        return {lock.stem for lock in self.folder.glob("data/instances/common/0/*.lock") if locks.locked(lock)}

    async def until(self, true: Callable[[], Any], seconds: float = 90.0) -> None:
        async with asyncio.timeout(patient(seconds)):
            while not true():
                assert self.agent.poll() is None, (self.folder / "agent.log").read_text()[-2000:]
                await asyncio.sleep(0.2)

    def end(self) -> None:
        self.agent.kill()
        self.agent.wait()
        for pid in self.alive():
            with suppress(ProcessLookupError):
                os.kill(pid, 9)


@pytest.fixture
async def host(etcd: SecuredEtcd, temporal: TemporalServer, tmp_path: Path) -> AsyncIterator[Host]:
    host = Host(etcd, temporal, tmp_path)
    try:
        yield host
    finally:
        host.end()


async def test_secrets_of_a_fleet_appear_nowhere(host: Host, temporal: TemporalServer) -> None:
    kept = [{"name": "etcd-password", "version": "1"}, {"name": "own", "version": "1"}]
    host.etcd.put("/registry/nodes/n0", node("n0"))
    host.apply(secrets=kept, environment={"HARMLESS": "also"})
    await host.until(lambda: [one["state"] for one in host.instances().values()] == ["ready"])
    [copies] = host.folder.glob(COPIES)
    assert {copy.name: stat.S_IMODE(copy.stat().st_mode) for copy in copies.iterdir()} == {
        "etcd-password": 0o400,
        "own": 0o400,
    }
    assert (copies / "own").read_text() == OWN

    host.etcd.put("/registry/pods/default/guarded", pod("guarded"))
    await host.until(lambda: host.etcd.get("/registry/pods/default/guarded")["spec"].get("nodeName"))
    value = ("--target", "tenant/common", "--value", '{"level": "debug"}')
    assert host.cli("config", "set", "log", *value) == "config/log/tenant/common created\n"
    await host.until(lambda: [[*one["in_force"]] for one in host.records("configstatus").values()] == [["log"]])
    mistaken = host.folder / "mistaken"
    mistaken.write_text(MISTAKEN)
    host.cli("get", "pods", WHARFINGER_ETCD_PASSWORD_FILE=str(mistaken), WHARFINGER_DEBUG="1")
    host.apply(secrets=[*kept[:1], {"name": "own", "version": "missing"}])
    await host.until(lambda: b"own of version missing" in host.etcd.everything().encode())
    host.apply(secrets=kept)
    host.cli("fleet", "wait", "common", "--timeout", COMPLETE)  # no instance starts any more while all is searched
    assert b"fleet common is complete" in host.said[f"command fleet wait common --timeout {COMPLETE}"]
    await host.until(lambda: {copies.parent.name for copies in host.folder.glob(COPIES)} == host.living())
    looks = (
        ("fleet", "status", "common"),
        ("fleet", "history", "common", "-o", "json"),
        ("fleet", "diff", "common"),
        ("explain", "pod", "default/guarded", "-o", "json"),
        ("describe", "node", "n0"),
        ("config", "get", "--effective", "common/0", "-o", "json"),
    )
    await asyncio.gather(*(asyncio.to_thread(host.cli, *words) for words in looks))

    [health] = [one["health"] for one in host.instances().values() if one["state"] == "ready"]
    client = await Client.connect(
        **temporal_configuration(TemporalSettings(address=temporal.address)), data_converter=data_converter
    )
    all_told = {
        **await told.histories(client),
        **told.files(host.folder, but=[host.secrets, mistaken, *host.folder.glob(COPIES)]),
        **told.processes(),
        **host.said,
        "etcd": host.etcd.everything().encode(),
        "metrics": await asyncio.to_thread(_read, f"{health}/metrics"),
        "readyz": await asyncio.to_thread(_read, f"{health}/readyz?format=json"),
    }

    private = host.etcd.friend.key.read_text().splitlines()[1]
    assert any("fleet/common" in where for where in all_told)
    assert any(where.endswith(".log") and b"guarded" in content for where, content in all_told.items())
    assert told.tellers(all_told, (host.password, OWN, MISTAKEN, private)) == []
    # The agent's own environment is its own: no other process has it.
    having_it = told.tellers(all_told, [AGENTS])
    assert having_it == [f"process {host.agent.pid} environ"]


async def test_search_finds_a_planted_secret(etcd: SecuredEtcd, temporal: TemporalServer, tmp_path: Path) -> None:
    """The test above can fail: each of these has told the secret in its own way."""
    client = await Client.connect(
        **temporal_configuration(TemporalSettings(address=temporal.address)), data_converter=data_converter
    )
    secret = "told-by-way-of-trial-0b7e"
    await client.start_workflow("Nobody", {"deep": [f"x{secret}"]}, id="teller", task_queue="nobody")
    async with asyncio.timeout(patient(30)):
        while not (await client.count_workflows("WorkflowId = 'teller'")).count:  # visibility is a little late
            await asyncio.sleep(0.05)
    etcd.put("/registry/pods/default/teller", {"metadata": {"annotations": {"a": secret}}})
    (tmp_path / "teller.log").write_bytes(b"..." + base64.b64encode(b"me:" + secret.encode()) + b"...")
    asleep = (sys.executable, "-c", "import time; time.sleep(3600)")
    by_argument = subprocess.Popen([*asleep, f"--password={secret}"])
    by_environment = subprocess.Popen(asleep, env={**os.environ, "PASSWORD": secret})
    try:
        all_told = {
            **await told.histories(client),
            **told.files(tmp_path),
            **told.processes(),
            "etcd": etcd.everything().encode(),
        }
        found = told.tellers(all_told, [secret])
    finally:
        for process in (by_argument, by_environment):
            process.kill()
            process.wait()

    assert "etcd" in found
    assert any(where.startswith("history teller") for where in found)
    assert f"file {tmp_path / 'teller.log'}" in found
    assert f"process {by_argument.pid} cmdline" in found
    assert f"process {by_environment.pid} environ" in found


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _read(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=patient(30)) as answer:
        return bytes(answer.read())
