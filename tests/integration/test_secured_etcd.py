"""An etcd behind TLS that asks for a user, a password and a client certificate: worker, CLI, and no secret told."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from tests import forked
from tests.etcd.certificates import Authority, Signed
from tests.etcd.etcd_process import EtcdProcess
from tests.integration.conftest import StartWorker
from tests.integration.dev_tree import DevTree, wait_until
from tests.integration.gateway import SECONDS, node, pod
from tests.patience import patient

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]

PASSWORD = "correct-horse-battery-staple"
CLUSTER = "secured"
GET = ("get", "pods")
WORKER = ("worker", "--health-port", "-1")


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


class SecuredEtcd:
    """The server, and what a friend of it needs."""

    def __init__(self, folder: Path) -> None:
        self.ours, self.theirs = Authority(folder, "ours"), Authority(folder, "theirs")
        server = self.ours.sign("server", host="127.0.0.1")
        self.friend: Signed = self.ours.sign("friend", common_name=False)
        self.named: Signed = self.ours.sign("named")
        options = ["--cert-file", str(server.cert), "--key-file", str(server.key), "--bcrypt-cost", "4"]
        options += ["--client-cert-auth", "--trusted-ca-file", str(self.ours.pem)]
        self.server = EtcdProcess(folder / "etcd", scheme="https", options=options).start()
        self._token = ""
        permission = {"permType": "READWRITE", "key": b64("/registry/"), "range_end": b64("/registry0")}
        for path, body in (
            ("user/add", {"name": "root", "password": PASSWORD}),
            ("role/add", {"name": "root"}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("user/add", {"name": "scheduler", "password": PASSWORD}),
            ("role/add", {"name": "scheduler"}),
            ("role/grant", {"name": "scheduler", "perm": permission}),
            ("user/grant", {"user": "scheduler", "role": "scheduler"}),
            ("enable", {}),
        ):
            self.call(f"/auth/{path}", body)
        self._token = self.call("/auth/authenticate", {"name": "root", "password": PASSWORD})["token"]
        self.password_file = folder / "password"
        self.password_file.write_text(PASSWORD + "\n")

    def call(self, path: str, body: Mapping[str, object]) -> Any:
        """Ask etcd's JSON gateway as root, with a friend's certificate: another client than ours."""
        trust = ssl.create_default_context(cafile=str(self.ours.pem))
        trust.load_cert_chain(self.friend.cert, self.friend.key)
        headers = {"Authorization": self._token} if self._token else {}
        request = urllib.request.Request(f"{self.server.url}/v3{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=SECONDS, context=trust) as answer:
            return json.load(answer)

    def put(self, key: str, value: Mapping[str, object]) -> None:
        self.call("/kv/put", {"key": b64(key), "value": b64(json.dumps(value))})

    def get(self, key: str) -> dict[str, dict[str, str]]:
        kvs = self.call("/kv/range", {"key": b64(key)}).get("kvs", [])
        found: dict[str, dict[str, str]] = json.loads(base64.b64decode(kvs[0]["value"])) if kvs else {}
        return found

    def everything(self) -> str:
        """All keys and values, as text."""
        kvs = self.call("/kv/range", {"key": b64("\0"), "range_end": b64("\0")})["kvs"]
        return "\n".join(base64.b64decode(kv[part]).decode() for kv in kvs for part in ("key", "value") if part in kv)

    def variables(self, **other: object) -> dict[str, str]:
        values = {
            "ETCD": self.server.url,
            "ETCD_USER": "scheduler",
            "ETCD_PASSWORD_FILE": self.password_file,
            "ETCD_CA": self.ours.pem,
            "ETCD_CERT": self.friend.cert,
            "ETCD_KEY": self.friend.key,
            "CLUSTER": CLUSTER,
            **other,
        }
        return {f"WHARFINGER_{name}": str(value) for name, value in values.items()}


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredEtcd]:
    secured = SecuredEtcd(tmp_path_factory.mktemp("secured"))
    try:
        yield secured
    finally:
        secured.server.kill()


def wharfinger(*arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return forked.run(*arguments, env={**os.environ, **env}, timeout=patient(60))


async def histories(address: str, prefix: str) -> str:
    """Everything Temporal keeps of the workflows with such ids, as text."""
    client = await Client.connect(address)
    texts = []
    async for run in client.list_workflows(f"WorkflowId STARTS_WITH '{prefix}'"):
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        texts += [repr(run.raw_info), history.to_json(), *map(repr, history.events)]
    return "\n".join(texts)


@pytest.mark.parametrize("protocol", ["json", "grpc"])
async def test_worker_and_commands_work_and_print_no_secret(
    etcd: SecuredEtcd, servers: DevTree, start_worker: StartWorker, protocol: str
) -> None:
    guarded, waits = f"guarded-{protocol}", f"waits-{protocol}"
    etcd.put("/registry/nodes/n0", node("n0"))
    worker = start_worker("--log-level", "debug", env=etcd.variables(ETCD_PROTOCOL=protocol))
    etcd.put(f"/registry/pods/default/{guarded}", pod(guarded))
    etcd.put(f"/registry/pods/default/{waits}", pod(waits, cpu="100"))

    wait_until(lambda: etcd.get(f"/registry/pods/default/{guarded}")["spec"].get("nodeName") == "n0", 20, "bound")
    wait_until(lambda: etcd.get(f"/registry/wharfinger.dev/attempts/default/{waits}"), 20, "the other refused")
    options = [
        "--etcd", etcd.server.url, "--etcd-user", "scheduler", "--etcd-password-file", str(etcd.password_file),
        "--etcd-ca", str(etcd.ours.pem), "--etcd-cert", str(etcd.friend.cert), "--etcd-key", str(etcd.friend.key),
        "--temporal", servers.ready["temporal"], "--cluster", CLUSTER, "--etcd-protocol", protocol,
    ]  # fmt: skip
    listed = wharfinger("get", "pods", *options, env={})
    assert guarded in listed.stdout, listed.stderr
    explained = wharfinger("explain", "pod", f"default/{waits}", *options, env={})
    assert "Insufficient cpu" in explained.stdout, explained.stderr
    metrics = worker.get("/metrics")[1] + str(worker.checks())
    assert worker.stop() == 0
    async with asyncio.timeout(patient(30)):
        while guarded not in (kept := await histories(servers.ready["temporal"], CLUSTER)):
            await asyncio.sleep(0.2)  # visibility is a little late

    told = {
        "log": worker.said,
        "output": listed.stdout + listed.stderr + explained.stdout + explained.stderr,
        "metrics": metrics,
        "keys": etcd.everything(),
        "histories": kept,
    }
    private = etcd.friend.key.read_text().splitlines()[1]
    assert [where for where, text in told.items() if PASSWORD in text or private in text] == []


def test_setting_values_needs_a_permission_of_its_own(etcd: SecuredEtcd) -> None:
    """For the history of values, which lies where workers neither list nor write."""
    words = ("config", "set", "log", "--target", "tenant/guarded", "--value", '{"level": "debug"}')
    refused = wharfinger(*words, env=etcd.variables())
    assert refused.returncode == 1
    assert "a change of a value writes below /registry/ and /wharfinger.dev/" in refused.stderr
    permission = {"permType": "READWRITE", "key": b64("/wharfinger.dev/"), "range_end": b64("/wharfinger.dev0")}
    etcd.call("/auth/role/grant", {"name": "scheduler", "perm": permission})

    done = wharfinger(*words, env=etcd.variables())
    assert (done.returncode, done.stdout) == (0, "config/log/tenant/guarded created\n"), done.stderr


def test_a_changed_password_needs_no_restart(etcd: SecuredEtcd, start_worker: StartWorker) -> None:
    """As `docs/operations.md` says: the file first, then etcd's user."""
    worker = start_worker(env=etcd.variables())
    try:
        etcd.password_file.write_text("another\n")
        etcd.call("/auth/user/changepw", {"name": "scheduler", "password": "another"})
        etcd.put("/registry/nodes/n1", node("n1"))
        etcd.put("/registry/pods/default/later", pod("later"))

        wait_until(lambda: etcd.get("/registry/pods/default/later")["spec"].get("nodeName"), 20, "bound")
        wait_until(lambda: worker.get("/readyz")[0] == 200, 20, "ready")
    finally:
        etcd.password_file.write_text(PASSWORD + "\n")
        etcd.call("/auth/user/changepw", {"name": "scheduler", "password": PASSWORD})


