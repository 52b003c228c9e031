"""Starting attempts, and the small typed client for programs that want a pod placed.

`start_attempt` is how every attempt of ours begins: the dispatcher's and those of `Wharfinger`.
Neighbours: `workflows.schedule_attempt` runs what is started here (it is named, never imported),
`observe.attempts` reads what became of it.

::

    async with Wharfinger.connect() as wharfinger:
        result = await wharfinger.schedule("default", "web-1", timeout=60)
        print(result.outcome, result.node)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.envconfig import ClientConfig, ClientConnectConfig
from temporalio.service import RPCError

from wharfinger.contracts.attempts import AttemptResult, AttemptTimings, chain_retry
from wharfinger.contracts.conversion import data_converter
from wharfinger.contracts.names import (
    COMMON,
    DEFAULT_CLUSTER,
    SCHEDULE_ATTEMPT,
    SEARCH_BUILDS,
    SEARCH_POD,
    SEARCH_TENANT,
    TENANT_LABEL,
    check_cluster,
    check_tenant_label,
    pod_attribute,
    pod_workflow_id,
    task_queue,
)
from wharfinger.errors import ConfigurationError, NotFound, ServerError, WharfingerError
from wharfinger.model.pod import Pod, PodKey
from wharfinger.observe import attempts as recorded
from wharfinger.observe.explanation import Explanation
from wharfinger.observe.history import Attempt
from wharfinger.registry import keys
from wharfinger.registry.etcd import EtcdStore
from wharfinger.registry.store import Store
from wharfinger.settings import EtcdSettings, TemporalSettings

TASK_TIMEOUT = timedelta(seconds=3)
"""How long a crashed worker can keep a task that it took; busy machines pause for 0.4 s."""

POD_KEY = SearchAttributeKey.for_keyword(SEARCH_POD)
TENANT_KEY = SearchAttributeKey.for_keyword(SEARCH_TENANT)
BUILDS_KEY = SearchAttributeKey.for_keyword_list(SEARCH_BUILDS)

UNVERSIONED = "unversioned"
"""How Temporal marks builds of workers that leave versions to their own code, as ours do."""

DEFAULT_ADDRESS = "127.0.0.1:7233"
DEFAULT_NAMESPACE = "default"

AttemptHandle = WorkflowHandle[Any, AttemptResult]


def temporal_configuration(settings: TemporalSettings) -> ClientConnectConfig:
    """Arguments of `Client.connect`: the SDK's environment configuration, and our settings above it.

    Raises `ConfigurationError` when the SDK's file or variables are malformed.
    """
    try:
        configuration = ClientConfig.load_client_connect_config()
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigurationError(f"Temporal's environment configuration cannot be read: {error}") from error
    if settings.address is not None:
        configuration["target_host"] = settings.address
    if settings.namespace is not None:
        configuration["namespace"] = settings.namespace
    configuration.setdefault("target_host", DEFAULT_ADDRESS)
    configuration.setdefault("namespace", DEFAULT_NAMESPACE)
    return configuration


async def start_attempt(
    client: Client,
    *,
    cluster: str,
    namespace: str,
    name: str,
    uid: str,
    tenant: str = COMMON,
    revision: int = 0,
    woken_by: str = "",
    eager: bool = True,
    build_id: str = "",
    terminate_existing: bool = False,
    timings: AttemptTimings | None = None,
    rpc_timeout: timedelta | None = None,
) -> AttemptHandle:
    """Start the pod's chain of attempts, or join the one that is open; answers its handle.

    Joining adds no event to the open run. `uid` is `Pod.uid`; `revision` one of the pod that the placing
    worker must have seen (0 = it reads); `tenant` says on whose task queue the work lies. `eager` lets a
    worker on this very client take the first task without a round trip; `build_id` is that worker's, see
    `attributes`. `terminate_existing` ends an open chain first: it may lie on a task queue that nobody
    polls any more.

    Raises `temporalio.service.RPCError` as the client does; nothing is retried beyond its own retries.
    """
    request: dict[str, Any] = {"namespace": namespace, "name": name, "uid": uid}
    if revision:
        request["revision"] = revision
    if woken_by:
        request["woken_by"] = woken_by
    if timings is not None:
        request["timings"] = timings.model_dump(exclude_defaults=True)
    conflict = WorkflowIDConflictPolicy.TERMINATE_EXISTING if terminate_existing else None
    return await client.start_workflow(
        SCHEDULE_ATTEMPT,
        request,
        id=pod_workflow_id(cluster, namespace, name, uid),
        task_queue=task_queue(cluster, tenant),
        result_type=AttemptResult,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=conflict or WorkflowIDConflictPolicy.USE_EXISTING,
        retry_policy=chain_retry(timings or AttemptTimings()),
        task_timeout=TASK_TIMEOUT,
        search_attributes=attributes(namespace, name, tenant, build_id),
        static_summary=f"{namespace}/{name}",
        request_eager_start=eager,
        rpc_timeout=rpc_timeout,
    )


async def outcome_of(handle: AttemptHandle, pod: str, timeout: float | None = None) -> AttemptResult:
    """How a pod's chain of attempts ends; raises as `Wharfinger.schedule` does."""
    try:
        async with asyncio.timeout(timeout):
            return await handle.result()
    except WorkflowFailureError as error:
        raise WharfingerError(f"the attempts of pod {pod} ended: {error.cause or error}") from error
    except RPCError as error:
        raise ServerError(f"Temporal did not tell the outcome of pod {pod}: {error}") from error


