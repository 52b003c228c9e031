"""A kubeconfig and the files beside it, for tests: right as it is, and easily made wrong."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clock import Clock
from tests.etcd.certificates import Authority, Signed
from wharfinger.apiserver.credentials import Access, ApiClocks
from wharfinger.apiserver.exec_plugin import PluginCommand, PluginRun, RunPlugin
from wharfinger.apiserver.kubeconfig import KubeconfigSurroundings, read_access

SECRET = "s3cr3t"
"""Part of every secret here: no message may have it."""
V1 = "client.authentication.k8s.io/v1"


def kubeconfig_folder(folder: Path) -> KubeconfigFolder:
    """A right one, at the real time of day."""
    authority = Authority(folder, "ca")
    made = KubeconfigFolder(folder, authority, authority.sign("alice"))
    made.now.now = time.time()
    return made


async def no_plugin(command: PluginCommand) -> PluginRun:
    """For tests in which no plugin may be run."""
    raise AssertionError("a plugin was run")


@dataclass
class KubeconfigFolder:
    """A folder with an authority's certificate, a user's certificate and key, a token file, and a kubeconfig."""

    folder: Path
    authority: Authority
    alice: Signed
    cluster: dict[str, Any] = field(default_factory=dict)
    user: dict[str, Any] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)
    top: dict[str, Any] = field(default_factory=dict)
    text: str | bytes | None = None
    """Written instead of the above."""
    environment: dict[str, str] = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    now: Clock = field(default_factory=Clock)
    run: RunPlugin = no_plugin
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.cluster = {"server": "https://10.0.0.1:6443", "certificate-authority": self.authority.pem.name}
        self.user = {"token": f"{SECRET}-token"}
        self.context = {"cluster": "prod", "user": "alice", "namespace": "team"}
        (self.folder / "token").write_text(f"{SECRET}-file\n")

    @property
    def path(self) -> Path:
        return self.folder / "config"

    def document(self) -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "contexts": [{"name": "main", "context": self.context}],
            "clusters": [{"name": "prod", "cluster": self.cluster}],
            "users": [{"name": "alice", "user": self.user}],
            **self.top,
        }

    def write(self, path: Path | None = None) -> Path:
        target = path or self.path
        text = json.dumps(self.document()) if self.text is None else self.text
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        target.chmod(0o600)
        return target

    def surroundings(self) -> KubeconfigSurroundings:
        clocks = ApiClocks(self.clock, self.now)
        return KubeconfigSurroundings(self.environment, self.folder / "serviceaccount", clocks, self.run)

    def read(self) -> Access:
        """Write the kubeconfig, unless there is something in its place, and read it."""
        if not os.path.lexists(self.path):
            self.write()
        return read_access(self.path, **self.options, surroundings=self.surroundings())

    def with_certificate(self) -> None:
        self.user = {"client-certificate": self.alice.cert.name, "client-key": self.alice.key.name}

    def with_exec(self, **fields: Any) -> None:
        plugin = {"apiVersion": V1, "command": "/bin/login", "interactiveMode": "Never", **fields}
        self.user = {"exec": {name: value for name, value in plugin.items() if value is not None}}

    def script(self, text: str, name: str = "login") -> Path:
        """An executable shell script in the folder."""
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o700)
        return path


def printed(status: Mapping[str, Any] | None, version: str = V1) -> bytes:
    """What a plugin prints."""
    return json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}).encode()


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
