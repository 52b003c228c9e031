"""The options by which commands reach the Kubernetes API, and `reaches_kubernetes`, which gives them to a command.

Unlike a worker's, `--kubeconfig` may be left out: then it is kubectl's, `$KUBECONFIG`, or the pod's service account.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from wharfinger.cli.option_groups import grouped
from wharfinger.cli.options import option
from wharfinger.cli.processes.upstream_options import ALLOW_INSECURE, KUBE_CONTEXT, PANEL, kubeconfig_file
from wharfinger.settings import UpstreamSettings

if TYPE_CHECKING:
    from wharfinger.upstream.client import Upstream

USUAL_FILE = Path("~/.kube/config")
"""Where kubectl looks without `$KUBECONFIG`."""
UNLIMITED = -1.0
"""Requests a second: a person waits."""


def _api_of(*, kubeconfig: str = "", kube_context: str = "", allow_insecure_upstream: bool = False) -> UpstreamSettings:
    """The settings that the options make. Raises `UsageError`."""
    return UpstreamSettings(
        kubeconfig=kubeconfig_file(kubeconfig) if kubeconfig else None,
        context=kube_context,
        allow_insecure=allow_insecure_upstream,
        qps=UNLIMITED,
    )


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "kubeconfig": (
        Annotated[
            str,
            option(
                "kubeconfig",
                "Address and credentials of the Kubernetes API.",
                "FILE",
                shown="KUBECONFIG, the pod's service account, ~/.kube/config",
                panel=PANEL,
            ),
        ],
        "",
    ),
    "kube_context": KUBE_CONTEXT,
    "allow_insecure_upstream": ALLOW_INSECURE,
}

reaches_kubernetes = grouped("upstream", _OPTIONS, _api_of)
"""Gives a command these options, and its function `UpstreamSettings` as its parameter `upstream`."""


@asynccontextmanager
async def open_api(settings: UpstreamSettings) -> AsyncIterator[Upstream]:
    """The API that the options name. Nothing is sent yet. Raises `ConfigurationError`."""
    from wharfinger.process.upstream import open_upstream

    api = open_upstream(_with_usual_file(settings))
    try:
        yield api
    finally:
        await api.close()


def _with_usual_file(settings: UpstreamSettings) -> UpstreamSettings:
    """The same; with kubectl's file where nothing else is named."""
    from wharfinger.upstream.in_cluster import is_in_cluster

    usual = USUAL_FILE.expanduser()
    named = settings.kubeconfig is not None or os.environ.get("KUBECONFIG") or is_in_cluster(os.environ)
    return settings if named or not usual.is_file() else replace(settings, kubeconfig=usual)
