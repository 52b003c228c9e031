"""What the pages of `wharfinger kube-scheduler` need of the cluster: who reviews callers, and whom to trust.

Trusted are the authorities that sign client certificates in the cluster, as its API server publishes them in the
ConfigMap `kube-system/extension-apiserver-authentication`. kube-scheduler looks them up there, too, where
`--client-ca-file` is not given.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wharfinger.apiserver.client import ApiClient, ApiResource
from wharfinger.apiserver.transport import HttpApiClient
from wharfinger.errors import UpstreamError, UsageError
from wharfinger.etcd.store import Store
from wharfinger.kubernetes.loops.connecting import open_api_server
from wharfinger.serving.content import OK, Content
from wharfinger.serving.pod_resources import stored_amounts
from wharfinger.serving.server import Server
from wharfinger.settings import KubernetesSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

CONFIG_MAPS = ApiResource("", "v1", "configmaps", namespaced=True)
NAMESPACE, NAME, KEY = "kube-system", "extension-apiserver-authentication", "client-ca-file"


async def client_authorities(apiserver: ApiClient, *, logged: set[str] | None = None) -> str:
    """Their certificates as PEM; empty, with a log line, where they cannot be had: then no certificate is accepted.

    `logged` keeps the reason that was logged last, which is not logged again until it is another one.
    """
    reasons = logged if logged is not None else set()
    try:
        answer = await apiserver.get(CONFIG_MAPS, NAME, namespace=NAMESPACE)
    except UpstreamError as error:
        why = str(error)
    else:
        if answer.done and answer.object is not None:
            reasons.clear()
            return str((answer.object.get("data") or {}).get(KEY, ""))
        why = answer.message or f"status {answer.code}"
    if why not in reasons:
        log.warning("client_authorities_unknown error=%r", why)
    reasons.clear()
    reasons.add(why)
    return ""


REVIEWS, REVIEWS_AT_ONCE = 50.0, 100
"""Requests a second about callers, and how many may go at once."""
LOOK_EVERY, LOOK_AGAIN = 600.0, 30.0
"""Seconds between two looks at the cluster's authorities, once they were found, and before."""


@dataclass(frozen=True, slots=True)
class KubePages:
    """What kube-scheduler's flags say of its pages, beside how they are served."""

    flags: Mapping[str, str] = field(default_factory=dict)
    """For `/flagz`."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """For `/statusz`."""
    configuration: Mapping[str, Any] = field(default_factory=dict)
    """For `/configz`; without secrets."""
    reviewing: Path | None = None
    """Kubeconfig by which callers are reviewed; None = the scheduler's own."""
    looks_up_client_ca: bool = False
    needs_client_ca: bool = False
    """Whether the process must not start without it."""

    def reviewer(self, api: HttpApiClient, metrics: Metrics | None = None) -> HttpApiClient:
        """Who is asked about callers; the caller closes it. Raises `ConfigurationError`.

        Its rate is its own: anybody can have credentials reviewed, and none of that may delay a bind.
        """
        if self.reviewing is None:
            return api.beside(REVIEWS, REVIEWS_AT_ONCE)
        settings = KubernetesSettings(kubeconfig=self.reviewing, qps=REVIEWS, burst=REVIEWS_AT_ONCE)
        return open_api_server(settings, metrics)

    def fill(self, content: Content) -> None:
        """The pages that need no cluster; `healthz` has no checks of its own, since nothing here is a watchdog."""
        content.flags = lambda: self.flags
        content.versions = self.versions
        content.configuration = lambda: self.configuration
        content.healthz = lambda: {"ping": OK}
        content.livez = lambda: {"ping": OK}

    def fill_with_pods(self, content: Content, store: Store) -> None:
        """`/metrics/resources`, once etcd answers."""
        content.pods = lambda: stored_amounts(store)

    async def require_authorities(self, server: Server, apiserver: ApiClient) -> None:
        """Trust the cluster's authorities before anything else, where the flags say so. Raises `UsageError`."""
        if not self.needs_client_ca:
            return
        found = await client_authorities(apiserver)
        if not found:
            raise UsageError(
                "the client CA cannot be looked up in ConfigMap kube-system/extension-apiserver-authentication: grant "
                "it, or set --authentication-tolerate-lookup-failure, --authentication-skip-lookup or --client-ca-file"
            )
        server.trust(found)

    async def follow_authorities(self, server: Server, apiserver: ApiClient) -> None:
        """Trust the cluster's authorities as they are, until cancelled."""
        logged: set[str] = set()
        while self.looks_up_client_ca:
            found = await client_authorities(apiserver, logged=logged)
            try:
                if found:
                    server.trust(found)
            except UsageError as error:
                log.warning("client_authorities_unreadable effect=kept_as_before error=%r", str(error))
            await asyncio.sleep(LOOK_EVERY if found else LOOK_AGAIN)
