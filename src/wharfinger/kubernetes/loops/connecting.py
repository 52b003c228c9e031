"""Connects a process to the Kubernetes API whose pods it schedules, and finds out which kinds that serves."""

from __future__ import annotations

import logging
from asyncio import sleep
from collections.abc import Callable
from dataclasses import dataclass

from wharfinger.apiserver import client
from wharfinger.apiserver.client import ApiClient, ApiResource, uid_of
from wharfinger.apiserver.kubeconfig import read_access
from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
from wharfinger.errors import Unavailable, UpstreamError, UpstreamUnavailable
from wharfinger.etcd.store import Store
from wharfinger.objects.documents.kinds import POD_GROUPS
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER
from wharfinger.pressure import delays
from wharfinger.process.installation import claim
from wharfinger.process.installation_record import installation_of
from wharfinger.process.parts import ProcessParts
from wharfinger.settings import ElectionSettings, KubernetesSettings
from wharfinger.telemetry import Metrics

log = logging.getLogger(__name__)

LONGEST_PAUSE = 3.0
"""Seconds between two tries, at most."""
COPIED_KINDS = (
    client.NODES,
    client.NAMESPACES,
    client.SERVICES,
    client.REPLICATION_CONTROLLERS,
    client.REPLICA_SETS,
    client.STATEFUL_SETS,
    client.DISRUPTION_BUDGETS,
    client.PRIORITY_CLASSES,
    *client.STORAGE,
    client.PODS,
)
"""What every API server serves and is copied; pods last, so that what they refer to is there."""
OPTIONAL_KINDS = (
    *(ApiResource(group, "", "podgroups", namespaced=True) for group in POD_GROUPS),
    ApiResource("resource.k8s.io", "", "deviceclasses", namespaced=False),
)
"""What some API servers serve and is copied there; which version depends on the server."""
SYSTEM_NAMESPACE = "kube-system"
"""Its uid tells one cluster from all others."""
DEFAULT_LEASE = "kube-scheduler"


@dataclass(frozen=True, slots=True)
class ConnectedApi:
    """A Kubernetes API that answers, and what a worker has to know of it before it starts."""

    api: ApiClient
    settings: KubernetesSettings
    uid: str
    """Of the cluster."""
    lease_identity: str
    """Who this installation is to the API's Lease."""


def open_api_server(settings: KubernetesSettings, metrics: Metrics | None = None) -> HttpApiClient:
    """The API of the settings; nothing is sent yet. `metrics` counts requests. Raises `ConfigurationError`."""
    access = read_access(
        settings.kubeconfig, context=settings.context, master=settings.master, allow_insecure=settings.allow_insecure
    )

    def observe(verb: str, code: int, _seconds: float) -> None:
        if metrics is not None:
            metrics.kubernetes_requests.labels(verb=verb, code=str(code or "error")).inc()

    return HttpApiClient(access, ApiLimits(qps=settings.qps, burst=settings.burst), observe=observe)


async def connect_api_server(
    api: ApiClient,
    settings: KubernetesSettings,
    process: ProcessParts,
    *,
    cluster: str,
    temporal_namespace: str,
    waiting: Callable[[str], None] = lambda _why: None,
) -> ConnectedApi:
    """What is to be known of an API before a worker starts, as soon as API and etcd answer.

    What hinders is logged once, and passed to `waiting`. Claims etcd for the API's cluster. Raises
    `InstallationMismatch`.
    """
    store, said = process.store, ""
    for delay in delays(0.2, LONGEST_PAUSE, process.rng):
        try:
            uid = await cluster_uid(api)
            await claim(store, cluster=cluster, namespace=temporal_namespace, kubernetes_uid=uid)
            return ConnectedApi(api, settings, uid, await lease_identity(store, cluster))
        except (UpstreamError, Unavailable) as error:
            if str(error) != said:
                said = str(error)
                log.warning("waiting_for_upstream server=%s error=%r", api.server, said)
                waiting(said)
        await sleep(delay)
    raise AssertionError("delays are endless")


async def cluster_uid(apiserver: ApiClient) -> str:
    """Which cluster the API is of. Raises `UpstreamError`."""
    answer = await apiserver.get(client.NAMESPACES, SYSTEM_NAMESPACE)
    if not answer.done or answer.object is None:
        raise UpstreamUnavailable(f"the API server does not show namespace {SYSTEM_NAMESPACE}: {answer.words}")
    return uid_of(answer.object)


async def copied_kinds(apiserver: ApiClient) -> tuple[ApiResource, ...]:
    """The kinds that are copied now: those that every server has, and of `OPTIONAL_KINDS` those that are served.

    Raises `UpstreamError`.
    """
    return (*COPIED_KINDS, *await served_kinds(apiserver))


async def served_kinds(apiserver: ApiClient) -> tuple[ApiResource, ...]:
    """Those of `OPTIONAL_KINDS` that the server has, each in one version, in the same order.

    The version is the one that the server prefers, else the first that has the kind. Raises `UpstreamError`.
    """
    document = (await apiserver.read("/apis")).object or {}
    groups = {group.get("name"): group for group in document.get("groups") or ()}
    found: list[ApiResource] = []
    for kind in (one for one in OPTIONAL_KINDS if one.group in groups):
        group = groups[kind.group]
        preferred = group.get("preferredVersion") or {}
        versions = [one["version"] for one in (preferred, *(group.get("versions") or ())) if one.get("version")]
        for version in dict.fromkeys(versions):
            listing = (await apiserver.read(f"/apis/{kind.group}/{version}")).object or {}
            if any(one.get("name") == kind.plural for one in listing.get("resources") or ()):
                found.append(kind._replace(version=version))
                break
    return tuple(found)


async def lease_identity(store: Store, cluster: str) -> str:
    """Who this installation is to the API's Lease: the same for all of its workers, and no other's.

    Raises `StoreError`.
    """
    installation = await installation_of(store)
    return f"{cluster}_{installation.id if installation is not None else ''}"


def lease_name(settings: ElectionSettings, cluster: str, profiles: frozenset[str]) -> str:
    """The Lease's name: where a profile is kube-scheduler's own, so is the Lease, and kube-scheduler is our standby."""
    return settings.name or (DEFAULT_LEASE if DEFAULT_SCHEDULER in profiles else cluster)
