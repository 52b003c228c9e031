"""`wharfinger kube-scheduler` as a process: its pages, its log, its signals and its exit code."""

from __future__ import annotations

import json
import os
import signal
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.conftest import free_port
from tests.forked import Forked
from tests.patience import patient

Page = tuple[int, str]
"""Status and text; status 0 while no server answers."""


class SchedulerProcess:
    """One process that ends with the test. It serves on a port of loopback unless its options say otherwise."""

    def __init__(self, folder: Path, *options: str, name: str = "log") -> None:
        self.port = free_port()
        self.log = folder / name
        line = ("kube-scheduler", "--bind-address=127.0.0.1", f"--secure-port={self.port}", *options)
        self.process = Forked(line, dict(os.environ), self.log, self.log)

    def __enter__(self) -> SchedulerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    @property
    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def page(self, path: str, *, token: str = "", tls: ssl.SSLContext | None = None) -> Page:
        if tls is None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one reads the machine's authorities each time
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", headers=headers)
        try:
            with direct.open(request, timeout=patient(10)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except (OSError, HTTPException):
            return 0, ""

    def checks(self) -> dict[str, str]:
        """The lines of `/readyz?verbose`."""
        lines = self.page("/readyz?verbose")[1].splitlines()
        return {line[3:].split(" ")[0]: line for line in lines if line.startswith("[")}

    def wait_serving(self) -> None:
        self.wait_until(lambda: self.page("/livez")[0] == 200, "it serves")

    def wait_ready(self) -> None:
        self.wait_until(lambda: self.page("/readyz")[0] == 200, "it is ready")

    def wait_said(self, text: str) -> None:
        self.wait_until(lambda: text in self.said, f"it says {text!r}")

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + patient(seconds)
        while not condition():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.said[-3000:]}"
            assert time.monotonic() < deadline, f"not so after {seconds:.0f} s: {what}: {self.said[-3000:]}"
            time.sleep(0.05)

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def exit_code(self, seconds: float = 30.0) -> int:
        """Wait for its end."""
        return self.process.wait(patient(seconds))

    def stop(self) -> int:
        self.signal()
        return self.exit_code()

    def json(self, path: str, token: str) -> Any:
        status, text = self.page(path, token=token)
        assert status == 200, text
        return json.loads(text)
