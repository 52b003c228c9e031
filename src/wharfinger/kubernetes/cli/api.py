"""The options by which commands reach the Kubernetes API.

Unlike a worker's, `--kubeconfig` may be left out: then it is kubectl's, `$KUBECONFIG`, or the pod's service account.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wharfinger.cli.processes.process_options import kubeconfig_file
from wharfinger.options import setting
from wharfinger.settings import KUBERNETES_PANEL, KubernetesSettings, allow_insecure_option, kube_context_option

if TYPE_CHECKING:
    from wharfinger.apiserver.client import ApiClient

USUAL_FILE = Path("~/.kube/config")
"""Where kubectl looks without `$KUBECONFIG`."""
UNLIMITED = -1.0
"""Requests a second: a person waits."""


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """Which Kubernetes API."""

    kubeconfig: Path | None = setting(
        None,
        "Address and credentials of the Kubernetes API.",
        "FILE",
        kind=str | None,
        shown="KUBECONFIG, the pod's service account, ~/.kube/config",
        panel=KUBERNETES_PANEL,
        read=lambda named: kubeconfig_file(named) if named else None,
    )
    context: str = kube_context_option()
    allow_insecure: bool = allow_insecure_option()


@asynccontextmanager
async def open_api(options: ApiOptions) -> AsyncIterator[ApiClient]:
    """The API that the options name. Nothing is sent yet. Raises `ConfigurationError`."""
    from wharfinger.kubernetes.loops.connecting import open_api_server

    file, context, insecure = options.kubeconfig or _usual_file(), options.context, options.allow_insecure
    api = open_api_server(KubernetesSettings(file, context, allow_insecure=insecure, qps=UNLIMITED))
    try:
        yield api
    finally:
        await api.close()


def _usual_file() -> Path | None:
    """Kubectl's file, where it is there and nothing else is named."""
    from wharfinger.apiserver.kubeconfig import is_in_cluster

    usual = USUAL_FILE.expanduser()
    return usual if usual.is_file() and not (os.environ.get("KUBECONFIG") or is_in_cluster(os.environ)) else None
