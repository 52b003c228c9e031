"""The command line against a real etcd, each test in a namespace of its own."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import EtcdServer
from wharfinger.cli.main import run
from wharfinger.etcd.etcd import EtcdStore
from wharfinger.settings import EtcdSettings

_numbers = itertools.count()


@dataclass(frozen=True)
class Answer:
    """What a command line did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Shell:
    """Runs command lines in this process."""

    namespace: str
    folder: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Answer:
        """Run one command line."""
        code = run(arguments)
        captured = self.capture.readouterr()
        return Answer(code, captured.out, captured.err)

    def file(self, content: Any, name: str = "manifest.yaml") -> str:
        """A file with this text, or these objects as a List."""
        text = content if isinstance(content, str) else json.dumps({"kind": "List", "items": content})
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def pod(self, name: str, **spec: Any) -> dict[str, Any]:
        """A pod of this namespace."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "containers": [{"name": "c", "image": "e/x:1", "resources": {"requests": {"cpu": "100m"}}}],
                **spec,
            },
        }

    def node(self) -> dict[str, Any]:
        """A node that no other test uses."""
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{self.namespace}"},
            "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": 10}},
        }


@pytest.fixture
def outside(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    """Command lines without any etcd."""
    monkeypatch.setenv("COLUMNS", "120")
    return Shell("default", tmp_path, capsys)


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """An etcd that is away is given up after a second: what is told then is tested, not that people wait for five."""
    connect = EtcdStore.connect

    async def soon(settings: EtcdSettings, *, within: float | None = None) -> EtcdStore:
        return await connect(settings, within=1.0)

    monkeypatch.setattr(EtcdStore, "connect", soon)


@pytest.fixture
def url(shell: Shell, etcd_server: EtcdServer) -> str:
    """Where etcd is that the shell's command lines reach."""
    return etcd_server.url


@pytest.fixture
def shell(outside: Shell, etcd_server: EtcdServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """Command lines that find the test's etcd by the environment; what they leave is removed."""
    monkeypatch.setenv("WHARFINGER_ETCD", etcd_server.url)
    own = Shell(f"cli-{next(_numbers)}", outside.folder, outside.capture)
    yield own
    pods = own("get", "pods", "-n", own.namespace, "-o", "json").json["items"]
    for pod in pods:
        own("delete", "pod", pod["metadata"]["name"], "-n", own.namespace)
    own("delete", "node", own.node()["metadata"]["name"], "--ignore-not-found")


@pytest.fixture(autouse=True)
def root_log() -> Iterator[None]:
    """A command that runs in this process writes its log to a standard error that ends with the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    if root.level != level:  # to set it makes all loggers forget what they log
        root.setLevel(level)