def attributes(namespace: str, name: str, tenant: str = COMMON, build_id: str = "") -> TypedSearchAttributes:
    """What an attempt can be found by from its start on.

    `build_id`: of the worker that will take the first task, where that is known. Temporal notes the builds that
    completed a run's tasks, and writes what it shows of the run once more for it, in all its indexes; what it finds
    noted already it leaves (the values are `worker_versioning.VersionStampToBuildIdSearchAttribute`'s of its source).
    """
    pod = SearchAttributePair(POD_KEY, pod_attribute(namespace, name))
    return TypedSearchAttributes([pod, *of_tenant(tenant), *builds(build_id)])


def of_tenant(tenant: str) -> list[SearchAttributePair[Any]]:
    """What a tenant's runs are found by; nothing for the common pool's."""
    return [] if tenant == COMMON else [SearchAttributePair(TENANT_KEY, tenant)]


def builds(build_id: str) -> list[SearchAttributePair[Any]]:
    """What Temporal would note of the build; nothing where it is not known."""
    return [SearchAttributePair(BUILDS_KEY, [UNVERSIONED, f"{UNVERSIONED}:{build_id}"])] if build_id else []


class Wharfinger:
    """A wharfinger cluster, as a program sees it: have a pod placed, and ask about attempts.

    `connect` opens and closes everything; with a Temporal client (`contracts.conversion.data_converter`) and a store
    of your own, make it directly. A worker must be running, or attempts wait for one.
    """

    def __init__(
        self, client: Client, store: Store, *, cluster: str = DEFAULT_CLUSTER, tenant_label: str = TENANT_LABEL
    ) -> None:
        self._client = client
        self._store = store
        self._cluster = check_cluster(cluster)
        self._tenant_label = check_tenant_label(tenant_label)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls,
        *,
        etcd: EtcdSettings | None = None,
        temporal: str | None = None,
        temporal_namespace: str | None = None,
        cluster: str = DEFAULT_CLUSTER,
        tenant_label: str = TENANT_LABEL,
    ) -> AsyncIterator[Wharfinger]:
        """Open connections, and close them behind the block.

        Args:
            etcd: Where etcd is; default 127.0.0.1:2379.
            temporal: `host:port`; default the SDK's environment configuration, else 127.0.0.1:7233.
            temporal_namespace: Default the SDK's environment configuration, else `default`.
            cluster: The name that the workers were started with.
            tenant_label: The label that the workers were started with.

        Raises `ServerError` without Temporal, `Unavailable` or `AccessDenied` without etcd, and
        `ConfigurationError` when the SDK's environment configuration is malformed.
        """
        target = temporal_configuration(TemporalSettings(temporal or None, temporal_namespace or None))
        try:
            client = await Client.connect(**target, data_converter=data_converter)
        except (RuntimeError, OSError) as error:
            raise ServerError(f"cannot reach Temporal at {target.get('target_host')}") from error
        store = await EtcdStore.connect(etcd or EtcdSettings())
        try:
            yield cls(client, store, cluster=cluster, tenant_label=tenant_label)
        finally:
            await store.close()

    async def schedule(self, namespace: str, name: str, *, timeout: float | None = None) -> AttemptResult:
        """Have the pod placed, and wait until it is bound or gone.

        Starts the pod's attempts or joins those that run already. A pod that fits nowhere waits until
        it does: `timeout` (seconds, None = for ever) ends the wait with `TimeoutError`, not the attempts.

        Raises `NotFound` when there is no such pod, `WharfingerError` when its attempts ended without
        an outcome (cancelled, terminated, started with a wrong id), `ServerError` when Temporal is away.
        """
        return await outcome_of(await self.start(namespace, name), f"{namespace}/{name}", timeout)

    async def start(self, namespace: str, name: str) -> AttemptHandle:
        """Start the pod's attempts, or join those that run, without waiting; raises as `schedule` does."""
        pod = await self._pod(PodKey(namespace, name))
        try:
            return await start_attempt(
                self._client,
                cluster=self._cluster,
                namespace=namespace,
                name=name,
                uid=pod.uid,
                tenant=await self._tenant_of(pod),
                revision=pod.mod_revision,
                woken_by="asked for by a client",
                eager=False,
            )
        except RPCError as error:
            raise ServerError(f"Temporal did not start an attempt of pod {namespace}/{name}: {error}") from error

    async def attempts(self, namespace: str, name: str, *, limit: int = recorded.LIMIT) -> list[Attempt]:
        """The newest recorded attempts of the pod, oldest first; those of earlier pods of the name too."""
        return list((await self.explain(namespace, name, limit=limit)).attempts)

    async def explain(self, namespace: str, name: str, *, limit: int = recorded.LIMIT) -> Explanation:
        """Why the pod is where it is, or still waits; works for deleted pods as long as Temporal keeps them."""
        key = PodKey(namespace, name)
        return await recorded.explain_pod(self._client, self._store, cluster=self._cluster, key=key, limit=limit)

    async def _pod(self, key: PodKey) -> Pod:
        read = await self._store.get(keys.pod(*key))
        if read.kv is None:
            raise NotFound(f"there is no pod {key}")
        return recorded.decoded(read.kv, key)

    async def _tenant_of(self, pod: Pod) -> str:
        """Whose workers schedule the pod: its label's, while that tenant exists."""
        tenant = pod.labels.get(self._tenant_label, "")
        if tenant and (await self._store.get(keys.tenant(tenant))).kv is not None:
            return tenant
        return COMMON
