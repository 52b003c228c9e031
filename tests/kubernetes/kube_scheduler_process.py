"""A real kube-scheduler beside an installation of wharfinger: its rival, or its standby."""

from __future__ import annotations

import ssl
import urllib.request
from http.client import HTTPException
from pathlib import Path

import yaml

from tests.apiserver.api_server_process import ApiServerProcess
from tests.conftest import free_port
from tests.faults.site import Process
from wharfinger.dev import binaries


def missing_scheduler() -> str:
    """Why none can be started here; empty when one can."""
    if binaries.at_hand(binaries.KUBE_SCHEDULER) is None:
        return "no kube-scheduler: `make kubernetes-servers` builds it, where Go is installed"
    return ""


class KubeSchedulerProcess(Process):
    """Its options are its own, but for those that a test is about."""

    def __init__(self, api: ApiServerProcess, folder: Path, *, elect: bool, qps: float = -1.0) -> None:
        """`elect`: whether it binds only while it holds the usual Lease; `qps`: requests a second."""
        folder.mkdir(parents=True, exist_ok=True)
        executable = binaries.at_hand(binaries.KUBE_SCHEDULER)
        assert executable is not None, missing_scheduler()
        port = free_port()
        self._health = f"https://127.0.0.1:{port}/readyz"
        content = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(api.kubeconfig), "qps": qps, "burst": 5},
            "leaderElection": {"leaderElect": elect},
        }
        config = folder / "kube-scheduler.yaml"
        config.write_text(yaml.safe_dump(content), encoding="utf-8")
        command = [str(executable), f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
        super().__init__("kube-scheduler", lambda: command, folder / "kube-scheduler.log", self._is_ready)

    def start_and_wait(self) -> KubeSchedulerProcess:
        self.start()
        self.wait_up(40)
        return self

    def _is_ready(self) -> bool:
        """Whether its informers have listed everything; a standby is ready, too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it signs its own certificate
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        try:
            with direct.open(self._health, timeout=1.0) as response:
                return bool(response.status == 200)
        except (OSError, HTTPException):
            return False