@pytest.mark.parametrize(
    ("wrong", "command", "protocol"),
    [
        ("password", WORKER, "json"),
        ("password", GET, "json"),
        ("password", GET, "grpc"),
        ("no user", WORKER, "json"),
        ("no user", GET, "grpc"),
        ("authority", WORKER, "json"),
        ("authority", WORKER, "grpc"),
        ("authority", GET, "grpc"),
        ("no authority", GET, "json"),
        ("no authority", GET, "grpc"),
        ("no certificate", WORKER, "json"),
        ("no certificate", GET, "grpc"),
        ("named certificate", WORKER, "json"),
        ("named certificate", GET, "json"),
    ],
)
def test_what_etcd_or_we_do_not_trust_is_one_line_and_exit_code_1(
    etcd: SecuredEtcd, tmp_path: Path, wrong: str, command: tuple[str, ...], protocol: str
) -> None:
    password = tmp_path / "password"
    password.write_text("hunter2-is-not-it")
    variables = etcd.variables(ETCD_PROTOCOL=protocol)
    changes = {
        "password": {"WHARFINGER_ETCD_PASSWORD_FILE": str(password)},
        "no user": {"WHARFINGER_ETCD_USER": "", "WHARFINGER_ETCD_PASSWORD_FILE": ""},
        "authority": {"WHARFINGER_ETCD_CA": str(etcd.theirs.pem)},
        "no authority": {"WHARFINGER_ETCD_CA": ""},
        "named certificate": {
            "WHARFINGER_ETCD_CERT": str(etcd.named.cert),
            "WHARFINGER_ETCD_KEY": str(etcd.named.key),
        },
        "no certificate": {"WHARFINGER_ETCD_CERT": "", "WHARFINGER_ETCD_KEY": ""},
    }[wrong]

    done = wharfinger(*command, env={**variables, **changes})

    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert done.returncode == 1, done.stderr
    assert len(errors) == 1, done.stderr
    assert command != GET or done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "hunter2-is-not-it" not in done.stderr + done.stdout
    assert PASSWORD not in done.stderr + done.stdout


@pytest.mark.parametrize(
    "url", ["http://me:hunter2@127.0.0.1:2379", "http://me:hunter2@127.0.0.1:port", "ftp://me:hunter2@h:1"]
)
def test_a_password_in_a_url_is_refused_without_being_repeated(url: str) -> None:
    done = wharfinger("get", "pods", "--etcd", url, env={})

    assert done.returncode in (1, 2)
    assert done.stderr.count("\n") == 1
    assert "hunter2" not in done.stderr
