"""An etcd of a test's own, that may be killed, stopped, wiped and compacted."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conftest import free_port
from tests.etcd.certificates import Signed
from tests.patience import patient
from wharfinger.dev import binaries
from wharfinger.settings import EtcdSettings


@functools.cache
def program() -> str:
    """The server that the tests of the store run, 3.5 or later."""
    return os.environ.get("WHARFINGER_TEST_ETCD") or str(binaries.locate(binaries.ETCD))


@functools.cache
def progress_option() -> str:
    """What etcd calls the option; its name began with `experimental` until 3.6."""
    version = subprocess.run([program(), "--version"], check=True, capture_output=True, text=True).stdout
    experimental = "experimental-" if "Version: 3.5." in version else ""
    return f"--{experimental}watch-progress-notify-interval"


class EtcdProcess:
    """One member; alone unless it is told the peers of a cluster."""

    def __init__(self, folder: Path, *, scheme: str = "http", options: Sequence[str] = ()) -> None:
        self.folder = folder
        self.scheme = scheme
        self.options = tuple(options)
        self.port = free_port()
        self.name = f"m{self.port}"
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.cluster = f"{self.name}={self.peer}"
        self.process: subprocess.Popen[bytes] | None = None
        self.context: ssl.SSLContext | None = None

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    @property
    def settings(self) -> EtcdSettings:
        """For a client that is asked nothing about time-outs: none of its calls is given up when etcd stands still."""
        return EtcdSettings(endpoints=(self.url,), attempt_timeout=patient(20), deadline=patient(30))

    def start(self, *, wait: bool = True) -> EtcdProcess:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [
            program(), "--name", self.name, f"--data-dir={self.folder / 'data'}",
            "--listen-client-urls", self.url, "--advertise-client-urls", self.url,
            "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
            "--initial-cluster", self.cluster, progress_option(), "300ms",
            "--log-level", "warn", "--unsafe-no-fsync", *self.options,
        ]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, seconds: float = 20.0) -> None:
        deadline = time.monotonic() + patient(seconds)
        while time.monotonic() < deadline:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    pass
                if self.scheme == "https":
                    return
                with urllib.request.urlopen(self.url + "/health", timeout=1):
                    return
            except OSError:
                pass
            time.sleep(0.03)
        raise TimeoutError((self.folder / "log").read_text()[-2000:])

    def identify(self, authority: Path, operator: Signed) -> None:
        """Trust an authority and show a certificate in `post`."""
        self.context = ssl.create_default_context(cafile=str(authority))
        self.context.load_cert_chain(operator.cert, operator.key)

    def post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), headers or {}, method="POST")
        with urllib.request.urlopen(request, timeout=patient(20), context=self.context) as answer:
            return json.loads(answer.read())

    def compact(self, revision: int) -> None:
        self.post("/v3/kv/compaction", {"revision": revision, "physical": True})

    def pause(self) -> None:
        """Stop all threads of it, and see that they are: the signal alone is only on its way."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)
        deadline = time.monotonic() + patient(20)
        while any(not _stopped(task) for task in Path(f"/proc/{self.process.pid}/task").iterdir()):
            assert time.monotonic() < deadline, "etcd does not stop"
            time.sleep(0.001)

    def resume(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def wipe(self) -> None:
        """Forget everything, as a restore of an ancient backup would."""
        shutil.rmtree(self.folder / "data")


def _stopped(task: Path) -> bool:
    """Whether a thread is stopped by a signal (Linux)."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except FileNotFoundError:  # it ended meanwhile
        return True
